/* tidy.h - what clang-tidy cannot see across files, put before each of them.
 *
 * firn_fail() returns the status it is given, and firn_fail_in() never
 * FIRN_OK. An analyser that looks at one file at a time does not know, and
 * would follow paths on which a failure was a success.
 */
#ifndef TOOLS_TIDY_H
#define TOOLS_TIDY_H
#include <firn/status.h>

static inline enum firn_status tidy_status(enum firn_status status)
{
    return status;
}

#define firn_fail(err, status, ...) \
    (firn_fail(err, status, __VA_ARGS__), tidy_status(status))
#define firn_fail_in(err, context) \
    (firn_fail_in(err, context), tidy_status(FIRN_EINVAL))

#endif
