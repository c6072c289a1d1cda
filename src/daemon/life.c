/* life.c - the life of a job as one table.
 *
 * The table is read from the top: the first line counts that has the event, the
 * job's state and facts that hold. A combination without a line cannot happen;
 * it is an error that the caller logs, and changes nothing.
 *
 * Invariants, which tests/daemon/test_life.c checks over all that can follow
 * from each other:
 * (1) a job has at most one attempt with processes, and each attempt ends;
 * (2) GPUs that a job holds, in the round or blocked for it, are let go once,
 *     at the latest when the job is over;
 * (3) a job that waits, is not held and is not to wait for its next try is in
 *     the round, or the cluster has no GPUs for it;
 * (4) a held job does not come into the round and is not started;
 * (5) a cancelled job ends, whatever its processes do;
 * (6) attempts of two partners begin and end together;
 * (7) nothing follows from an event of a job that is over.
 *
 * Cost: a walk over the table, some hundred lines.
 */
#include "daemon/life.h"
#include <stdio.h>
#include <string.h>

#define STATE(name) (1u << LIVE_##name)
enum {
    LIVING = 1u << LIVE_PENDING | 1u << LIVE_STARTING | 1u << LIVE_RUNNING |
             1u << LIVE_RESIZING | 1u << LIVE_PREEMPTING |
             1u << LIVE_COMPLETING,
    /* Not cancelled. */
    GOING = LIVING & ~(1u << LIVE_COMPLETING),
    MOVING = GOING & ~(1u << LIVE_PENDING),
    /* Back to the queue, which a guard in ADMIT keeps held jobs from. */
    WAIT = LIFE_DO_UNPIN | LIFE_DO_WITHDRAW | LIFE_DO_ADMIT,
    OVER = LIFE_DO_UNPIN | LIFE_DO_LEAVE_ROUND | LIFE_DO_END,
};

#define NO        0
#define IS(a)     LIFE_IS_##a
#define DO(a)     LIFE_DO_##a
#define CANCELLED "cancelled"
#define BACK      "held back by its user"
#define AGAIN     "starts again when its GPUs are free"
#define LEAVE     "other jobs go first; it is asked to leave its GPUs"
#define UNBEGUN   "stopped before its processes began; waits for GPUs"
#define SILENT \
    "the job that was to train it reports nothing of it; goes on alone"
#define EARLY "the job that trained it ended before it was done; goes on alone"
#define APART "the job that trained it was cancelled; goes on alone"
#define TWO   "the training of two jobs ended {why}; goes on alone"

#define SAY(event, from, with, without, to, reason, acts, sentence)          \
    {                                                                        \
        LIFE_##event, from, with, without, LIVE_##to, LIVE_BECAUSE_##reason, \
            acts, sentence                                                   \
    }
#define STAY(event, from, with, without, acts)                                 \
    {                                                                          \
        LIFE_##event, from, with, without, LIFE_SAME, LIVE_BECAUSE_NONE, acts, \
            NULL                                                               \
    }

/* A failure, of a job alone or with a partner, that is charged to no job. */
#define FAILURE(event)                                                        \
    SAY(event, LIVING, IS(ENDING), NO, CANCELLED, USER,                       \
        DO(CLOSE_ATTEMPT) | OVER, CANCELLED),                                 \
        SAY(event, GOING, IS(PARTNERED) | IS(HELD), NO, PENDING, HELD,        \
            DO(CLOSE_ATTEMPT) | DO(PART_FOR_GOOD) | DO(UNPIN) | DO(WITHDRAW), \
            BACK),                                                            \
        SAY(event, GOING, IS(PARTNERED), NO, PENDING, RETRY,                  \
            DO(CLOSE_ATTEMPT) | DO(PART_FOR_GOOD) | WAIT, TWO)
/* Another try, if the retry rule allows it. */
#define RETRY(event, acts)                                      \
    SAY(event, GOING, IS(MAY_RETRY), NO, PENDING, RETRY,        \
        DO(CLOSE_ATTEMPT) | (acts) | DO(UNPIN) | DO(WITHDRAW) | \
            DO(CHARGE_RETRY) | DO(RETRY_LATER),                 \
        "{why}")
