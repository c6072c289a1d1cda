/* range.h - one sentence for a number outside of its range. */
#ifndef MODEL_RANGE_H
#define MODEL_RANGE_H
#include <firn/status.h>

/* FIRN_EINVAL: "WHAT is VALUE; MIN to MAX are possible". */
enum firn_status range_check(const char *what, long value, long min, long max,
                             struct firn_error *err);

#endif
