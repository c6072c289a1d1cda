/* test_plan.c - a plan says, takes back, and leaves no trace.
 *
 * The cases open a plan by hand on a scene's state, as a round would, and ask
 * it what each job has. Closing must put the maps back bit by bit; the
 * property test does that for random words with nested marks.
 */
#include "core/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc_text.h"
#include "base/buf.h"
#include "scene_random.h"
#include "toys.h"
#include <cmocka.h>
#include <string.h>

struct desk {
    struct scene *scene;
    struct firn_view view;
    struct firn_plan plan;
    struct firn_buf text;
};

static struct firn_plan *open_desk(struct desk *desk, const char *text)
{
    memset(desk, 0, sizeof *desk);
    desk->scene = scene_new(text, &toy_elastic, NULL);
    desk->view = round_view(desk->scene->round, 0);
    plan_init(&desk->plan, scene_state(desk->scene), NULL);
    for (int i = 0; i < desk->scene->cluster.nnodes; i++)
        assert_int_equal(desk->plan.empty.node_free[i],
                         scene_state(desk->scene)->cluster.nodes[i].is_up
                             ? desk->scene->cluster.nodes[i].ngpus
                             : 0);
    plan_open(&desk->plan, &desk->view);
    return &desk->plan;
}

static void close_desk(struct desk *desk)
{
    plan_close(&desk->plan);
    plan_clear(&desk->plan);
    plan_release(&desk->plan);
    scene_free(desk->scene);
    buf_release(&desk->text);
}

static const struct firn_job *job(const struct desk *desk, const char *name)
{
    const struct firn_job *found = scene_job(desk->scene, name);
    assert_non_null(found);
    return found;
}

/* What a job has in the plan. */
static const char *has(struct desk *desk, const char *name)
{
    buf_clear(&desk->text);
    firn_alloc_print(firn_plan_of(&desk->plan, job(desk, name)), &desk->text);
    return desk->text.at;
}

#define SCENE                                                                \
    "2 nodes x 4 gpus; A wants 4 on n1[0-3]; B wants 2 on n0[0-1]; C wants " \
    "2; "                                                                    \
    "D wants 8"

static void an_empty_plan_has_every_gpu_free(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = open_desk(&desk, SCENE);
    assert_int_equal(firn_plan_free(plan), 8);
    assert_string_equal(has(&desk, "A"), "-");
    assert_true(firn_plan_give(plan, job(&desk, "D"), 8));
    assert_string_equal(has(&desk, "D"), "n0[0-3] n1[0-3]");
    assert_int_equal(firn_plan_free(plan), 0);
    assert_false(firn_plan_keep(plan, job(&desk, "A")));
    assert_false(firn_plan_give(plan, job(&desk, "C"), 2));
    assert_string_equal(has(&desk, "C"), "-");
    close_desk(&desk);
}

static void keep_all_starts_from_what_runs(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = open_desk(&desk, SCENE);
    firn_plan_keep_all(plan);
    assert_int_equal(firn_plan_free(plan), 2);
    assert_string_equal(has(&desk, "A"), "n1[0-3]");
    assert_true(firn_plan_keep(plan, job(&desk, "A")));
    assert_false(firn_plan_keep(plan, job(&desk, "C")));
    assert_true(firn_plan_give(plan, job(&desk, "C"), 2));
    assert_string_equal(has(&desk, "C"), "n0[2-3]");
    assert_false(firn_plan_give(plan, job(&desk, "D"), 8));
    close_desk(&desk);
}

static void a_job_stays_where_it_is_when_its_size_is_kept(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan =
        open_desk(&desk, "3 nodes x 4 gpus; A wants 2 on n2[1,3]; B wants 2");
    assert_true(firn_plan_give(plan, job(&desk, "A"), 2));
    assert_string_equal(has(&desk, "A"), "n2[1,3]");
    /* Another size: placed anew. */
    assert_true(firn_plan_give(plan, job(&desk, "A"), 3));
    assert_string_equal(has(&desk, "A"), "n0[0-2]");
    /* Its old GPUs are taken: placed elsewhere. */
    struct firn_alloc old = scene_alloc(desk.scene, "n2[2-3]");
    firn_plan_place(plan, job(&desk, "B"), &old);
    assert_true(firn_plan_give(plan, job(&desk, "A"), 2));
    assert_string_equal(has(&desk, "A"), "n2[0-1]");
    close_desk(&desk);
}