/* The partner's processes are gone, and the job does not go on with them. */
#define APARTED(event, with, acts, reason, sentence)                      \
    SAY(event, LIVING, (with) | IS(ENDING), NO, CANCELLED, USER,          \
        DO(CLOSE_ATTEMPT) | OVER, CANCELLED),                             \
        SAY(event, GOING, (with) | IS(HELD), NO, PENDING, HELD,           \
            DO(CLOSE_ATTEMPT) | (acts) | DO(UNPIN) | DO(WITHDRAW), BACK), \
        SAY(event, GOING, with, NO, PENDING, reason,                      \
            DO(CLOSE_ATTEMPT) | (acts) | WAIT, sentence)

/* clang-format off */
static const struct life_row rows[] = {
    /* --- its user ------------------------------------------------------- */
    STAY(SUBMITTED, STATE(PENDING), NO, IS(HELD) | IS(ENDING), DO(ADMIT)),
    STAY(CHANGED, LIVING, IS(ENDING), NO, NO),
    STAY(CHANGED, GOING, IS(IN_ROUND) | IS(OUT_OF_BOUNDS) | IS(OUTDATED), NO,
         DO(KEEP_BOUNDS) | DO(READMIT)),
    STAY(CHANGED, GOING, IS(IN_ROUND) | IS(OUT_OF_BOUNDS), NO,
         DO(KEEP_BOUNDS)),
    STAY(CHANGED, GOING, IS(IN_ROUND) | IS(OUTDATED), NO, DO(READMIT)),
    STAY(CHANGED, GOING, IS(IN_ROUND), NO, NO),
    STAY(CHANGED, GOING, NO, IS(IN_ROUND), DO(ADMIT)),
    STAY(HOLD, LIVING, IS(ENDING), NO, NO),
    STAY(HOLD, GOING, IS(PINNED), NO, NO), /* runs on to its end */
    SAY(HOLD, GOING, IS(PRESENT) | IS(TRAINED), NO, PREEMPTING, HELD,
        DO(WITHDRAW) | DO(CHECK_PARTNERS), BACK),
    SAY(HOLD, GOING, IS(PRESENT), NO, PREEMPTING, HELD,
        DO(WITHDRAW) | DO(CHECK_PARTNERS) | DO(PIN_LEAVING) | DO(STOP), BACK),
    SAY(HOLD, GOING, NO, IS(PRESENT), PENDING, HELD,
        DO(WITHDRAW) | DO(CHECK_PARTNERS), BACK),
    SAY(RELEASE, STATE(PENDING), NO, IS(HELD), PENDING, NEW, DO(ADMIT),
        "released; no round has seen it yet"),
    STAY(RELEASE, MOVING, NO, IS(HELD), DO(ADMIT)),
    SAY(CANCEL, LIVING, IS(ENDING), IS(INBOX) | IS(PRESENT), CANCELLED, USER,
        OVER, CANCELLED),
    SAY(CANCEL, LIVING, IS(ENDING) | IS(TRAINED), NO, COMPLETING, USER,
        DO(LEAVE_ROUND) | DO(CHECK_PARTNERS), CANCELLED),
    SAY(CANCEL, LIVING, IS(ENDING), NO, COMPLETING, USER,
        DO(LEAVE_ROUND) | DO(CHECK_PARTNERS) | DO(PIN_LEAVING) | DO(CANCEL),
        CANCELLED),

    /* --- the round ------------------------------------------------------ */
    SAY(NEVER_FITS, GOING, NO, IS(IN_ROUND), PENDING, NEVER, NO, "{why}"),
    SAY(REJECTED, GOING, NO, NO, FAILED, POLICY, DO(UNPIN) | DO(END), "{why}"),
    SAY(GIVEN, GOING, IS(TRAINED), IS(HELD) | IS(ENDING), RESIZING, POLICY,
        DO(WATCH_PARTNER), "from {from} to {gpus}"),
    SAY(GIVEN, GOING, IS(AWAITS) | IS(PRESENT), IS(HELD) | IS(ENDING),
        STARTING, NONE, DO(WATCH_PARTNER) | DO(STOP),
        "starts on {gpus}, trained by job {partner}"),
    SAY(GIVEN, GOING, IS(AWAITS), IS(HELD) | IS(ENDING), STARTING, NONE,
        DO(WATCH_PARTNER), "starts on {gpus}, trained by job {partner}"),
    SAY(GIVEN, GOING, IS(LEAVING), IS(HELD) | IS(ENDING), RESIZING, POLICY,
        DO(COUNT_RESIZE), "from {from} to {gpus}"),
    STAY(GIVEN, GOING, IS(ACTIVE), IS(HELD) | IS(ENDING), DO(KEEP_GPUS)),
    SAY(GIVEN, GOING, IS(RIGID), IS(HELD) | IS(ENDING), STARTING, NONE,
        DO(PIN_LATER), "starts on {gpus}"),
    SAY(GIVEN, GOING, NO, IS(HELD) | IS(ENDING), STARTING, NONE, NO,
        "starts on {gpus}"),
    SAY(TAKEN, GOING, IS(TRAINED), NO, PREEMPTING, POLICY, DO(WATCH_PARTNER),
        LEAVE),
    SAY(TAKEN, GOING, NO, IS(PRESENT), PENDING, PRIORITY, DO(COUNT_STOP),
        UNBEGUN),
    SAY(TAKEN, GOING, NO, NO, PREEMPTING, POLICY, DO(COUNT_STOP), LEAVE),
    SAY(DRAINED, GOING, IS(TRAINED), NO, PREEMPTING, POLICY,
        DO(WATCH_PARTNER), LEAVE),
    SAY(DRAINED, GOING, NO, IS(PRESENT), PENDING, PRIORITY, DO(COUNT_STOP),
        UNBEGUN),
    SAY(DRAINED, GOING, IS(CHECKPOINTS), NO, PREEMPTING, POLICY,
        DO(COUNT_STOP),
        "its node is drained; it is asked to write a checkpoint"),
    SAY(DRAINED, GOING, NO, NO, PREEMPTING, POLICY, DO(COUNT_STOP),
        "its node is drained; it is stopped without a checkpoint, which it "
        "does not write"),
    SAY(NODE_DOWN, GOING, IS(TRAINED), NO, PREEMPTING, POLICY,
        DO(WATCH_PARTNER), LEAVE),
    SAY(NODE_DOWN, GOING, NO, IS(PRESENT), PENDING, PRIORITY, DO(COUNT_STOP),
        UNBEGUN),
    SAY(NODE_DOWN, GOING, NO, NO, PREEMPTING, POLICY, DO(COUNT_STOP),
        "its node is down"),
    SAY(SENT_AWAY, GOING, IS(TRAINED), NO, PREEMPTING, POLICY,
        DO(WITHDRAW) | DO(COUNT_STOP) | DO(CHECK_PARTNERS), "{why}"),
    SAY(SENT_AWAY, GOING, NO, IS(PRESENT), PENDING, POLICY, WAIT, "{why}"),
    SAY(SENT_AWAY, GOING, NO, NO, PREEMPTING, POLICY,
        DO(WITHDRAW) | DO(COUNT_STOP) | DO(CHECK_PARTNERS) | DO(STOP),
        "{why}"),
    SAY(PUT_BACK, GOING, NO, IS(OPEN), PENDING, CAPACITY,
        DO(UNPIN) | DO(WITHDRAW) | DO(STOP),
        "processes outside of firn took its GPUs before it was started"),
    SAY(REFUSED, GOING, IS(PRESENT), NO, PREEMPTING, ENGINE,
        DO(WITHDRAW) | DO(RETRY_LATER) | DO(STOP), "{why}"),
    SAY(REFUSED, GOING, NO, NO, PENDING, ENGINE,
        DO(WITHDRAW) | DO(RETRY_LATER), "{why}"),
    STAY(RETRY_DUE, LIVING, NO, NO, DO(ADMIT)),

    /* --- its processes -------------------------------------------------- */
    SAY(ATTEMPT, STATE(RUNNING), NO, IS(ENDING) | IS(HELD), STARTING, LEAVING,
        DO(OPEN_ATTEMPT), AGAIN),
    STAY(ATTEMPT, GOING, NO, IS(ENDING) | IS(HELD), DO(OPEN_ATTEMPT)),
    STAY(ATTEMPT, GOING, IS(HELD) | IS(PINNED), IS(ENDING), DO(OPEN_ATTEMPT)),
    STAY(BEGINS, LIVING, IS(ENDING), NO, NO),
    STAY(BEGINS, GOING, NO, IS(OPEN), NO), /* of an attempt that has ended */
    SAY(BEGINS, GOING, NO, IS(ENDING), STARTING, NONE, NO,
        "starts on {gpus}{partner}"),
    STAY(RUNS, LIVING, IS(ENDING), NO, NO),
    STAY(RUNS, GOING, NO, IS(OPEN), NO),
    SAY(RUNS, GOING, NO, IS(ENDING), RUNNING, NONE, DO(COUNT_WAIT),
        "runs on {gpus}{partner}"),
    SAY(RESIZED, STATE(RUNNING), IS(ACTIVE), NO, RUNNING, NONE, NO,
        "runs on {gpus}{partner}; {why}"),
    STAY(RESIZED, LIVING, NO, NO, NO), /* it was asked to leave since */
    SAY(NOT_RESIZED, STATE(RUNNING), NO, NO, RESIZING, POLICY,
        DO(COUNT_RESIZE), "{why}"),
    STAY(NOT_RESIZED, LIVING, NO, NO, NO),
    /* The end of an older attempt: the present one's is on the way. */
    STAY(LEFT, LIVING, IS(ENDING) | IS(PRESENT), NO, DO(CLOSE_ATTEMPT)),
    SAY(LEFT, LIVING, IS(ENDING), NO, CANCELLED, USER,
        DO(CLOSE_ATTEMPT) | OVER, CANCELLED),
    STAY(LEFT, GOING, IS(TRAINED), NO, DO(CLOSE_ATTEMPT)), /* an old attempt */
    SAY(LEFT, GOING, IS(PRESENT), NO, STARTING, LEAVING, DO(CLOSE_ATTEMPT),
        AGAIN),
    SAY(LEFT, GOING, IS(HELD), NO, PENDING, HELD,
        DO(CLOSE_ATTEMPT) | DO(UNPIN) | DO(WITHDRAW), BACK),
    SAY(LEFT, GOING, IS(AWAITS), NO, STARTING, LEAVING, DO(CLOSE_ATTEMPT),
        "starts again, trained by another job's processes"),
    SAY(LEFT, GOING, IS(GRANTED), NO, PENDING, PRIORITY,
        DO(CLOSE_ATTEMPT) | WAIT, "{why}"),
    SAY(LEFT, GOING, NO, NO, PENDING, PRIORITY,
        DO(CLOSE_ATTEMPT) | DO(UNPIN) | DO(ADMIT), "{why}"),
    SAY(DONE, LIVING, NO, NO, SUCCEEDED, EXIT,
        DO(CLOSE_ATTEMPT) | DO(LEARN) | OVER, "ended with status 0"),
    FAILURE(FAILED_EXIT),
    RETRY(FAILED_EXIT, NO),
    SAY(FAILED_EXIT, GOING, NO, NO, FAILED, EXIT, DO(CLOSE_ATTEMPT) | OVER,
        "{why}"),
    FAILURE(FAILED_SIGNAL),
    RETRY(FAILED_SIGNAL, NO),
    SAY(FAILED_SIGNAL, GOING, NO, NO, FAILED, SIGNAL, DO(CLOSE_ATTEMPT) | OVER,
        "{why}"),
    FAILURE(FAILED_MEMORY),
    RETRY(FAILED_MEMORY, DO(FREE_TYPE)),
    SAY(FAILED_MEMORY, GOING, NO, NO, FAILED, OUT_OF_MEMORY,
        DO(CLOSE_ATTEMPT) | OVER, "{why}"),
    FAILURE(FAILED_LOST),
    RETRY(FAILED_LOST, NO),
    SAY(FAILED_LOST, GOING, NO, NO, LOST, VANISHED, DO(CLOSE_ATTEMPT) | OVER,
        "{why}"),
    SAY(FAILED_INBOX, LIVING, IS(ENDING), NO, CANCELLED, USER,
        DO(CLOSE_ATTEMPT) | OVER, CANCELLED),
    SAY(FAILED_INBOX, GOING, IS(INBOX), NO, CANCELLED, USER,
        DO(CLOSE_ATTEMPT) | OVER, "cancelled in the cluster's own queue"),
    STAY(INBOX_GONE, LIVING, IS(INBOX) | IS(PRESENT), NO, NO),
    SAY(INBOX_GONE, LIVING, IS(INBOX) | IS(ENDING), NO, CANCELLED, USER, OVER,
        CANCELLED),
    SAY(INBOX_GONE, GOING, IS(INBOX), NO, CANCELLED, VANISHED, OVER,
        "taken out of the cluster's own queue"),

    /* --- its partner ---------------------------------------------------- */
    STAY(PARTNER_BEGINS, GOING, IS(GRANTED), IS(HELD) | IS(ENDING),
         DO(OPEN_ATTEMPT)),
    APARTED(PARTNER_LEFT, IS(LONE), NO, RETRY, SILENT),
    SAY(PARTNER_LEFT, GOING, IS(GRANTED) | IS(AWAITS), IS(HELD) | IS(ENDING),
        STARTING, LEAVING, DO(CLOSE_ATTEMPT), AGAIN),
    SAY(PARTNER_LEFT, GOING, IS(GRANTED_ALONE), IS(HELD) | IS(ENDING),
        STARTING, NONE, DO(CLOSE_ATTEMPT) | DO(LAUNCH),
        "starts on {gpus}, alone"),
    APARTED(PARTNER_LEFT, NO, NO, PRIORITY, "{why}"),
    SAY(PARTNER_DONE, LIVING, IS(SAYS_DONE), NO, SUCCEEDED, EXIT,
        DO(CLOSE_ATTEMPT) | DO(LEARN) | OVER,
        "trained to its end by another job's processes"),
    APARTED(PARTNER_DONE, NO, DO(PART_FOR_GOOD), RETRY, EARLY),
    APARTED(PARTNER_FAILED, NO, DO(PART_FOR_GOOD), RETRY, TWO),
    APARTED(PARTNER_CANCELLED, NO, NO, RETRY, APART),
    STAY(PARTNER_SILENT, LIVING, IS(TRAINED) | IS(PRESENT), IS(LEAVING),
         DO(PART_FOR_GOOD) | DO(STOP_PARTNER)),
    STAY(PARTNER_SILENT, LIVING, IS(TRAINED), NO, DO(PART_FOR_GOOD)),
    STAY(PARTNER_UNWANTED, LIVING, IS(TRAINED) | IS(PRESENT), IS(LEAVING),
         DO(STOP_PARTNER)),
    STAY(PARTNER_UNWANTED, LIVING, IS(TRAINED), NO, NO),
    STAY(PARTNER_GONE, LIVING, IS(PRESENT), NO, NO),
    SAY(PARTNER_GONE, GOING, IS(GRANTED), IS(HELD) | IS(ENDING), PENDING,
        POLICY, WAIT, "the job that was to train it is gone; waits for GPUs"),

    /* --- firnd starts again --------------------------------------------- */
    STAY(RECOVERED_RUNNING, GOING, IS(RIGID), IS(ENDING), DO(PIN) | DO(ADOPT)),
    STAY(RECOVERED_RUNNING, LIVING, IS(TRAINED) | IS(ENDING), NO, NO),
    STAY(RECOVERED_RUNNING, GOING, IS(TRAINED) | IS(HELD), NO, NO),
    STAY(RECOVERED_RUNNING, LIVING, IS(ENDING), NO, DO(ADOPT)),
    STAY(RECOVERED_RUNNING, GOING, IS(HELD), NO, DO(ADOPT)),
    STAY(RECOVERED_RUNNING, GOING, IS(TRAINED), NO, DO(RESTORE)),
    STAY(RECOVERED_RUNNING, GOING, NO, NO, DO(RESTORE) | DO(ADOPT)),
    STAY(RECOVERED_GONE, STATE(PENDING), NO, IS(ENDING), DO(ADMIT)),
    SAY(RECOVERED_GONE, MOVING, IS(HELD), IS(ENDING), PENDING, HELD, NO,
        "firnd was restarted"),
    SAY(RECOVERED_GONE, MOVING, NO, IS(ENDING), PENDING, NEW, DO(ADMIT),
        "firnd was restarted"),
};
/* clang-format on */

