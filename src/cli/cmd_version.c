/* cmd_version.c - firn version: prints the version.
 */
#include "cli/command.h"
#include "cli/flags.h"
#include <firn/version.h>
#include <stdio.h>

int cmd_version(int argc, char **argv)
{
    static const struct flags_page page = {
        .command = "version",
        .about = "Prints the version.",
    };
    int rc = flags_parse(&page, NULL, &argc, argv);
    if (rc >= 0)
        return rc;
    printf("firn %s\n", FIRN_VERSION);
    return 0;
}
