/* visionpeak.h - peak GPU memory of training convolutional networks, and of
 * anything that was measured at two batches.
 *
 * Networks by name: resnet18 to resnet152, convnext-tiny to convnext-large,
 * unet-sd15 (the U-Net of Stable Diffusion 1.5, with 77 tokens of text). Their
 * layers are counted from shapes; what a layer keeps grows with the image's
 * area and with the batch:
 *
 *   convolution, batch norm, ReLU   the norm's input and the ReLU's output
 *   block of ConvNeXt               12 d: its input, the convolution's and the
 *                                   norm's output, 4 d before and behind the
 *                                   GELU, the second product's output
 *   residual block of a U-Net       3 c_in + 3 c_out: each norm's input and
 *                                   output, each SiLU's output
 *   transformer block of a U-Net    31 d
 *
 * A vision transformer is one of arch.h's architectures.
 *
 * What no table has is predicted from its own measurements: peaks at two
 * batches give a line.
 */
#ifndef FIRN_VISIONPEAK_H
#define FIRN_VISIONPEAK_H
#include <firn/peak.h>

FIRN_C_BEGIN

/* The networks known by name: their number, and each name. */
FIRN_API size_t firn_vision_count(void);
FIRN_API const char *firn_vision_name(size_t i);

/* FIRN_ENOENT: no such network. */
FIRN_API enum firn_status firn_vision_find(size_t *i, const char *name,
                                           struct firn_error *err);

struct firn_vision_job {
    size_t network;
    int image; /* side in pixels, of a U-Net in latents; 0: 224, of a U-Net 64.
                * A multiple of 32, of a U-Net of 8 */
    int micro_batch;
    enum firn_peak_mode mode;
    enum firn_peak_optimizer optimizer;
};

struct firn_vision_peak {
    double params;
    /* At the moment of the peak; their sum is expected. */
    double weights_mib, casts_mib, moments_mib, gradients_mib, scratch_mib,
        activations_mib, workspace_mib;
    double low_mib, expected_mib, high_mib, device_mib;
    bool is_measured; /* the kind and precision were measured on a GPU */
};

/* FIRN_EINVAL with the number that makes no sense. */
FIRN_API enum firn_status firn_vision_peak_of(const struct firn_vision_job *job,
                                              struct firn_vision_peak *out,
                                              struct firn_error *err);

/* Two measured peaks, at different batches. */
struct firn_peak_points {
    int batch[2];
    double mib[2];
};

struct firn_peak_line {
    double base_mib, sample_mib; /* of the line */
    double low_mib, expected_mib, high_mib;
};

/* "16=2100,64=7200" */
FIRN_API enum firn_status firn_peak_points_read(struct firn_peak_points *out,
                                                const char *text,
                                                struct firn_error *err);

/* The peak at `batch` on the line through both points. The interval is 5 %,
 * and 5 % more for each doubling beyond the points, 12.5 % at most. A line that
 * falls is taken as flat at its higher point. */
FIRN_API enum firn_status
firn_peak_line_at(const struct firn_peak_points *points, int batch,
                  struct firn_peak_line *out, struct firn_error *err);

FIRN_C_END

#endif
