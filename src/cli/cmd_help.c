/* cmd_help.c - firn help: lists the commands, or prints the page of one.
 */
#include "base/buf.h"
#include "base/table.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include <stdio.h>

static int list(void)
{
    struct firn_buf out = {0};
    struct table table;
    buf_puts(&out,
             "usage: firn COMMAND [options]\n\n"
             "Schedules deep-learning training jobs on GPU clusters, live "
             "or simulated.\n\ncommands:\n");
    table_init(&table, "lll");
    for (const struct command *c = command_table(); c->name; c++) {
        table_cell(&table, "");
        table_cell(&table, c->name);
        table_cell(&table, c->summary);
    }
    table_print(&table, &out);
    table_release(&table);
    buf_puts(&out, "\n'firn help COMMAND' prints the options of a command. "
                   "Example:\n\n"
                   "  firn sim --trace jobs.csv --cluster 16x4:t4 "
                   "--policy fifo,sjf,tiresias\n");
    int rc = output_write("help", &out);
    buf_release(&out);
    return rc;
}

int cmd_help(int argc, char **argv)
{
    static const struct flags_page page = {
        .command = "help",
        .usage = "[COMMAND]",
        .about = "Lists the commands, or prints the help page of one.",
    };
    static char option[] = "--help";
    int rc = flags_parse(&page, NULL, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&page, argc, argv, 0, 1, "command");
    if (rc >= 0)
        return rc;
    if (argc < 2)
        return list();
    const struct command *command = command_find(argv[1]);
    if (!command)
        return 2;
    return command->run(2, (char *[]){argv[1], option, NULL});
}
