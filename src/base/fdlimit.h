/* fdlimit.h - how many descriptors a daemon may have, and which part of them
 * its callers may take.
 *
 * A scheduler without a free descriptor can neither read how a job ended nor
 * write its state. So the soft limit is raised to the hard one at the start,
 * and the HTTP server takes connections only up to its share: the rest is for
 * jobs, files and the database.
 */
#ifndef BASE_FDLIMIT_H
#define BASE_FDLIMIT_H

enum {
    /* Kept for all but HTTP: a job that runs here has one descriptor, a start
     * about ten for a moment, the database four. Half of the limit where it is
     * lower than twice this number. */
    FDLIMIT_RESERVE = 256,
    /* Descriptors that one connection takes at most: its own, and a log. */
    FDLIMIT_PER_CONNECTION = 2
};

/* Raises the soft limit of this process to its hard limit, once. */
void fdlimit_raise(void);
/* The most connections that one of `nservers` HTTP servers may have, `most` if
 * the limit of this process allows it; at least 1. */
unsigned fdlimit_http_share(unsigned most, unsigned nservers);

/* Around the start of a program: it gets the limit that this process had before
 * fdlimit_raise(), for old programs take a high limit for a number of
 * descriptors to close, or use select(). */
void fdlimit_child_begin(void);
void fdlimit_child_end(void);

#endif
