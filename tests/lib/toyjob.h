/* toyjob.h - a toy training job that shows whether it depends on its place.
 *
 * The model is a vector of weights pulled towards its samples through a random
 * mask: it has what makes real training depend on its place, namely a random
 * generator, a place in the data and running statistics for each thread, and
 * momentum that all share. A run forks its processes and trains to the end or
 * to an interruption; two runs are compared by their last checkpoints, section
 * by section.
 */
#ifndef LIB_TOYJOB_H
#define LIB_TOYJOB_H
#include <firn/train.h>

enum {
    TOY_THREADS = 4,
    TOY_LAYERS = 5,
    TOY_EPOCHS = 4,
    TOY_STEPS = 6, /* of an epoch */
    TOY_WITHOUT_RNG = 1,
    TOY_WITHOUT_BUFFERS,
    TOY_SAMPLER_BY_PROCESS,
    TOY_LOCAL_SUM
};

struct toyjob {
    char dir[256];
    int nprocs, nthreads;
    int host_procs;   /* of each of two or more hosts; 0: one host */
    const int *owner; /* NULL: even */
    bool chain;       /* little memory */
    const char *sum;  /* FIRN_SUM; NULL: none */
    bool scattered;   /* layers are not one behind the other */
    uint64_t every;
    int stop_at; /* SIGUSR1 to the victim within this step; negative: no */
    int kill_at; /* SIGKILL */
    int victim;
    int ablation;
    int passes;
    int port;
    int url_port; /* a scheduler to report to and to obey; from its fourth
                     step on the job waits for passes or a stop */
    enum firn_freezer_rule rule; /* user: the epoch, then 1 */
    const char *freeze_max;      /* FIRN_FREEZE_MAX; NULL: none */
    const char *every_s;         /* FIRN_CKPT_EVERY_S */
    bool watch_frozen;           /* checks that frozen weights rest */
    const char *expects;         /* a failure of resume; it ends with 0 then */
    const struct firn_decision *replay;
    size_t nreplay;
};

/* For cmocka's group: the folder below which all runs write. */
int toyjob_make_top(void **state);
int toyjob_remove_top(void **state);

/* A run of TOY_THREADS in an empty folder of this name. */
struct toyjob toyjob_of(const char *name, int nprocs);
/* Trains; status[rank] is the exit status. */
void toyjob_run(struct toyjob *job, int *status);
/* Trains; every process ends with `want`. */
void toyjob_go(struct toyjob *job, int want);

/* A process with a scheduler that gives these orders to each process that
 * reports; its port in *port. */
int toyjob_scheduler(const char *orders, int *port);
void toyjob_scheduler_end(int pid);

/* The last checkpoint; closed by the caller. */
struct firn_ckpt *toyjob_last(const struct toyjob *job);
uint64_t toyjob_last_step(const struct toyjob *job);
/* The decisions in it; how many. */
size_t toyjob_log(const struct toyjob *job, struct firn_decision *log,
                  size_t max);

struct toyjob_names {
    bool measured; /* what depends on the clock is passed over */
    char text[2048];
};
/* The sections in which the last checkpoints of two runs differ, each with a
 * blank behind it. */
struct toyjob_names toyjob_differences(const struct toyjob *a,
                                       const struct toyjob *b, bool measured);

#endif
