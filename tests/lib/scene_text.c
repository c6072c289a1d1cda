/* scene_text.c - reading the clauses of a scene; see scene.h for the words.
 */
#include "scene_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include <cmocka.h>
#include <string.h>

/* Cuts the next word off; NULL at the end. */
static char *word(char **at)
{
    char *start = *at + strspn(*at, " ");
    if (*start == '\0')
        return NULL;
    char *end = start + strcspn(start, " ");
    *at = end + (*end != '\0');
    *end = '\0';
    return start;
}

static double number(char **at, const char *after)
{
    const char *text = word(at);
    double value = 0;
    if (text == NULL || !str_double(text, &value))
        fail_msg("scene: a number is missing after '%s'", after);
    return value;
}

char *scene_clause(char **at)
{
    char *start = *at + strspn(*at, "; ");
    if (*start == '\0')
        return NULL;
    char *end = start + strcspn(start, ";");
    *at = end + (*end != '\0');
    *end = '\0';
    return start;
}

bool scene_machines(const char *clause, struct firn_buf *spec, int *share)
{
    int count, gpus, jobs, end = 0;
    char type[FIRN_NAME_MAX] = "gpu";
    if (sscanf(clause, "%d jobs per gpu%n", &jobs, &end) == 1 && end > 0) {
        *share = jobs;
        return true;
    }
    int n = sscanf(clause, "%d nodes x %d gpus%n of %31s", &count, &gpus, &end,
                   type);
    if (n < 2)
        n = sscanf(clause, "%d node x %d gpus%n of %31s", &count, &gpus, &end,
                   type);
    if (n < 2 || end == 0)
        return false;
    buf_printf(spec, "%s%dx%d:%s", spec->n > 0 ? "," : "", count, gpus, type);
    return true;
}

bool scene_down(const char *clause, firn_node_id *node)
{
    int end = 0;
    return sscanf(clause, "n%d down%n", node, &end) == 1 && end > 0;
}

static unsigned abilities(const char *words)
{
    unsigned can = 0;
    if (words == NULL || !firn_can_read(words, strlen(words), &can))
        fail_msg("scene: '%s' are not abilities", words ? words : "");
    return can;
}

/* "n0,n3" as bits, until the next call. */
static const uint64_t *barred(const char *words)
{
    static uint64_t bits[16];
    memset(bits, 0, sizeof bits);
    for (const char *at = words; at != NULL && *at != '\0';) {
        int node = 0, n = 0;
        if (sscanf(at, "n%d%n", &node, &n) != 1 || node < 0 || node >= 1024)
            fail_msg("scene: '%s' are not nodes", words);
        bits[node / 64] |= (uint64_t)1 << node % 64;
        at += n + (at[n] == ',');
    }
    return bits;
}

/* One "key value" of a job, or false when the key is unknown. */
static bool read_pair(struct scene_said *said, const char *key, char **at)
{
    struct firn_job_spec *spec = &said->spec;
    if (strcmp(key, "from") == 0)
        spec->gpus_min = (int)number(at, key);
    else if (strcmp(key, "to") == 0)
        spec->gpus_max = (int)number(at, key);
    else if (strcmp(key, "for") == 0)
        spec->duration_s = number(at, key);
    else if (strcmp(key, "at") == 0)
        spec->submit_s = number(at, key);
    else if (strcmp(key, "mem") == 0)
        spec->mem_gib = number(at, key);
    else if (strcmp(key, "served") == 0)
        said->served_gpu_s = number(at, key);
    else if (strcmp(key, "took") == 0)
        said->held_s = number(at, key);
    else if (strcmp(key, "did") == 0)
        said->done_s = number(at, key);
    else if (strcmp(key, "types") == 0)
        spec->types = word(at);
    else if (strcmp(key, "merges") == 0)
        spec->merge_key = word(at), spec->may_merge = true;
    else if (strcmp(key, "seq") == 0)
        spec->seq = (int)number(at, key);
    else if (strcmp(key, "cannot") == 0)
        spec->cannot = abilities(word(at));
    else if (strcmp(key, "barred") == 0)
        said->barred = barred(word(at));
    else if (strcmp(key, "on") == 0)
        said->on = *at;
    else
        return false;
    return true;
}

struct scene_said scene_said(char *clause)
{
    struct scene_said said = {0};
    char *at = clause;
    struct firn_job_spec *spec = &said.spec;
    *spec = (struct firn_job_spec){.name = word(&at),
                                   .app = "",
                                   .group = "",
                                   .types = "",
                                   .duration_s = 1000,
                                   .restart_s = -1};
    const char *wants = word(&at);
    if (wants == NULL || strcmp(wants, "wants") != 0)
        fail_msg("scene: '%s' does not say what it wants", spec->name);
    spec->gpus = (int)number(&at, "wants");
    spec->gpus_min = spec->gpus_max = spec->gpus;
    for (char *key; (key = word(&at)) != NULL;) {
        if (strcmp(key, "shares") == 0)
            spec->may_share = true;
        else if (strcmp(key, "alike") == 0)
            spec->one_type = true;
        else if (strcmp(key, "humble") == 0)
            spec->best_effort = true;
        else if (!read_pair(&said, key, &at))
            fail_msg("scene: '%s' of job %s is not a key of a scene", key,
                     spec->name);
        if (said.on != NULL)
            break;
    }
    if (spec->merge_key != NULL && strcmp(spec->merge_key, "-") == 0)
        spec->merge_key = NULL;
    said.is_old = said.served_gpu_s > 0 || said.held_s > 0 || said.done_s > 0 ||
                  said.on != NULL;
    return said;
}
