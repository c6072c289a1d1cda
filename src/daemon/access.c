/* access.c - the table of rights, and roles by the lists of the configuration.
 *
 * Cost: one walk over the lists for each new connection of the Unix socket; the
 * system's groups are read only if a list names a group.
 */
#define _GNU_SOURCE /* getgrouplist */
#include "daemon/access.h"
#include "base/mem.h"
#include <ctype.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NAME_MOST = 63 };

static const char *const role_names[] = {
#define X(code, name) [ACCESS_##code] = (name),
    ACCESS_ROLE_MAP(X)
#undef X
};

const char *access_role_name(enum access_role role)
{
    return role_names[role];
}

bool access_role_named(const char *name, enum access_role *out)
{
    for (int role = ACCESS_SCRAPER; role < ACCESS_NROLES; role++)
        if (strcmp(role_names[role], name) == 0) {
            *out = (enum access_role)role;
            return true;
        }
    return false;
}

/* --- rights -------------------------------------------------------------- */

static const struct {
    const char *name;
    enum access at[ACCESS_NROLES][2]; /* of others, of the owner */
} rights[] = {
#define ACCESS(right, guest, joba, jobb, scraper, viewera, viewerb, usera, \
               userb, op)                                                  \
    {#right,                                                               \
     {[ACCESS_GUEST] = {ACCESS_##guest, ACCESS_##guest},                   \
      [ACCESS_JOB] = {ACCESS_##joba, ACCESS_##jobb},                       \
      [ACCESS_SCRAPER] = {ACCESS_##scraper, ACCESS_##scraper},             \
      [ACCESS_VIEWER] = {ACCESS_##viewera, ACCESS_##viewerb},              \
      [ACCESS_USER] = {ACCESS_##usera, ACCESS_##userb},                    \
      [ACCESS_OPERATOR] = {ACCESS_##op, ACCESS_##op}}},
#include "daemon/access.def"
#undef ACCESS
};

const char *access_right_name(enum access_right right)
{
    return rights[right].name;
}

enum access access_may(enum access_role role, enum access_right right,
                       bool is_owner)
{
    return rights[right].at[role][is_owner ? 1 : 0];
}

/* --- roles --------------------------------------------------------------- */

/* The next word of a list, without blanks; NULL at its end. Empty words come
 * too. */
static const char *next_word(const char **at, char word[NAME_MOST + 2])
{
    if (*at == NULL)
        return NULL;
    const char *from = *at + strspn(*at, " ");
    size_t n = strcspn(from, ",");
    *at = from[n] == ',' ? from + n + 1 : NULL;
    while (n > 0 && from[n - 1] == ' ')
        n--;
    snprintf(word, NAME_MOST + 2, "%.*s",
             (int)(n > NAME_MOST ? NAME_MOST + 1 : n), from);
    return word;
}

static bool is_name(const char *word)
{
    size_t n = strlen(word);
    bool is_good = n > 0 && n <= NAME_MOST && word[0] != '-';
    for (size_t i = 0; i < n; i++)
        is_good = is_good && (isalnum((unsigned char)word[i]) ||
                              strchr("_-.@$+", word[i]) != NULL);
    return is_good;
}

enum firn_status access_check_list(const char *name, const char *list,
                                   struct firn_error *err)
{
    char word[NAME_MOST + 2];
    while (next_word(&list, word) != NULL)
        if (!is_name(word + (word[0] == '@')))
            return firn_fail(err, FIRN_EINVAL,
                             "'%s': '%.40s' is not the name of a user or, with "
                             "'@' before it, of a group",
                             name, word);
    return FIRN_OK;
}

static bool has_user(const char *list, const char *user,
                     access_member_fn *is_member, void *arg)
{
    char word[NAME_MOST + 2];
    while (next_word(&list, word) != NULL)
        if (word[0] == '@' ? is_member(arg, word + 1) : strcmp(word, user) == 0)
            return true;
    return false;
}

enum access_role access_role_of(const struct access_lists *lists,
                                const char *user, access_member_fn *is_member,
                                void *arg)
{
    if (has_user(lists->operators, user, is_member, arg))
        return ACCESS_OPERATOR;
    if (has_user(lists->users, user, is_member, arg))
        return ACCESS_USER;
    if (has_user(lists->viewers, user, is_member, arg))
        return ACCESS_VIEWER;
    return ACCESS_GUEST;
}

/* The groups of a user, read when the first is asked for. */
struct groups {
    uid_t uid;
    bool is_read;
    gid_t *at;
    int n;
};

static void read_groups(struct groups *groups)
{
    char room[4096];
    struct passwd entry, *found = NULL;
    groups->is_read = true;
    if (getpwuid_r(groups->uid, &entry, room, sizeof room, &found) != 0 ||
        found == NULL)
        return;
    int n = 64;
    groups->at = mem_new((size_t)n, sizeof *groups->at);
    if (getgrouplist(entry.pw_name, entry.pw_gid, groups->at, &n) < 0) {
        mem_free(groups->at); /* n is now the number of groups */
        groups->at = mem_new((size_t)n, sizeof *groups->at);
        if (getgrouplist(entry.pw_name, entry.pw_gid, groups->at, &n) < 0)
            n = 0;
    }
    groups->n = n;
}

static bool is_member_of(void *arg, const char *group)
{
    struct groups *groups = arg;
    char *room = mem_new(1 << 16, 1);
    struct group entry, *found = NULL;
    bool is_one = false;
    if (!groups->is_read)
        read_groups(groups);
    if (getgrnam_r(group, &entry, room, 1 << 16, &found) == 0 && found != NULL)
        for (int i = 0; i < groups->n; i++)
            is_one = is_one || groups->at[i] == entry.gr_gid;
    mem_free(room);
    return is_one;
}

enum access_role access_role_of_uid(const struct access_lists *lists, uid_t uid,
                                    const char *user)
{
    struct groups groups = {.uid = uid};
    if (uid == geteuid() || uid == 0)
        return ACCESS_OPERATOR;
    enum access_role role = access_role_of(lists, user, is_member_of, &groups);
    mem_free(groups.at);
    return role;
}
