/* failure.c - reading and drawing node failures.
 *
 * Drawn times depend only on seed and node: stream n is seeded with a mix of
 * both, and draws up, down, up, ... in turn, so a run that ends earlier sees a
 * prefix of what a longer one sees.
 */
#include "sim/failure.h"
#include "base/str.h"
#include <math.h>
#include <string.h>

/* Cuts the next comma-separated field off, trimmed; NULL at the end. */
static char *cut(char **rest)
{
    if (*rest == NULL)
        return NULL;
    char *field = *rest, *comma = strchr(field, ',');
    *rest = comma ? comma + 1 : NULL;
    if (comma)
        *comma = '\0';
    return str_trim(field);
}

static const char *parse_row(char *line, int nnodes, struct failure_row *row)
{
    char *rest = line;
    char *time = cut(&rest), *node = cut(&rest), *what = cut(&rest);
    long id;
    if (what == NULL || rest != NULL)
        return "is not time_s,node,down|up";
    if (!str_double(time, &row->at_s) || row->at_s < 0)
        return "has no time in seconds";
    if (!str_int(node, 0, nnodes - 1, &id))
        return "names a node the cluster does not have";
    row->node = (firn_node_id)id;
    row->is_up = strcmp(what, "up") == 0;
    return row->is_up || strcmp(what, "down") == 0 ? NULL
                                                   : "is neither down nor up";
}

enum firn_status failures_parse(struct failures *failures, struct lines *in,
                                const char *path, int nnodes,
                                struct firn_error *err)
{
    double last_s = 0;
    for (char *line; (line = lines_next(in)) != NULL;) {
        char *text = str_trim(line);
        if (!lines_bad(in) &&
            (*text == '\0' || *text == '#' || strncmp(text, "time_s", 6) == 0))
            continue;
        struct failure_row row = {0};
        const char *wrong = lines_bad(in) ? "is too long or has a NUL byte"
                                          : parse_row(text, nnodes, &row);
        if (wrong == NULL && row.at_s < last_s)
            wrong = "goes back in time";
        if (wrong != NULL)
            return firn_fail(err, FIRN_EINVAL, "%s: line %ld %s", path,
                             lines_number(in), wrong);
        last_s = row.at_s;
        vec_add(&failures->rows, row);
    }
    return FIRN_OK;
}

enum firn_status failures_read(struct failures *failures, const char *path,
                               int nnodes, struct firn_error *err)
{
    struct lines *in;
    FIRN_TRY(lines_open(&in, path, err));
    enum firn_status status = failures_parse(failures, in, path, nnodes, err);
    lines_close(in);
    return status;
}

void failures_draw(struct failures *failures, int nnodes, double mtbf_s,
                   double mttr_s, uint64_t seed)
{
    failures->nnodes = nnodes;
    failures->mtbf_s = mtbf_s;
    failures->mttr_s = mttr_s;
    failures->streams = mem_new((size_t)nnodes, sizeof *failures->streams);
    failures->is_up = mem_new((size_t)nnodes, sizeof *failures->is_up);
    for (int i = 0; i < nnodes; i++) {
        rng_seed(&failures->streams[i],
                 seed * 0x9e3779b97f4a7c15u + (uint64_t)i);
        failures->is_up[i] = true;
        heap_set(&failures->next, i, rng_exp(&failures->streams[i], mtbf_s),
                 (uint64_t)i);
    }
}

double failures_next_s(const struct failures *failures)
{
    if (failures->next_row < failures->rows.n)
        return failures->rows.at[failures->next_row].at_s;
    const struct heap_item *top = heap_top(&failures->next);
    return top ? top->key : INFINITY;
}

struct failure_row failures_take(struct failures *failures)
{
    if (failures->next_row < failures->rows.n)
        return failures->rows.at[failures->next_row++];
    struct heap_item top = *heap_top(&failures->next);
    bool is_up = !failures->is_up[top.item];
    failures->is_up[top.item] = is_up;
    double mean_s = is_up ? failures->mtbf_s : failures->mttr_s;
    double after_s = rng_exp(&failures->streams[top.item], mean_s);
    heap_set(&failures->next, top.item, top.key + after_s, top.order);
    return (struct failure_row){top.key, top.item, is_up};
}

bool failures_are_drawn(const struct failures *failures)
{
    return failures->streams != NULL;
}

void failures_release(struct failures *failures)
{
    vec_release(&failures->rows);
    mem_free(failures->streams);
    mem_free(failures->is_up);
    heap_release(&failures->next);
}
