/* profiletext.c - the tables behind the text of a profile. */
#include "model/profiletext.h"
#include <string.h>

#define FIELD(name, min, max, unless)                                        \
    {                                                                        \
#name, offsetof(struct firn_itertime, name), min, max, unless, false \
    }
#define COUNT(name)                                                  \
    {                                                                \
#name, offsetof(struct firn_itertime, name), 0, 1e6, 0, true \
    }
#define SECONDS(name) FIELD(name, 0, 1e9, 0)
#define LAW(name) \
    SECONDS(name.alpha_s), SECONDS(name.beta_s), SECONDS(name.crowd_s)

const struct profiletext_field profiletext_fields[] = {
    SECONDS(alpha_s),
    SECONDS(beta_s),
    SECONDS(curve_s),
    SECONDS(floor_s),
    FIELD(crowd, 0, 1e3, 0),
    FIELD(phi, 0, 0.9, 0),
    FIELD(phi_fixed, 0, 1, 0),
    FIELD(gamma, 1, 1e3, 1),
    LAW(local),
    LAW(pair),
    LAW(far),
    SECONDS(byte_s),
    FIELD(message_bytes, 0, 1e18, 0),
    SECONDS(flop_alpha_s),
    FIELD(flop_beta, 0, 1e3, 0),
    FIELD(flop_gamma, 0, 10, 0),
    SECONDS(sync_alpha_s),
    FIELD(sync_beta, 0, 1e3, 0),
    FIELD(batch_min, 0, 1e9, 0),
    FIELD(batch_max, 0, 1e9, 0),
    FIELD(theta_min, 0, 1, 0),
    COUNT(gpus_max),
    COUNT(nodes_max),
};

#define MORE(part, name, min, max)                                        \
    {                                                                     \
#name, offsetof(struct firn_profile_gpu, part.name), min, max, 0, \
            false                                                         \
    }
#define MORE_LAW(part, name)                                           \
    MORE(part, name.alpha_s, 0, 1e9), MORE(part, name.beta_s, 0, 1e9), \
        MORE(part, name.crowd_s, 0, 1e9)

static const struct profiletext_field sharded[] = {
    MORE(sharded, gamma_lm, 1, 1e3),
    MORE(sharded, para_alpha_s, 0, 1e9),
    MORE(sharded, para_beta, 0, 1e3),
    MORE_LAW(sharded, local),
    MORE_LAW(sharded, pair),
    MORE_LAW(sharded, far),
    {.name = NULL},
};

static const struct profiletext_field pipeline[] = {
    MORE(pipeline, micro_batch, 1, 1e6),
    MORE(pipeline, act_s, 0, 1e9),
    MORE(pipeline, far_act_s, 0, 1e9),
    {.name = NULL},
};

const struct profiletext_more profiletext_mores[] = {
    {"sharded", sharded, &sharded[0]},
    {"pipeline", pipeline, &pipeline[0]},
    {NULL, NULL, NULL},
};

const size_t profiletext_nfields =
    sizeof profiletext_fields / sizeof *profiletext_fields;

const struct profiletext_line profiletext_lines[] = {
    {"app", offsetof(struct firn_profile, app), FIRN_PROFILE_NAME},
    {"source", offsetof(struct firn_profile, source), FIRN_PROFILE_NAME},
    {"origin", offsetof(struct firn_profile, origin), FIRN_PROFILE_TEXT},
    {"hardware", offsetof(struct firn_profile, hardware), FIRN_PROFILE_TEXT},
    {"method", offsetof(struct firn_profile, method), FIRN_PROFILE_TEXT},
    {NULL, 0, 0},
};

const struct profiletext_number profiletext_numbers[] = {
    {"batch_initial", offsetof(struct firn_profile, batch0), 0},
    {"batch_max", offsetof(struct firn_profile, batch_max), 0},
    {"local_min", offsetof(struct firn_profile, local_min), 0},
    {"local_max", offsetof(struct firn_profile, local_max), 0},
    {"epochs", offsetof(struct firn_profile, epochs), 0},
    {"progress", offsetof(struct firn_profile, progress), 0},
    {"layer_count", offsetof(struct firn_profile, layers), 0},
    {"states_mib", offsetof(struct firn_profile, states_mib), 0},
    {"restart_s", offsetof(struct firn_profile, restart_s), -1},
    {NULL, 0, 0},
};

const struct profiletext_field *profiletext_find(const char *name)
{
    for (size_t i = 0; i < profiletext_nfields; i++)
        if (strcmp(profiletext_fields[i].name, name) == 0)
            return &profiletext_fields[i];
    return NULL;
}

double profiletext_get(const struct profiletext_field *field, const void *of)
{
    const char *at = (const char *)of + field->at;
    return field->is_int ? *(const int *)(const void *)at
                         : *(const double *)(const void *)at;
}

void profiletext_set(const struct profiletext_field *field, void *of,
                     double value)
{
    char *at = (char *)of + field->at;
    if (field->is_int)
        *(int *)(void *)at = (int)value;
    else
        *(double *)(void *)at = value;
}
