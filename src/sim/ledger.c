/* ledger.c - which jobs hold which GPU, counted from a log's text.
 *
 * (1) gpus[i] counts the holdings taken and not dropped that contain i.
 * (2) nconflicts is the number of GPUs that are over-full: held whole by one
 *     job and by another, or shared by more than jobs_per_gpu.
 *
 * Cost: O(GPUs named * log runs) a line; a cluster has few runs of nodes.
 */
#include "sim/ledger.h"
#include "base/buf.h"
#include <limits.h>
#include <string.h>

enum firn_status ledger_add(struct ledger *ledger, struct ledger_run run,
                            struct firn_error *err)
{
    if (run.first != ledger->nnodes || run.last < run.first)
        return firn_fail(err, FIRN_EINVAL, "nodes %d-%d do not follow node %d",
                         run.first, run.last, ledger->nnodes - 1);
    int64_t count = (int64_t)run.last - run.first + 1;
    int64_t ngpus = ledger->ngpus + count * run.ngpus;
    if (run.last >= FIRN_NODES_MAX || ngpus > LEDGER_GPUS_MAX)
        return firn_fail(err, FIRN_EINVAL, "more nodes or GPUs than %d or %d",
                         FIRN_NODES_MAX, LEDGER_GPUS_MAX);
    run.first_gpu = ledger->ngpus;
    vec_add(&ledger->runs, run);
    ledger->nnodes = run.last + 1;
    ledger->ngpus = (int)ngpus;
    return FIRN_OK;
}

void ledger_seal(struct ledger *ledger, int jobs_per_gpu)
{
    ledger->jobs_per_gpu = jobs_per_gpu;
    ledger->nodes = mem_new((size_t)ledger->nnodes, sizeof *ledger->nodes);
    ledger->gpus = mem_new((size_t)ledger->ngpus, sizeof *ledger->gpus);
    for (size_t i = 0; i < ledger->runs.n; i++) {
        const struct ledger_run *run = &ledger->runs.at[i];
        for (int node = run->first; node <= run->last; node++) {
            ledger->nodes[node].is_up = run->is_up;
            ledger->nup += run->is_up ? run->ngpus : 0;
        }
    }
}

void ledger_release(struct ledger *ledger)
{
    if (!ledger)
        return;
    vec_release(&ledger->runs);
    mem_free(ledger->nodes);
    mem_free(ledger->gpus);
    *ledger = (struct ledger){0};
}

/* The run of a node, or of a GPU's number when `by_gpu`. It must exist. */
static const struct ledger_run *run_of(const struct ledger *ledger, int key,
                                       bool by_gpu)
{
    size_t low = 0, high = ledger->runs.n;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        const struct ledger_run *run = &ledger->runs.at[middle];
        if ((by_gpu ? run->first_gpu : run->first) <= key)
            low = middle;
        else
            high = middle;
    }
    return &ledger->runs.at[low];
}

static int node_of(const struct ledger *ledger, int gpu)
{
    const struct ledger_run *run = run_of(ledger, gpu, true);
    return run->first + (gpu - run->first_gpu) / run->ngpus;
}

static int place_of(const struct ledger *ledger, int gpu)
{
    const struct ledger_run *run = run_of(ledger, gpu, true);
    return (gpu - run->first_gpu) % run->ngpus;
}

/* Reads digits at *at; -1 when there are none or too many. */
static int read_int(char **at)
{
    char *from = *at;
    long value = 0;
    while (**at >= '0' && **at <= '9' && value < INT_MAX / 10)
        value = value * 10 + *(*at)++ - '0';
    return *at > from && !(**at >= '0' && **at <= '9') ? (int)value : -1;
}

/* Reads "0-3,5]" behind the bracket of `node`. */
static enum firn_status read_gpus(const struct ledger *ledger, int node,
                                  char **at, struct holding *out,
                                  struct firn_error *err)
{
    const struct ledger_run *run = run_of(ledger, node, false);
    int base = run->first_gpu + (node - run->first) * run->ngpus;
    do {
        int first = read_int(at), last = first;
        if (**at == '-') {
            (*at)++;
            last = read_int(at);
        }
        if (first < 0 || last < first || (**at != ',' && **at != ']'))
            return firn_fail(err, FIRN_EINVAL,
                             "the GPUs of node %d cannot be read", node);
        if (last >= run->ngpus)
            return firn_fail(err, FIRN_EINVAL, "node %d has no GPU %d", node,
                             last);
        for (int gpu = base + first; gpu <= base + last; gpu++) {
            if (out->gpus.n > 0 && gpu <= out->gpus.at[out->gpus.n - 1])
                return firn_fail(err, FIRN_EINVAL,
                                 "GPU %d of node %d is named twice or out of "
                                 "order",
                                 gpu - base, node);
            vec_add(&out->gpus, gpu);
        }
    } while (*(*at)++ == ',');
    return FIRN_OK;
}

