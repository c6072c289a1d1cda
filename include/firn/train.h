/* train.h - one process's part of an elastic training job.
 *
 * Ties the pieces together for a trainer that has none of its own: contexts
 * (firn/threads.h), the fixed-order mean (firn/group.h), checkpoints
 * (firn/ckpt.h), freezing (firn/freezer.h), reports and orders
 * (firn/report.h). Each can be used without this one; the PyTorch layer does.
 *
 *     firn_train_open(&t, &config, &err);
 *     firn_threads_part(firn_train_threads(t), "rng", &rng, sizeof rng, &err);
 *     firn_train_shared(t, "weights", FIRN_CKPT_F32, w, nbytes, &err);
 *     firn_train_resume(t, &resumed, &err);
 *     while (firn_train_go(t)) {
 *         for (int v; (v = firn_train_enter(t)) >= 0;) {
 *             ... forward and backward of thread v into `grad` ...
 *             firn_train_leave(t, grad, loss);
 *         }
 *         firn_train_mean(t, mean);
 *         ... update from element firn_train_start(t) on ...
 *     }
 *     status = firn_train_close(t, &err);    (the program's exit status)
 *
 * The same bits come out for every number of processes and every placement of
 * the threads, across checkpoints, SIGUSR1 and kill -9, provided that what the
 * trainer computes for a thread depends on shared tensors, the thread's parts
 * and the thread's number only.
 *
 * Failures after open() are kept: go() ends the loop, close() returns them.
 *
 * Frozen layers make a step worth less, which is paid back by extra steps
 * (firn/freezer.h): an epoch is steps_per_epoch ordinary steps and the extra
 * ones that they owe. A decision is taken by process 0 at the end of an epoch
 * or when it is ordered, sent to all processes, logged, and written to a
 * checkpoint at once, so that a killed job never takes it again.
 *
 * From the environment, where the config is silent: torchrun's RANK,
 * WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT (the group
 * meets on the port above it), and
 *   FIRN_JOB, FIRN_ATTEMPT, FIRN_URL, FIRN_TOKEN   set by the scheduler
 *   FIRN_GROUP_KEY set by the scheduler: the key of firn/group.h, which
 *                  processes on several hosts need
 *   FIRN_THREADS   V
 *   FIRN_LAYOUT    owner of each thread, "0,0,1,2"
 *   FIRN_DIR       folder of checkpoints
 *   FIRN_CKPT_EVERY_S  seconds between two, by process 0's clock: one is
 *                  written at the first boundary after them; the config's
 *                  every_steps holds beside it
 *   FIRN_FREEZE    off | penalty | freezeout
 *   FIRN_FREEZE_MAX  the share of layers that may be frozen, by whatever rule
 *                  or order; it holds beside the config's own
 *   FIRN_PASSES    sub-batches of a batch
 *   FIRN_SUM       tree | chain: the order of sums (firn/fold.h)
 *   FIRN_PEER_TIMEOUT_S  seconds after which a silent process is given up
 *   FIRN_BATCH     samples of a step, over all threads
 *   FIRN_BATCH_RULE  none | linear | sqrt | adascale (firn/batchrule.h)
 *   FIRN_FROZEN    layers to freeze at this start, if FIRN_FREEZE has a rule;
 *                  the rule goes on from there
 * Jobs of more than one process that run on a host at once
 * need different FIRN_JOB or MASTER_PORT.
 */
#ifndef FIRN_TRAIN_H
#define FIRN_TRAIN_H
#include <firn/batchrule.h>
#include <firn/can.h>
#include <firn/ckpt.h>
#include <firn/feed.h>
#include <firn/fold.h>
#include <firn/freezer.h>
#include <firn/gradstat.h>
#include <firn/group.h>
#include <firn/mate.h>
#include <firn/passes.h>
#include <firn/report.h>
#include <firn/status.h>
#include <firn/task.h>
#include <firn/threads.h>

FIRN_C_BEGIN

struct firn_train;

