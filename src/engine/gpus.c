/* gpus.c - GPUs as a cluster, and their names for CUDA.
 *
 * A kind of GPU is a type name and an amount of memory. The type is one of
 * core/gpu_types.def if a word of the driver's name, or two neighbouring words
 * together, is such a type: "NVIDIA A100-SXM4-80GB" is an a100, "Quadro RTX
 * 6000" an rtx6000. Otherwise it is the driver's name in lower case, without
 * the maker's. If two kinds have one name, the second has its memory behind it:
 * a100, a100-80.
 */
#include "engine/gpus.h"
#include "base/buf.h"
#include "base/str.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = 12, WORD = 32, NAME = 96 };

static bool is_known(const char *name)
{
    static const char *const known[] = {
#define GPU_TYPE(type, gib, speed) type,
#include "core/gpu_types.def"
#undef GPU_TYPE
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], name) == 0)
            return true;
    return false;
}

/* Splits a name into lower-case words of letters and digits. */
static int split(const char *name, char words[WORDS][WORD])
{
    int n = 0;
    size_t at = 0;
    for (; *name != '\0' && n < WORDS; name++) {
        if (isalnum((unsigned char)*name) && at < WORD - 1) {
            words[n][at++] = (char)tolower((unsigned char)*name);
            words[n][at] = '\0';
        } else if (!isalnum((unsigned char)*name) && at > 0) {
            n++;
            at = 0;
        }
    }
    return at > 0 && n < WORDS ? n + 1 : n;
}

static bool is_maker(const char *word)
{
    return strcmp(word, "nvidia") == 0 || strcmp(word, "tesla") == 0 ||
           strcmp(word, "geforce") == 0 || strcmp(word, "quadro") == 0;
}

static void type_of(const char *name, char out[FIRN_NAME_MAX])
{
    char words[WORDS][WORD], text[NAME] = "";
    int n = split(name, words);
    for (int i = 0; i < n; i++) {
        char two[2 * WORD];
        snprintf(two, sizeof two, "%.31s%.31s", words[i],
                 i + 1 < n ? words[i + 1] : "");
        const char *found = is_known(two)        ? two
                            : is_known(words[i]) ? words[i]
                                                 : NULL;
        if (found != NULL) {
            str_copy(out, FIRN_NAME_MAX, found);
            return;
        }
    }
    size_t at = 0;
    for (int i = 0; i < n; i++)
        if (!is_maker(words[i]) && at + WORD + 1 < sizeof text)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s",
                                   at > 0 ? "-" : "", words[i]);
    str_copy(out, FIRN_NAME_MAX - 6, at > 0 ? text : "gpu");
}

static enum firn_status ask_one(struct gpus *gpus, unsigned device,
                                struct firn_error *err)
{
    const struct nvml *nvml = &gpus->nvml;
    char name[NAME] = "";
    unsigned long long memory[3] = {0};
    struct gpu gpu = {.device = device};
    void *handle = NULL;
    if (nvml->handle(device, &handle) != 0 ||
        nvml->name(handle, name, sizeof name) != 0 ||
        nvml->memory(handle, memory) != 0 ||
        nvml->uuid(handle, gpu.visible, sizeof gpu.visible) != 0)
        return firn_fail(err, FIRN_EIO,
                         "the NVIDIA driver does not answer for GPU %u",
                         device);
    if (nvml->minor == NULL || nvml->minor(handle, &gpu.minor) != 0)
        gpu.minor = device; /* so it is on most hosts */
    type_of(name, gpu.type);
    /* Tenths, rounded down. */
    gpu.mem_gib =
        (double)(unsigned long long)((double)memory[0] / (1 << 30) * 10) / 10;
    vec_add(&gpus->at, gpu);
    return FIRN_OK;
}

static bool same_kind(const struct gpu *a, const struct gpu *b)
{
    return strcmp(a->type, b->type) == 0 && a->mem_gib == b->mem_gib;
}

