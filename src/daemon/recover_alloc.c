/* recover_alloc.c - an allocation from the text that firn_alloc_print() wrote.
 *
 * "n0[0-3,7] n2[1]", then how a model is split ("/s", "/p4"), then "~" for GPUs
 * that are shared; "-" for none. Nodes and GPUs rise; a text that does not read
 * exactly so is refused, and nothing is given out.
 */
#include "base/mem.h"
#include "core/accounts.h"
#include "daemon/recover.h"
#include <ctype.h>
#include <firn/parallel.h>
#include <string.h>

bool recover_number(const char **at, int max, int *out)
{
    long value = 0;
    const char *from = *at;
    while (isdigit((unsigned char)**at) && value <= max)
        value = 10 * value + (*(*at)++ - '0');
    *out = (int)value;
    return *at > from && value <= max;
}

static void add_gpu(struct firn_alloc *out, int node, int gpu)
{
    int board = gpu / FIRN_BOARD_GPUS;
    struct firn_part *last =
        out->nparts > 0 ? &out->parts[out->nparts - 1] : NULL;
    if (last == NULL || last->node != node || last->board != board) {
        out->parts = mem_grow(out->parts, (size_t)out->nparts,
                              (size_t)out->nparts + 1, sizeof *out->parts);
        last = &out->parts[out->nparts++];
        *last = (struct firn_part){node, board, 0};
    }
    last->gpus |= (uint64_t)1 << gpu % FIRN_BOARD_GPUS;
    out->ngpus++;
}

/* "n0[0-3,7]" */
static bool read_node(const char **at, struct firn_alloc *out)
{
    int node = 0, first = 0, last = 0, least = 0;
    if (*(*at)++ != 'n' || !recover_number(at, FIRN_NODES_MAX, &node) ||
        *(*at)++ != '[')
        return false;
    if (out->nparts > 0 && out->parts[out->nparts - 1].node >= node)
        return false;
    do {
        if (!recover_number(at, FIRN_NODE_GPUS_MAX - 1, &first) ||
            first < least)
            return false;
        last = first;
        if (**at == '-') {
            (*at)++;
            if (!recover_number(at, FIRN_NODE_GPUS_MAX - 1, &last) ||
                last < first)
                return false;
        }
        for (int gpu = first; gpu <= last; gpu++)
            add_gpu(out, node, gpu);
        least = last + 1;
    } while (**at == ',' && (*at)++);
    return *(*at)++ == ']';
}

/* "+1", "+2ro": what saves memory, in the order of the bits. */
static bool read_saves(const char **at, struct firn_how *how)
{
    static const char marks[] = "12ro";
    if (**at != '+')
        return true;
    ++*at;
    int saves = 0;
    for (int i = 0; marks[i] != '\0'; i++)
        if (**at == marks[i]) {
            saves |= FIRN_SAVES_STATE << i;
            ++*at;
        }
    how->parallel |= saves;
    return saves != 0;
}

/* "/s", "/p4", "/p4t2", "/o", "/r" */
static bool read_split(const char **at, struct firn_how *how)
{
    bool is_good = true;
    if ((*at)[0] == '/' && (*at)[1] == 's') {
        how->parallel = FIRN_PARALLEL_SHARDED;
        *at += 2;
    } else if ((*at)[0] == '/' && (*at)[1] == 'p') {
        how->parallel = FIRN_PARALLEL_PIPELINE;
        *at += 2;
        is_good = recover_number(at, FIRN_NODE_GPUS_MAX, &how->stages);
        if (is_good && **at == 't') {
            ++*at;
            is_good = recover_number(at, FIRN_NODE_GPUS_MAX, &how->tensor);
        }
    } else if ((*at)[0] == '/' && ((*at)[1] == 'o' || (*at)[1] == 'r')) {
        how->parallel =
            (*at)[1] == 'o' ? FIRN_PARALLEL_OFFLOAD : FIRN_PARALLEL_RECOMPUTE;
        *at += 2;
    }
    return is_good;
}

bool recover_alloc(const char *text, struct firn_alloc *out)
{
    struct firn_alloc alloc = FIRN_ALLOC_NONE;
    const char *at = text;
    bool is_good = true;
    if (strcmp(text, "-") == 0) {
        *out = alloc;
        return true;
    }
    do
        is_good = read_node(&at, &alloc);
    while (is_good && *at == ' ' && at++);
    is_good =
        is_good && read_split(&at, &alloc.how) && read_saves(&at, &alloc.how);
    if (is_good && *at == '~') {
        alloc.is_shared = true;
        at++;
    }
    if (!is_good || *at != '\0') {
        mem_free(alloc.parts);
        return false;
    }
    *out = alloc;
    return true;
}

double recover_gpus(const char *text)
{
    struct firn_alloc alloc = FIRN_ALLOC_NONE;
    double gpus = 0;
    if (text != NULL && recover_alloc(text, &alloc))
        gpus = accounts_weight(&alloc);
    mem_free(alloc.parts);
    return gpus;
}