static void a_job_moves_when_what_it_holds_is_not_what_is_wanted(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = open_desk(
        &desk, "1 node x 4 gpus of v100; 2 nodes x 4 gpus of t4; "
               "A wants 4 on n0[0-1] n1[0-1]; B wants 2 shares on n2[0-1]~");
    const struct firn_job *a = job(&desk, "A"), *b = job(&desk, "B");
    assert_true(firn_plan_give(plan, a, 4));
    assert_string_equal(has(&desk, "A"), "n0[0-1] n1[0-1]");
    struct firn_want want = {.gpus = 4, .one_type = true};
    assert_true(firn_plan_give_want(plan, a, &want));
    assert_string_equal(has(&desk, "A"), "n0[0-3]");
    want = (struct firn_want){.gpus = 4, .types = 2};
    assert_true(firn_plan_give_want(plan, a, &want));
    assert_string_equal(has(&desk, "A"), "n1[0-3]");
    want = (struct firn_want){.gpus = 4, .one_node = true};
    assert_true(firn_plan_give_want(plan, a, &want));
    assert_string_equal(has(&desk, "A"), "n0[0-3]");
    want = (struct firn_want){.gpus = 4, .counts = (int[]){2, 2}};
    assert_true(firn_plan_give_want(plan, a, &want));
    assert_string_equal(has(&desk, "A"), "n0[0-1] n1[0-1]");
    want.counts = (int[]){1, 3};
    assert_true(firn_plan_give_want(plan, a, &want));
    assert_string_equal(has(&desk, "A"), "n0[0] n1[0-2]");
    want = (struct firn_want){.gpus = 2, .shared = true};
    assert_true(firn_plan_give_want(plan, b, &want));
    assert_string_equal(has(&desk, "B"), "n2[0-1]~");
    close_desk(&desk);
}

static void a_job_stays_when_what_it_holds_is_just_what_is_wanted(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan =
        open_desk(&desk, "1 node x 2 gpus of v100; 2 nodes x 4 gpus of t4; "
                         "A wants 2 on n2[2-3]");
    const struct firn_want wants[] = {
        {.gpus = 2, .one_type = true},
        {.gpus = 2, .one_node = true},
        {.gpus = 2, .types = 2},
        {.gpus = 2, .counts = (int[]){0, 2}},
    };
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        assert_true(firn_plan_give_want(plan, job(&desk, "A"), &wants[i]));
        assert_string_equal(has(&desk, "A"), "n2[2-3]");
    }
    close_desk(&desk);
}

static void the_last_word_about_a_job_counts(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = open_desk(&desk, SCENE);
    firn_plan_keep_all(plan);
    firn_plan_drop(plan, job(&desk, "A"));
    assert_string_equal(has(&desk, "A"), "-");
    assert_int_equal(firn_plan_free(plan), 6);
    assert_true(firn_plan_give(plan, job(&desk, "A"), 2));
    assert_string_equal(has(&desk, "A"), "n0[2-3]");
    assert_true(firn_plan_keep(plan, job(&desk, "A")));
    assert_string_equal(has(&desk, "A"), "n1[0-3]");
    firn_plan_reject(plan, job(&desk, "A"), "no more");
    assert_string_equal(has(&desk, "A"), "-");
    assert_int_equal(firn_plan_free(plan), 6);
    assert_int_equal(plan_entry_of(plan, job(&desk, "A"))->kind, PLAN_REJECT);
    assert_null(plan_entry_of(plan, job(&desk, "B")));
    close_desk(&desk);
}

