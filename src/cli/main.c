/* main.c - the firn program: runs the command named by its first argument.
 *
 * `firn` alone is `firn help`; --help, -h, --version and -V mean the commands
 * help and version. Each command parses its own options and returns the exit
 * status.
 */
#include "base/str.h"
#include "cli/command.h"
#include <stdio.h>
#include <string.h>

static const struct command table[] = {
#define COMMAND(name, summary) {#name, summary, cmd_##name},
#include "cli/commands.def"
#undef COMMAND
    {0},
};

enum { NCOMMANDS = sizeof table / sizeof *table - 1 };

const struct command *command_table(void)
{
    return table;
}

const struct command *command_find(const char *name)
{
    const char *names[NCOMMANDS];
    for (size_t i = 0; i < NCOMMANDS; i++) {
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
        names[i] = table[i].name;
    }
    int best = str_nearest(name, names, NCOMMANDS);
    fprintf(stderr, "firn: unknown command '%s'", name);
    if (best >= 0)
        fprintf(stderr, "; did you mean '%s'?", names[best]);
    fprintf(stderr, "\ntry 'firn help'\n");
    return NULL;
}

/* The command that an option such as --help stands for. */
static const char *alias(const char *name)
{
    static const char *const pairs[][2] = {{"--help", "help"},
                                           {"-h", "help"},
                                           {"--version", "version"},
                                           {"-V", "version"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (strcmp(name, pairs[i][0]) == 0)
            return pairs[i][1];
    return name;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return cmd_help(argc, argv);
    const struct command *command = command_find(alias(argv[1]));
    if (!command)
        return 2;
    return command->run(argc - 1, argv + 1);
}