const struct life_row *life_rows(size_t *n)
{
    *n = sizeof rows / sizeof *rows;
    return rows;
}

static const char *const event_words[] = {
#define X(code, words) words,
    LIFE_EVENT_MAP(X)
#undef X
};

static const char *const fact_words[] = {
#define X(code, words) words,
    LIFE_FACT_MAP(X)
#undef X
};

static const char *const act_words[] = {
#define X(code, words) words,
    LIFE_ACT_MAP(X)
#undef X
};

const char *life_event_words(enum life_event event)
{
    return event_words[event];
}

const char *life_fact_words(enum life_fact_bit fact)
{
    return fact_words[fact];
}

const char *life_act_words(enum life_act_bit act)
{
    return act_words[act];
}

/* The text that stands for a name in braces at the beginning of `at`, and its
 * length there; NULL: there is no such name. */
static const char *word_at(const char *at, const struct life_words *words,
                           size_t *n)
{
    const struct {
        const char *name, *text;
    } all[] = {{"{gpus}", words->gpus},
               {"{from}", words->from},
               {"{partner}", words->partner},
               {"{why}", words->why}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *n = strlen(all[i].name);
        if (strncmp(at, all[i].name, *n) == 0)
            return all[i].text != NULL ? all[i].text : "";
    }
    return NULL;
}