/* A part of a layer: elements start to start + n - 1 of the flat gradient. A
 * layer may have several, in any places; ranges do not overlap. */
struct firn_train_range {
    size_t layer, start, n;
};

struct firn_train_config {
    const char *name; /* NULL: FIRN_JOB, else "train" */
    int nthreads;     /* V; 0: FIRN_THREADS, else the number of processes */
    size_t nlayers;   /* groups of parameters that freeze together */
    const size_t *layer_start; /* nlayers + 1 offsets into the flat gradient,
                                  the layer nearest to the input first. NULL:
                                  `range` says where layers lie */
    const struct firn_train_range *range; /* where layers are not one behind
                                             the other; copied */
    size_t nranges;
    uint64_t nepochs, steps_per_epoch; /* of effective training */
    const char *dir;       /* NULL: FIRN_DIR; neither: no checkpoints */
    uint64_t every_steps;  /* steps between checkpoints; 0: at stops and the
                              end */
    unsigned keep;         /* 0: two */
    int report_every;      /* steps; 0: 10 */
    bool chain;            /* little memory (firn/group.h) */
    enum firn_sum sum;     /* the order of sums. FIRN_SUM_DEFAULT: FIRN_SUM,
                              else that of the checkpoint, else the tree */
    double peer_timeout_s; /* how long a process waits for another; 0:
                              FIRN_PEER_TIMEOUT_S, else 300 */
    struct firn_freezer_config freeze;  /* no rule: by FIRN_FREEZE; nlayers
                                           and nelements are filled in */
    const struct firn_decision *replay; /* decisions to take instead of own */
    size_t nreplay;
    const struct firn_mate *as; /* the session of that job (firn/mate.h), which
                                   goes before FIRN_JOB, FIRN_DIR, ...; it has
                                   no FIRN_LAYOUT, and the next port. NULL */
    const struct firn_sampler *sampler; /* whose batches are the steps: another
                                   batch can be ordered then, and
                                   steps_per_epoch is firn_sampler_batches().
                                   NULL: the batch stays */
};

/* Bytes of the public struct called `name` ("firn_group_config") in this
 * library; 0 for a name that it does not know. For bindings in other languages
 * that repeat the struct: they compare before they call anything else. */
FIRN_API size_t firn_struct_size(const char *name);

FIRN_API enum firn_status firn_train_open(struct firn_train **out,
                                          const struct firn_train_config *c,
                                          struct firn_error *err);
FIRN_API struct firn_threads *firn_train_threads(struct firn_train *train);
FIRN_API struct firn_group *firn_train_group(struct firn_train *train);
FIRN_API struct firn_freezer *firn_train_freezer(struct firn_train *train);

/* A shared tensor: in every checkpoint, filled by resume. Its name is unique
 * and does not begin with "train/" or "thread/". */
FIRN_API enum firn_status firn_train_shared(struct firn_train *train,
                                            const char *name,
                                            enum firn_ckpt_type type,
                                            void *data, size_t nbytes,
                                            struct firn_error *err);
/* Goes on from the newest whole checkpoint, when there is one. Every process
 * reads the same one. A newer one that is damaged is passed over, said in
 * firn_train_said(). */
FIRN_API enum firn_status firn_train_resume(struct firn_train *train,
                                            bool *resumed,
                                            struct firn_error *err);

/* Is there a next step? At a boundary: orders are read (by process 0, then
 * sent to all), decisions taken, checkpoints written, reports sent. */
FIRN_API bool firn_train_go(struct firn_train *train);
/* Puts the next of this process's threads in place; its number, or -1 when all
 * had their turn. */
FIRN_API int firn_train_enter(struct firn_train *train);
/* Takes it out, with its gradient (flat, from firn_train_start on; with ranges:
 * those of the layers that are not frozen) and loss. `grad` is copied and not
 * changed: it may be overwritten as soon as this returns. The thread's parts
 * are taken out, so what is in their memory belongs to no thread until the next
 * enter. */
