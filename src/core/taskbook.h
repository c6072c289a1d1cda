/* taskbook.h - what fine-tuning tasks are expected to gain from each other.
 *
 * Ymir's estimator (section 4), in the simulator and live. A task is a dataset
 * on a base model. Callers hand in observations: how alike two tasks are, the
 * loss after each epoch of a job, alone or merged, and the epochs that a job
 * took. The answer is the number of epochs that a task needs when it is merged,
 * over the number that it needs alone. taskbook.c says how.
 *
 * The book knows only what it was told: no table of true gains is behind it.
 */
#ifndef CORE_TASKBOOK_H
#define CORE_TASKBOOK_H
#include <firn/bytes.h>
#include <firn/forecast.h>
#include <firn/transfer.h>

struct taskbook;
struct taskbook *taskbook_new(void);
void taskbook_free(struct taskbook *book);

/* The number of a task, from 0 on; made when it is new. */
int taskbook_task(struct taskbook *book, const char *base, const char *set);
/* Ends a job of the task: a loss that its target metric stands for, and the
 * most epochs it is allowed. NaN: no target. */
void taskbook_goal(struct taskbook *book, int task, double target_loss,
                   double epochs_max);

/* How a job is trained: alone, or merged with a job of another task. */
struct task_run {
    int task;
    int with; /* task; TASKBOOK_ALONE */
    enum firn_merge_kind kind;
};
enum { TASKBOOK_ALONE = -1 };

/* --- observations -------------------------------------------------------- */

/* Offline pairs of other base models: the regression of this base begins with
 * them. Replaces those of before. */
void taskbook_offline(struct taskbook *book, const char *base,
                      enum firn_merge_kind kind,
                      const struct firn_gain_obs *obs, size_t n);
/* Task2Vec's score of `to` from `from`; more is more alike. */
void taskbook_score(struct taskbook *book, int from, int to, double score);
/* A job begins to be trained so. */
void taskbook_begin(struct taskbook *book, const struct task_run *run);
/* A job has this loss after `epoch` epochs (1, 2, ...) from the base model's
 * weights, or since it was merged. */
void taskbook_epoch(struct taskbook *book, const struct task_run *run,
                    int epoch, double loss);
/* A job that was trained so from its first epoch to its last has met its
 * target after that many. */
void taskbook_end(struct taskbook *book, const struct task_run *run,
                  double epochs);

/* --- answers ------------------------------------------------------------- */

struct taskbook_answer {
    double ratio;  /* epochs so / epochs alone */
    double gain;   /* G */
    double epochs; /* that it needs alone */
    int seen;      /* epochs that jobs trained so have reported */
    int ended;     /* jobs that were trained so to their end */
};
/* False: not known, and not to be merged. That is so until a job of the task
 * has reported three epochs alone, and its score with the other is known.
 * `run->with` is a task. */
bool taskbook_answer(struct taskbook *book, const struct task_run *run,
                     struct taskbook_answer *out);
/* The loss before the first epoch, by the task's own curve; NaN: not known. */
double taskbook_first_loss(struct taskbook *book, int task);
/* The loss after `epoch` epochs alone, by the task's own curve; NaN: not known.
 */
double taskbook_loss(struct taskbook *book, int task, int epoch);
/* The guard of temporal transfer. A job that began with another's weights has
 * this loss after `epoch` epochs: true if these are two or more, the loss is
 * more than a twentieth above the one that its task is expected to have after
 * as many without them, and, where the job has a target, it is expected to meet
 * it sooner if it begins anew. */
struct taskbook_harm {
    double alone;  /* the loss expected without them; NaN: not known */
    double behind; /* epochs that the task needs less for this loss so */
};
bool taskbook_hurts(struct taskbook *book, const struct task_run *run,
                    int epoch, double loss, struct taskbook_harm *out);

/* --- keeping it ---------------------------------------------------------- */

/* Appends all observations as text (base/keep.h), but those of
 * taskbook_offline(), which the caller hands in anew. */
struct firn_buf;
void taskbook_save(const struct taskbook *book, struct firn_buf *out);
/* Into an empty book, which then has the same answers. FIRN_EDATA: the text is
 * damaged, or of another version; the book stays empty. */
enum firn_status taskbook_load(struct taskbook *book, struct firn_bytes text,
                               struct firn_error *err);

#endif
