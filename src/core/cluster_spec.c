/* cluster_spec.c - clusters in one word: "24x8:v100,2x4:a100@80".
 *
 *   spec  = group { "," group }
 *   group = nodes "x" gpus ":" type [ "@" gib ]
 *
 * Spaces may stand around a group. The reader is one cursor over the text; a
 * failure names the character (from 1) where it happened. Numbers are plain
 * digits, so signs, hexadecimal and the like are refused by not being there.
 */
#include "base/mem.h"
#include "base/str.h"
#include "core/cluster_build.h"
#include <stdio.h>
#include <string.h>

struct cursor {
    const char *spec, *at;
    struct firn_error *err;
};

static void skip_spaces(struct cursor *c)
{
    while (*c->at == ' ')
        c->at++;
}

/* What stands at the cursor, for a sentence. */
static const char *found(const struct cursor *c, char out[16])
{
    unsigned char byte = (unsigned char)*c->at;
    if (byte == '\0')
        snprintf(out, 16, "the end");
    else if (byte > ' ' && byte < 0x7f)
        snprintf(out, 16, "'%c'", byte);
    else
        snprintf(out, 16, "byte 0x%02x", byte);
    return out;
}

static enum firn_status expected(struct cursor *c, const char *what)
{
    char here[16];
    return firn_fail(c->err, FIRN_EINVAL, "expected %s, found %s", what,
                     found(c, here));
}

/* A number of digits; one beyond all limits stays beyond them. */
static enum firn_status read_count(struct cursor *c, const char *what,
                                   long *out)
{
    if (*c->at < '0' || *c->at > '9')
        return expected(c, what);
    long n = 0;
    for (; *c->at >= '0' && *c->at <= '9'; c->at++)
        n = n < 100000000 ? 10 * n + (*c->at - '0') : n;
    *out = n;
    return FIRN_OK;
}

static enum firn_status read_mark(struct cursor *c, char mark)
{
    char what[] = "'?'";
    what[1] = mark;
    if (*c->at != mark)
        return expected(c, what);
    c->at++;
    return FIRN_OK;
}

/* The text up to a comma, '@', space or the end; empty when it is too long. */
static void read_word(struct cursor *c, char out[FIRN_NAME_MAX])
{
    size_t n = strcspn(c->at, ",@ ");
    bool fits = n < FIRN_NAME_MAX;
    memcpy(out, c->at, fits ? n : 0);
    out[fits ? n : 0] = '\0';
}

static enum firn_status read_type(struct cursor *c, struct node_group *group,
                                  char name[FIRN_NAME_MAX])
{
    read_word(c, name);
    if (!type_name_is_good(name))
        return firn_fail(c->err, FIRN_EINVAL,
                         "expected a GPU type of 1 to %d letters, digits and "
                         ". _ - +",
                         FIRN_NAME_MAX - 1);
    c->at += strlen(name);
    group->type = (struct type_said){name, -1.0, -1.0};
    if (*c->at != '@')
        return FIRN_OK;
    c->at++;
    char gib[FIRN_NAME_MAX];
    read_word(c, gib);
    double value = 0.0;
    if (strspn(gib, "0123456789.") != strlen(gib) || !str_double(gib, &value) ||
        value <= 0.0 || value > 1e6)
        return firn_fail(c->err, FIRN_EINVAL,
                         "expected GiB of memory after '@', a number above 0");
    group->type.mem_gib = value;
    c->at += strlen(gib);
    return FIRN_OK;
}

static enum firn_status read_group(struct cursor *c,
                                   struct cluster_build *build)
{
    struct node_group group = {0};
    char name[FIRN_NAME_MAX];
    skip_spaces(c);
    const char *start = c->at;
    FIRN_TRY(read_count(c, "a number of nodes", &group.count));
    FIRN_TRY(read_mark(c, 'x'));
    FIRN_TRY(read_count(c, "a number of GPUs", &group.gpus));
    FIRN_TRY(read_mark(c, ':'));
    FIRN_TRY(read_type(c, &group, name));
    const char *end = c->at;
    c->at = start; /* what is wrong now is wrong with the group */
    FIRN_TRY(cluster_add(build, &group, c->err));
    c->at = end;
    skip_spaces(c);
    return FIRN_OK;
}

static enum firn_status read_groups(struct cursor *c,
                                    struct cluster_build *build)
{
    for (;;) {
        FIRN_TRY(read_group(c, build));
        if (*c->at == '\0')
            return FIRN_OK;
        if (*c->at != ',')
            return expected(c, "',' or the end");
        c->at++;
    }
}

/* "cluster spec '24x8...', character 3", with odd bytes as '?'. */
static enum firn_status fail_at(const struct cursor *c)
{
    char shown[44], context[100];
    bool fits = str_copy(shown, sizeof shown - 3, c->spec);
    for (char *at = shown; *at != '\0'; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
    snprintf(context, sizeof context, "cluster spec '%s%s', character %zu",
             shown, fits ? "" : "...", (size_t)(c->at - c->spec) + 1);
    firn_fail_in(c->err, context);
    return FIRN_EINVAL;
}

enum firn_status firn_cluster_parse_spec(struct firn_cluster *out,
                                         const char *spec,
                                         struct firn_error *err)
{
    struct cluster_build build = {0};
    struct cursor cursor = {.spec = spec, .at = spec, .err = err};
    enum firn_status status = read_groups(&cursor, &build);
    if (status == FIRN_OK)
        status = cluster_finish(&build, spec, out, err);
    else
        status = fail_at(&cursor);
    firn_cluster_release(&build.cluster);
    return status;
}
