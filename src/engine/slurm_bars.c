/* slurm_bars.c - what Slurm does not let a job have, for the next decision.
 *
 * Slurm may refuse a job, or keep it pending where firn pinned it: for an
 * account, a limit, a reservation that begins before the job's time limit. The
 * job then gives its GPUs back, and until the bar ends the policy gives it
 * none, fewer, or those of other nodes (FIRN_EVENT_BARS). After that it is
 * tried again: Slurm's limits change without notice.
 *
 * Bars are kept by job, not by attempt, and outlive the record of a job that
 * gave its GPUs back.
 *
 * Invariants:
 * (1) each bar ends, and the host hears of its end;
 * (2) a repeated refusal is tried again after 2, 4, ... 60 s.
 *
 * Cost: a walk over the barred jobs for a question.
 */
#include "base/log.h"
#include "base/str.h"
#include "engine/slurmwork.h"
#include <math.h>
#include <string.h>

static const double first_s = 2, longest_s = 60;
static const double nodes_s = 5;    /* the shortest bar of nodes */
static const double forget_s = 600; /* refusals that long ago do not count */

static struct slurm_bar *find(const struct slurm *slurm, firn_job_id id)
{
    for (size_t i = 0; i < slurm->bars.n; i++)
        if (slurm->bars.at[i].job == id)
            return &slurm->bars.at[i];
    return NULL;
}

static struct slurm_bar *make(struct slurm *slurm, firn_job_id id,
                              const char *why)
{
    struct slurm_bar *bar = find(slurm, id);
    if (bar == NULL) {
        struct slurm_bar new = {.job = id};
        vec_add(&slurm->bars, new);
        bar = &slurm->bars.at[slurm->bars.n - 1];
    }
    str_copy(bar->why, sizeof bar->why, why);
    bar->last_s = slurm_now_s(slurm);
    return bar;
}

static void tell(struct slurm *slurm, firn_job_id id)
{
    slurm_report(slurm,
                 (struct firn_event){.kind = FIRN_EVENT_BARS, .job = id});
}

/* (2) */
static double wait_behind_s(int nrefusals)
{
    double wait = first_s;
    for (int i = 0; i < nrefusals && wait < longest_s; i++)
        wait *= 2;
    return fmin(wait, longest_s);
}

static double wait_s(struct slurm_bar *bar)
{
    return wait_behind_s(bar->nrefusals++);
}

double slurm_bar_next_s(const struct slurm *slurm, firn_job_id id)
{
    const struct slurm_bar *bar = find(slurm, id);
    return wait_behind_s(bar != NULL ? bar->nrefusals : 0);
}

void slurm_bar_all(struct slurm *slurm, firn_job_id id, double for_s,
                   const char *why)
{
    struct slurm_bar *bar = make(slurm, id, why);
    for_s = for_s > 0 ? for_s : wait_s(bar);
    bar->all_s = slurm_now_s(slurm) + for_s;
    log_warn("job %d: next try to start it in %.0f s: %s", id, for_s, why);
    tell(slurm, id);
}

void slurm_bar_gpus(struct slurm *slurm, firn_job_id id, int gpus_max,
                    const char *why)
{
    struct slurm_bar *bar = make(slurm, id, why);
    bar->gpus_max = gpus_max;
    bar->gpus_s = slurm_now_s(slurm) + longest_s;
    log_info("job %d: at most %d GPUs for %.0f s: %s", id, gpus_max, longest_s,
             why);
    tell(slurm, id);
}

