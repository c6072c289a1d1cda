/* test_life.c - all that can follow from each other in a job's life.
 *
 * A small model of the rest of the world (lifeworld.h) produces every event
 * that can happen to a job, or to two partners. All worlds that can be reached
 * are visited once, and the invariants are checked in each of them.
 */
#include "lifeworld.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- invariants ---------------------------------------------------------- */

#define HOLDS(condition)                                   \
    do {                                                   \
        if (!(condition))                                  \
            fail_msg("%s: %s", #condition, world_show(w)); \
    } while (0)

static void check_job(const struct world *w, int j)
{
    const struct sim *s = &w->job[j];
    bool trained = j == 1 && w->with;
    bool is_pending = s->state == LIVE_PENDING;
    if (sim_is_over(s)) { /* nothing is left of it */
        HOLDS(!s->open && !s->in_round && !s->granted && !s->pinned);
        HOLDS(!s->later);
        /* A policy may reject a job that is still leaving its GPUs. */
        bool is_rejected = s->reason == LIVE_BECAUSE_POLICY;
        HOLDS(s->phase == GONE || (is_rejected && s->phase == LEAVING));
        return;
    }
    HOLDS(!(s->pinned && s->in_round)); /* GPUs are held once */
    HOLDS(!s->granted || s->in_round);
    /* An attempt is open while it has processes, or its end is on the way. */
    bool lives = s->phase == BEGUN || s->phase == ACTIVE || s->phase == LEAVING;
    HOLDS(!lives || s->open);
    HOLDS(!s->open || lives || s->owes != OWES_NONE || trained);
    HOLDS(!trained || s->phase == GONE); /* no processes of its own */
    HOLDS(s->state != LIVE_RUNNING || s->open);
    bool ends =
        s->owes != OWES_NONE || (trained && w->job[0].owes != OWES_NONE);
    HOLDS(!is_pending || !s->open || ends || s->pinned);
    /* GPUs that processes use, or are about to, are not free in the round. */
    if (s->phase == QUEUED || s->phase == BEGUN || s->phase == ACTIVE)
        HOLDS(s->granted || s->pinned ||
              (j == 0 && w->with)); /* is asked to leave, for its partner */
    /* A held job does not start. */
    if (s->held && !s->ending && !s->rigid)
        HOLDS(!s->in_round && s->phase != QUEUED && s->phase != BEGUN &&
              s->phase != ACTIVE);
    /* A job that could run is in the round, or something is on the way. */
    bool is_pushed = s->phase != GONE || s->owes != OWES_NONE || trained;
    if (is_pending && !s->held && !s->ending && !is_pushed)
        HOLDS(s->in_round || s->later || s->never);
    bool is_awaiting = j == 1 && w->merged && s->granted;
    if (!is_pending && s->state != LIVE_COMPLETING)
        HOLDS(is_pushed || is_awaiting);
    HOLDS(s->state != LIVE_COMPLETING || s->ending);
    HOLDS(!s->ending || s->state == LIVE_COMPLETING);
}

static void check_world(const struct world *w)
{
    check_job(w, 0);
    if (!w->is_pair)
        return;
    check_job(w, 1);
    /* Partners begin and end together. */
    HOLDS(!w->with || (w->job[0].open && w->job[1].open));
    HOLDS(!w->merged || (w->job[0].granted && w->job[1].granted));
}

/* --- all worlds ---------------------------------------------------------- */

struct search {
    struct world *at;
    size_t n, cap;
    uint32_t *cells; /* 1 + index */
    size_t ncells;
};

static size_t cell_of(const struct search *all, const struct world *w)
{
    const unsigned char *bytes = (const unsigned char *)w;
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < sizeof *w; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    size_t cell = (size_t)(hash ^ hash >> 29) % all->ncells;
    while (all->cells[cell] != 0 &&
           memcmp(&all->at[all->cells[cell] - 1], w, sizeof *w) != 0)
        cell = (cell + 1) % all->ncells;
    return cell;
}

static void add(struct search *all, const struct world *w)
{
    size_t cell = cell_of(all, w);
    if (all->cells[cell] != 0)
        return;
    if (all->n == all->cap)
        fail_msg("more than %zu worlds", all->cap);
    all->at[all->n] = *w;
    all->cells[cell] = (uint32_t)++all->n;
}

static struct search visit(const struct world *first, size_t nfirst)
{
    enum { MOST = 2000000 };
    struct search all = {.cap = MOST, .ncells = 2 * MOST + 1};
    all.at = calloc(all.cap, sizeof *all.at);
    all.cells = calloc(all.ncells, sizeof *all.cells);
    for (size_t i = 0; i < nfirst; i++)
        add(&all, &first[i]);
    for (size_t i = 0; i < all.n; i++)
        for (int k = 0; k < MOVES; k++) {
            struct world next = all.at[i];
            if (!world_move(&next, k))
                continue;
            check_world(&next);
            add(&all, &next);
        }
    return all;
}

static void forget(struct search *all)
{
    free(all->at);
    free(all->cells);
}

/* From each world in which job `j` is cancelled, its end is reached by what the
 * engine reports alone. */
static void every_cancel_ends(struct search *all, int j)
{
    bool *ends = calloc(all->n, sizeof *ends);
    bool is_more = true;
    size_t nlate = 0;
    for (size_t i = 0; i < all->n; i++)
        ends[i] = sim_is_over(&all->at[i].job[j]);
    while (is_more) {
        is_more = false;
        for (size_t i = 0; i < all->n; i++) {
            if (ends[i] || !all->at[i].job[j].ending)
                continue;
            for (int k = 0; k < MOVES && !ends[i]; k++) {
                struct world next = all->at[i];
                if (!world_is_engine(k) || !world_move(&next, k))
                    continue;
                ends[i] = ends[all->cells[cell_of(all, &next)] - 1];
            }
            is_more = is_more || ends[i];
        }
    }
    for (size_t i = 0; i < all->n; i++)
        if (all->at[i].job[j].ending && !ends[i]) {
            print_message("%s\n", world_show(&all->at[i]));
            nlate++;
        }
    free(ends);
    assert_int_equal(nlate, 0);
}

/* --- the cases ----------------------------------------------------------- */

static void a_job_alone_keeps_all_invariants(void **unused)
{
    (void)unused;
    struct world first[] = {world_newborn(PLAIN), world_newborn(RESTARTS),
                            world_newborn(RIGID), world_newborn(INBOX),
                            world_newborn(TINY)};
    struct search all = visit(first, sizeof first / sizeof *first);
    print_message("%zu worlds of one job\n", all.n);
    assert_true(all.n > 100);
    every_cancel_ends(&all, 0);
    forget(&all);
}

static void two_partners_keep_all_invariants(void **unused)
{
    (void)unused;
    struct world first = world_newborn(PAIR);
    struct search all = visit(&first, 1);
    print_message("%zu worlds of two partners\n", all.n);
    assert_true(all.n > 1000);
    every_cancel_ends(&all, 0);
    every_cancel_ends(&all, 1);
    forget(&all);
}

/* Runs behind the two above. */
static void every_line_of_the_table_is_reached(void **unused)
{
    (void)unused;
    size_t n = 0, nunused = 0;
    const struct life_row *rows = life_rows(&n);
    assert_true(n <= sizeof world_rows);
    for (size_t i = 0; i < n; i++)
        if (!world_rows[i]) {
            print_message("line %zu of the table is never reached: %s, with "
                          "%#x, without %#x\n",
                          i, life_event_words(rows[i].event), rows[i].with,
                          rows[i].without);
            nunused++;
        }
    assert_int_equal(nunused, 0);
}

/* Runs behind them, too. */
static void the_page_shows_the_table_as_it_is(void **unused)
{
    (void)unused;
    lifedoc_check();
}

static void no_event_changes_a_job_that_is_over(void **unused)
{
    (void)unused;
    for (int state = 0; state <= LIVE_LOST; state++)
        for (int event = 0; event < LIFE_NEVENTS; event++)
            for (unsigned facts = 0; facts < 1u << LIFE_NFACTS; facts += 9973) {
                struct life_step step;
                struct firn_error err = {0};
                if (!live_state_is_over((enum live_state)state))
                    continue;
                assert_int_equal(life_next((enum live_state)state,
                                           (enum life_event)event, facts, NULL,
                                           &step, &err),
                                 FIRN_EINVAL);
                assert_int_equal(step.acts, 0);
                assert_int_equal(step.state, state);
            }
}

/* What firnd must not do, or its engine would have to have done first. */
static void impossible_events_are_errors_that_change_nothing(void **unused)
{
    (void)unused;
    static const struct {
        enum live_state state;
        enum life_event event;
        unsigned facts;
    } none[] = {
        {LIVE_RUNNING, LIFE_SUBMITTED, 0},
        {LIVE_PENDING, LIFE_SUBMITTED, LIFE_IS_HELD},
        {LIVE_PENDING, LIFE_CANCEL, 0}, /* the book does not say so */
        {LIVE_PENDING, LIFE_RELEASE, LIFE_IS_HELD},
        {LIVE_PENDING, LIFE_GIVEN, LIFE_IS_HELD},
        {LIVE_COMPLETING, LIFE_GIVEN, LIFE_IS_ENDING},
        {LIVE_COMPLETING, LIFE_TAKEN, LIFE_IS_ENDING},
        {LIVE_COMPLETING, LIFE_ATTEMPT, LIFE_IS_ENDING},
        {LIVE_STARTING, LIFE_ATTEMPT, LIFE_IS_HELD},
        {LIVE_STARTING, LIFE_PUT_BACK, LIFE_IS_OPEN},
        {LIVE_RUNNING, LIFE_FAILED_INBOX, 0},
        {LIVE_RUNNING, LIFE_INBOX_GONE, 0},
        {LIVE_PENDING, LIFE_NEVER_FITS, LIFE_IS_IN_ROUND},
        {LIVE_STARTING, LIFE_PARTNER_BEGINS, 0}, /* it has no GPUs */
        {LIVE_STARTING, LIFE_PARTNER_BEGINS, LIFE_IS_GRANTED | LIFE_IS_HELD},
        {LIVE_RUNNING, LIFE_PARTNER_SILENT, 0}, /* no partner trains it */
        {LIVE_COMPLETING, LIFE_RECOVERED_GONE, LIFE_IS_ENDING},
    };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        struct life_step step;
        struct firn_error err = {0};
        if (life_next(none[i].state, none[i].event, none[i].facts, NULL, &step,
                      &err) != FIRN_EINVAL)
            fail_msg("%zu: %s", i, life_event_words(none[i].event));
        assert_int_equal(step.acts, 0);
        assert_false(step.is_said);
        assert_int_equal(step.state, none[i].state);
        assert_non_null(strstr(err.text, "cannot happen"));
    }
}

