/* partner.h - the other job of a training of two, by the book. */
#ifndef DAEMON_PARTNER_H
#define DAEMON_PARTNER_H
#include "daemon/book.h"

/* The other job of its present attempt, if two are trained in it; or NULL. */
struct live_job *partner_of(struct book *book, const struct live_job *job);
/* The partner whose processes train it; NULL: none. */
struct live_job *partner_lead(struct book *book, const struct live_job *job);

#endif
