/* fdlimit.h - the descriptors of a daemon, and the share for HTTP callers.
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

/* Call around the start of a program: it gets the limit that this process had
 * before fdlimit_raise(). Old programs close as many descriptors as the limit
 * allows, or use select(). */
void fdlimit_child_begin(void);
void fdlimit_child_end(void);

#endif
