/* cmd_attach.c - `firn attach`: the terminal of a job, from both ends.
 *
 *     firn attach JOB                        the user's end
 *     firn attach --serve SOCKET -- COMMAND  the job's end; `firn run -t` makes
 *                                            it the command of the job
 */
#include "cli/command.h"
#include "cli/live.h"
#include "cli/liveterm.h"
#include "cli/pty.h"

struct args {
    struct live_args live;
    const char *serve;
};

static const struct flag table[] = {
    {"serve", 0, "SOCKET",
     "run the command on a terminal that listens on SOCKET; used by 'firn run "
     "-t'",
     flag_text, offsetof(struct args, serve)},
    LIVE_FLAGS,
    {0},
};

static const struct flags_page page = {
    .command = "attach",
    .usage = "[options] JOB\n"
             "--serve SOCKET -- COMMAND [ARGUMENT...]",
    .about = "Attaches this terminal to a job that 'firn run -t' started, on "
             "the host where the job runs. Every key goes to the job, Ctrl-C "
             "too. Ctrl-P Ctrl-Q detaches and leaves the job running. A second "
             "terminal takes the place of the first. The exit status is that "
             "of the job's command, or 0 after detaching.\nJOB is a number, a "
             "name, or a unique prefix of a name.",
    .table = table,
};

int cmd_attach(int argc, char **argv)
{
    struct args args = {0};
    struct live live;
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc >= 0)
        return rc;
    if (args.serve != NULL && !pty_is_path(args.serve))
        return flags_wrong(&page,
                           "--serve '%s' is not a path that 'firn run "
                           "-t' makes",
                           args.serve);
    if (args.serve != NULL && argc < 2)
        return flags_wrong(&page, "--serve needs a command");
    if (args.serve != NULL) {
        argv[argc] = NULL; /* ends the operands */
        return pty_serve(args.serve, argv + 1);
    }
    rc = flags_operands(&page, argc, argv, 1, 1, "job");
    if (rc >= 0)
        return rc;
    rc = live_open(&live, &page, &args.live);
    if (rc < 0) {
        client_catch_interrupts();
        rc = live_attach(&live, argv[1]);
    }
    live_close(&live);
    return rc;
}
