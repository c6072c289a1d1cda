/* sbatch.h - the #SBATCH lines of a batch script, as options of firn.
 *
 * `firn submit script.sh` takes a script that was written for sbatch. The lines
 * before the first command count, as with sbatch:
 *
 *     -J, --job-name            name
 *     -G, --gpus, --gres=gpu:N, --gpus-per-node (times --nodes), ...: GPUs
 *                               and their type ("a100:2")
 *     -D, --chdir               workdir
 *     -p, --partition           queue
 *     -d, --dependency          after: afterok, afternotok, afterany
 *     -a, --array               array
 *     -t, --time                limit
 *     --mail-type               notify: END, FAIL, REQUEUE, ALL, NONE
 *
 * Everything else is ignored and named. A function of its text.
 */
#ifndef CLI_SBATCH_H
#define CLI_SBATCH_H
#include "cli/flags.h"

enum { SBATCH_TEXT = 512 };

struct sbatch {
    char interpreter[SBATCH_TEXT]; /* of the line "#!..."; "": none */
    char name[SBATCH_TEXT], workdir[SBATCH_TEXT], queue[SBATCH_TEXT];
    char type[SBATCH_TEXT], after[SBATCH_TEXT], array[SBATCH_TEXT];
    char limit[32];      /* "3600s" */
    struct words notify; /* "end", "failure", "preemption" */
    long ngpus, nnodes;  /* 0: not given; GPUs in all or of a node: */
    bool is_per_node;
    struct words ignored; /* "--mem=10G" */
};

/* False: the text has no #SBATCH line. Release `out` in any case. */
bool sbatch_read(struct sbatch *out, const char *text);
void sbatch_release(struct sbatch *sbatch);
/* GPUs in all; 0: not given. */
long sbatch_gpus(const struct sbatch *sbatch);

/* The numbers of "0-99%10", "1,3,7" or "0-8:2", in their order: adds each to
 * `out` as text. `*at_once` is what stands behind "%", or 0. False: it is no
 * such text, or has more than 10000 numbers. */
bool array_read(const char *text, struct words *out, long *at_once);

#endif
