/* adaptdlshelf.h - the applications that a run of AdaptDL's simulator met.
 *
 * Tables are read when an application first comes, from
 * ROOT/pollux/apps/APP and ROOT/pollux/interpolated.
 */
#ifndef COMPAT_ADAPTDLSHELF_H
#define COMPAT_ADAPTDLSHELF_H
#include "base/vec.h"
#include "compat/adaptdlapp.h"

enum {
    ADL_NODES = 16,
    ADL_GPUS_PER_NODE = 4,
    ADL_GPUS = ADL_NODES * ADL_GPUS_PER_NODE,
};

/* Iterations at one total batch, by GPUs, as Optimus predicts them. */
struct adlguess {
    double batch;
    double iteration_s[ADL_GPUS + 1]; /* 0: not asked yet */
};

struct adlentry {
    char *name;
    struct adlapp truth;
    struct adlsteps steps;
    struct adllimits limits;
    int gpus_max;       /* ever; 0: as many as its batch allows */
    double tuned_batch; /* of one that may choose; 0: it does choose */
    VEC(struct adlguess *) guesses;
};

/* Zeroed but for `root`, which is borrowed: nothing was met yet. */
struct adlshelf {
    const char *root;
    VEC(struct adlentry *) entries;
};

void adlshelf_release(struct adlshelf *shelf);

/* FIRN_ENOENT with the applications there are, or that there are no tables. The
 * entry lives as long as the shelf. */
enum firn_status adlshelf_find(struct adlshelf *shelf, const char *name,
                               struct adlentry **out, struct firn_error *err);

/* The guesses at one total batch; they live as long as the entry. */
struct adlguess *adlentry_guess(struct adlentry *entry, double batch);

/* Q7: what Optimus believes one iteration at that batch takes on r packed
 * GPUs: the truth, but two passes on one GPU whatever the batch. */
double adlguess_s(struct adlguess *guess, const struct adlentry *entry,
                  int gpus);

/* How long a job takes alone on that many packed GPUs at that batch, without
 * rounds, rounding or restarts. */
double adlentry_alone_s(const struct adlentry *entry, double batch, int gpus);

#endif