static void a_sentence_is_filled_in_and_cut_to_its_room(void **unused)
{
    (void)unused;
    struct life_step step;
    struct firn_error err = {0};
    char gpus[600];
    memset(gpus, 'g', sizeof gpus);
    gpus[sizeof gpus - 1] = '\0';
    struct life_words words = {"n0[0-3]", NULL, ", together with job 3 (b)",
                               NULL};
    assert_int_equal(
        life_next(LIVE_STARTING, LIFE_RUNS, LIFE_IS_OPEN, &words, &step, &err),
        FIRN_OK);
    assert_string_equal(step.why, "runs on n0[0-3], together with job 3 (b)");
    words.gpus = gpus;
    assert_int_equal(
        life_next(LIVE_STARTING, LIFE_RUNS, LIFE_IS_OPEN, &words, &step, &err),
        FIRN_OK);
    assert_true(strlen(step.why) < LIVE_TEXT);
    assert_non_null(strstr(step.why, "together with job 3 (b)"));
    words.why = gpus;
    assert_int_equal(
        life_next(LIVE_RUNNING, LIFE_FAILED_EXIT, 0, &words, &step, &err),
        FIRN_OK);
    assert_int_equal(strlen(step.why), LIVE_TEXT - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_alone_keeps_all_invariants),
        cmocka_unit_test(two_partners_keep_all_invariants),
        cmocka_unit_test(every_line_of_the_table_is_reached),
        cmocka_unit_test(the_page_shows_the_table_as_it_is),
        cmocka_unit_test(no_event_changes_a_job_that_is_over),
        cmocka_unit_test(impossible_events_are_errors_that_change_nothing),
        cmocka_unit_test(a_sentence_is_filled_in_and_cut_to_its_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
