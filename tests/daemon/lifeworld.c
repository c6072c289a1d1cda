/* lifeworld.c - see lifeworld.h.
 */
#include "lifeworld.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Events since the world before, for messages. */
static struct {
    int n;
    struct {
        int job, event, state;
    } at[16];
} trail;
unsigned char world_rows[WORLD_ROWS];
uint64_t world_changes[LIFEWORLD_STATES][LIFEWORLD_STATES];

bool sim_is_over(const struct sim *s)
{
    return live_state_is_over((enum live_state)s->state);
}

/* --- facts and actions --------------------------------------------------- */

static unsigned bit(bool holds, unsigned fact)
{
    return holds ? fact : 0;
}

static unsigned facts_of(const struct world *w, int j)
{
    const struct sim *s = &w->job[j];
    bool trained = j == 1 && w->with;
    int phase = trained ? w->job[0].phase : s->phase;
    return bit(s->ending, LIFE_IS_ENDING) | bit(s->held, LIFE_IS_HELD) |
           bit(s->inbox, LIFE_IS_INBOX) | bit(s->rigid, LIFE_IS_RIGID) |
           bit(s->checkpoints, LIFE_IS_CHECKPOINTS) |
           bit(s->pinned, LIFE_IS_PINNED) | bit(s->in_round, LIFE_IS_IN_ROUND) |
           bit(s->granted, LIFE_IS_GRANTED) |
           bit(s->granted && !w->merged, LIFE_IS_GRANTED_ALONE) |
           bit(phase != GONE, LIFE_IS_PRESENT) |
           bit(phase == LEAVING, LIFE_IS_LEAVING) |
           bit(phase == ACTIVE, LIFE_IS_ACTIVE) | bit(s->open, LIFE_IS_OPEN) |
           bit(j == 0 && w->with, LIFE_IS_PARTNERED) |
           bit(trained, LIFE_IS_TRAINED) |
           bit(j == 1 && w->merged && s->granted, LIFE_IS_AWAITS) |
           bit(s->lone, LIFE_IS_LONE);
}

/* What the engine does when it is told to stop a job; one that it does not
 * know it passes over. */
static void engine_stop(struct sim *s)
{
    s->wants = false;
    if (s->phase == QUEUED) {
        s->phase = GONE;
        s->owes = OWES_LEFT;
    } else if (s->phase == BEGUN || s->phase == ACTIVE) {
        s->phase = LEAVING;
    }
}

static void engine_start(struct sim *s)
{
    s->wants = true;
    if (s->phase == GONE)
        s->phase = QUEUED;
}

static void leave_round(struct world *w, struct sim *s)
{
    s->in_round = s->granted = false;
    w->merged = false;
}

static void happen(struct world *w, int j, enum life_event event,
                   unsigned facts, unsigned nofacts);

static void check_partner(struct world *w);
static void end_partner(struct world *w, enum life_event event, unsigned facts);

/* Up to the new state. */
static void act_before(struct world *w, int j, const struct life_step *step,
                       enum life_event event)
{
    struct sim *s = &w->job[j];
    unsigned acts = step->acts;
    if (acts & LIFE_DO_CLOSE_ATTEMPT) {
        if (event == LIFE_LEFT && s->owes == OWES_LATE)
            ; /* of the attempt before */
        else
            s->open = false;
    }
    if (acts & LIFE_DO_PART_FOR_GOOD)
        s->lone = true;
    if (acts & LIFE_DO_UNPIN)
        s->pinned = false;
    if (acts & (LIFE_DO_WITHDRAW | LIFE_DO_LEAVE_ROUND))
        leave_round(w, s);
    if (acts & LIFE_DO_END) {
        assert_true(live_state_is_over(step->state));
        s->open = s->later = s->watched = s->held = s->lone = s->tells =
            s->wants = false;
        s->owes = OWES_NONE;
        if (j == 1)
            w->with = false; /* its partner's processes train it in vain */
    }
    if (step->is_said) {
        s->state = (uint8_t)step->state;
        s->reason = (uint8_t)(step->reason == LIVE_BECAUSE_HELD ||
                                      live_state_is_over(step->state)
                                  ? step->reason
                                  : LIVE_BECAUSE_NONE); /* fewer worlds */
        assert_true(step->why[0] != '\0' || strchr(step->row->sentence, '{'));
    }
    if (sim_is_over(s) && !(acts & LIFE_DO_END))
        fail_msg("over without END: %s", life_event_words(event));
}

