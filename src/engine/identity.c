/* identity.c - user, group and capability changes: see the header.
 *
 * (1) After identity_supervise() no user or group of the process is 0 but the
 *     saved user.
 * (2) After identity_become() there is no way back: no saved user, no
 *     capability; that is tried.
 */
#define _GNU_SOURCE
#include "engine/identity.h"
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A number from 1 on; 0: there is none. `*at` is moved behind it. */
static unsigned long read_id(const char **at)
{
    char *end = NULL;
    if (**at < '1' || **at > '9')
        return 0;
    errno = 0;
    unsigned long id = strtoul(*at, &end, 10);
    *at = end;
    return errno == 0 && id < 0xffffffffUL ? id : 0;
}

bool identity_read(const char *text, struct identity *out)
{
    *out = (struct identity){0};
    out->uid = (uid_t)read_id(&text);
    if (out->uid == 0 || *text++ != ':')
        return false;
    out->gid = (gid_t)read_id(&text);
    if (out->gid == 0 || *text++ != ':')
        return false;
    while (*text != '\0') {
        gid_t group = (gid_t)read_id(&text);
        if (group == 0 || out->ngroups == IDENTITY_GROUPS ||
            (*text != '\0' && *text != ','))
            return false;
        out->groups[out->ngroups++] = group;
        if (*text == ',' && *++text == '\0')
            return false;
    }
    return true;
}

void identity_write(const struct identity *identity, char out[IDENTITY_TEXT])
{
    int n =
        snprintf(out, IDENTITY_TEXT, "%lu:%lu:", (unsigned long)identity->uid,
                 (unsigned long)identity->gid);
    for (size_t i = 0; i < identity->ngroups; i++)
        n += snprintf(out + n, IDENTITY_TEXT - (size_t)n, "%s%lu",
                      i > 0 ? "," : "", (unsigned long)identity->groups[i]);
}

/* Of the permitted capabilities these are effective from now on. */
static bool use_capabilities(unsigned effective)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0}};
    if (syscall(SYS_capget, &head, data) != 0)
        return false;
    data[0].effective = effective;
    data[1].effective = 0;
    data[0].inheritable = data[1].inheritable = 0;
    return syscall(SYS_capset, &head, data) == 0;
}

bool identity_supervise(const struct identity *own)
{
    return setgroups(own->ngroups, own->groups) == 0 &&
           setresgid(own->gid, own->gid, own->gid) == 0 &&
           setresuid(own->uid, own->uid, 0) == 0 &&
           use_capabilities(1u << CAP_KILL) &&
           prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

bool identity_become(const struct identity *user)
{
    if (!use_capabilities(1u << CAP_SETUID | 1u << CAP_SETGID) ||
        setgroups(user->ngroups, user->groups) != 0 ||
        setresgid(user->gid, user->gid, user->gid) != 0 ||
        setresuid(user->uid, user->uid, user->uid) != 0)
        return false;
    if (setuid(0) == 0 || geteuid() != user->uid || getegid() != user->gid) {
        errno = EPERM; /* (2) */
        return false;
    }
    return true;
}
