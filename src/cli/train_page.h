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

/* Two checkpoints and their differences. */
struct train_diff {
    const char *left_path, *right_path;
    const struct firn_ckpt *left, *right;
    struct firn_ckpt_difference *at;
    size_t n;
    struct train_group *groups; /* in the order of the files */
    size_t ngroups;
};

void train_diff_init(struct train_diff *diff, const char *left_path,
                     const struct firn_ckpt *left, const char *right_path,
                     const struct firn_ckpt *right);
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