FIRN_API void firn_train_leave(struct firn_train *train, const float *grad,
                               double loss);
/* The mean over all threads, elements from firn_train_start on (with ranges:
 * those of the layers that are not frozen); the rest of `mean` is not written.
 * `mean` may be the memory of a gradient. The same loss in all processes is in
 * firn_train_loss(). Collective; ends the step. */
FIRN_API void firn_train_mean(struct firn_train *train, float *mean);

/* Steps done, extra ones included, hence also the number of the present one,
 * from 0; mean() counts it as done. Epochs done, in the same way. */
FIRN_API uint64_t firn_train_step(const struct firn_train *train);
FIRN_API uint64_t firn_train_epoch(const struct firn_train *train);
/* The first element that still trains; where layers have ranges: among those of
 * all layers, one behind the other. */
FIRN_API size_t firn_train_start(const struct firn_train *train);
FIRN_API size_t firn_train_frozen(const struct firn_train *train); /* layers */
FIRN_API unsigned firn_train_passes(const struct firn_train *train);
/* Samples of one thread's batch in the present step, of a session with a
 * sampler: an ordered batch over V, rounded down, and no more than an epoch
 * has. It changes at the end of an epoch only, and the next epoch of data
 * begins there. 0 without a sampler. */
FIRN_API int firn_train_batch(const struct firn_train *train);
/* The factor on the learning rate that goes with the batch, by FIRN_BATCH_RULE;
 * 1 for the submitted batch. */
FIRN_API double firn_train_rate(const struct firn_train *train);
FIRN_API double firn_train_loss(const struct firn_train *train);
/* -1: this process has left the job, whose other processes go on (firn/join.h);
 * rank and threads of a process may change at each boundary. */
FIRN_API int firn_train_rank(const struct firn_train *train);
/* V, as the config or the environment says. */
FIRN_API int firn_train_nthreads(const struct firn_train *train);
/* The order of the sums: after resume() that of the checkpoint, unless the
 * config or FIRN_SUM asks for another one. */
FIRN_API enum firn_sum firn_train_sum(const struct firn_train *train);
/* Adds a time to the present step's split. Parts without a time are worked out:
 * switch and reduction always, forward as the rest between enter and leave
 * (without any time, a third of it, backward two thirds), update from the mean
 * to the next boundary. */
FIRN_API void firn_train_time(struct firn_train *train,
                              enum firn_step_part part, double seconds);
/* Says which orders the program obeys, FIRN_CAN_* of firn/can.h, instead of
 * what the library finds out by itself: resize if it resumes from a folder of
 * checkpoints; passes if it calls firn_train_passes(); freeze if it calls
 * firn_train_start() or firn_train_frozen(); partner if it calls
 * firn_mate_find(); after if it calls firn_train_begin_after(); batch if it has
 * a sampler and calls firn_train_batch() and firn_train_rate(); the others
 * never. It is reported after the first step of each start. */
FIRN_API void firn_train_can(struct firn_train *train, unsigned can);
/* The trainer's own target is met, in all processes at the same step: the next
 * boundary is the last, as if its epochs were over. */
FIRN_API void firn_train_finish(struct firn_train *train);
/* For the next report: accuracy or the like. Of a job with a target
 * (FIRN_TARGET_METRIC) all processes call it with the same value at the same
 * step: once that is at least the target the training is finished. */
FIRN_API void firn_train_metric(struct firn_train *train, double metric);
/* Something worth a line (a damaged checkpoint was passed over, ...); empty
 * when there is nothing. */
FIRN_API const char *firn_train_said(const struct firn_train *train);

/* Writes the last checkpoint unless it failed, and lets go of everything. 0:
 * trained to the end, or the trainer left the loop by itself;
 * FIRN_EXIT_CHECKPOINT: stopped as ordered, to be resumed; 1: failed, and `err`
 * says why. Takes NULL. */
FIRN_API int firn_train_close(struct firn_train *train, struct firn_error *err);

FIRN_C_END

#endif
