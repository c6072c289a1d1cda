/* task.h - fine-tuning tasks over one backbone: how they are run and switched.
 *
 * Ymir merges fine-tuning jobs over one foundation model when transfer makes
 * both faster. Inside the trainer that is: which task a step belongs to
 * (temporal: one after the other, the second starting from the first's
 * weights; spatial: both at once, by annealed sampling), how alike two tasks
 * are (Task2Vec: the diagonal of the Fisher information on a subset), whether
 * a merge pays (the guard after two epochs), and how the next task is brought
 * in without a pause (the pipeline switch; Ymir section 6).
 */
#ifndef FIRN_TASK_H
#define FIRN_TASK_H
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

FIRN_C_BEGIN

/* --- which task a step belongs to ---------------------------------------- */

enum firn_task_mode { FIRN_TASK_NORMAL, FIRN_TASK_TEMPORAL, FIRN_TASK_SPATIAL };

/* Annealed sampling (multi-task): at epoch e of E a task of N samples is drawn
 * with weight N^a, a = 1 - 0.8 (e - 1) / (E - 1), from proportional to nearly
 * even. */
struct firn_task_mix {
    enum firn_task_mode mode;
    size_t ntasks;
    const uint64_t *nsamples; /* of each task, per epoch steps go by these */
    uint64_t nepochs, seed;
};
/* Chances of the tasks in an epoch (from 0), summing to 1, into share[ntasks].
 * normal: task 0 has 1; temporal: the tasks have 1 one after the other, each in
 * its even share of the epochs. */
FIRN_API enum firn_status firn_task_shares(const struct firn_task_mix *mix,
                                           uint64_t epoch, double *share,
                                           struct firn_error *err);
/* The task of a step of a mix that firn_task_shares() takes; a function of the
 * mix, epoch and step alone. O(ntasks). */
FIRN_API size_t firn_task_of_step(const struct firn_task_mix *mix,
                                  uint64_t epoch, uint64_t step);

/* --- how alike two tasks are --------------------------------------------- */

/* fisher[i] += grad[i]^2, of one sample or small batch. */
FIRN_API void firn_task_fisher_add(double *fisher, const float *grad, size_t n);
/* Cosine of the normalised embeddings f/(f+g) and g/(f+g), as Task2Vec's
 * symmetric distance has it, turned into a similarity in [0, 1]; 0 when either
 * is all zero or not finite. Both are brought to the same sum first. */
FIRN_API double firn_task_similarity(const double *left, const double *right,
                                     size_t n);

/* --- the guard ----------------------------------------------------------- */

/* Did the merge pay? Compares the loss (or error) after `nepochs` >= 2 with
 * what the task would have reached alone by its own curve. */
struct firn_task_guard {
    double margin;   /* relative; 0.05: five per cent worse is still fine */
    uint64_t epochs; /* before it speaks; 0: 2 */
};
enum firn_task_verdict { FIRN_TASK_TOO_EARLY, FIRN_TASK_PAYS, FIRN_TASK_UNDO };
/* Of the last of `nepochs` losses; NaN in loss_alone: not known, too early. */
FIRN_API enum firn_task_verdict
firn_task_judge(const struct firn_task_guard *guard, const double *loss_merged,
                const double *loss_alone, size_t nepochs);

/* --- the pipeline switch ------------------------------------------------- */

/* Prepares the next task in a thread of its own while the present one computes:
 * first its data loader, then its weights, piece by piece. `prepare` returns a
 * status; its product is the caller's. */
struct firn_switch;
struct firn_switch_stage {
    const char *name; /* "loader", "weights" */
    enum firn_status (*prepare)(void *arg, struct firn_error *err);
    void *arg;
};
struct firn_switch_times {
    double prepare_s; /* all stages: the pause without a pipeline */
    double waited_s;  /* what take() had to wait: the pause seen */
    double stage_s[8];
};
/* `stages` are copied, at most 8; their names and arguments are borrowed until
 * take(), which has to be called. */
FIRN_API enum firn_status
firn_switch_start(struct firn_switch **out,
                  const struct firn_switch_stage *stages, size_t nstages,
                  struct firn_error *err);
FIRN_API bool firn_switch_ready(const struct firn_switch *s);
/* Waits for the rest, ends the thread, frees `s`; the first failure of a
 * stage, with its name before the sentence. The stages behind it were not run.
 * `times` may be NULL; it is filled in any case. */
FIRN_API enum firn_status firn_switch_take(struct firn_switch *s,
                                           struct firn_switch_times *times,
                                           struct firn_error *err);

FIRN_C_END

#endif
