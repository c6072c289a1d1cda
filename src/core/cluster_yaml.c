/* cluster_yaml.c - clusters in a YAML file, by base/yamltext.h.
 *
 * Two passes over at most a few MiB of text:
 * 1. `survey` sees the events of libyaml and notes the line of every key and
 *    of every entry of a list. It also refuses what libcyaml would take too
 *    kindly or too slowly: a second document, aliases, lists within lists
 *    within lists (a cluster file is three levels deep).
 * 2. libcyaml reads the text by the schema below into strings; yaml_load()
 *    turns what it finds (an unknown key, a missing one, a list where a number
 *    should be) into a sentence.
 * The numbers are then read here, by the same functions as everywhere else, and
 * the entry's line of pass 1 stands in the sentence.
 *
 * Deliberately not here: includes, defaults by anchors, units.
 */
#include "base/str.h"
#include "base/vec.h"
#include "base/yamltext.h"
#include "core/cluster_build.h"
#include <stdio.h>
#include <string.h>

enum {
    DEPTH_MAX = 4,
    VALUE_MAX = 64,
    TYPES_LISTED = 4 * FIRN_TYPES_MAX,
    JOBS_PER_GPU_MAX = 8,
    RACK_MAX = 1000000,
};

/* --- what the file says, all as text; NULL when it does not say ---------- */

struct said_type {
    char *name, *memory_gib, *speed;
};

struct said_nodes {
    char *count, *gpus, *type, *rack;
};

struct said {
    char *name, *jobs_per_gpu;
    struct said_type *types;
    unsigned types_count;
    struct said_nodes *nodes;
    unsigned nodes_count;
};

enum {
    MUST = CYAML_FLAG_POINTER,
    MAY = CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
};

static const cyaml_schema_field_t type_fields[] = {
    CYAML_FIELD_STRING_PTR("name", MUST, struct said_type, name, 0, VALUE_MAX),
    CYAML_FIELD_STRING_PTR("memory_gib", MAY, struct said_type, memory_gib, 0,
                           VALUE_MAX),
    CYAML_FIELD_STRING_PTR("speed", MAY, struct said_type, speed, 0, VALUE_MAX),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t nodes_fields[] = {
    CYAML_FIELD_STRING_PTR("count", MAY, struct said_nodes, count, 0,
                           VALUE_MAX),
    CYAML_FIELD_STRING_PTR("gpus", MUST, struct said_nodes, gpus, 0, VALUE_MAX),
    CYAML_FIELD_STRING_PTR("type", MUST, struct said_nodes, type, 0, VALUE_MAX),
    CYAML_FIELD_STRING_PTR("rack", MAY, struct said_nodes, rack, 0, VALUE_MAX),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t type_entry = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct said_type, type_fields),
};

static const cyaml_schema_value_t nodes_entry = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct said_nodes, nodes_fields),
};

static const cyaml_schema_field_t top_fields[] = {
    CYAML_FIELD_STRING_PTR("name", MUST, struct said, name, 1,
                           FIRN_NAME_MAX - 1),
    CYAML_FIELD_STRING_PTR("jobs_per_gpu", MAY, struct said, jobs_per_gpu, 0,
                           VALUE_MAX),
    CYAML_FIELD_SEQUENCE("types", MAY, struct said, types, &type_entry, 0,
                         TYPES_LISTED),
    CYAML_FIELD_SEQUENCE("nodes", MUST, struct said, nodes, &nodes_entry, 0,
                         FIRN_NODES_MAX),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t top = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct said, top_fields),
};

/* --- pass 1: lines ------------------------------------------------------- */

struct survey {
    struct yaml_words words;
    VEC(long) types, nodes; /* line of each entry */
    long jobs_line;
    int depth, ndocuments;
    bool is_key;     /* at depth 1, the next thing is a key */
    const char *key; /* the top key we are under */
};

static void note_scalar(struct survey *s, const yaml_event_t *event)
{
    const char *text = yaml_note(&s->words, event);
    long line = (long)event->start_mark.line + 1;
    if (s->depth != 1)
        return;
    if (s->is_key)
        s->key = text;
    else if (strcmp(s->key, "jobs_per_gpu") == 0)
        s->jobs_line = line;
    s->is_key = !s->is_key;
}

static void note_start(struct survey *s, const yaml_event_t *event)
{
    long line = (long)event->start_mark.line + 1;
    if (s->depth == 0)
        s->is_key = true; /* the root is a mapping: see note */
    if (s->depth == 2 && s->key != NULL && strcmp(s->key, "nodes") == 0)
        vec_add(&s->nodes, line);
    if (s->depth == 2 && s->key != NULL && strcmp(s->key, "types") == 0)
        vec_add(&s->types, line);
    s->depth++;
}

/* Why this event cannot be in a cluster file, or NULL. */
static const char *judge(void *arg, const yaml_event_t *event)
{
    struct survey *s = arg;
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        note_scalar(s, event);
        return NULL;
    case YAML_MAPPING_START_EVENT:
    case YAML_SEQUENCE_START_EVENT:
        if (s->depth == 0 && event->type == YAML_SEQUENCE_START_EVENT)
            return "a list, where 'name: ...' and 'nodes: ...' should be";
        if (s->depth == 1 && s->is_key)
            return "a key must be a word";
        note_start(s, event);
        return s->depth > DEPTH_MAX ? "nested too deeply" : NULL;
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        if (--s->depth == 1) /* a value ended (a list as key is refused) */
            s->is_key = true;
        return NULL;
    case YAML_ALIAS_EVENT:
        return "aliases are not used in cluster files";
    case YAML_DOCUMENT_START_EVENT:
        return ++s->ndocuments > 1 ? "a second document" : NULL;
    default:
        return NULL;
    }
}