static void fill_in(const char *sentence, const struct life_words *words,
                    char out[LIVE_TEXT])
{
    size_t used = 0, n = 0;
    for (const char *at = sentence; *at != '\0' && used < LIVE_TEXT - 1;) {
        const char *text = *at == '{' ? word_at(at, words, &n) : NULL;
        if (text == NULL) {
            out[used++] = *at++;
            continue;
        }
        /* A list of GPUs may be long: the rest of the sentence stays. */
        int most = sentence[0] == '{' ? LIVE_TEXT : 100;
        int put = snprintf(out + used, LIVE_TEXT - used, "%.*s", most, text);
        used += put > 0 ? (size_t)put : 0;
        used = used < LIVE_TEXT ? used : LIVE_TEXT - 1;
        at += n;
    }
    out[used] = '\0';
}

static bool holds(const struct life_row *row, enum live_state state,
                  enum life_event event, unsigned facts)
{
    return row->event == event && (row->from >> state & 1) != 0 &&
           (facts & row->with) == row->with && (facts & row->without) == 0;
}

enum firn_status life_next(enum live_state state, enum life_event event,
                           unsigned facts, const struct life_words *words,
                           struct life_step *out, struct firn_error *err)
{
    static const struct life_words none = {0};
    *out = (struct life_step){.state = state};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct life_row *row = &rows[i];
        if (!holds(row, state, event, facts))
            continue;
        out->row = row;
        out->acts = row->acts;
        out->is_said = row->to != LIFE_SAME;
        if (out->is_said) {
            out->state = (enum live_state)row->to;
            out->reason = row->reason;
            fill_in(row->sentence, words != NULL ? words : &none, out->why);
        }
        return FIRN_OK;
    }
    return firn_fail(err, FIRN_EINVAL,
                     "'%s' cannot happen to a job that is %s (facts %#x)",
                     event_words[event], live_state_name(state), facts);
}
