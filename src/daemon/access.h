/* access.h - roles, rights, and who may do what.
 *
 * A caller has one role. On the Unix socket the kernel names the user
 * (SO_PEERCRED); firnd's own user and root are operators, other users have the
 * role that the lists of the configuration give them. Over TCP a token has a
 * role. A process with the token of a job has the role `job`: it speaks for
 * that job and may do nothing else. A token of the role `scraper` reads the
 * metrics and may do nothing else.
 *
 *     operators: ann,@admins    user names, and groups with a "@"
 *     users: @lab               submit jobs and change their own
 *     viewers: @visitors          see the queue and the cluster
 *
 * (1) The highest role that a list gives holds.
 * (2) access_may() is a function of its arguments: a test writes the whole
 *     matrix from the tables.
 */
#ifndef DAEMON_ACCESS_H
#define DAEMON_ACCESS_H
#include <firn/status.h>
#include <stdbool.h>
#include <sys/types.h>

/* From the fewest rights to the most; ACCESS_JOB and ACCESS_SCRAPER apart. */
#define ACCESS_ROLE_MAP(X) \
    X(GUEST, "guest")      \
    X(JOB, "job")          \
    X(SCRAPER, "scraper")  \
    X(VIEWER, "viewer")    \
    X(USER, "user")        \
    X(OPERATOR, "operator")

enum access_role {
#define X(code, name) ACCESS_##code,
    ACCESS_ROLE_MAP(X)
#undef X
        ACCESS_NROLES
};
const char *access_role_name(enum access_role role);
/* "scraper", "viewer", "user" or "operator", the roles of tokens; false: no
 * such role. */
bool access_role_named(const char *name, enum access_role *out);

/* A row of access.def. */
enum access_right {
#define ACCESS(right, ...) ACCESS_RIGHT_##right,
#include "daemon/access.def"
#undef ACCESS
    ACCESS_NRIGHTS
};
const char *access_right_name(enum access_right right);

enum access {
    ACCESS_NONE,   /* refused */
    ACCESS_PUBLIC, /* allowed; what is private to the owner is left out */
    ACCESS_FULL    /* allowed */
};
enum access access_may(enum access_role role, enum access_right right,
                       bool is_owner);

/* Lists of the configuration: names and "@group" with commas; NULL: empty. */
struct access_lists {
    const char *operators, *users, *viewers;
};
/* FIRN_EINVAL: `list`, which the option `name` gave, has an empty or wrong
 * word. Unknown users and groups are allowed: they may come later. */
enum firn_status access_check_list(const char *name, const char *list,
                                   struct firn_error *err);
/* The role of a user by the lists. `is_member(arg, group)` is asked for groups
 * only. */
typedef bool access_member_fn(void *arg, const char *group);
enum access_role access_role_of(const struct access_lists *lists,
                                const char *user, access_member_fn *is_member,
                                void *arg);
/* The same for a user of this host, by the system's groups. firnd's own user
 * and root are operators. */
enum access_role access_role_of_uid(const struct access_lists *lists, uid_t uid,
                                    const char *user);

#endif
