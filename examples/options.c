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
    "Trains a small network with libfirn_train. Started by torchrun's\n"
    "environment (RANK, WORLD_SIZE, ...), alone without it.\n"
    "  --threads V      virtual ranks (FIRN_THREADS, else the processes)\n"
    "  --epochs N       4\n"
    "  --batch N        of all threads together; 32\n"
    "  --samples N      of the data set; 4096\n"
    "  --seed N         1\n"
    "  --optimizer O    sgd or adam; sgd\n"
    "  --rate R         learning rate; 0.05, with adam 0.002\n"
    "  --dir DIR        checkpoints (FIRN_DIR; none without)\n"
    "  --every N        steps between checkpoints; at stops and the end only\n"
    "  --freeze RULE    off, penalty, freezeout (FIRN_FREEZE; off)\n"
    "  --replay FILE    takes the decisions of that checkpoint's log\n"
    "  --order O        of sums: sequential, four, eight; sequential\n"
    "  --chain 1        constant memory, for contiguous threads\n"
    "  --text FILE      what the language model reads\n"
    "  --base FILE      fine-tuning: of the language model, given by a\n"
    "                   checkpoint or as seed:N, the last block and the head\n"
    "  --without X      break it: rng, buffers, sampler, sum\n"
    "  --until SHARE    ends when so much of what it is judged by is right,\n"
    "                   which is looked at every epoch (language model)\n"
    "  --judge N        pictures or windows to judge it by; 1000\n"
    "  --pace MS        sleeps so long in every step (to be watched)\n"
    "  --quiet 1        one line at the end only\n";

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
    o->adam = strcmp(optimizer, "adam") == 0;
    o->until = until ? strtod(until, NULL) : 0;
    o->rate = rate ? strtod(rate, NULL) : o->adam ? 0.002 : 0.05;
    return nn_order_named(order, &o->order) && o->rate > 0 && o->batch > 0 &&
           o->nsamples > 0 && (o->adam || strcmp(optimizer, "sgd") == 0);
}
