/* explain.h - the life of one job, told from an event log.
 *
 * A life is a row of stretches without a gap, from submission to end: the job
 * waits (and why), restarts, trains (on which GPUs, beside which jobs, how
 * fast, how far), or holds GPUs and stands still. The stretches' lengths add up
 * to the completion time. The log is read by the replay (sim/replay.h), so a
 * log that is wrong is refused before anything is told from it.
 */
#ifndef SIM_EXPLAIN_H
#define SIM_EXPLAIN_H
#include "base/arena.h"
#include "base/vec.h"
#include <firn/bytes.h>
#include <firn/sim.h>

struct lines;

enum explain_what {
    EXPLAIN_WAITS,    /* holds nothing */
    EXPLAIN_RESTARTS, /* holds GPUs, makes no progress yet */
    EXPLAIN_TRAINS,
    EXPLAIN_STANDS, /* holds GPUs at rate 0, or with all its work done */
};

struct explain_stretch {
    enum explain_what what;
    const char *cause; /* the line it began with: submit, start, resize, move,
                        * anew, preempt, node; "" when only a note, a rate or a
                        * neighbour changed */
    double from_s, to_s;
    double done_from_s, done_to_s; /* reference seconds */

    /* While it waits; as it was at from_s. */
    const char *note; /* of the policy on a wait, or why it began anew; "" for
                       * none */
    int gpus_free, gpus_up;
    long jobs_before; /* waiting too, and submitted before it */

    /* While it holds GPUs. */
    int gpus, nodes;
    const char *alloc; /* as firn_alloc_print() has it */
    const char **with; /* names of those on the same GPUs */
    size_t nwith;
    double rate;
};

enum explain_end { EXPLAIN_OPEN, EXPLAIN_DONE, EXPLAIN_FAILED, EXPLAIN_REJECT };

/* Strings live in `text`. */
struct explain {
    struct arena text;
    char trace[256], policy[FIRN_NAME_MAX], world[FIRN_NAME_MAX];
    const char *name;
    int id, gpus, gpus_min, gpus_max;
    double duration_s; /* reference seconds of work */
    double submit_s;
    enum explain_end end;
    double end_s;       /* by the job's own account; of an open life: when
                         * the log ends */
    const char *reason; /* of a rejection */
    VEC(struct explain_stretch) stretches;

    double waited_s, restarted_s, trained_s, stood_s; /* = end_s - submit_s */
    double lost_s; /* reference seconds done twice, after failures */
    int restarts, preemptions, node_losses;
};

/* Reads the log twice: for names, then as the replay does. `job` is a name, or
 * an id, or the beginning of one name only. FIRN_ENOENT with the nearest name
 * when there is none; FIRN_EINVAL when it is the beginning of several, or the
 * log is wrong. A log that was aborted tells what happened until then. The
 * caller releases `out` after FIRN_OK. */
enum firn_status explain_read(struct explain *out, const char *log_path,
                              const char *job, struct firn_error *err);
/* The same of lines already open; for tests. */
enum firn_status explain_lines(struct explain *out, struct lines *in,
                               const char *where, const char *job,
                               struct firn_error *err);
void explain_release(struct explain *life);

/* On the same GPUs, beside the same jobs? Of stretches that hold some. */
bool explain_same_place(const struct explain_stretch *a,
                        const struct explain_stretch *b);

/* Appends it as a page for people, or as a JSON object without a line end. */
void explain_page(const struct explain *life, struct firn_buf *out);
void explain_json(const struct explain *life, struct firn_buf *out);

#endif
