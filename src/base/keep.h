/* keep.h - state that outlives the process, as text with owner and version.
 *
 *     keep_begin(&out, "policy sia", 1);
 *     keep_double(&out, round_s);
 *
 *     struct keep in;
 *     FIRN_TRY(keep_open(&in, bytes, "policy sia", 1, err));
 *     double round_s = keep_read_double(&in);
 *     FIRN_TRY(keep_close(&in, err));
 *     sia->round_s = round_s;
 *
 * The first line has the owner and the version of the format; the rest are
 * numbers with all their digits and texts, so they read back as the same bits
 * on any machine. Reading never fails in the middle: after a missing field all
 * further ones are 0, and keep_close() returns the error. So read into local
 * variables, and use them only after keep_close().
 */
#ifndef BASE_KEEP_H
#define BASE_KEEP_H
#include "base/map.h"
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>

void keep_begin(struct firn_buf *out, const char *whose, int version);
void keep_double(struct firn_buf *out, double value);
void keep_int(struct firn_buf *out, long value);
void keep_text(struct firn_buf *out, const char *text);
/* All names of a map, by number. */
void keep_names(struct firn_buf *out, const struct map *names);

struct keep {
    const char *whose;
    const char *at, *end;
    bool is_bad;
};

/* FIRN_EDATA for another owner or version. `whose` and the bytes are borrowed
 * until keep_close(). */
enum firn_status keep_open(struct keep *in, struct firn_bytes bytes,
                           const char *whose, int version,
                           struct firn_error *err);
double keep_read_double(struct keep *in);
/* A number outside of min..max is an error, and reads as min. */
long keep_read_int(struct keep *in, long min, long max);
/* Returns `*n` bytes, without a NUL at the end; they live as long as the bytes
 * given. */
const char *keep_read_text(struct keep *in, size_t *n);
/* Into an empty map, under the same numbers. */
void keep_read_names(struct keep *in, struct map *names);
/* FIRN_EDATA: a field was missing or wrong, or bytes are left. */
enum firn_status keep_close(struct keep *in, struct firn_error *err);

#endif