/* In the round, then at the engine. */
static void act_behind(struct world *w, int j, unsigned acts, bool was_open)
{
    struct sim *s = &w->job[j];
    if (acts & LIFE_DO_RETRY_LATER)
        s->later = true;
    if (acts & LIFE_DO_OPEN_ATTEMPT) {
        /* One attempt at a time: the one before has left the GPUs, and its end
         * is on the way. */
        assert_false(s->held && !s->pinned);
        assert_false(s->ending);
        if (was_open)
            assert_true(s->owes == OWES_LEFT);
        s->owes = s->owes == OWES_LEFT ? OWES_LATE : s->owes;
        s->open = true;
    }
    if (acts & (LIFE_DO_PIN | LIFE_DO_PIN_LATER | LIFE_DO_PIN_LEAVING)) {
        bool is_leaving = (acts & LIFE_DO_PIN_LEAVING) != 0;
        if (!is_leaving || (s->open && !w->with)) {
            leave_round(w, s);
            s->pinned = true;
        }
    }
    if (acts & LIFE_DO_RESTORE)
        s->in_round = s->granted = true;
    if (acts & LIFE_DO_WATCH_PARTNER)
        s->watched = true;
    if (acts & LIFE_DO_CHECK_PARTNERS)
        check_partner(w);
    if (acts & LIFE_DO_STOP)
        engine_stop(s);
    if (acts & LIFE_DO_STOP_PARTNER)
        engine_stop(&w->job[0]);
    if (acts & LIFE_DO_CANCEL) {
        if (s->phase == QUEUED || s->phase == GONE) {
            s->phase = GONE;
            if (s->owes == OWES_NONE)
                s->owes = OWES_FAIL;
        } else {
            s->phase = LEAVING;
        }
        s->wants = false;
    }
    if (acts & LIFE_DO_LAUNCH) {
        assert_false(s->held || s->ending);
        engine_start(s);
    }
    if ((acts & LIFE_DO_READMIT) && !s->granted)
        leave_round(w, s);
    if (acts & (LIFE_DO_ADMIT | LIFE_DO_READMIT)) {
        bool is_there = s->phase != GONE || (j == 1 && w->with);
        if (s->held || s->ending || s->later || s->in_round || s->pinned ||
            is_there)
            return;
        s->never = w->is_tiny;
        if (w->is_tiny)
            happen(w, j, LIFE_NEVER_FITS, 0, 0);
        else
            s->in_round = true;
    }
}

static void happen(struct world *w, int j, enum life_event event,
                   unsigned facts, unsigned nofacts)
{
    struct life_step step;
    struct firn_error err = {0};
    struct sim *s = &w->job[j];
    size_t n = 0;
    if (trail.n < 16) {
        trail.at[trail.n].job = j;
        trail.at[trail.n].event = event;
        trail.at[trail.n++].state = s->state;
    }
    if (sim_is_over(s))
        return;
    unsigned all = (facts_of(w, j) | facts) & ~nofacts;
    if (life_next((enum live_state)s->state, event, all, NULL, &step, &err) !=
        FIRN_OK)
        fail_msg("%s: %s", err.text, world_show(w));
    world_rows[step.row - life_rows(&n)] = 1;
    bool was_open = s->open;
    world_changes[s->state][step.state] |= (uint64_t)1 << event;
    act_before(w, j, &step, event);
    if (!sim_is_over(s))
        act_behind(w, j, step.acts, was_open);
    if (sim_is_over(s) && j == 0 && w->with &&
        !(step.acts & LIFE_DO_CLOSE_ATTEMPT)) /* its end is told by none else */
        end_partner(w, LIFE_PARTNER_LEFT, 0);
}