static void a_give_that_does_not_fit_changes_nothing(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = open_desk(&desk, SCENE);
    firn_plan_keep_all(plan);
    struct firn_buf before = freemap_text(plan->map);
    assert_false(firn_plan_give(plan, job(&desk, "A"), 7));
    assert_string_equal(has(&desk, "A"), "n1[0-3]");
    struct firn_buf after = freemap_text(plan->map);
    assert_string_equal(before.at, after.at);
    buf_release(&before);
    buf_release(&after);
    close_desk(&desk);
}

static void shares_join_a_host_until_it_is_full(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan =
        open_desk(&desk, "1 node x 4 gpus; A wants 2 shares; B wants 2 shares; "
                         "C wants 2 shares; D wants 2");
    const struct firn_job *a = job(&desk, "A"), *b = job(&desk, "B");
    const struct firn_job *c = job(&desk, "C"), *d = job(&desk, "D");
    struct firn_want half = {.gpus = 2, .shared = true};
    assert_false(firn_plan_share(plan, b, a)); /* A has nothing */
    assert_true(firn_plan_give(plan, a, 2));
    assert_false(firn_plan_share(plan, b, a)); /* A holds them whole */
    assert_true(firn_plan_give_want(plan, a, &half));
    assert_int_equal(firn_plan_free(plan), 2);
    assert_false(firn_plan_share(plan, a, a));
    assert_true(firn_plan_share(plan, b, a));
    assert_string_equal(has(&desk, "B"), "n0[0-1]~");
    assert_int_equal(firn_plan_free(plan), 2);
    assert_false(firn_plan_share(plan, c, b)); /* two are on each */
    assert_true(firn_plan_share(plan, b, a));  /* B is already there */
    firn_plan_drop(plan, a);
    assert_int_equal(firn_plan_free(plan), 2); /* B still has its halves */
    assert_true(firn_plan_share(plan, c, b));
    assert_true(firn_plan_give(plan, d, 2));
    assert_int_equal(firn_plan_free(plan), 0);
    close_desk(&desk);
}

/* A has n0[0-1] and shares n0[1] with B; D has n1[0-1]. Of A's two GPUs one is
 * full: C, of three, gets n0[0], then D's two; of four, a free one as well. */
#define HOSTS                                                    \
    "2 nodes x 4 gpus; A wants 2 shares on n0[0-1]~; "           \
    "B wants 1 shares on n0[1]~; D wants 2 shares on n1[0-1]~; " \
    "E wants 1 on n1[2]; C wants 4 shares"

static bool joins(struct desk *desk, const char *hosts, struct firn_want want)
{
    const struct firn_job *at[4];
    int n = 0;
    for (; *hosts; hosts++, n++)
        at[n] = job(desk, (char[]){*hosts, 0});
    return firn_plan_join(&desk->plan, job(desk, "C"), at, n, &want);
}

static void a_job_joins_several_hosts_and_free_gpus(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = open_desk(&desk, HOSTS);
    firn_plan_keep_all(plan);
    size_t mark = firn_plan_mark(plan);
    assert_true(joins(&desk, "AD", (struct firn_want){.gpus = 3}));
    assert_string_equal(has(&desk, "C"), "n0[0] n1[0-1]~");
    assert_int_equal(firn_plan_free(plan), 3);
    firn_plan_undo(plan, mark);
    assert_true(joins(&desk, "AD", (struct firn_want){.gpus = 4}));
    assert_string_equal(has(&desk, "C"), "n0[0] n1[0-1,3]~");
    assert_int_equal(firn_plan_free(plan), 2);
    firn_plan_undo(plan, mark);
    /* in the order of the hosts, and no more than is wanted */
    assert_true(joins(&desk, "DA", (struct firn_want){.gpus = 1}));
    assert_string_equal(has(&desk, "C"), "n1[0]~");
    /* again, from where it is; the free one is the best fit */
    assert_true(joins(&desk, "AB", (struct firn_want){.gpus = 2}));
    assert_string_equal(has(&desk, "C"), "n0[0] n1[3]~");
    /* without hosts: free ones */
    assert_true(joins(&desk, "", (struct firn_want){.gpus = 2}));
    assert_string_equal(has(&desk, "C"), "n0[2-3]~");
    close_desk(&desk);
}

