/* childcmd.h - programs of others, run beside the loop: words in, text out.
 *
 * An engine that is driven by commands must never wait for one. A command is
 * started without a shell, in a process group of its own, reads what it is
 * given, and its output is gathered while it runs. One that takes longer than
 * it may is killed with all that it started. At most `nmax` run at once; the
 * rest wait in the order in which they were asked for.
 *
 *     commands_start(c, &(struct command){.argv = words, .limit_s = 10,
 *                                         .tag = SUBMIT, .about = job});
 *     ... commands_fd() is readable ...
 *     while (commands_next(c, &done))
 *         switch (done.tag) ...
 */
#ifndef ENGINE_CHILDCMD_H
#define ENGINE_CHILDCMD_H
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stdint.h>

struct command {
    const char *const *argv; /* ends with NULL; copied. argv[0] is looked for
                              * along PATH */
    const char *const *env;  /* "NAME=value" over our own, ends with NULL;
                              * copied. MAY be NULL */
    struct firn_bytes input; /* copied; empty: /dev/null */
    double limit_s;          /* from its start, not from the question */
    int tag;                 /* the asker's own: what was asked ... */
    int64_t about, more;     /* ... and of whom */
};

/* Texts end with a NUL behind `n` bytes, are cut at 64 MiB, and belong to the
 * asker of commands_next() until its next call. */
struct command_done {
    int tag;
    int64_t about, more;
    bool is_late; /* killed for its time: nobody knows what it did */
    bool has_run; /* false: it could not be started; `err` says why */
    int status;   /* as a shell tells it */
    struct firn_bytes out, err;
    double took_s;
};

struct commands;
enum firn_status commands_open(struct commands **out, int nmax,
                               struct firn_error *err);
/* Kills what runs; nobody is told. NULL is fine. */
void commands_close(struct commands *c);
/* Never fails: what cannot be started is told by commands_next(). */
void commands_start(struct commands *c, const struct command *command);
/* Readable when commands_next() may have something, or a limit has passed. */
int commands_fd(const struct commands *c);
/* The next one that is over, in the order of their ends; false: none. */
bool commands_next(struct commands *c, struct command_done *out);
/* How many run or wait; of a tag, or of all (-1). */
int commands_count(const struct commands *c, int tag);

#endif
