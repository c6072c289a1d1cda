/* loop.h - what both example trainers have in common: options and the loop.
 *
 * A trainer describes its model (struct model) and calls loop_main(). All that
 * makes training elastic is in loop.c, in about fifty lines.
 */
#ifndef EXAMPLES_LOOP_H
#define EXAMPLES_LOOP_H
#include "nn.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct options {
    int nthreads, nepochs, batch, nsamples, njudge, every, pace_ms, start_ms;
    int end_ms, slow_ms;
    int ahead; /* waits for its GPUs: firn/ahead.h */
    uint64_t seed;
    double rate, until;
    double beside; /* see gpu.h */
    bool adam, chain, quiet;
    enum nn_order order;
    const char *dir, *freeze, *text, *base, *without, *replay, *turns;
};

/* Reads options; those not given keep their values. False: an error was
 * printed. */
bool options_parse(struct options *o, int argc, char **argv);
/* Prints the usage on standard error. */
void options_say(const char *program);

/* The samples of one pass of one thread. */
struct lesson {
    const uint32_t *sample;
    size_t n;
    float weight; /* of this sub-batch in its batch; 1: all of it */
    size_t nfrozen;
    struct nn_rng *rng; /* the thread's */
};

/* A model over flat weights, in layer order: `layer_start` has nlayers + 1
 * offsets. `buffers` are a thread's own (running statistics); NULL: none. Tasks
 * that are trained together have the first `ncommon` weights in common; 0: it
 * can only be trained alone. */
struct model {
    const char *name;
    size_t nlayers, nweights, ncommon, nbuffers, nsamples, batch;
    const size_t *layer_start;
    float *weights, *buffers;
    void *self;
    double forward_s; /* learn() adds what its forward passes take */
    /* Adds the gradient of the layers that are not frozen; the mean loss. */
    double (*learn)(struct model *model, const struct lesson *lesson,
                    float *grad);
    /* The share of the test data that the model gets right; NULL: not available
     * between two steps. */
    double (*measure)(struct model *model);
    /* Prints the model's quality: "accuracy 0.871". */
    void (*judge)(struct model *model, char *line, size_t nline);
    void (*close)(struct model *model);
};

/* Opens the model by the options, with weights drawn from the seed. False: see
 * `why`. */
typedef bool model_open(struct model *model, const struct options *options,
                        char *why, size_t nwhy);

/* Seconds on a clock that only rises. */
double loop_now_s(void);

/* The whole program; its exit status. */
int loop_main(int argc, char **argv, model_open *open);

#endif
