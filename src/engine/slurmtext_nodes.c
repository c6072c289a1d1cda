/* slurmtext_nodes.c - reads nodes and their GPUs: "scontrol -o -d show node".
 *
 * A line is fields "Key=value" in an order that all versions share, but some
 * values contain blanks, and Reason, Comment and Extra are free text. So each
 * key is searched behind the previous one, and only up to the next key that is
 * always there:
 *
 *     NodeName ... [ActiveFeatures] Gres ... GresUsed [NodeAddr] .. OS=any text
 * .. RealMemory
 *     ... State ... [Partitions] ... BootTime ... [Reason=any text ...]
 *
 * A node is usable if each word of its state is known to be harmless. An
 * unknown word, of a later version, makes the node unusable.
 *
 * A node whose GPUs firn cannot use has no GPUs here, is not usable, and `why`
 * says so.
 */
#include "engine/slurmgres.h"
#include <string.h>

static bool is(struct firn_bytes text, const char *name)
{
    return strlen(name) == text.n && memcmp(text.at, name, text.n) == 0;
}

/* --- states --------------------------------------------------------------- */

/* "MIXED+DRAIN", "IDLE*", "IDLE-": capitals, then signs that sinfo explains.
 * False: not a state. */
static bool read_state(struct firn_bytes text, struct slurm_node *out)
{
    static const char *const harmless[] = {
        "IDLE",    "ALLOCATED", "MIXED",        "COMPLETING",
        "PLANNED", "CLOUD",     "DYNAMIC_NORM", "DYNAMIC_FUTURE"};
    bool is_good = true, is_reserved = false;
    for (size_t at = 0; at <= text.n;) {
        size_t n = 0, m = 0;
        while (at + n < text.n &&
               ((text.at[at + n] >= 'A' && text.at[at + n] <= 'Z') ||
                text.at[at + n] == '_'))
            n++;
        bool is_known = false;
        struct firn_bytes word = {text.at + at, n};
        for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
            is_known = is_known || is(word, harmless[i]);
        for (; at + n + m < text.n && text.at[at + n + m] != '+'; m++) {
            char c = text.at[at + n + m];
            if (c == '\0' || strchr("*~#!%$@^-", c) == NULL)
                return false;
            is_known = is_known && c == '-'; /* "-": planned for a job */
        }
        if (n == 0)
            return false;
        if (is(word, "RESERVED") && m == 0)
            is_reserved = true;
        else
            is_good = is_good && is_known;
        at += n + m + 1;
    }
    out->is_usable = is_good && !is_reserved;
    out->is_reserved = is_good && is_reserved;
    return true;
}

/* --- lines ---------------------------------------------------------------- */

/* The place of the field that begins with `key` in line[from..until);
 * line.n + 1: none. */
static size_t find_key(struct firn_bytes line, size_t from, size_t until,
                       const char *key)
{
    size_t n = strlen(key);
    for (size_t i = from; i + n <= until; i++)
        if ((i == 0 || line.at[i - 1] == ' ') &&
            memcmp(line.at + i, key, n) == 0)
            return i;
    return line.n + 1;
}

/* Reads the value of `key`, up to the next blank; `from` moves behind it. */
static bool take_key(struct firn_bytes line, size_t *from, size_t until,
                     const char *key, struct firn_bytes *out)
{
    size_t at = find_key(line, *from, until, key);
    if (at > line.n)
        return false;
    at += strlen(key);
    const char *end = memchr(line.at + at, ' ', line.n - at);
    *out = (struct firn_bytes){
        line.at + at, end != NULL ? (size_t)(end - line.at) - at : line.n - at};
    *from = at + out->n;
    return true;
}

/* "Reason=any text [who@when]", before a comment if there is one. */
static struct firn_bytes reason_of(struct firn_bytes line, size_t from)
{
    size_t at = find_key(line, from, line.n, "Reason=");
    if (at > line.n)
        return (struct firn_bytes){line.at, 0};
    at += strlen("Reason=");
    size_t end = line.n;
    size_t comment = find_key(line, at, line.n, "Comment=");
    size_t extra = find_key(line, at, line.n, "Extra=");
    end = comment < end ? comment : end;
    end = extra < end ? extra : end;
    while (end > at && line.at[end - 1] == ' ')
        end--;
    return (struct firn_bytes){line.at + at, end - at};
}

struct node_fields {
    struct firn_bytes name, features, gres, used, host, state, partitions, why;
};

