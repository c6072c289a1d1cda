/* bookwork.h - what the parts of the book share; for book*.c.
 *
 * book.c has the jobs, their states and attempts, book_word.c changes by users
 * and trainers, book_find.c finds a job by token, name or number, book_limit.c
 * limits how many there may be.
 */
#ifndef DAEMON_BOOKWORK_H
#define DAEMON_BOOKWORK_H
#include "base/vec.h"
#include "daemon/book.h"

/* A token by its keyed hash. The key is secret and drawn by each process, so
 * that the time of a search tells nothing about other tokens. */
struct token_cell {
    uint64_t hash;
    firn_job_id job; /* 0: empty; may have left memory since */
};

/* Jobs of a user that are not over; see book_limit.c. */
struct book_user {
    char *name;
    size_t nliving;
};

struct book {
    struct store *store;
    unsigned rollbacks;          /* of the store when it was read */
    struct firn_error broken;    /* the first write that failed */
    VEC(struct live_job *) jobs; /* by rising id */
    bool is_paused;
    VEC(struct live_job *) arrived; /* while paused */
    VEC(firn_job_id) over; /* in memory, in the order they came to be */
    size_t over_first;     /* those before have left */
    size_t keep;
    unsigned char key[16];
    struct token_cell *cells; /* open addressing, a power of two */
    size_t ncells, nused;
    book_listener *listener;
    void *listener_arg;
    book_now *now_s; /* NULL: the time of day */
    void *now_arg;
    char caller[BOOK_CALLER]; /* "": firnd itself */
    struct live_stop because;
    size_t jobs_max, user_max; /* 0: no limit */
    size_t nliving;
    VEC(struct book_user) users; /* those with living jobs */
};

/* The place of a job in memory, or of the first above it. */
size_t book_place(const struct book *book, firn_job_id id);
/* Remembers its token. */
void book_token_add(struct book *book, const struct live_job *job);
/* Remembers those of all jobs in memory, and no others. */
void book_tokens(struct book *book);
/* A new one, from the system's random numbers. */
void book_token_make(char out[65]);
/* Puts it into memory, in its place. */
void book_put(struct book *book, struct live_job *job);

/* A job that is not over has come into memory; it is over now. */
void book_limit_began(struct book *book, const struct live_job *job);
void book_limit_ended(struct book *book, const struct live_job *job);
void book_limit_release(struct book *book);
/* FIRN_ELIMIT: there are too many jobs for this one. */
enum firn_status book_room(struct book *book, const struct live_ask *ask,
                           struct firn_error *err);

/* FIRN_EINVAL: the job is over; FIRN_EIO: the store has rolled back. */
enum firn_status book_may_change(const struct book *book,
                                 const struct live_job *job,
                                 struct firn_error *err);
/* Writes the job and an event, and tells the listener. */
enum firn_status book_change(struct book *book, const struct live_job *job,
                             double now_s, const char *kind, const char *text,
                             struct firn_error *err);
/* All attempts of a job that is about to be over in that state have an end. */
enum firn_status book_close_all(struct book *book, struct live_job *job,
                                enum live_state state, double now_s,
                                struct firn_error *err);

#endif