void slurm_bar_nodes(struct slurm *slurm, firn_job_id id,
                     const struct firn_alloc *alloc, const char *why)
{
    struct slurm_bar *bar = make(slurm, id, why);
    size_t words = (slurm->hosts.n + 63) / 64;
    if (bar->nodes == NULL)
        bar->nodes = mem_new(words, sizeof *bar->nodes);
    for (int i = 0; i < alloc->nparts; i++) {
        firn_node_id node = alloc->parts[i].node;
        bar->nodes[node / 64] |= (uint64_t)1 << node % 64;
    }
    bar->nodes_s = slurm_now_s(slurm) + fmax(nodes_s, wait_s(bar)); /* (2) */
    size_t nbarred = 0;
    for (size_t w = 0; w < words; w++)
        nbarred += (size_t)__builtin_popcountll(bar->nodes[w]);
    if (nbarred == slurm->hosts.n) /* it blocks no job behind it */
        bar->all_s = bar->nodes_s;
    tell(slurm, id);
}

void slurm_bars_node(struct slurm *slurm, firn_node_id node)
{
    for (size_t i = 0; i < slurm->bars.n; i++) {
        struct slurm_bar *bar = &slurm->bars.at[i];
        uint64_t bit = (uint64_t)1 << node % 64;
        if (bar->nodes == NULL || (bar->nodes[node / 64] & bit) == 0)
            continue;
        bar->nodes[node / 64] &= ~bit;
        if (!(bar->all_s > bar->nodes_s)) /* all nodes were barred */
            bar->all_s = 0;
        tell(slurm, bar->job);
    }
}

bool slurm_bars(struct slurm *slurm, firn_job_id id, struct firn_bars *out)
{
    const struct slurm_bar *bar = find(slurm, id);
    double now_s = slurm_now_s(slurm);
    *out = (struct firn_bars){.why = ""};
    if (bar == NULL)
        return false;
    if (bar->all_s > now_s)
        out->until_s = bar->all_s;
    if (bar->gpus_s > now_s)
        out->gpus_max = bar->gpus_max;
    if (bar->nodes_s > now_s)
        out->nodes = bar->nodes;
    out->why = bar->why;
    return out->until_s > 0 || out->gpus_max > 0 || out->nodes != NULL;
}

void slurm_bars_end(struct slurm *slurm)
{
    double now_s = slurm_now_s(slurm);
    size_t n = 0;
    for (size_t i = 0; i < slurm->bars.n; i++) {
        struct slurm_bar *bar = &slurm->bars.at[i];
        bool is_news = false;
        if (bar->nodes_s > 0 && bar->nodes_s <= now_s) {
            memset(bar->nodes, 0,
                   (slurm->hosts.n + 63) / 64 * sizeof *bar->nodes);
            bar->nodes_s = 0;
            is_news = true;
        }
        if (bar->gpus_s > 0 && bar->gpus_s <= now_s) {
            bar->gpus_s = 0;
            is_news = true;
        }
        if (bar->all_s > 0 && bar->all_s <= now_s)
            bar->all_s = 0; /* the host comes back by itself */
        if (is_news)
            tell(slurm, bar->job); /* (1) */
        if (bar->all_s > 0 || bar->gpus_s > 0 || bar->nodes_s > 0 ||
            now_s < bar->last_s + forget_s)
            slurm->bars.at[n++] = *bar;
        else
            mem_free(bar->nodes);
    }
    slurm->bars.n = n;
}

void slurm_bars_drop(struct slurm *slurm, firn_job_id id)
{
    struct slurm_bar *bar = find(slurm, id);
    if (bar == NULL)
        return;
    mem_free(bar->nodes);
    *bar = slurm->bars.at[--slurm->bars.n];
}

double slurm_bars_due_s(const struct slurm *slurm)
{
    double due_s = INFINITY;
    for (size_t i = 0; i < slurm->bars.n; i++) {
        const struct slurm_bar *bar = &slurm->bars.at[i];
        const double ends[] = {bar->gpus_s, bar->nodes_s};
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
            if (ends[k] > 0)
                due_s = fmin(due_s, ends[k]);
    }
    return due_s;
}

void slurm_bars_close(struct slurm *slurm)
{
    for (size_t i = 0; i < slurm->bars.n; i++)
        mem_free(slurm->bars.at[i].nodes);
    vec_release(&slurm->bars);
}
