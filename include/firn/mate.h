/* mate.h - co-trained jobs: two fine-tuning jobs, one set of processes.
 *
 * A scheduler that merges two jobs over one base (Ymir's spatial transfer)
 * starts the processes of one, the lead. Their environment describes the other,
 * the mate:
 *
 *   FIRN_MATE_JOB, FIRN_MATE_ATTEMPT, FIRN_MATE_TOKEN   for reports in its name
 *   FIRN_MATE_DIR      its folder of checkpoints, from the root
 *   FIRN_MATE_DATA     its dataset, as its job file has it
 *   FIRN_MATE_THREADS  its V; not set: as many as there are processes
 *   FIRN_MATE_FREEZE_MAX  the share of its layers that may be frozen
 *   FIRN_MATE_ARGV     its command, the words with a 0x1f between them
 *
 * User, program, folder and environment are the lead's, and the scheduler
 * merges only jobs that have them in common: a path in the mate's command means
 * here what it would mean to it alone.
 *
 * Each job has a session of its own (firn/train.h), hence checkpoints and
 * reports like those of a job that is trained alone: the scheduler can part
 * them at any checkpoint, and each goes on by itself. A pair chooses the
 * session of each step by annealed sampling (firn/task.h):
 *
 *     bool has_mate = firn_mate_find(&mate);
 *     firn_train_open(&train[0], &config, &err);
 *     if (has_mate) {
 *         config.as = &mate;
 *         firn_train_open(&train[1], &config, &err);
 *     }
 *     ... parts and shared tensors of both ...
 *     firn_pair_open(&pair, train, seed, &err);     (train[1] may be NULL)
 *     firn_pair_resume(pair, &resumed, &err);
 *     for (int i; (i = firn_pair_go(pair)) >= 0;)
 *         ... a step of train[i]; what the tasks share goes to the other ...
 *     status = firn_pair_close(pair, &err);         (closes the sessions too)
 *
 * When one of them is to stop, both do, at the same boundary. A checkpoint of
 * one is followed by one of the other, and each holds the steps of both: after
 * kill -9 between the two, the newer one is passed over. So a merged training
 * has the same bits whether it was stopped or not, on any number of processes.
 * A job that is done stays as it then was, and the other goes on by itself.
 */
#ifndef FIRN_MATE_H
#define FIRN_MATE_H
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

FIRN_C_BEGIN

struct firn_train;

struct firn_mate {
    const char *job, *token, *dir, *data; /* the environment's; "" for none */
    int64_t attempt;   /* number of its attempt; 0: not set */
    int nthreads;      /* 0: not set */
    int argc;          /* of its command; 0: not set */
    char **argv, *all; /* ends with NULL; owned */
    double frozen_max; /* a share of its layers; 0: not set */
};
/* Reads the environment; false: there is no mate, and nothing to free. False
 * also without memory for its command. */
FIRN_API bool firn_mate_find(struct firn_mate *mate);
FIRN_API void firn_mate_free(struct firn_mate *mate);

struct firn_pair;
/* Borrows nothing but the sessions, which firn_pair_close() closes. The same
 * `seed` in all processes and at every start. */
FIRN_API enum firn_status firn_pair_open(struct firn_pair **out,
                                         struct firn_train *const train[2],
                                         uint64_t seed, struct firn_error *err);
/* firn_train_resume() of both, to one moment. */
FIRN_API enum firn_status
firn_pair_resume(struct firn_pair *pair, bool *resumed, struct firn_error *err);
/* The session whose step is next, 0 or 1; -1: there is no next step. */
FIRN_API int firn_pair_go(struct firn_pair *pair);
/* Has it steps left? */
FIRN_API bool firn_pair_runs(const struct firn_pair *pair, int which);
/* As firn_train_close(), of both: 1 when one failed, FIRN_EXIT_CHECKPOINT when
 * one was stopped. Takes NULL. */
FIRN_API int firn_pair_close(struct firn_pair *pair, struct firn_error *err);

/* A job that begins with the weights of another, which has ended (temporal
 * transfer): FIRN_AFTER is that one's folder of checkpoints, FIRN_AFTER_JOB its
 * name. Fills the shared tensor `name`; for a session that was not resumed. No
 * such variable or checkpoint: *began is false. Collective. */
FIRN_API enum firn_status firn_train_begin_after(struct firn_train *train,
                                                 const char *name, bool *began,
                                                 struct firn_error *err);

FIRN_C_END

#endif