/* --- the world ----------------------------------------------------------- */

/* The partner is looked at whenever something has changed. */
static void check_partner(struct world *w)
{
    struct sim *b = &w->job[1];
    if (!w->is_pair || sim_is_over(b) || !b->watched)
        return;
    if (w->with) {
        if (b->lone)
            happen(w, 1, LIFE_PARTNER_SILENT, 0, 0);
        else if (!w->merged)
            happen(w, 1, LIFE_PARTNER_UNWANTED, 0, 0);
        return;
    }
    if (w->merged && b->granted)
        return;
    b->watched = false;
    if (b->granted)
        happen(w, 1, LIFE_PARTNER_GONE, 0, 0);
}

/* The lead's attempt has ended: so has the partner's. */
static void end_partner(struct world *w, enum life_event event, unsigned facts)
{
    bool was_with = w->with;
    if (!was_with)
        return;
    w->with = false;
    happen(w, 1, event, facts, 0);
    assert_false(w->job[1].open);
}

static bool user(struct world *w, int j, int choice)
{
    struct sim *s = &w->job[j];
    if (sim_is_over(s))
        return false;
    switch (choice) {
    case 0:
        if (s->held)
            return false;
        s->held = true;
        happen(w, j, LIFE_HOLD, 0, 0);
        return true;
    case 1:
        if (!s->held)
            return false;
        s->held = false;
        happen(w, j,
               !s->in_round && s->reason == LIVE_BECAUSE_HELD ? LIFE_RELEASE
                                                              : LIFE_CHANGED,
               0, 0);
        return true;
    case 2:
        if (s->ending)
            return false;
        s->ending = true;
        happen(w, j, LIFE_CANCEL, 0, 0);
        return true;
    default:
        if (s->held || s->ending)
            return false;
        happen(w, j, LIFE_CHANGED,
               (choice & 1 ? LIFE_IS_OUTDATED : 0) |
                   bit((choice & 2) && s->granted && !s->rigid,
                       LIFE_IS_OUT_OF_BOUNDS),
               0);
        return true;
    }
}

/* The engine hears of a step, but for that of a job that its partner trains. */
static void give(struct world *w, int j, bool is_led, bool is_other)
{
    struct sim *s = &w->job[j];
    bool trained = j == 1 && w->with;
    if (!is_led && !trained) {
        if (is_other && (s->phase == BEGUN || s->phase == ACTIVE))
            s->phase = LEAVING;
        engine_start(s);
    }
    happen(w, j, LIFE_GIVEN, is_led ? LIFE_IS_AWAITS : 0,
           is_led ? 0 : LIFE_IS_AWAITS);
    if (s->in_round)
        s->granted = true;
}

static bool policy(struct world *w, int j, int choice)
{
    struct sim *s = &w->job[j], *other = &w->job[1 - j];
    static const enum life_event stops[] = {LIFE_TAKEN, LIFE_DRAINED,
                                            LIFE_NODE_DOWN};
    if (sim_is_over(s) || !s->in_round)
        return false;
    if (choice <= 1) { /* GPUs, or others than it has */
        if (w->merged)
            return false; /* parted first, which is a step of both */
        give(w, j, false, choice == 1);
    } else if (choice <= 4) {
        if (!s->granted || w->merged)
            return false;
        s->granted = false;
        if (!(j == 1 && w->with))
            engine_stop(s);
        happen(w, j, stops[choice - 2], 0, 0);
    } else if (choice == 5) { /* the engine refuses a step */
        if (w->merged || (j == 1 && w->with))
            return false;
        s->granted = true;
        happen(w, j, LIFE_REFUSED, 0, 0);
    } else if (choice == 6) {
        if (s->granted)
            return false;
        s->in_round = false;
        happen(w, j, LIFE_REJECTED, 0, 0);
    } else if (choice == 7) { /* firnd: bad neighbours, or new bounds */
        if (!s->granted)
            return false;
        happen(w, j, LIFE_SENT_AWAY, 0, 0);
    } else if (choice == 8) { /* two in one training */
        if (!w->is_pair || j != 0 || w->merged || sim_is_over(other) ||
            !other->in_round || s->lone || other->lone)
            return false;
        give(w, 0, false, s->granted);
        give(w, 1, true, false);
        w->merged = s->granted && other->granted;
    } else { /* each alone, the second without GPUs */
        if (!w->merged || j != 0)
            return false;
        w->merged = false;
        give(w, 0, false, true);
        other->granted = false;
        if (!w->with)
            engine_stop(other);
        happen(w, 1, LIFE_TAKEN, 0, 0);
    }
    check_partner(w);
    return true;
}

