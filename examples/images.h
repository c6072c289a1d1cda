/* images.h - 28 x 28 pictures of ten kinds, with labels.
 *
 * Fashion-MNIST where Debian's dataset-fashion-mnist is installed (or
 * $FIRN_IMAGES names its folder), and a set generated from a seed otherwise:
 * ten blurred patterns, moved about, in noise. The program prints which one it
 * uses.
 */
#ifndef EXAMPLES_IMAGES_H
#define EXAMPLES_IMAGES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IMAGE_SIDE = 28, IMAGE_AREA = 784, IMAGE_KINDS = 10 };

struct images {
    uint8_t *pixels; /* n * IMAGE_AREA */
    uint8_t *labels;
    size_t n;
    bool is_real;
};

/* Reads at most `max` pictures for training or for testing. False: memory is
 * short or a file is damaged; `why` says which. */
bool images_load(struct images *out, bool for_training, size_t max, char *why,
                 size_t nwhy);
void images_release(struct images *images);

/* A picture as numbers around 0, moved by (dx, dy). */
void images_take(float *out, const struct images *images, size_t i, int dx,
                 int dy);

#endif