static bool read_fields(struct firn_bytes line, struct node_fields *out)
{
    size_t at = 0;
    *out = (struct node_fields){0};
    if (find_key(line, 0, line.n, "NodeName=") != 0 ||
        !take_key(line, &at, line.n, "NodeName=", &out->name) ||
        !slurm_is_name(out->name))
        return false;
    size_t gres = find_key(line, at, line.n, "Gres=");
    if (gres <= line.n)
        take_key(line, &at, gres, "ActiveFeatures=", &out->features);
    if (!take_key(line, &at, line.n, "Gres=", &out->gres) ||
        !take_key(line, &at, line.n, "GresUsed=", &out->used))
        return false;
    size_t memory = find_key(line, at, line.n, "RealMemory=");
    if (memory > line.n)
        return false;
    if (!take_key(line, &at, memory, "NodeAddr=", &out->host))
        out->host = out->name;
    at = memory;
    if (!take_key(line, &at, line.n, "State=", &out->state))
        return false;
    size_t boot = find_key(line, at, line.n, "BootTime=");
    if (boot > line.n)
        return false;
    take_key(line, &at, boot, "Partitions=", &out->partitions);
    out->why = reason_of(line, boot);
    return true;
}

static enum firn_status odd(const char *what, struct firn_bytes name,
                            struct firn_bytes text, struct firn_error *err)
{
    char node[SLURM_EXCERPT], shown[SLURM_EXCERPT];
    return firn_fail(err, FIRN_EINVAL, "scontrol: node %s: not a %s: '%s'",
                     slurm_excerpt(name, node), what,
                     slurm_excerpt(text, shown));
}

static void add_node(struct slurm_nodes *nodes,
                     const struct node_fields *fields,
                     const struct gres_list *gres, const struct gres_list *used)
{
    struct slurm_node node = {.type = "",
                              .name = slurm_keep(&nodes->text, fields->name),
                              .host = slurm_keep(&nodes->text, fields->host),
                              .state = slurm_keep(&nodes->text, fields->state),
                              .partitions =
                                  slurm_keep(&nodes->text, fields->partitions)};
    node.features = fields->features.n > 0 && fields->features.at[0] != '('
                        ? slurm_keep(&nodes->text, fields->features)
                        : "";
    const char *why = gres_gpus(&node, gres, &nodes->text);
    read_state(fields->state, &node);
    node.is_odd = why != NULL;
    node.is_usable = node.is_usable && why == NULL;
    node.why = why != NULL ? why : slurm_keep(&nodes->text, fields->why);
    gres_used(&node, used);
    vec_add(&nodes->at, node);
}

static enum firn_status read_node(struct slurm_nodes *nodes,
                                  struct firn_bytes line,
                                  struct firn_error *err)
{
    struct node_fields fields;
    struct gres_list gres = {0}, used = {0};
    enum firn_status status = FIRN_OK;
    struct slurm_node none = {0};
    char shown[SLURM_EXCERPT];
    if (!read_fields(line, &fields))
        return firn_fail(err, FIRN_EINVAL,
                         "scontrol: not a line of a node: '%s'",
                         slurm_excerpt(line, shown));
    if (!gres_read(&gres, fields.gres))
        status = odd("list of GRES", fields.name, fields.gres, err);
    else if (!gres_read(&used, fields.used))
        status = odd("list of GRES in use", fields.name, fields.used, err);
    else if (!read_state(fields.state, &none))
        status = odd("state", fields.name, fields.state, err);
    else
        add_node(nodes, &fields, &gres, &used);
    vec_release(&gres.entries);
    vec_release(&used.entries);
    return status;
}

enum firn_status slurm_nodes_read(struct slurm_nodes *out,
                                  struct firn_bytes text,
                                  struct firn_error *err)
{
    struct firn_bytes line;
    char shown[SLURM_EXCERPT];
    enum firn_status status = FIRN_OK;
    *out = (struct slurm_nodes){0};
    while (status == FIRN_OK && slurm_line_next(&text, &line))
        status = read_node(out, line, err);
    if (status == FIRN_OK && text.n > 0)
        status = firn_fail(err, FIRN_EINVAL,
                           "scontrol: the last line has no end: '%s'",
                           slurm_excerpt(text, shown));
    if (status != FIRN_OK)
        slurm_nodes_release(out);
    return status;
}

void slurm_nodes_release(struct slurm_nodes *nodes)
{
    if (nodes == NULL)
        return;
    arena_release(&nodes->text);
    vec_release(&nodes->at);
}
