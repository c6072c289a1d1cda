/* failpoint.c - FIRN_FAILPOINT=NAME[:N][/stop]: kills or stops at pass N.
 *
 * A count that is not a number from 1 on is taken as 1: a test that misspells
 * it dies too early rather than never.
 */
#define _GNU_SOURCE
#include "base/failpoint.h"
#include "base/str.h"
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OFF, ARMED, NOT_LOOKED };

int failpoint_state = NOT_LOOKED;
static char wanted[128];
static long passes_left;
static int signal_sent;

static void look(void)
{
    const char *text = getenv("FIRN_FAILPOINT");
    failpoint_state = OFF;
    if (text == NULL || !str_copy(wanted, sizeof wanted, text))
        return;
    char *slash = strchr(wanted, '/');
    bool stops = slash != NULL && strcmp(slash, "/stop") == 0;
    signal_sent = stops ? SIGSTOP : SIGKILL;
    if (stops)
        *slash = '\0';
    char *colon = strrchr(wanted, ':');
    passes_left = 1;
    if (colon != NULL) {
        *colon = '\0';
        if (!str_int(colon + 1, 1, LONG_MAX, &passes_left))
            passes_left = 1;
    }
    failpoint_state = ARMED;
}

void failpoint_reset(void)
{
    failpoint_state = NOT_LOOKED;
}

void failpoint_pass(const char *name)
{
    if (failpoint_state == NOT_LOOKED)
        look();
    if (failpoint_state == OFF || strcmp(name, wanted) != 0)
        return;
    if (--passes_left != 0)
        return;
    do
        kill(getpid(), signal_sent);
    while (signal_sent == SIGKILL);
}
