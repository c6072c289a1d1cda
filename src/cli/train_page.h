/* train_page.h - output of `firn train diff` and `firn train show`.
 */
#ifndef CLI_TRAIN_PAGE_H
#define CLI_TRAIN_PAGE_H
#include <firn/bytes.h>
#include <firn/ckpt.h>

/* A group of sections: weights, optimiser, thread contexts. */
struct train_group {
    char name[FIRN_CKPT_NAME + 1];
    size_t nsections, ndiffer;  /* sections */
    uint64_t nelements, nother; /* elements; elements that differ */
};

/* What a section holds, for --only. Bits of a set. */
enum train_kind {
    TRAIN_WEIGHTS = 1,
    TRAIN_OPTIMIZER = 2,
    TRAIN_BUFFERS = 4,
    TRAIN_GENERATORS = 8,
    TRAIN_DATA = 16,
    TRAIN_OTHER = 32,       /* the program's own sections */
    TRAIN_BOOKKEEPING = 64, /* progress, decisions, variances, the order */
    TRAIN_STATE = 63,       /* all but bookkeeping: what the bits of the
                               training go on from */
    TRAIN_ALL = 127
};

/* "weights,optimizer" as a set; 0: `word` holds a word that is none. */
unsigned train_kinds(const char *words, char word[32]);
/* All names, with commas. */
#define TRAIN_KINDS \
    "weights, optimizer, buffers, generators, data, other, bookkeeping, all"

/* Two checkpoints and their differences. */
struct train_diff {
    const char *left_path, *right_path;
    const struct firn_ckpt *left, *right;
    struct firn_ckpt_difference *at;
    size_t n;
    unsigned kinds;   /* that are compared */
    size_t nsections; /* of these kinds, in either file */
    size_t nbookkeeping, nbookkeeping_differ; /* sections; not compared */
    struct train_group *groups;               /* in the order of the files */
    size_t ngroups;
};

/* Compares sections of these kinds. */
void train_diff_init(struct train_diff *diff, const char *const paths[2],
                     const struct firn_ckpt *left,
                     const struct firn_ckpt *right, unsigned compared);
void train_diff_release(struct train_diff *diff);

/* Lists at most `most` sections. */
void train_diff_page(const struct train_diff *diff, size_t most,
                     struct firn_buf *out);
void train_diff_json(const struct train_diff *diff, struct firn_buf *out);

void train_show_page(const struct firn_ckpt *ckpt, const char *path,
                     struct firn_buf *out);
void train_show_json(const struct firn_ckpt *ckpt, const char *path,
                     struct firn_buf *out);

#endif
