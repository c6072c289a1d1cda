/* passenv.h - which variables of firnd's environment its jobs get.
 *
 * A daemon's environment may hold secrets: cloud keys, tokens, addresses. So
 * jobs get only variables from a list (names that programs need or that tune
 * libraries) and those that the operator adds by the option `pass-env`:
 *
 *     NAME        this variable
 *     PREFIX*     all variables with this prefix; "*" alone: all
 *
 * separated by commas or blanks. FIRN_* is never passed on.
 */
#ifndef ENGINE_PASSENV_H
#define ENGINE_PASSENV_H
#include <firn/status.h>
#include <stdbool.h>

/* "NAME=value" is passed on; `more` is the value of pass-env. */
bool passenv_has(const char *variable, const char *more);
/* FIRN_EINVAL names the invalid part of pass-env. */
enum firn_status passenv_check(const char *more, struct firn_error *err);

#endif
