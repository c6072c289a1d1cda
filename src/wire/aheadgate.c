/* aheadgate.c - the words between a supervisor and a process started early.
 *
 * Invariants: (1) an opening is one message that is sent whole or not at all;
 * (2) a remark never writes beyond the bytes that the mark had.
 */
#include "wire/aheadgate.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- which variables may change ------------------------------------------- */

/* A name that ends with '_' stands for all that begin with it. CUDA's are read
 * when the driver is first used. */
static const char *const late[] = {
    "FIRN_",           "CUDA_",   "RANK",       "WORLD_SIZE",
    "LOCAL_RANK",      "MASTER_", "GROUP_RANK", "LOCAL_WORLD_SIZE",
    "GROUP_WORLD_SIZE"};

bool firn_gate_is_late(const char *variable)
{
    size_t n = strcspn(variable, "=");
    for (size_t i = 0; i < sizeof late / sizeof *late; i++) {
        size_t length = strlen(late[i]);
        bool is_start = late[i][length - 1] == '_';
        if ((is_start ? n >= length : n == length) &&
            memcmp(late[i], variable, length) == 0)
            return true;
    }
    return false;
}

static bool has(const char *const *environment, const char *variable)
{
    for (; *environment != NULL; environment++)
        if (strcmp(*environment, variable) == 0)
            return true;
    return false;
}

static bool has_all(const char *const *in, const char *const *of)
{
    for (; *of != NULL; of++)
        if (!firn_gate_is_late(*of) && !has(in, *of))
            return false;
    return true;
}

bool firn_gate_is_alike(const char *const *one, const char *const *two)
{
    return has_all(one, two) && has_all(two, one);
}

/* --- the mark --------------------------------------------------------------
 */

/* The longest name, and the attempt behind the job: "FIRN_SHEPHERD" and 17. */
static const char padding[] = "-ahead----------------";

void firn_gate_mark(char out[FIRN_GATE_MARK_TEXT], const char *mark, int job)
{
    out[0] = '\0';
    if (mark != NULL && mark[0] != '\0')
        snprintf(out, FIRN_GATE_MARK_TEXT, "%s%.40s-%d%s", FIRN_GATE_MARK, mark,
                 job, padding);
}

bool firn_gate_remark(char **environment, const char *variable)
{
    for (char **at = environment; at != NULL && *at != NULL; at++) {
        if (strncmp(*at, FIRN_GATE_MARK, strlen(FIRN_GATE_MARK)) != 0)
            continue;
        size_t room = strlen(*at), n = strlen(variable);
        if (n > room) /* (2) */
            return false;
        memset(*at, 0, room);
        memcpy(*at, variable, n);
        return true;
    }
    return false;
}

/* --- the opening -----------------------------------------------------------
 */

bool firn_gate_open(int fd, const char *const *environment, double now_s)
{
    static char message[sizeof(struct firn_gate_head) + FIRN_GATE_BYTES];
    struct firn_gate_head head = {0, now_s};
    for (const char *const *at = environment; *at != NULL; at++) {
        size_t size = strlen(*at) + 1;
        if (head.nbytes + size > FIRN_GATE_BYTES)
            return false;
        memcpy(message + sizeof head + head.nbytes, *at, size);
        head.nbytes += size;
    }
    memcpy(message, &head, sizeof head);
    size_t n = sizeof head + (size_t)head.nbytes;
    return write(fd, message, n) == (ssize_t)n; /* (1) */
}