static void survey_release(struct survey *s)
{
    yaml_words_release(&s->words);
    vec_release(&s->types);
    vec_release(&s->nodes);
}

/* --- meaning ------------------------------------------------------------- */

static long line_of(const long *lines, size_t n, size_t i)
{
    return i < n ? lines[i] : 0;
}

/* A whole number, `fallback` when the file does not say. */
static enum firn_status read_whole(const char *key, const char *text, long min,
                                   long max, long *out, struct firn_error *err)
{
    if (text == NULL || str_int(text, min, max, out))
        return FIRN_OK;
    return firn_fail(err, FIRN_EINVAL,
                     "'%s' is '%s', not a whole number from %ld to %ld", key,
                     text, min, max);
}

static enum firn_status read_real(const char *key, const char *text, double min,
                                  double max, double *out,
                                  struct firn_error *err)
{
    double value = 0.0;
    if (text == NULL)
        return FIRN_OK;
    if (!str_double(text, &value) || value < min || value > max)
        return firn_fail(err, FIRN_EINVAL,
                         "'%s' is '%s', not a number from %g to %g", key, text,
                         min, max);
    *out = value;
    return FIRN_OK;
}

static enum firn_status read_type(const struct said *said, size_t i,
                                  struct type_said *types,
                                  struct firn_error *err)
{
    const struct said_type *from = &said->types[i];
    types[i] = (struct type_said){from->name, -1.0, -1.0};
    if (!type_name_is_good(from->name))
        return firn_fail(err, FIRN_EINVAL,
                         "a GPU type is 1 to %d letters, digits and . _ - +",
                         FIRN_NAME_MAX - 1);
    for (size_t j = 0; j < i; j++)
        if (str_equal_nocase(types[j].name, from->name))
            return firn_fail(err, FIRN_EINVAL, "type '%s' is listed twice",
                             from->name);
    FIRN_TRY(read_real("memory_gib", from->memory_gib, 0.0, 1e6,
                       &types[i].mem_gib, err));
    return read_real("speed", from->speed, 1e-3, 1e3, &types[i].speed, err);
}

static enum firn_status read_nodes(const struct said_nodes *from,
                                   const struct type_said *types, size_t n,
                                   struct cluster_build *build,
                                   struct firn_error *err)
{
    long rack = 0;
    struct node_group group = {.count = 1, .type = {from->type, -1.0, -1.0}};
    FIRN_TRY(
        read_whole("count", from->count, 1, FIRN_NODES_MAX, &group.count, err));
    FIRN_TRY(read_whole("gpus", from->gpus, 1, FIRN_NODE_GPUS_MAX, &group.gpus,
                        err));
    FIRN_TRY(read_whole("rack", from->rack, 0, RACK_MAX, &rack, err));
    group.rack = (int)rack;
    for (size_t i = 0; i < n; i++)
        if (str_equal_nocase(types[i].name, from->type))
            group.type = types[i];
    return cluster_add(build, &group, err);
}

static enum firn_status fail_at(const char *where, long line,
                                struct firn_error *err)
{
    char context[300];
    snprintf(context, sizeof context, "%.250s: line %ld", where, line);
    firn_fail_in(err, context);
    return FIRN_EINVAL;
}

static enum firn_status build_all(const struct said *said,
                                  const struct survey *s,
                                  struct cluster_build *build,
                                  const char *where, struct firn_error *err)
{
    struct type_said types[TYPES_LISTED];
    long jobs = 0;
    for (const char *at = said->name; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return firn_fail(err, FIRN_EINVAL,
                             "%s: the name has a control character", where);
    if (read_whole("jobs_per_gpu", said->jobs_per_gpu, 1, JOBS_PER_GPU_MAX,
                   &jobs, err) != FIRN_OK)
        return fail_at(where, s->jobs_line, err);
    build->cluster.jobs_per_gpu = (int)jobs; /* 0: not said */
    for (size_t i = 0; i < said->types_count; i++)
        if (read_type(said, i, types, err) != FIRN_OK)
            return fail_at(where, line_of(s->types.at, s->types.n, i), err);
    for (size_t i = 0; i < said->nodes_count; i++)
        if (read_nodes(&said->nodes[i], types, said->types_count, build, err) !=
            FIRN_OK)
            return fail_at(where, line_of(s->nodes.at, s->nodes.n, i), err);
    return FIRN_OK;
}

enum firn_status firn_cluster_parse_yaml(struct firn_cluster *out,
                                         struct firn_bytes yaml,
                                         const char *where,
                                         struct firn_error *err)
{
    struct survey survey = {0};
    struct cluster_build build = {0};
    void *data = NULL;
    enum firn_status status = yaml_walk(yaml, where, judge, &survey, err);
    if (status == FIRN_OK)
        status = yaml_load(&data, &top, yaml, where, &survey.words, err);
    struct said *said = data;
    if (status == FIRN_OK)
        status = build_all(said, &survey, &build, where, err);
    if (status == FIRN_OK &&
        cluster_finish(&build, said->name, out, err) != FIRN_OK) {
        firn_fail_in(err, where);
        status = FIRN_EINVAL;
    }
    yaml_free(data, &top);
    firn_cluster_release(&build.cluster);
    survey_release(&survey);
    return status;
}