/* The engine is about to start a job. */
static bool begin(struct world *w, int j)
{
    struct sim *s = &w->job[j], *b = &w->job[1];
    if (s->phase != QUEUED || s->owes == OWES_LATE)
        return false;
    if (j == 1 && w->with)
        return false;
    bool is_led = false;
    if (j == 0 && w->with && !w->merged)
        end_partner(w, LIFE_PARTNER_LEFT, 0);
    if (j == 0 && w->merged && !sim_is_over(b) && !b->held && !b->ending) {
        if (b->phase != GONE)
            return false;
        if (w->with)
            return false; /* the end of the attempt before is told first */
        happen(w, 1, LIFE_PARTNER_BEGINS, 0, 0);
        is_led = true;
    }
    happen(w, j, LIFE_ATTEMPT, 0, 0);
    s->phase = BEGUN;
    w->with = w->with || is_led;
    return true;
}

enum {
    BEGIN,
    RUN,        /* which is reported later */
    TELL_BEGUN, /* reports come in their order */
    TELL_RUNS,
    LEAVE, /* which is reported later */
    TELL_LEFT,
    TELL_KILLED,
    FOREIGN, /* processes are on its GPUs */
    INBOX_GONE,
    RETRY,
    SILENT,
    RESIZED, /* without a stop; or that failed, and it is to be restarted */
    NOT_RESIZED,
    DONE,
    DONE_BOTH,
    INBOX_END,
    FAIL, /* in four ways, with another try or without */
};

/* Its processes end by themselves. */
static bool end(struct world *w, int j, int choice)
{
    static const enum life_event fails[] = {
        LIFE_FAILED_EXIT, LIFE_FAILED_SIGNAL, LIFE_FAILED_MEMORY,
        LIFE_FAILED_LOST};
    struct sim *s = &w->job[j];
    bool lives = s->phase == BEGUN || s->phase == ACTIVE || s->phase == LEAVING;
    if (!lives || s->owes != OWES_NONE || s->tells ||
        (choice == DONE_BOTH && !(j == 0 && w->with)) ||
        (choice == INBOX_END && !s->inbox))
        return false;
    s->phase = GONE;
    s->wants = false;
    if (choice == INBOX_END) {
        happen(w, j, LIFE_FAILED_INBOX, 0, 0);
    } else if (choice < FAIL) {
        happen(w, j, LIFE_DONE, 0, 0);
        end_partner(w, LIFE_PARTNER_DONE,
                    choice == DONE_BOTH ? LIFE_IS_SAYS_DONE : 0);
    } else {
        happen(w, j, fails[(choice - FAIL) / 2],
               (choice - FAIL) & 1 ? LIFE_IS_MAY_RETRY : 0, 0);
        end_partner(w,
                    s->state == LIVE_CANCELLED ? LIFE_PARTNER_CANCELLED
                                               : LIFE_PARTNER_FAILED,
                    0);
    }
    return true;
}

static bool tell_phase(struct world *w, int j, enum life_event event)
{
    struct sim *s = &w->job[j];
    if (event == LIFE_RUNS
            ? !s->tells
            : s->tells || (s->owes == OWES_NONE && s->phase != BEGUN &&
                           s->phase != LEAVING))
        return false;
    s->tells = false;
    happen(w, j, event, 0, 0);
    if (j == 0 && w->with)
        happen(w, 1, event, 0, 0);
    return true;
}

