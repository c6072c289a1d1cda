/* command.h - the commands of firn: one file and one line each.
 *
 * `COMMAND(sim, "...")` in commands.def says that cmd_sim.c defines cmd_sim()
 * and what `firn help` says about it. A command gets its own name as argv[0]
 * and returns the exit status: 0 done, 1 failed, 2 used wrongly, 130
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

/* All of them, in the order of commands.def; the last has no name. */
const struct command *command_table(void);

/* The command called `name`; NULL, after a sentence on standard error, when
 * there is none. */
const struct command *command_find(const char *name);

#endif
