/* alibaba.c - pods of Alibaba's 2023 GPU trace (openb_pod_list_*.csv).
 *
 *     name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,
 *     creation_time,deletion_time,scheduled_time
 *
 * Seconds. A pod is submitted when it was created and lasts from when it was
 * scheduled (or created, if it never was) to its deletion. A pod without a GPU
 * is ignored. gpu_milli below 1000 asks for a part of a GPU: firn knows halves
 * only, so such a pod may share its GPU. gpu_spec lists the types it accepts;
 * V100M32 is firn's v100, V100M16 its v100-16. Processors, host memory, phase
 * and quality class are passed over.
 *
 * Some published files have no times at all: they are refused, because there is
 * nothing to replay. Weng et al., "Beware of fragmentation", ATC 2023.
 */
#include "trace/row.h"
#include <string.h>

enum { NAME, GPUS, MILLI, NEEDED, CREATED = NEEDED, DELETED, SCHEDULED, TYPES };
static const char *const columns[] = {
    "name",          "num_gpu",        "gpu_milli", "creation_time",
    "deletion_time", "scheduled_time", "gpu_spec",  NULL};
static const char *const needs[] = {"name", "cpu_milli", "num_gpu", "gpu_milli",
                                    NULL};

enum { TYPES_MAX = 256 };

struct alibaba {
    struct row row;
    char types[TYPES_MAX];
};

static bool sniff(struct firn_bytes head)
{
    return row_sniff(head, needs, NULL);
}

static enum firn_status open(void *state, struct lines *in,
                             struct firn_error *err)
{
    struct alibaba *pods = state;
    FIRN_TRY(row_open(&pods->row, in, columns, NEEDED, err));
    if (!row_has(&pods->row, CREATED) || !row_has(&pods->row, DELETED))
        return firn_fail(err, FIRN_EINVAL,
                         "a list of pods without creation_time and "
                         "deletion_time: there is nothing to replay");
    return FIRN_OK;
}

/* firn's name of the type in text[0..n), in lower case. */
static size_t map_type(const char *text, size_t n, char out[TYPES_MAX])
{
    static const struct {
        const char *theirs, *ours;
    } names[] = {{"v100m32", "v100"}, {"v100m16", "v100-16"}};
    for (size_t i = 0; i < n; i++)
        out[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] - 'A' + 'a')
                                                  : text[i];
    out[n] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(out, names[i].theirs) != 0)
            continue;
        n = strlen(names[i].ours);
        memcpy(out, names[i].ours, n + 1);
    }
    return n;
}

/* Is `type` one of the '|' separated `list`? */
static bool lists(const char *list, const char *type, size_t n)
{
    for (; *list != '\0'; list += strspn(list, "|")) {
        size_t length = strcspn(list, "|");
        if (length == n && memcmp(list, type, n) == 0)
            return true;
        list += length;
    }
    return false;
}

/* Fills pods->types, each type once. */
static bool read_types(struct alibaba *pods, struct firn_error *err)
{
    const char *text = row_text(&pods->row, TYPES);
    if (strlen(text) >= TYPES_MAX / 2) {
        firn_fail(err, FIRN_EINVAL, "'gpu_spec' has more than %d bytes",
                  TYPES_MAX / 2 - 1);
        return false;
    }
    char type[TYPES_MAX];
    size_t used = 0;
    pods->types[0] = '\0';
    for (;; text++) {
        size_t length = strcspn(text, "|");
        size_t n = map_type(text, length, type);
        if (n > 0 && !lists(pods->types, type, n)) {
            if (used > 0)
                pods->types[used++] = '|';
            memcpy(pods->types + used, type, n + 1);
            used += n;
        }
        text += length;
        if (*text == '\0')
            return true;
    }
}

static bool read_times(const struct row *row, struct firn_job_spec *spec,
                       struct firn_error *err)
{
    double started = 0, deleted = 0;
    if (!row_time(row, CREATED, &spec->submit_s, err) ||
        !row_time(row, DELETED, &deleted, err))
        return false;
    started = spec->submit_s;
    if (*row_text(row, SCHEDULED) != '\0' &&
        !row_time(row, SCHEDULED, &started, err))
        return false;
    spec->duration_s = deleted - started;
    if (spec->duration_s > 0)
        return true;
    firn_fail(err, FIRN_EINVAL,
              "deleted at %.15g, not after its start at %.15g", deleted,
              started);
    return false;
}

static enum firn_row next(void *state, struct lines *in,
                          struct firn_job_spec *out, struct firn_error *err)
{
    struct alibaba *pods = state;
    const struct row *row = &pods->row;
    enum firn_row got = row_next(&pods->row, in, err);
    if (got != FIRN_ROW_JOB)
        return got;
    struct firn_job_spec spec = row_spec(in);
    int milli = 0;
    if (!row_name(row, NAME, &spec.name, err) ||
        !row_int(row, GPUS, 0, ROW_GPUS_MAX, &spec.gpus, err))
        return FIRN_ROW_BAD;
    if (spec.gpus == 0)
        return FIRN_ROW_IGNORED;
    if (!row_int(row, MILLI, 1, 1000, &milli, err) ||
        !read_times(row, &spec, err) || !read_types(pods, err))
        return FIRN_ROW_BAD;
    spec.gpus_min = spec.gpus_max = spec.gpus;
    spec.may_share = milli < 1000;
    spec.types = pods->types;
    *out = spec;
    return FIRN_ROW_JOB;
}

const struct firn_trace_def firn_trace_alibaba = {
    .name = "alibaba",
    .summary = "Alibaba 2023 GPU pods, with types and part GPUs",
    .state_size = sizeof(struct alibaba),
    .sniff = sniff,
    .open = open,
    .next = next,
};
