/* slurm_rights.c - may firnd's user change jobs of other users?
 *
 * The inbox needs that right. It is asked for once, at the start, so that a
 * site hears of its lack before the first job waits for it. Slurm gives it to
 * root, to SlurmUser, and with accounting to operators and administrators:
 *
 *     scontrol show config                        SlurmUser = slurm(64030)
 *     sacctmgr -nP show user NAME format=AdminLevel    Operator
 *
 * Coordinators of an account may change jobs of that account only, so they are
 * warned too. A question that fails decides nothing: the first refusal of a
 * release says the same (slurm_inbox.c).
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/log.h"
#include "engine/slurmwork.h"
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double limit_s = 5;

/* The value of "Name    = value" in scontrol's answer; "": not there. */
static void value_of(const char *text, const char *name, char out[128])
{
    size_t n = strlen(name);
    out[0] = '\0';
    for (const char *at = text; at != NULL && *at != '\0';
         at = strchr(at, '\n'), at += at != NULL) {
        if (strncmp(at, name, n) != 0 || (at[n] != ' ' && at[n] != '='))
            continue;
        at += n + strspn(at + n, " =");
        snprintf(out, 128, "%.*s", (int)strcspn(at, "\n"), at);
        return;
    }
}

/* "slurm(64030)" is this process's user. */
static bool is_me(const char *user)
{
    const char *id = strchr(user, '(');
    return id != NULL && strtoul(id + 1, NULL, 10) == (unsigned long)geteuid();
}

/* What accounting says of the user; "": nothing. */
static void admin_level(struct slurm *slurm, const char *name,
                        struct firn_buf *out)
{
    const char *argv[] = {"sacctmgr",          "-n", "-P", "show", "user", name,
                          "format=AdminLevel", NULL};
    struct firn_error err = {0};
    if (slurm_ask(slurm, argv, limit_s, out, &err) != FIRN_OK)
        buf_clear(out);
    buf_putc(out, '\0');
}

void slurm_rights_check(struct slurm *slurm)
{
    static const char *const show[] = {"scontrol", "show", "config", NULL};
    struct firn_buf config = {0}, level = {0};
    struct firn_error err = {0};
    char owner[128], accounting[128];
    if (geteuid() == 0)
        return;
    const struct passwd *me = getpwuid(geteuid());
    const char *name = me != NULL ? me->pw_name : "?";
    bool is_known = slurm_ask(slurm, show, limit_s, &config, &err) == FIRN_OK;
    buf_putc(&config, '\0');
    value_of(config.at, "SlurmUser", owner);
    value_of(config.at, "AccountingStorageType", accounting);
    bool may = is_me(owner);
    if (is_known && !may && strstr(accounting, "slurmdbd") != NULL) {
        admin_level(slurm, name, &level);
        may = strncmp(level.at, "Operator", 8) == 0 ||
              strncmp(level.at, "Admin", 5) == 0;
    }
    if (is_known && !may)
        log_warn("user %s may not change other users' jobs in Slurm, so jobs "
                 "of the inbox wait: run firnd as %.60s, or with accounting: "
                 "sacctmgr modify user %s set AdminLevel=Operator",
                 name, owner, name);
    buf_release(&config);
    buf_release(&level);
}