/* Appends the memory to a name that an earlier kind has. */
static void tell_apart(struct gpus *gpus)
{
    for (size_t i = 0; i < gpus->at.n; i++)
        for (size_t k = 0; k < i; k++) {
            struct gpu *gpu = &gpus->at.at[i];
            const struct gpu *other = &gpus->at.at[k];
            if (strcmp(gpu->type, other->type) != 0 || same_kind(gpu, other))
                continue;
            char text[FIRN_NAME_MAX + 16];
            snprintf(text, sizeof text, "%.25s-%.0f", gpu->type, gpu->mem_gib);
            str_copy(gpu->type, sizeof gpu->type, text);
            k = (size_t)-1; /* the name has changed: compare with all again */
        }
}

/* Makes a node of each kind, in the order of their first GPUs: numbers and
 * sorts the GPUs, writes the spec. */
static void group(struct gpus *gpus)
{
    VEC(struct gpu) sorted = {0};
    int node = 0;
    for (size_t i = 0; i < gpus->at.n; i++) {
        int n = 0;
        bool is_first = true;
        for (size_t k = 0; k < i; k++)
            if (same_kind(&gpus->at.at[k], &gpus->at.at[i]))
                is_first = false;
        for (size_t k = i; is_first && k < gpus->at.n; k++) {
            struct gpu gpu = gpus->at.at[k];
            if (!same_kind(&gpu, &gpus->at.at[i]))
                continue;
            gpu.node = node;
            gpu.index = n++;
            vec_add(&sorted, gpu);
        }
        if (!is_first)
            continue;
        buf_printf(&gpus->spec, "%s1x%d:%s@%.1f", node > 0 ? "," : "", n,
                   gpus->at.at[i].type, gpus->at.at[i].mem_gib);
        node++;
    }
    for (size_t i = 0; i < sorted.n; i++) /* as many */
        gpus->at.at[i] = sorted.at[i];
    vec_release(&sorted);
}

enum firn_status gpus_ask(struct gpus *out, const struct nvml *nvml,
                          struct firn_error *err)
{
    unsigned n = 0;
    enum firn_status status = FIRN_OK;
    *out = (struct gpus){.nvml = *nvml, .has_nvml = true};
    if (nvml->count(&n) != 0)
        status =
            firn_fail(err, FIRN_EIO,
                      "the NVIDIA driver does not report its number of GPUs");
    for (unsigned i = 0; i < n && status == FIRN_OK; i++)
        status = ask_one(out, i, err);
    if (status == FIRN_OK && out->at.n == 0)
        status = firn_fail(err, FIRN_ENOENT,
                           "the NVIDIA driver has no GPU; declare GPUs by "
                           "local.gpus, such as gpus=1x4:v100@16");
    if (status == FIRN_OK) {
        tell_apart(out);
        group(out);
        status = firn_cluster_parse_spec(&out->cluster, out->spec.at, err);
    }
    if (status != FIRN_OK)
        gpus_close(out);
    return status;
}

static enum firn_status declare(struct gpus *out, const char *spec,
                                struct firn_error *err)
{
    *out = (struct gpus){0};
    FIRN_TRY(firn_cluster_parse_spec(&out->cluster, spec, err));
    buf_puts(&out->spec, spec);
    for (int i = 0; i < out->cluster.nnodes; i++)
        for (int k = 0; k < out->cluster.nodes[i].ngpus; k++) {
            struct gpu gpu = {.node = i, .index = k};
            snprintf(gpu.visible, sizeof gpu.visible, "%d", k);
            vec_add(&out->at, gpu);
        }
    return FIRN_OK;
}

enum firn_status gpus_open(struct gpus *out, const char *spec,
                           struct firn_error *err)
{
    struct nvml nvml;
    if (spec[0] != '\0')
        return declare(out, spec, err);
    FIRN_TRY(nvml_open(&nvml, err));
    return gpus_ask(out, &nvml, err);
}

void gpus_close(struct gpus *gpus)
{
    buf_release(&gpus->spec);
    firn_cluster_release(&gpus->cluster);
    vec_release(&gpus->at);
    if (gpus->has_nvml)
        nvml_close(&gpus->nvml);
    *gpus = (struct gpus){0};
}

const struct gpu *gpus_at(const struct gpus *gpus, int node, int index)
{
    for (size_t i = 0; i < gpus->at.n; i++)
        if (gpus->at.at[i].node == node && gpus->at.at[i].index == index)
            return &gpus->at.at[i];
    return NULL;
}
