/* childcmd.h - runs commands beside the loop: arguments in, output out.
 *
 * An engine must never wait for a command. A command is started without a
 * shell, in a process group of its own; its output is collected while it runs.
 * A command that exceeds its time limit is killed with its process group. At
 * most `nmax` commands run at once; the rest wait in order.
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
    const char *const *argv; /* ends with NULL; copied. argv[0] is searched
                              * along PATH */
    const char *const *env;  /* "NAME=value", replaces our own; ends with NULL;
                              * copied. MAY be NULL */
    struct firn_bytes input; /* copied; empty: /dev/null */
    double limit_s;          /* from the command's start */
    int tag;                 /* the caller's: what was asked ... */
    int64_t about, more;     /* ... and about what */
};

/* Texts end with a NUL behind `n` bytes, are cut at 64 MiB, and are valid until
 * the next call of commands_next(). */
struct command_done {
    int tag;
    int64_t about, more;
    bool is_late; /* killed at its limit: its effect is unknown */
    bool has_run; /* false: it could not be started; `err` says why */
    int status;   /* exit status as of a shell */
    struct firn_bytes out, err;
    double took_s;
};

struct commands;
enum firn_status commands_open(struct commands **out, int nmax,
                               struct firn_error *err);
/* Kills running commands without reporting them. NULL is fine. */
void commands_close(struct commands *c);
/* Never fails: commands_next() reports a command that cannot be started. */
void commands_start(struct commands *c, const struct command *command);
/* Readable when commands_next() may have something, or a limit has passed. */
int commands_fd(const struct commands *c);
/* The next command that has ended, in the order of ends; false: none. */
bool commands_next(struct commands *c, struct command_done *out);
/* How many commands with this tag (-1: any) run or wait. */
int commands_count(const struct commands *c, int tag);

#endif
