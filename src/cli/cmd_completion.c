/* cmd_completion.c - `firn completion bash`: words for the shell to complete.
 *
 * The script asks firn itself: its commands, and the options of one, are read
 * from the help pages, so that they are never out of step with the program.
 * Names of jobs and nodes are asked of the daemon, which has half a second to
 * answer; what it says is let through only if it has the letters of a name.
 */
#include "base/buf.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include <string.h>

static const struct flags_page page = {
    .command = "completion",
    .usage = "bash",
    .about = "Prints a script by which bash completes commands, options, jobs "
             "and nodes:\n\n    source <(firn completion bash)",
};

static const char script[] =
    "# Completion of firn for bash: source <(firn completion bash)\n"
    "_firn_names()\n"
    "{\n"
    "    command firn \"$@\" --timeout 0.5 2>/dev/null |\n"
    "        awk -v column=\"$column\" 'NR > 1 { print $column }' |\n"
    "        grep -E '^[A-Za-z0-9._-]+$'\n"
    "}\n"
    "_firn()\n"
    "{\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} words= column=1\n"
    "    local first=${COMP_WORDS[1]}\n"
    "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
    "        words=$(command firn help | awk '/^  [a-z]/ { print $1 }')\n"
    "    elif [[ $word == -* ]]; then\n"
    "        words=$(command firn \"$first\" --help 2>/dev/null |\n"
    "            grep -oE -e '(^|[ ,])--[a-z-]+' | tr -d ' ,')\n"
    "    else\n"
    "        case $first in\n"
    "        help) words=$(command firn help |\n"
    "            awk '/^  [a-z]/ { print $1 }') ;;\n"
    "        show | logs | cancel | hold | release | why | eta)\n"
    "            column=2 words=$(column=2 _firn_names ls) ;;\n"
    "        drain | undrain) words=$(_firn_names nodes) ;;\n"
    "        trace) words='stat convert gen export formats' ;;\n"
    "        esac\n"
    "    fi\n"
    "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
    "    [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- \"$word\"))\n"
    "}\n"
    "complete -F _firn firn\n";

int cmd_completion(int argc, char **argv)
{
    struct firn_buf out = {0};
    int rc = flags_parse(&page, NULL, &argc, argv);
    if (rc >= 0)
        return rc;
    if (argc != 2 || strcmp(argv[1], "bash") != 0)
        return flags_wrong(&page, "say bash");
    buf_puts(&out, script);
    rc = output_write("completion", &out);
    buf_release(&out);
    return rc;
}
