/* version.h - which firn this is.
 *
 * The Makefile reads the numbers here for the soname and the pkg-config file.
 */
#ifndef FIRN_VERSION_H
#define FIRN_VERSION_H

#define FIRN_VERSION_MAJOR 0
#define FIRN_VERSION_MINOR 1
#define FIRN_VERSION_PATCH 0
#define FIRN_VERSION       "0.1.0"

#endif
