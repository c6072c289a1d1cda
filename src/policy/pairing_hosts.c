/* pairing_hosts.c - running jobs as hosts, and how they change in a round.
 *
 * Each running job is looked at once a round; a job that starts or joins in it
 * is added, and hosts that are joined have less room and more time to go.
 */
#include "policy/pairing_hosts.h"

enum { AHEAD = 16 }; /* jobs fetched before they are looked at */

static bool is_one_type(const struct firn_view *view,
                        const struct firn_alloc *alloc)
{
    const struct firn_node *nodes = view->cluster->nodes;
    for (int i = 1; i < alloc->nparts; i++)
        if (nodes[alloc->parts[i].node].type !=
            nodes[alloc->parts[0].node].type)
            return false;
    return true;
}

/* The way a job that holds GPUs runs in this plan. */
static struct firn_way way_of(const struct pairing_hosts *hosts,
                              const struct firn_job *job)
{
    const struct firn_alloc *alloc = firn_plan_of(hosts->plan, job);
    firn_node_id node = alloc->parts[0].node;
    return (struct firn_way){.gpus = alloc->ngpus,
                             .nodes = firn_alloc_nodes(alloc),
                             .type = hosts->view->cluster->nodes[node].type,
                             .tunes = alloc->tunes,
                             .passes = alloc->how.passes};
}

/* Enters it, with the GPUs it is alone on, unless it frees none or has several
 * types. */
static void add_host(struct pairing_hosts *hosts, const struct firn_job *job,
                     int room, double left_s, double slow)
{
    const struct firn_alloc *alloc = firn_plan_of(hosts->plan, job);
    const struct firn_part *first = alloc->parts;
    int frees = alloc->is_shared ? room : alloc->ngpus;
    if (frees == 0 || !(left_s >= 0) || !is_one_type(hosts->view, alloc))
        return;
    struct pairing_host *host = &hosts->at[hosts->n++];
    *host = (struct pairing_host){
        .job = job,
        .type = hosts->view->cluster->nodes[first->node].type,
        .frees = frees,
        .room = room,
        .left_s = left_s,
        .slow = slow,
        .place = (double)first->node * FIRN_NODE_GPUS_MAX +
                 first->board * FIRN_BOARD_GPUS + __builtin_ctzll(first->gpus),
        .mem_gib = -1,
    };
    hosts->open[host->type] += room;
}

/* How much slower it goes than alone; 1 when that is not known. */
static double slow_of(const struct pairing_hosts *hosts,
                      const struct firn_job *job)
{
    struct firn_way way = way_of(hosts, job);
    double slow = firn_view_rate(hosts->view, job, &way) / job->rate;
    return slow > 1 && isfinite(slow) ? slow : 1;
}

double pairing_hosts_work_s(const struct pairing_hosts *hosts,
                            const struct firn_job *job)
{
    return firn_job_work_left_s(job, hosts->view->now_s);
}

static void add_running(struct pairing_hosts *hosts, const struct firn_job *job)
{
    bool is_shared = job->held.is_shared;
    int room = is_shared ? firn_plan_room(hosts->plan, job, PAIRING_CROWD) : 0;
    if (is_shared && room == 0)
        return;
    bool is_slowed = is_shared && room < job->held.ngpus;
    add_host(hosts, job, room, firn_job_left_s(job, hosts->view->now_s),
             is_slowed ? slow_of(hosts, job) : 1);
}

void pairing_hosts_find(struct pairing_hosts *hosts)
{
    const struct firn_view *view = hosts->view;
    const struct firn_job *const *jobs = firn_view_running(view);
    hosts->at = firn_view_alloc(view, (view->njobs + 1) * sizeof *hosts->at);
    for (size_t i = 0; i < view->nrunning; i++) {
        if (i + AHEAD < view->nrunning) {
            /* Ten thousand jobs are not in any cache. */
            const struct firn_job *job = jobs[i + AHEAD];
            __builtin_prefetch(&job->spec.duration_s);
            __builtin_prefetch(&job->held);
            __builtin_prefetch(&job->resumes_s);
        }
        add_running(hosts, jobs[i]);
    }
}

/* ---- what changes in the round ---- */

void pairing_hosts_started(struct pairing_hosts *hosts,
                           const struct firn_job *job)
{
    struct firn_way way = way_of(hosts, job);
    double rate = firn_view_rate(hosts->view, job, &way);
    double work_s = pairing_hosts_work_s(hosts, job);
    add_host(hosts, job, firn_plan_room(hosts->plan, job, PAIRING_CROWD),
             work_s / (rate > 0 ? rate : 1), 1);
}

void pairing_hosts_joined(struct pairing_hosts *hosts,
                          const struct firn_job *job, double left_s,
                          double slow)
{
    add_host(hosts, job, firn_plan_room(hosts->plan, job, PAIRING_CROWD),
             left_s, slow);
}

void pairing_hosts_taken(struct pairing_hosts *hosts, struct pairing_host *host,
                         double slow)
{
    hosts->open[host->type] -= host->room;
    host->room = firn_plan_room(hosts->plan, host->job, PAIRING_CROWD);
    host->frees = host->room;
    hosts->open[host->type] += host->room;
    if (slow > 1) {
        host->left_s *= slow;
        host->slow *= slow;
    }
}

const struct firn_way *pairing_hosts_way(const struct pairing_hosts *hosts,
                                         struct pairing_host *host)
{
    if (host->way.gpus == 0)
        host->way = way_of(hosts, host->job);
    return &host->way;
}

double pairing_hosts_gib(const struct pairing_hosts *hosts,
                         struct pairing_host *host)
{
    if (host->mem_gib < 0)
        host->mem_gib = firn_view_load(hosts->view, host->job,
                                       pairing_hosts_way(hosts, host))
                            .mem_gib;
    return host->mem_gib;
}
