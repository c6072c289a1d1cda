/* status.h - how firn says that something went wrong.
 *
 * Four kinds, never mixed: an answer is a bool or a value; a failure is an
 * enum firn_status with a sentence in a struct firn_error; a bug aborts; out
 * of memory aborts. A failing function leaves its outputs as they were, and
 * the sentence names the thing: "trace philly: line 812: 'gpus' is -1".
 */
#ifndef FIRN_STATUS_H
#define FIRN_STATUS_H
#include <firn/api.h>

FIRN_C_BEGIN

/* code, name in messages, HTTP status it maps to */
#define FIRN_STATUS_MAP(X)                     \
    X(OK, "ok", 200)                           \
    X(EINVAL, "invalid input", 400)            \
    X(ENOENT, "not found", 404)                \
    X(EDATA, "not enough data", 422)           \
    X(EIO, "input/output error", 500)          \
    X(ENOMEM, "out of memory", 500)            \
    X(EREFUSED, "plan refused", 409)           \
    X(ESTALLED, "nothing left to happen", 500) \
    X(EINTR, "interrupted", 503)               \
    X(EUNSAVED, "not written to disk", 507)    \
    X(ELIMIT, "above a limit", 429)

#define FIRN_STATUS_CODE_(code, text, http) FIRN_##code,
enum firn_status { FIRN_STATUS_MAP(FIRN_STATUS_CODE_) };
#undef FIRN_STATUS_CODE_

enum { FIRN_ERROR_TEXT = 512 };

/* A status and a sentence fit for the user. Owned by the caller's stack. */
struct firn_error {
    enum firn_status status;
    char text[FIRN_ERROR_TEXT];
};

/* The name of a status ("invalid input"); never NULL. */
FIRN_API const char *firn_status_text(enum firn_status status);

/* The HTTP status code that goes with a status. */
FIRN_API int firn_status_http(enum firn_status status);

/* Writes the sentence into `err` (which may be NULL) and returns `status`.
 * Too long a sentence is cut. */
FIRN_API enum firn_status firn_fail(struct firn_error *err,
                                    enum firn_status status, const char *fmt,
                                    ...) __attribute__((format(printf, 3, 4)));

/* Puts "context: " before the sentence that is in `err`, returns its status.
 */
FIRN_API enum firn_status firn_fail_in(struct firn_error *err,
                                       const char *context);

/* Passes a failure up unchanged. */
#define FIRN_TRY(call)                              \
    do {                                            \
        enum firn_status firn_try_status_ = (call); \
        if (firn_try_status_ != FIRN_OK)            \
            return firn_try_status_;                \
    } while (0)

/* A bug in firn itself: says where and why, then aborts, in all builds. */
#define FIRN_BUG(...) firn_bug_(__FILE__, __LINE__, __VA_ARGS__)
FIRN_API FIRN_NORETURN void firn_bug_(const char *file, int line,
                                      const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

FIRN_C_END

#endif
