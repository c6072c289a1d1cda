/* memory_vision.h - `firn memory` of convolutional networks and of measured
 * peaks.
 */
#ifndef CLI_MEMORY_VISION_H
#define CLI_MEMORY_VISION_H
#include <firn/bytes.h>
#include <firn/visionpeak.h>

/* The memory of a network, term by term. */
enum firn_status memory_vision(const struct firn_vision_job *job, bool is_json,
                               struct firn_buf *out, struct firn_error *err);

/* The peak at `batch` by the line through two measured ones. */
enum firn_status memory_measured(const char *points, int batch, bool is_json,
                                 struct firn_buf *out, struct firn_error *err);

/* The names of the networks. */
void memory_vision_names(struct firn_buf *out);

#endif