static void a_join_that_cannot_be_changes_nothing(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = open_desk(&desk, HOSTS);
    firn_plan_keep_all(plan);
    assert_false(joins(&desk, "AD", (struct firn_want){.gpus = 7}));
    assert_false(joins(&desk, "E", (struct firn_want){.gpus = 1})); /* whole */
    assert_false(joins(&desk, "C", (struct firn_want){.gpus = 1})); /* itself */
    assert_false(joins(&desk, "A", (struct firn_want){.gpus = 0}));
    assert_false(joins(&desk, "A", (struct firn_want){.gpus = 1, .types = 2}));
    assert_string_equal(has(&desk, "C"), "-");
    assert_int_equal(firn_plan_free(plan), 3);
    assert_int_equal((int)firn_plan_mark(plan), 0);
    close_desk(&desk);
}

/* Three may share a GPU here; whoever wants pairs only says so. */
static void a_crowd_is_no_larger_than_wanted(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = open_desk(&desk, "3 jobs per gpu; " HOSTS);
    firn_plan_keep_all(plan);
    assert_int_equal(firn_plan_room(plan, job(&desk, "A"), 0), 2);
    assert_int_equal(firn_plan_room(plan, job(&desk, "A"), 2), 1);
    assert_int_equal(firn_plan_room(plan, job(&desk, "B"), 2), 0);
    assert_int_equal(firn_plan_room(plan, job(&desk, "B"), 9), 1);
    assert_int_equal(firn_plan_room(plan, job(&desk, "E"), 0), 0); /* whole */
    assert_int_equal(firn_plan_room(plan, job(&desk, "C"), 0), 0); /* none */
    size_t mark = firn_plan_mark(plan);
    assert_true(joins(&desk, "A", (struct firn_want){.gpus = 2, .crowd = 2}));
    assert_string_equal(has(&desk, "C"), "n0[0] n1[3]~");
    assert_int_equal(firn_plan_room(plan, job(&desk, "A"), 2), 0);
    firn_plan_undo(plan, mark);
    assert_true(joins(&desk, "A", (struct firn_want){.gpus = 2}));
    assert_string_equal(has(&desk, "C"), "n0[0-1]~");
    close_desk(&desk);
}

static void free_gpus_are_told_by_type(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan =
        open_desk(&desk, "1 node x 4 gpus of v100; 2 nodes x 2 gpus of t4; "
                         "n2 down; A wants 3 types v100; B wants 1 types t4");
    assert_int_equal(firn_plan_free(plan), 6);
    assert_int_equal(firn_plan_free_of(plan, 0), 4);
    assert_int_equal(firn_plan_free_of(plan, 1), 2);
    assert_true(firn_plan_give(plan, job(&desk, "A"), 3));
    assert_int_equal(firn_plan_free_of(plan, 0), 1);
    assert_false(firn_plan_give(plan, job(&desk, "B"), 3));
    assert_true(firn_plan_give(plan, job(&desk, "B"), 1));
    assert_string_equal(has(&desk, "B"), "n1[0]");
    close_desk(&desk);
}

static void wrong_gpus_are_recorded_but_take_nothing(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = open_desk(&desk, SCENE);
    static const char *const wrong[] = {"n9[0]", "n0[4]", "n0[0] n0[0]",
                                        "n1[0] n0[0]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct firn_alloc alloc = scene_alloc(desk.scene, wrong[i]);
        firn_plan_place(plan, job(&desk, "C"), &alloc);
        assert_int_equal(firn_plan_free(plan), 8);
        assert_false(plan_entry_of(plan, job(&desk, "C"))->in_map);
    }
    assert_true(firn_plan_give(plan, job(&desk, "C"), 2));
    assert_int_equal(firn_plan_free(plan), 6);
    close_desk(&desk);
}

