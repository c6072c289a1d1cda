/* cmd_completion.c - `firn completion SHELL`: a completion script for a shell.
 *
 * The scripts read commands and options from firn's own help pages, so they
 * always match the program. Names of jobs and nodes come from firnd, which has
 * half a second to answer; names with unusual characters are dropped. To
 * complete job names for a new command, add it to JOB_COMMANDS.
 */
#include "base/buf.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include <string.h>

static const struct flags_page page = {
    .command = "completion",
    .usage = "bash|zsh|fish",
    .about = "Prints a script that completes commands, options, jobs and nodes "
             "in a shell:\n\n"
             "    bash    source <(firn completion bash)\n"
             "    zsh     source <(firn completion zsh), after compinit\n"
             "    fish    firn completion fish | source",
};

/* Commands whose operands are jobs or nodes; subcommands of `trace`. */
#define JOB_COMMANDS \
    "show logs attach cancel hold release wait priority resize why eta"
#define NODE_COMMANDS  "drain undrain"
#define TRACE_COMMANDS "stat convert gen export formats"
#define SHELLS         "bash zsh fish"

/* Shell commands that print firn's commands, the options of a command, and the
 * names in a column of a table. */
#define COMMANDS_OF "command firn help | awk '/^  [a-z]/ { print $1 }'"
#define OPTIONS_OF(command)                       \
    "command firn " command " --help 2>/dev/null" \
    " | grep -oE -e '(^|[ ,])--[a-z-]+' | tr -d ' ,'"
#define NAMES_OF(command, column)                        \
    "command firn " command " --timeout 0.5 2>/dev/null" \
    " | awk 'NR > 1 { print $" column " }'"              \
    " | grep -E '^[A-Za-z0-9._-]+$'"

static const char bash[] =
    "# Completion of firn for bash: source <(firn completion bash)\n"
    "_firn()\n"
    "{\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} words=\n"
    "    local first=${COMP_WORDS[1]}\n"
    "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
    "        words=$(" COMMANDS_OF ")\n"
    "    elif [[ $word == -* ]]; then\n"
    "        words=$(" OPTIONS_OF(
        "\"$first\"") ")\n"
                      "    elif [[ ' " JOB_COMMANDS
                      " ' == *\" $first \"* ]]; then\n"
                      "        words=$(" NAMES_OF(
                          "ls",
                          "2") ")\n"
                               "    elif [[ ' " NODE_COMMANDS
                               " ' == *\" $first \"* ]]; then\n"
                               "        words=$(" NAMES_OF(
                                   "nodes",
                                   "1") ")\n"
                                        "    elif [ \"$first\" = help ]; then\n"
                                        "        words=$(" COMMANDS_OF ")\n"
                                        "    elif [ \"$first\" = trace ]; "
                                        "then\n"
                                        "        words='" TRACE_COMMANDS "'\n"
                                        "    elif [ \"$first\" = completion ]; "
                                        "then\n"
                                        "        words='" SHELLS "'\n"
                                        "    fi\n"
                                        "    COMPREPLY=($(compgen -W "
                                        "\"$words\" -- \"$word\"))\n"
                                        "    [ ${#COMPREPLY[@]} -gt 0 ] || "
                                        "COMPREPLY=($(compgen -f -- "
                                        "\"$word\"))\n"
                                        "}\n"
                                        "complete -F _firn firn\n";

static const char zsh[] =
    "#compdef firn\n"
    "# Completion of firn for zsh: source <(firn completion zsh)\n"
    "_firn()\n"
    "{\n"
    "    local first=${words[2]}\n"
    "    local -a list\n"
    "    if (( CURRENT == 2 )); then\n"
    "        list=(${(f)\"$(" COMMANDS_OF ")\"})\n"
    "    elif [[ ${words[CURRENT]} == -* ]]; then\n"
    "        list=(${(f)\"$(" OPTIONS_OF(
        "\"$first\"") ")\"})\n"
                      "    elif [[ ' " JOB_COMMANDS
                      " ' == *\" $first \"* ]]; then\n"
                      "        list=(${(f)\"$(" NAMES_OF(
                          "ls",
                          "2") ")\"})\n"
                               "    elif [[ ' " NODE_COMMANDS
                               " ' == *\" $first \"* ]]; then\n"
                               "        list=(${(f)\"$(" NAMES_OF(
                                   "nodes",
                                   "1") ")\"})\n"
                                        "    elif [[ $first == help ]]; then\n"
                                        "        list=(${(f)\"$(" COMMANDS_OF
                                        ")\"})\n"
                                        "    elif [[ $first == trace ]]; then\n"
                                        "        list=(" TRACE_COMMANDS ")\n"
                                        "    elif [[ $first == completion ]]; "
                                        "then\n"
                                        "        list=(" SHELLS ")\n"
                                        "    fi\n"
                                        "    compadd -a list || _files\n"
                                        "}\n"
                                        "compdef _firn firn\n";

static const char fish[] =
    "# Completion of firn for fish: firn completion fish | source\n"
    "function __firn_words\n"
    "    set -l words (commandline -opc)\n"
    "    set -l first $words[2]\n"
    "    if test (count $words) -eq 1\n"
    "        " COMMANDS_OF "\n"
    "    else if string match -q -- '-*' (commandline -ct)\n"
    "        " OPTIONS_OF(
        "$first") "\n"
                  "    else if contains -- $first " JOB_COMMANDS "\n"
                  "        " NAMES_OF(
                      "ls",
                      "2") "\n"
                           "    else if contains -- $first " NODE_COMMANDS "\n"
                           "        " NAMES_OF(
                               "nodes",
                               "1") "\n"
                                    "    else if test \"$first\" = help\n"
                                    "        " COMMANDS_OF "\n"
                                    "    else if test \"$first\" = trace\n"
                                    "        string split ' ' '" TRACE_COMMANDS
                                    "'\n"
                                    "    else if test \"$first\" = completion\n"
                                    "        string split ' ' '" SHELLS "'\n"
                                    "    end\n"
                                    "end\n"
                                    "complete -c firn -a '(__firn_words)'\n";

static const struct {
    const char *name, *script;
} shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};

int cmd_completion(int argc, char **argv)
{
    struct firn_buf out = {0};
    int rc = flags_parse(&page, NULL, &argc, argv);
    if (rc >= 0)
        return rc;
    for (size_t i = 0; argc == 2 && i < sizeof shells / sizeof *shells; i++)
        if (strcmp(argv[1], shells[i].name) == 0)
            buf_puts(&out, shells[i].script);
    if (out.n == 0)
        return flags_wrong(&page,
                           "no known shell given: use bash, zsh or fish");
    rc = output_write("completion", &out);
    buf_release(&out);
    return rc;
}
