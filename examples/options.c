/* options.c - the options of the example trainers.
 *
 * Pairs of a name and a value. The command of a co-trained job (firn/mate.h) is
 * read by the same table.
 */
#include "loop.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: %s [OPTION VALUE]...\n"
    "Trains a small network with libfirn_train, on several processes if\n"
    "torchrun's variables (RANK, WORLD_SIZE, ...) are set.\n"
    "  --threads V      virtual ranks (default: FIRN_THREADS, else processes)\n"
    "  --epochs N       passes over the data (4)\n"
    "  --batch N        samples of all threads together (32)\n"
    "  --samples N      size of the data set (4096)\n"
    "  --seed N         seed of weights and data order (1)\n"
    "  --optimizer O    sgd or adam (sgd)\n"
    "  --rate R         learning rate (0.05; with adam 0.002)\n"
    "  --dir DIR        folder for checkpoints (FIRN_DIR, else none)\n"
    "  --every N        steps between checkpoints (only at stops and the end)\n"
    "  --freeze RULE    off, penalty, freezeout (FIRN_FREEZE, else off)\n"
    "  --replay FILE    repeat the freezing decisions of this checkpoint\n"
    "  --order O        order of sums: sequential, four, eight (sequential)\n"
    "  --chain 1        little memory: sums of blocks instead of slots\n"
    "  --text FILE      training text of the language model\n"
    "  --base FILE      fine-tune the last block and head of a language "
    "model:\n"
    "                   a checkpoint, or seed:N\n"
    "  --without X      leave out a rule: rng, buffers, sampler, sum, passes\n"
    "  --until SHARE    end when this share of the test data is right, looked\n"
    "                   at every epoch (language model)\n"
    "  --judge N        pictures or windows of the test data (1000)\n"
    "  --pace MS        milliseconds to sleep in every step\n"
    "  --turns DIR      a virtual GPU, with files in DIR: a thread's step "
    "takes\n"
    "                   the pace by the clock, whatever the CPUs do "
    "meanwhile\n"
    "  --beside N       beside another trainer on the virtual GPU, N %% of its "
    "pace\n"
    "                   more (50)\n"
    "  --start MS       the first step begins MS after the program\n"
    "  --slow MS        the first ten steps on the virtual GPU take MS more, "
    "in\n"
    "                   which it is idle\n"
    "  --end MS         ends MS behind the last step, as one that writes its "
    "model\n"
    "  --ahead 1        may be started before its GPUs are free: waits for "
    "them\n"
    "  --quiet 1        print only the last line\n";

void options_say(const char *program)
{
    fprintf(stderr, usage, program);
}

struct flag {
    const char *name;
    int *number;
    const char **text;
};

static bool set_flag(const struct flag *flag, const char *value)
{
    if (flag->text != NULL) {
        *flag->text = value;
        return true;
    }
    char *end = NULL;
    long n = strtol(value, &end, 10);
    if (end == value || *end != '\0' || n < 0 || n > 1000000000)
        return false;
    *flag->number = (int)n;
    return true;
}

bool options_parse(struct options *o, int argc, char **argv)
{
    int seed = 1;
    int chain = 0;
    int quiet = 0;
    int beside_percent = 50;
    const char *optimizer = "sgd";
    const char *rate = NULL;
    const char *until = NULL;
    const char *order = "sequential";
    const struct flag flags[] = {
        {"--threads", &o->nthreads, NULL}, {"--epochs", &o->nepochs, NULL},
        {"--batch", &o->batch, NULL},      {"--samples", &o->nsamples, NULL},
        {"--seed", &seed, NULL},           {"--every", &o->every, NULL},
        {"--chain", &chain, NULL},         {"--quiet", &quiet, NULL},
        {"--pace", &o->pace_ms, NULL},     {"--judge", &o->njudge, NULL},
        {"--optimizer", NULL, &optimizer}, {"--rate", NULL, &rate},
        {"--dir", NULL, &o->dir},          {"--freeze", NULL, &o->freeze},
        {"--replay", NULL, &o->replay},    {"--order", NULL, &order},
        {"--text", NULL, &o->text},        {"--without", NULL, &o->without},
        {"--base", NULL, &o->base},        {"--until", NULL, &until},
        {"--turns", NULL, &o->turns},      {"--start", &o->start_ms, NULL},
        {"--ahead", &o->ahead, NULL},      {"--end", &o->end_ms, NULL},
        {"--slow", &o->slow_ms, NULL},     {"--beside", &beside_percent, NULL},
    };
    for (int i = 1; i < argc; i += 2) {
        size_t f = 0;
        while (f < sizeof flags / sizeof *flags &&
               strcmp(flags[f].name, argv[i]) != 0)
            f++;
        if (f == sizeof flags / sizeof *flags || i + 1 == argc ||
            !set_flag(&flags[f], argv[i + 1])) {
            fprintf(stderr, "%s: %s%s%s\n", argv[0], argv[i],
                    i + 1 < argc ? " " : "", i + 1 < argc ? argv[i + 1] : "");
            return false;
        }
    }
    o->seed = (uint64_t)seed;
    o->chain = chain != 0;
    o->quiet = quiet != 0;
    o->beside = beside_percent / 100.0;
    o->adam = strcmp(optimizer, "adam") == 0;
    o->until = until ? strtod(until, NULL) : 0;
    o->rate = rate ? strtod(rate, NULL) : o->adam ? 0.002 : 0.05;
    return nn_order_named(order, &o->order) && o->rate > 0 && o->batch > 0 &&
           o->nsamples > 0 && (o->adam || strcmp(optimizer, "sgd") == 0);
}
