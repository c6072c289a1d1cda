/* command.h - the commands of firn: one file and one line each.
 *
 * `COMMAND(sim, "summary")` in commands.def declares cmd_sim(), defined in
 * cmd_sim.c; `firn help` prints the summary. A command gets its own name as
 * argv[0] and returns the exit status: 0 success, 1 failure, 2 usage error, 130
 * interrupted.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#define COMMAND(name, summary) int cmd_##name(int argc, char **argv);
#include "cli/commands.def"
#undef COMMAND

struct command {
    const char *name;
    const char *summary; /* one line for `firn help` */
    int (*run)(int argc, char **argv);
};

/* All commands in the order of commands.def; the last row has no name. */
const struct command *command_table(void);

/* The command called `name`, or NULL after an error message. */
const struct command *command_find(const char *name);

#endif
