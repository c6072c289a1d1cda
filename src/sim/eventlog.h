/* eventlog.h - what happened in a run, line by line.
 *
 * Text, columns separated by tabs. firn_sim_replay() reads it and checks it
 * on its own. Strings are JSON strings, so they hold no tab and no line end;
 * numbers have all their digits. A line that ends in a backslash goes on in
 * the next one: allocations can be long.
 *
 *     #firn-log 1
 *     trace       "jobs.csv"
 *     policy      "fifo"
 *     world       "honest"      the rules: see sim/world.h
 *     setting     "fifo.x=1"    one line each, as given
 *     profiles    "builtin"     when given; likewise freeze and failures
 *     seed        0
 *     restart_s   30            and the other numbers that shape a run
 *     restart_of  "bert" 60     one line for each application that has its own
 *     jobs_per_gpu 2
 *     cluster     "two" 3 20    name, nodes, GPUs
 *     nodes       0-1 8 "v100" up   nodes of one kind: range, GPUs, type, state
 *     nodes       2 4 "a100" up
 *     T submit ID "NAME" GPUS GPUS_MIN GPUS_MAX DURATION_S MAY_SHARE
 *         [SUBMITTED_S]
 *     T note ID "TEXT"          why it waits, by the policy, when that has
 *                               changed; a start takes it back
 *     T start ID ALLOC          likewise resize, move
 *     T move ID ALLOC HOW       to the same ALLOC, run in another way: HOW is
 *                               passes=N tensor=N with=ID after=ID
 *     T rate ID DONE_S RATE RESUMES_S
 *     T anew ID "TEXT"          it goes on from 0 of its work: why
 *     T stop ID DONE_S preempt  or: node
 *     T done ID [FINISHED_S]    or: fail; reject with a reason behind
 *     T node_down NODE          likewise node_up
 *     end                       or: aborted, and nothing behind it
 *     FIELD VALUE               each field of summary.h that is neither text
 * nor measured
 *
 * T is the time in seconds and never goes back. ALLOC is as firn_alloc_print()
 * has it. From RESUMES_S on a job gains RATE reference seconds a second,
 * having DONE_S at that moment. SUBMITTED_S and FINISHED_S stand there when the
 * job's own account of these moments is not T. Readers take a header without
 * world, setting, profiles, freeze, failures, restart_of, and the numbers of
 * noise and elastic jobs for that of an honest world without any.
 *
 * All functions but the first do nothing for a NULL log.
 */
#ifndef SIM_EVENTLOG_H
#define SIM_EVENTLOG_H
#include <firn/engine.h>
#include <firn/sim.h>

struct eventlog;

/* FIRN_EIO when the file cannot be made; it appears when it is closed. */
enum firn_status eventlog_open(struct eventlog **out, const char *path,
                               const struct firn_sim_options *options,
                               struct firn_error *err);
void eventlog_submit(struct eventlog *log, const struct firn_job *job,
                     double at_s);
/* `step->job` is as it was before the step. */
void eventlog_step(struct eventlog *log, const struct firn_step *step);
/* The rate of `job` from now on: after a start, resize or move, and when
 * those it shares GPUs with have changed. */
void eventlog_report(struct eventlog *log, const struct firn_job *job,
                     double at_s, const struct firn_report *report);
/* The job has lost what it had done, and begins anew. */
void eventlog_anew(struct eventlog *log, const struct firn_job *job,
                   double at_s, const char *why);
/* `how` is "done", "fail" or "reject"; the note of a rejected job is the
 * reason. */
void eventlog_end(struct eventlog *log, const struct firn_job *job, double at_s,
                  const char *how, double finished_s);
/* The policy has changed its note on a waiting job. */
void eventlog_note(struct eventlog *log, const struct firn_job *job,
                   double at_s);
void eventlog_node(struct eventlog *log, firn_node_id node, bool is_up,
                   double at_s);
/* Writes the summary, or for a NULL result that the run was aborted. FIRN_EIO
 * when a write failed since it was opened. Frees it in any case. */
enum firn_status eventlog_close(struct eventlog *log,
                                const struct firn_sim_result *result,
                                struct firn_error *err);

#endif