static bool tell_left(struct world *w, int j)
{
    struct sim *s = &w->job[j];
    if ((s->owes != OWES_LEFT && s->owes != OWES_LATE) || s->tells)
        return false;
    bool ends_two = j == 0 && w->with && s->owes == OWES_LEFT && s->open;
    happen(w, j, LIFE_LEFT, 0, 0);
    s->owes = OWES_NONE;
    if (ends_two)
        end_partner(w, LIFE_PARTNER_LEFT, 0);
    return true;
}

/* A resize of its running processes is over; it may have been asked to leave
 * meanwhile. */
static bool resized(struct world *w, int j, bool is_done)
{
    struct sim *s = &w->job[j];
    if ((s->phase != ACTIVE && s->phase != LEAVING) || s->owes != OWES_NONE ||
        s->tells || w->with || s->rigid || s->inbox || !s->open ||
        (!is_done && s->phase == ACTIVE && !s->wants))
        return false;
    if (!is_done && s->phase == ACTIVE)
        s->phase = LEAVING;
    happen(w, j, is_done ? LIFE_RESIZED : LIFE_NOT_RESIZED, 0, 0);
    return true;
}

/* What the engine and foreign processes do, and the time. */
static bool engine(struct world *w, int j, int choice)
{
    struct sim *s = &w->job[j];
    const struct sim *b = &w->job[1];
    bool is_lead = j == 0 && w->with;
    if (sim_is_over(s))
        return false;
    if (is_lead && choice > RUN && choice != LEAVE &&
        (b->owes != OWES_NONE || b->tells))
        return false; /* these reports are older */
    switch (choice) {
    case BEGIN:
        return begin(w, j);
    case RUN:
        if (s->phase != BEGUN || s->owes != OWES_NONE)
            return false;
        s->phase = ACTIVE;
        return s->tells = true;
    case TELL_BEGUN:
        return tell_phase(w, j, LIFE_BEGINS);
    case TELL_RUNS:
        return tell_phase(w, j, LIFE_RUNS);
    case LEAVE:
        if (s->phase != LEAVING || s->owes != OWES_NONE)
            return false;
        s->phase = s->wants ? QUEUED : GONE;
        s->owes = OWES_LEFT;
        return true;
    case TELL_LEFT:
        return tell_left(w, j);
    case TELL_KILLED:
        if (s->owes != OWES_FAIL)
            return false;
        s->owes = OWES_NONE;
        happen(w, j, s->inbox ? LIFE_FAILED_INBOX : LIFE_FAILED_SIGNAL, 0, 0);
        return true;
    case FOREIGN:
        if (s->phase != QUEUED || s->open || !(s->granted || s->pinned))
            return false;
        happen(w, j, LIFE_PUT_BACK, 0, 0);
        return true;
    case INBOX_GONE:
        if (s->inbox)
            happen(w, j, LIFE_INBOX_GONE, 0, 0);
        return s->inbox;
    case RETRY:
        if (!s->later)
            return false;
        s->later = false;
        happen(w, j, LIFE_RETRY_DUE, 0, 0);
        return true;
    case SILENT:
        if (j == 0 || !w->with || w->job[0].phase != ACTIVE)
            return false;
        happen(w, 1, LIFE_PARTNER_SILENT, 0, 0);
        return true;
    case RESIZED:
    case NOT_RESIZED:
        return resized(w, j, choice == RESIZED);
    default:
        return end(w, j, choice);
    }
}

static void recover(struct world *w, int j, bool finds_processes)
{
    struct sim *s = &w->job[j];
    bool trained = j == 1 && w->with;
    if (sim_is_over(s))
        return;
    if (s->open) {
        bool lives = finds_processes && s->owes == OWES_NONE;
        s->owes = OWES_NONE;
        happen(w, j, LIFE_RECOVERED_RUNNING, 0, 0);
        if (trained)
            return;
        s->wants = lives && s->phase != LEAVING;
        if (!lives) {
            s->phase = GONE;
            happen(w, j, LIFE_FAILED_LOST, 0, 0);
            end_partner(w,
                        s->state == LIVE_CANCELLED ? LIFE_PARTNER_CANCELLED
                                                   : LIFE_PARTNER_FAILED,
                        0);
            return;
        }
        if (s->ending)
            happen(w, j, LIFE_CANCEL, 0, 0);
        else if (s->held)
            happen(w, j, LIFE_HOLD, 0, 0);
        else if (s->in_round)
            happen(w, j, LIFE_CHANGED, 0, 0);
        return;
    }
    s->phase = GONE;
    s->wants = false;
    s->owes = OWES_NONE;
    happen(w, j, s->ending ? LIFE_CANCEL : LIFE_RECOVERED_GONE, 0, 0);
    if (s->ending && !sim_is_over(s)) /* an inbox says what it does not have */
        happen(w, j, LIFE_INBOX_GONE, 0, 0);
}

