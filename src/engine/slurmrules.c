/* slurmrules.c - reads reservations, associations and lists of nodes.
 *
 * Invariants:
 * (1) a number that is not one, or not there, is "no limit": a limit that is
 *     not understood is left to Slurm;
 * (2) a list of nodes that is not understood has no node, for the same reason.
 *
 * Cost: O(bytes) for each key of a line.
 */
#include "engine/slurmrules.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool slurm_value_of(const char *line, const char *key, char *out, size_t max)
{
    size_t n = strlen(key);
    for (const char *at = line; (at = strstr(at, key)) != NULL; at += n)
        if ((at == line || at[-1] == ' ') && at[n] == '=') {
            at += n + 1;
            snprintf(out, max, "%.*s", (int)strcspn(at, " \n"), at);
            return true;
        }
    out[0] = '\0';
    return false;
}

/* Cuts "games(5)" to "games". */
static void cut(char *text)
{
    text[strcspn(text, "(")] = '\0';
}

struct slurm_assoc slurm_no_limits(void)
{
    return (struct slurm_assoc){.gpus_all = -1,
                                .gpus_each = -1,
                                .jobs_all = -1,
                                .wall_min = -1,
                                .uid = -1};
}

/* "4(2)" or "4"; "N(2)" and others: -1. (1) */
int slurm_limit_of(const char *text, int *used)
{
    char *end = NULL;
    *used = 0;
    if (text[0] < '0' || text[0] > '9')
        return -1;
    long limit = strtol(text, &end, 10);
    if (*end == '(')
        *used = (int)strtol(end + 1, NULL, 10);
    return limit >= 0 && limit < 1 << 24 ? (int)limit : -1;
}

/* Of "cpu=N(0),gres/gpu=4(2)" the GPUs. Those of a type are left to Slurm. */
int slurm_gpus_of(const char *tres, int *used)
{
    static const char key[] = "gres/gpu=";
    *used = 0;
    for (const char *at = tres; (at = strstr(at, key)) != NULL; at++)
        if (at == tres || at[-1] == ',')
            return slurm_limit_of(at + sizeof key - 1, used);
    return -1;
}

bool slurm_booking_read(const char *line, struct slurm_booking *out)
{
    char start[32], end[32], flags[256];
    *out = (struct slurm_booking){0};
    if (!slurm_value_of(line, "ReservationName", out->name, sizeof out->name) ||
        !slurm_value_of(line, "StartTime", start, sizeof start) ||
        !slurm_value_of(line, "EndTime", end, sizeof end) ||
        !slurm_value_of(line, "Nodes", out->nodes, sizeof out->nodes))
        return false;
    out->start_s = strtod(start, NULL);
    out->end_s = strtod(end, NULL);
    slurm_value_of(line, "Flags", flags, sizeof flags);
    out->is_automatic = strstr(flags, "MAGNETIC") != NULL;
    return out->start_s > 0 && out->end_s > out->start_s;
}

bool slurm_assoc_read(const char *line, struct slurm_assoc *out)
{
    char text[1024], yes[8];
    int used = 0;
    *out = slurm_no_limits();
    if (!slurm_value_of(line, "Account", out->account, sizeof out->account) ||
        !slurm_value_of(line, "UserName", out->user, sizeof out->user) ||
        !slurm_value_of(line, "GrpTRES", text, sizeof text))
        return false;
    out->gpus_all = slurm_gpus_of(text, &out->gpus_used);
    slurm_value_of(line, "MaxTRESPJ", text, sizeof text);
    out->gpus_each = slurm_gpus_of(text, &used);
    slurm_value_of(line, "MaxJobs", text, sizeof text);
    out->jobs_all = slurm_limit_of(text, &out->jobs_used);
    slurm_value_of(line, "MaxWallPJ", text, sizeof text);
    out->wall_min = slurm_limit_of(text, &used);
    slurm_value_of(line, "ParentAccount", out->parent, sizeof out->parent);
    slurm_value_of(line, "Partition", out->partition, sizeof out->partition);
    slurm_value_of(line, "DefAssoc", yes, sizeof yes);
    out->is_default = strcmp(yes, "Yes") == 0;
    const char *number = strchr(out->user, '(');
    if (number != NULL)
        out->uid = (int)strtol(number + 1, NULL, 10);
    cut(out->user);
    cut(out->parent);
    return out->account[0] != '\0';
}

bool slurm_booking_equal(const struct slurm_booking *a,
                         const struct slurm_booking *b)
{
    return strcmp(a->name, b->name) == 0 && a->start_s == b->start_s &&
           a->end_s == b->end_s && strcmp(a->nodes, b->nodes) == 0 &&
           a->is_automatic == b->is_automatic;
}

bool slurm_assoc_equal(const struct slurm_assoc *a, const struct slurm_assoc *b)
{
    return strcmp(a->account, b->account) == 0 &&
           strcmp(a->parent, b->parent) == 0 && strcmp(a->user, b->user) == 0 &&
           strcmp(a->partition, b->partition) == 0 &&
           a->is_default == b->is_default && a->gpus_all == b->gpus_all &&
           a->gpus_used == b->gpus_used && a->gpus_each == b->gpus_each &&
           a->jobs_all == b->jobs_all && a->jobs_used == b->jobs_used &&
           a->wall_min == b->wall_min && a->uid == b->uid;
}

/* --- lists of nodes --------------------------------------------------------
 */

/* Is the number, of this many digits, in "0-3,08"? */
static bool is_in_ranges(const char *at, const char *end, const char *digits,
                         size_t n)
{
    while (at < end) {
        char *stop = NULL;
        size_t width = strspn(at, "0123456789");
        long first = strtol(at, &stop, 10), last = first;
        if (stop == at)
            return false; /* (2) */
        if (*stop == '-') {
            const char *behind = stop + 1;
            last = strtol(behind, &stop, 10);
            if (stop == behind)
                return false;
        }
        long number = strtol(digits, NULL, 10);
        bool has_width = at[0] != '0' || width == 1 ? digits[0] != '0' || n == 1
                                                    : n == width;
        if (has_width && number >= first && number <= last)
            return true;
        if (stop < end && *stop != ',')
            return false;
        at = stop + 1;
    }
    return false;
}

/* "n[0-3]x" or "n5", of this length. */
static bool is_like(const char *item, size_t size, const char *node)
{
    const char *open = memchr(item, '[', size);
    if (open == NULL)
        return strlen(node) == size && memcmp(item, node, size) == 0;
    size_t head = (size_t)(open - item);
    const char *close = memchr(open, ']', size - head);
    if (close == NULL || strncmp(item, node, head) != 0)
        return false;
    const char *digits = node + head;
    size_t n = strspn(digits, "0123456789");
    size_t tail = size - (size_t)(close + 1 - item);
    if (n == 0 || n > 9 || strlen(digits + n) != tail ||
        memcmp(digits + n, close + 1, tail) != 0)
        return false;
    return is_in_ranges(open + 1, close, digits, n);
}

bool slurm_hosts_have(const char *list, const char *node)
{
    while (*list != '\0') {
        size_t size = 0;
        for (bool is_inside = false;
             list[size] != '\0' && (is_inside || list[size] != ','); size++)
            is_inside = list[size] == '[' || (is_inside && list[size] != ']');
        if (is_like(list, size, node))
            return true;
        list += size + (list[size] == ',');
    }
    return false;
}
