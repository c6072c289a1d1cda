/* passenv.h - which variables of the scheduler's environment its jobs get.
 *
 * A daemon's environment has what its operator put there: keys of a cloud,
 * tokens, addresses. Jobs get a list of names that programs need or that tune
 * libraries, and what the operator adds to it by the option `pass-env`:
 *
 *     NAME        this variable
 *     PREFIX*     all whose names begin so; "*" alone: all
 *
 * separated by commas or blanks. FIRN_* is never passed on.
 */
#ifndef ENGINE_PASSENV_H
#define ENGINE_PASSENV_H
#include <firn/status.h>
#include <stdbool.h>

/* "NAME=value": is it passed on, with `more` as pass-env has it? */
bool passenv_has(const char *variable, const char *more);
/* FIRN_EINVAL names a word of pass-env that is no name. */
enum firn_status passenv_check(const char *more, struct firn_error *err);

#endif