static void right_gpus_are_taken_on_several_nodes_and_boards(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = open_desk(
        &desk, "2 nodes x 4 gpus; 1 node x 130 gpus; A wants 2; B wants 4");
    struct firn_alloc nodes = scene_alloc(desk.scene, "n0[0] n1[3]");
    firn_plan_place(plan, job(&desk, "A"), &nodes);
    assert_int_equal(firn_plan_free(plan), 136);
    struct firn_alloc boards = scene_alloc(desk.scene, "n1[0] n2[63-64,129]");
    firn_plan_place(plan, job(&desk, "B"), &boards);
    assert_int_equal(firn_plan_free(plan), 132);
    assert_string_equal(has(&desk, "B"), "n1[0] n2[63-64,129]");
    firn_plan_drop(plan, job(&desk, "A"));
    assert_int_equal(firn_plan_free(plan), 134);
    close_desk(&desk);
}

static void undo_goes_back_to_the_mark(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = open_desk(&desk, SCENE);
    firn_plan_keep_all(plan);
    size_t start = firn_plan_mark(plan);
    firn_plan_drop(plan, job(&desk, "A"));
    size_t dropped = firn_plan_mark(plan);
    assert_true(firn_plan_give(plan, job(&desk, "C"), 2));
    firn_plan_drop(plan, job(&desk, "B"));
    assert_true(firn_plan_give(plan, job(&desk, "A"), 4));
    firn_plan_undo(plan, dropped);
    assert_string_equal(has(&desk, "A"), "-");
    assert_string_equal(has(&desk, "B"), "n0[0-1]");
    assert_string_equal(has(&desk, "C"), "-");
    assert_int_equal(firn_plan_free(plan), 6);
    firn_plan_undo(plan, start);
    assert_string_equal(has(&desk, "A"), "n1[0-3]");
    assert_int_equal(firn_plan_free(plan), 2);
    firn_plan_undo(plan, start);
    close_desk(&desk);
}

static void notes_are_cut_and_kept_through_undo(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = open_desk(&desk, SCENE);
    size_t start = firn_plan_mark(plan);
    firn_plan_note(plan, job(&desk, "C"), "%070d", 7);
    firn_plan_undo(plan, start);
    assert_int_equal(plan->notes.n, 1);
    assert_int_equal(strlen(plan->notes.at[0].text), 63);
    close_desk(&desk);
}

/* ---- random words ---- */

enum { MARKS = 8 };

struct trail {
    struct firn_buf map[MARKS];
    struct firn_buf jobs[MARKS];
    size_t mark[MARKS];
    int n;
};

static struct firn_buf plan_text(struct desk *desk)
{
    struct firn_buf out = {0};
    const struct firn_job *const *jobs = firn_view_jobs(&desk->view);
    for (size_t i = 0; i < desk->view.njobs; i++) {
        buf_puts(&out, " ");
        firn_alloc_print(firn_plan_of(&desk->plan, jobs[i]), &out);
    }
    buf_puts(&out, "");
    return out;
}

/* One random word about a random job. */
static void say(struct desk *desk, struct rng *rng)
{
    struct firn_plan *plan = &desk->plan;
    const struct firn_job *const *jobs = firn_view_jobs(&desk->view);
    const struct firn_job *a = jobs[rng_below(rng, desk->view.njobs)];
    const struct firn_job *b = jobs[rng_below(rng, desk->view.njobs)];
    struct firn_part part = {(int)rng_below(rng, 3), 0, 1 + rng_below(rng, 15)};
    struct firn_want want = {.gpus = 1 + (int)rng_below(rng, 6),
                             .shared = rng_below(rng, 2)};
    switch (rng_below(rng, 7)) {
    case 0:
        firn_plan_keep(plan, a);
        break;
    case 1:
        firn_plan_drop(plan, a);
        break;
    case 2:
        firn_plan_reject(plan, a, "no");
        break;
    case 3:
        firn_plan_share(plan, a, b);
        break;
    case 4:
        firn_plan_place(
            plan, a,
            &(struct firn_alloc){
                &part, 1, __builtin_popcountll(part.gpus), false, 0, {0}});
        break;
    default:
        firn_plan_give_want(plan, a, &want);
    }
}