/* A model that is not in stages: sharded, offloaded, activations computed
 * again. */
static const char uncut[] = "sor";

/* Shares of a stage, "t2"; 1 for none, 0 when it is no number. */
static int read_shares(char **at)
{
    if (**at != 't')
        return 1;
    ++*at;
    return read_int(at);
}

/* What saves memory: stages 1 and 2 of ZeRO, activations computed again, the
 * optimizer on the host. */
static const char saves[] = "12ro";

/* "+1" or "+2ro" at the end is cut off. */
static enum firn_status read_saves(char *text, struct holding *out,
                                   struct firn_error *err)
{
    char *at = strchr(text, '+');
    if (at == NULL)
        return FIRN_OK;
    *at++ = '\0';
    for (int i = 0; saves[i] != '\0'; i++)
        if (*at == saves[i]) {
            out->saves |= 1 << i;
            at++;
        }
    if (*at != '\0' || out->saves == 0)
        return firn_fail(err, FIRN_EINVAL,
                         "memory is saved by '1', '2', 'r' or 'o', in this "
                         "order, not by '%.8s'",
                         at);
    return FIRN_OK;
}

/* "/s", "/o", "/r", "/p4" or "/p4t2" at the end is cut off. */
static enum firn_status read_spread(char *text, struct holding *out,
                                    struct firn_error *err)
{
    char *at = strchr(text, '/');
    if (at == NULL)
        return FIRN_OK;
    *at++ = '\0';
    char kind = *at;
    at += kind != '\0';
    const char *copies = strchr(uncut, kind);
    out->stages = 0;
    out->shares = 1;
    if (kind == 'p') {
        out->stages = read_int(&at);
        out->shares = read_shares(&at);
    } else if (kind != '\0' && copies != NULL) {
        out->stages = -1 - (int)(copies - uncut);
    }
    if (*at != '\0' || out->stages == 0 || out->shares < 1 ||
        (kind == 'p' && out->stages < 1))
        return firn_fail(err, FIRN_EINVAL,
                         "a model is sharded (/s, /o), copied (/r) or in "
                         "stages (/p4, /p4t2)");
    return FIRN_OK;
}

static enum firn_status read_all(const struct ledger *ledger, char *at,
                                 struct holding *out, struct firn_error *err)
{
    out->is_shared = *at != '\0' && at[strlen(at) - 1] == '~';
    if (out->is_shared)
        at[strlen(at) - 1] = '\0';
    FIRN_TRY(read_saves(at, out, err));
    FIRN_TRY(read_spread(at, out, err));
    for (;;) {
        int node = *at == 'n' ? (at++, read_int(&at)) : -1;
        if (node < 0 || *at != '[')
            return firn_fail(err, FIRN_EINVAL, "'%.40s' is no allocation", at);
        if (node >= ledger->nnodes)
            return firn_fail(err, FIRN_EINVAL, "there is no node %d", node);
        at++;
        FIRN_TRY(read_gpus(ledger, node, &at, out, err));
        if (*at == '\0')
            return FIRN_OK;
        if (*at++ != ' ')
            return firn_fail(err, FIRN_EINVAL, "'%.40s' is no allocation",
                             at - 1);
    }
}

enum firn_status ledger_read(const struct ledger *ledger, char *text,
                             struct holding *out, struct firn_error *err)
{
    *out = (struct holding){0};
    enum firn_status status = read_all(ledger, text, out, err);
    if (status != FIRN_OK)
        vec_release(&out->gpus);
    return status;
}

static bool is_overfull(const struct ledger *ledger, struct ledger_gpu gpu)
{
    return gpu.whole + (gpu.shared > 0) > 1 ||
           gpu.shared > ledger->jobs_per_gpu;
}

