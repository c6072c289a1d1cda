/* images.c - reads the idx files of Fashion-MNIST, or makes pictures up.
 *
 * An idx file is a big-endian header (magic, counts, sides) and bytes; zlib
 * opens it, compressed or not. A build without zlib makes pictures up.
 */
#include "images.h"
#include "nn.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef EXAMPLES_WITH_ZLIB
#include <zlib.h>
#endif

#ifdef EXAMPLES_WITH_ZLIB
static uint32_t big_endian(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 |
           b[3];
}

/* Reads the first `max` items of `size` bytes each; how many, 0: it is not a
 * whole idx file of that kind. */
static size_t read_idx(const char *path, uint8_t **out, size_t size, size_t max)
{
    size_t nheader = size > 1 ? 16 : 8;
    uint8_t header[16];
    size_t n = 0;
    gzFile file = gzopen(path, "rb");
    if (file == NULL)
        return 0;
    if (gzread(file, header, (unsigned)nheader) == (int)nheader &&
        big_endian(header) == (size > 1 ? 2051u : 2049u)) {
        n = big_endian(header + 4);
        n = n < max ? n : max;
    }
    uint8_t *bytes = n > 0 ? malloc(n * size) : NULL;
    if (bytes != NULL &&
        gzread(file, bytes, (unsigned)(n * size)) == (int)(n * size)) {
        *out = bytes;
    } else {
        free(bytes);
        n = 0;
    }
    gzclose(file);
    return n;
}

static bool read_files(struct images *out, const char *folder, bool trains,
                       size_t max)
{
    char path[512];
    const char *which = trains ? "train" : "t10k";
    struct images got = {.is_real = true};
    snprintf(path, sizeof path, "%s/%s-images-idx3-ubyte.gz", folder, which);
    got.n = read_idx(path, &got.pixels, IMAGE_AREA, max);
    snprintf(path, sizeof path, "%s/%s-labels-idx1-ubyte.gz", folder, which);
    size_t nlabels = read_idx(path, &got.labels, 1, max);
    if (got.n == 0 || nlabels != got.n) {
        images_release(&got);
        return false;
    }
    *out = got;
    return true;
}
#endif

/* Pattern `kind` at (x, y): a sum of three waves of its own. */
static double pattern(int kind, double x, double y)
{
    struct nn_rng rng = {.state = (uint64_t)kind * 977 + 5};
    double value = 0;
    for (int wave = 0; wave < 3; wave++) {
        double along = 0.6 * nn_uniform(&rng) - 0.3;
        double across = 0.6 * nn_uniform(&rng) - 0.3;
        double phase = 6.28 * nn_uniform(&rng);
        value += sin(along * x + across * y + phase);
    }
    return value / 3;
}

static void draw(uint8_t *pixels, int kind, struct nn_rng *rng)
{
    double dx = 6 * nn_uniform(rng) - 3;
    double dy = 6 * nn_uniform(rng) - 3;
    double strength = 40 + 50 * nn_uniform(rng);
    for (int i = 0; i < IMAGE_AREA; i++) {
        double x = i % IMAGE_SIDE + dx;
        double y = (double)(i / IMAGE_SIDE) + dy;
        double v =
            110 + strength * pattern(kind, x, y) + 45 * (double)nn_normal(rng);
        pixels[i] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
    }
}

static bool make_up(struct images *out, bool trains, size_t n)
{
    struct nn_rng rng = {.state = trains ? 11 : 22};
    struct images made = {.n = n};
    made.pixels = malloc(n * IMAGE_AREA + 1);
    made.labels = malloc(n + 1);
    if (made.pixels == NULL || made.labels == NULL) {
        images_release(&made);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        made.labels[i] = (uint8_t)(nn_uniform(&rng) * IMAGE_KINDS);
        draw(made.pixels + i * IMAGE_AREA, made.labels[i], &rng);
    }
    *out = made;
    return true;
}

bool images_load(struct images *out, bool for_training, size_t max, char *why,
                 size_t nwhy)
{
#ifdef EXAMPLES_WITH_ZLIB
    const char *named = getenv("FIRN_IMAGES");
    static const char *const usual = "/usr/share/datasets/fashion-mnist";
    if (read_files(out, named ? named : usual, for_training, max))
        return true;
    if (named != NULL && named[0] != '\0') {
        snprintf(why, nwhy, "no whole Fashion-MNIST files in %s", named);
        return false;
    }
#endif
    if (make_up(out, for_training, max))
        return true;
    snprintf(why, nwhy, "no memory for %zu pictures", max);
    return false;
}

void images_release(struct images *images)
{
    free(images->pixels);
    free(images->labels);
    *images = (struct images){0};
}

void images_take(float *out, const struct images *images, size_t i, int dx,
                 int dy)
{
    const uint8_t *pixels = images->pixels + i * IMAGE_AREA;
    for (int y = 0; y < IMAGE_SIDE; y++)
        for (int x = 0; x < IMAGE_SIDE; x++) {
            int fx = x + dx;
            int fy = y + dy;
            bool is_in =
                fx >= 0 && fx < IMAGE_SIDE && fy >= 0 && fy < IMAGE_SIDE;
            float v = is_in ? (float)pixels[fy * IMAGE_SIDE + fx] : 0;
            out[y * IMAGE_SIDE + x] = v / 127.5F - 1;
        }
}