static void expect_same(uint64_t seed, struct firn_buf before,
                        struct firn_buf after)
{
    if (strcmp(before.at, after.at) != 0)
        fail_msg("seed %llu: not restored: %s but %s", (unsigned long long)seed,
                 before.at, after.at);
    buf_release(&before);
    buf_release(&after);
}

static void push(struct desk *desk, struct trail *trail)
{
    if (trail->n == MARKS)
        return;
    trail->map[trail->n] = freemap_text(desk->plan.map);
    trail->jobs[trail->n] = plan_text(desk);
    trail->mark[trail->n++] = firn_plan_mark(&desk->plan);
}

static void pop(struct desk *desk, struct trail *trail, uint64_t seed)
{
    if (trail->n == 0)
        return;
    trail->n--;
    firn_plan_undo(&desk->plan, trail->mark[trail->n]);
    expect_same(seed, trail->map[trail->n], freemap_text(desk->plan.map));
    expect_same(seed, trail->jobs[trail->n], plan_text(desk));
}

static void ramble(uint64_t seed)
{
    struct rng rng;
    struct desk desk;
    struct trail trail = {.n = 0};
    rng_seed(&rng, seed);
    struct firn_plan *plan = open_desk(
        &desk, "2 nodes x 4 gpus; 1 node x 70 gpus of t4; A wants 4 on n1[0-3];"
               "B wants 2 shares on n0[0-1]~; C wants 2 shares on n0[0-1]~;"
               "D wants 8; E wants 1 shares; F wants 3 types t4 on n2[60-62]");
    struct firn_buf live = freemap_text(&scene_state(desk.scene)->map);
    struct firn_buf empty = freemap_text(&plan->empty);
    if (rng_below(&rng, 2))
        firn_plan_keep_all(plan);
    for (int i = 0; i < 60; i++) {
        int what = (int)rng_below(&rng, 10);
        if (what == 0)
            push(&desk, &trail);
        else if (what == 1)
            pop(&desk, &trail, seed);
        else
            say(&desk, &rng);
    }
    while (trail.n > 0)
        pop(&desk, &trail, seed);
    plan_close(plan);
    expect_same(seed, live, freemap_text(&scene_state(desk.scene)->map));
    expect_same(seed, empty, freemap_text(&plan->empty));
    plan_clear(plan);
    for (size_t i = 0; i < plan->latest.cap; i++)
        assert_int_equal(plan->latest.at[i], 0);
    plan_open(plan, &desk.view);
    close_desk(&desk);
}

static void undo_restores_free_gpus_whatever_was_said(void **unused)
{
    (void)unused;
    for (int i = 0; i < trials(400); i++)
        ramble((uint64_t)i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_plan_has_every_gpu_free),
        cmocka_unit_test(keep_all_starts_from_what_runs),
        cmocka_unit_test(a_job_stays_where_it_is_when_its_size_is_kept),
        cmocka_unit_test(a_job_moves_when_what_it_holds_is_not_what_is_wanted),
        cmocka_unit_test(a_job_stays_when_what_it_holds_is_just_what_is_wanted),
        cmocka_unit_test(the_last_word_about_a_job_counts),
        cmocka_unit_test(a_give_that_does_not_fit_changes_nothing),
        cmocka_unit_test(shares_join_a_host_until_it_is_full),
        cmocka_unit_test(a_job_joins_several_hosts_and_free_gpus),
        cmocka_unit_test(a_join_that_cannot_be_changes_nothing),
        cmocka_unit_test(a_crowd_is_no_larger_than_wanted),
        cmocka_unit_test(free_gpus_are_told_by_type),
        cmocka_unit_test(wrong_gpus_are_recorded_but_take_nothing),
        cmocka_unit_test(right_gpus_are_taken_on_several_nodes_and_boards),
        cmocka_unit_test(undo_goes_back_to_the_mark),
        cmocka_unit_test(notes_are_cut_and_kept_through_undo),
        cmocka_unit_test(undo_restores_free_gpus_whatever_was_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