/* Adds `by` (1 or -1) holders to one GPU, keeping the counts. */
static void count_gpu(struct ledger *ledger, int gpu, bool is_shared, int by)
{
    struct ledger_gpu *at = &ledger->gpus[gpu];
    struct ledger_node *node = &ledger->nodes[node_of(ledger, gpu)];
    bool was_busy = at->whole + at->shared > 0;
    bool was_overfull = is_overfull(ledger, *at);
    if (is_shared)
        at->shared = (uint8_t)(at->shared + by);
    else
        at->whole = (uint8_t)(at->whole + by);
    bool is_bad = is_overfull(ledger, *at);
    if (is_bad && ledger->nconflicts == 0) {
        ledger->conflict_node = node_of(ledger, gpu);
        ledger->conflict_gpu = place_of(ledger, gpu);
    }
    ledger->nbusy += (at->whole + at->shared > 0) - was_busy;
    ledger->nconflicts += is_bad - was_overfull;
    node->nheld += by;
    ledger->nondown += node->is_up ? 0 : by;
}

enum firn_status ledger_take(struct ledger *ledger, const struct holding *held,
                             struct firn_error *err)
{
    for (size_t i = 0; i < held->gpus.n; i++) {
        int gpu = held->gpus.at[i], node = node_of(ledger, gpu);
        const struct ledger_gpu *at = &ledger->gpus[gpu];
        if (!ledger->nodes[node].is_up)
            return firn_fail(err, FIRN_EINVAL, "node %d is down", node);
        if (at->whole + at->shared >= LEDGER_SHARERS_MAX)
            return firn_fail(
                err, FIRN_EINVAL, "GPU %d of node %d is held by %d jobs",
                place_of(ledger, gpu), node, at->whole + at->shared);
    }
    for (size_t i = 0; i < held->gpus.n; i++)
        count_gpu(ledger, held->gpus.at[i], held->is_shared, 1);
    return FIRN_OK;
}

void ledger_drop(struct ledger *ledger, const struct holding *held)
{
    for (size_t i = 0; i < held->gpus.n; i++)
        count_gpu(ledger, held->gpus.at[i], held->is_shared, -1);
}

enum firn_status ledger_node_set(struct ledger *ledger, int node, bool is_up,
                                 struct firn_error *err)
{
    if (node < 0 || node >= ledger->nnodes)
        return firn_fail(err, FIRN_EINVAL, "there is no node %d", node);
    struct ledger_node *at = &ledger->nodes[node];
    if (at->is_up == is_up)
        return firn_fail(err, FIRN_EINVAL, "node %d is %s already", node,
                         is_up ? "up" : "down");
    int ngpus = run_of(ledger, node, false)->ngpus;
    at->is_up = is_up;
    ledger->nup += is_up ? ngpus : -ngpus;
    ledger->nondown += is_up ? -at->nheld : at->nheld;
    return FIRN_OK;
}

int ledger_print(const struct ledger *ledger, const struct holding *held,
                 struct firn_buf *out)
{
    int nnodes = 0;
    for (size_t i = 0, to; i < held->gpus.n; i = to) {
        int node = node_of(ledger, held->gpus.at[i]);
        int first = place_of(ledger, held->gpus.at[i]), last = first;
        for (to = i + 1; to < held->gpus.n; to++, last++)
            if (held->gpus.at[to] != held->gpus.at[to - 1] + 1 ||
                node_of(ledger, held->gpus.at[to]) != node)
                break;
        bool is_new = i == 0 || node_of(ledger, held->gpus.at[i - 1]) != node;
        bool is_last =
            to == held->gpus.n || node_of(ledger, held->gpus.at[to]) != node;
        nnodes += is_new;
        if (is_new)
            buf_printf(out, "%sn%d[", i > 0 ? " " : "", node);
        buf_printf(out, last > first ? "%s%d-%d" : "%s%d", is_new ? "" : ",",
                   first, last);
        buf_puts(out, is_last ? "]" : "");
    }
    if (held->stages < 0)
        buf_printf(out, "/%c", uncut[-1 - held->stages]);
    if (held->stages > 0)
        buf_printf(out, "/p%d", held->stages);
    if (held->stages > 0 && held->shares > 1)
        buf_printf(out, "t%d", held->shares);
    buf_puts(out, held->saves != 0 ? "+" : "");
    for (int i = 0; saves[i] != '\0'; i++)
        if (held->saves >> i & 1)
            buf_putc(out, saves[i]);
    buf_puts(out, held->is_shared ? "~" : "");
    return nnodes;
}
