/* version.h - which firn this is.
 *
 * The Makefile reads the numbers here for the soname and the pkg-config file.
 * The soname is libfirn.so.MAJOR: a change that breaks compiled programs
 * (tests/abi says which do) raises MAJOR.
 */
#ifndef FIRN_VERSION_H
#define FIRN_VERSION_H
#include <firn/api.h>

FIRN_C_BEGIN

#define FIRN_VERSION_MAJOR 0
#define FIRN_VERSION_MINOR 1
#define FIRN_VERSION_PATCH 0
#define FIRN_VERSION       "0.1.0"

/* The version of the library that is linked or loaded, such as "0.1.0"; a
 * program compares it with FIRN_VERSION, that of the headers. */
FIRN_API const char *firn_version(void);

FIRN_C_END

#endif