/* firnd is killed and starts again. */
static bool restart(struct world *w, bool finds_processes)
{
    int n = w->is_pair ? 2 : 1;
    for (int j = 0; j < n; j++) {
        struct sim *s = &w->job[j];
        s->in_round = s->granted = s->pinned = s->later = false;
        s->lone = s->watched = s->never = s->tells = false;
    }
    w->merged = false;
    for (int j = 0; j < n; j++)
        recover(w, j, finds_processes);
    if (w->with) {
        struct sim *a = &w->job[0], *b = &w->job[1];
        w->merged = a->in_round && b->in_round;
        b->watched = true;
        if (b->ending)
            happen(w, 1, LIFE_CANCEL, 0, 0);
        else if (b->held)
            happen(w, 1, LIFE_HOLD, 0, 0);
    }
    check_partner(w);
    return true;
}

bool world_is_engine(int choice)
{
    return choice < 2 * PER_JOB && choice % PER_JOB >= USER + POLICY;
}

static bool move(struct world *w, int choice)
{
    trail.n = 0;
    if (choice >= 2 * PER_JOB)
        return restart(w, choice == 2 * PER_JOB);
    int j = choice / PER_JOB, k = choice % PER_JOB;
    if (j == 1 && !w->is_pair)
        return false;
    return k < USER            ? user(w, j, k)
           : k < USER + POLICY ? policy(w, j, k - USER)
                               : engine(w, j, k - USER - POLICY);
}

bool world_move(struct world *w, int choice)
{
    bool can = move(w, choice);
    if (can)
        check_partner(w);
    return can;
}

struct world world_newborn(enum kind kind)
{
    bool is_pair = kind == PAIR;
    struct world w;
    memset(&w, 0, sizeof w);
    w.is_pair = is_pair;
    w.is_tiny = kind == TINY;
    for (int j = 0; j < (is_pair ? 2 : 1); j++) {
        w.job[j].state = LIVE_PENDING;
        w.job[j].inbox = kind == INBOX;
        w.job[j].rigid = kind == RIGID || kind == INBOX;
        w.job[j].checkpoints = kind == PLAIN || is_pair;
        trail.n = 0;
        happen(&w, j, LIFE_SUBMITTED, 0, 0);
    }
    return w;
}

const char *world_show(const struct world *w)
{
    static char text[3000];
    size_t n = 0;
    for (int j = 0; j < (w->is_pair ? 2 : 1); j++) {
        const struct sim *s = &w->job[j];
        n += (size_t)snprintf(
            text + n, sizeof text - n,
            "%c: %s, phase %d, owes %d, wants %d, open %d, held %d, ending %d, "
            "in_round %d, granted %d, pinned %d, later %d, never %d; ",
            "AB"[j], live_state_name((enum live_state)s->state), s -> phase,
            s -> owes, s -> wants, s -> open, s -> held, s -> ending,
            s -> in_round, s -> granted, s -> pinned, s -> later, s -> never);
    }
    n += (size_t)snprintf(text + n, sizeof text - n,
                          "merged %d, with %d; after", w->merged, w->with);
    for (int i = 0; i < trail.n; i++)
        n += (size_t)snprintf(
            text + n, sizeof text - n, " %c:%s (%s)", "AB"[trail.at[i].job],
            life_event_words((enum life_event)trail.at[i].event),
            live_state_name((enum live_state)trail.at[i].state));
    return text;
}
