/* firn_spread.c - more nodes than a job of the policy firn needs.
 *
 * Most jobs train fastest on as few nodes as can hold them, and placing packs
 * them there. Some were measured to be faster on more: those whose processes
 * are in each other's way on a node, by its memory, its bus or its processors
 * (Pollux's tables: ImageNet on 8 A100, 1.62 on two nodes, 1.54 on one;
 * DeepSpeech2 on 8 RTX 2080 Ti, 1.63 on three, 1.44 on one). For these a way
 * has the rate on up to two nodes more than it needs, if that is `spread-min`
 * times the rate before at least, and is placed so if there is room: on the
 * emptiest nodes, in equal parts. Where there is none it is packed.
 *
 * Such jobs are placed behind all others, so that they take the GPUs of those
 * that need whole nodes last.
 *
 * What a job holds has the rate it has on its nodes. If that is lower than the
 * way promises, the way stands beside it as a change that costs a restart.
 *
 * Invariants: (1) a job is on as many nodes as the choice says or packed;
 * (2) one that accepts shared GPUs, or one node only, is packed.
 * Over ten tuning workloads the mean JCT is 0.990 times as large, with resizes
 * without a stop 0.986 times, for `spread-min` 1.01; 0.988 and 0.987 for 1.005,
 * 0.993 and 0.988 for 1.02, 0.989 and 0.991 for 1.04, 0.992 and 0.996 for 1.08.
 *
 * Cost: one forecast more for a way (a tenth of a decision), O(nodes) for a job
 * that is placed so, of the type's nodes LOOK at most. Nodes are counted once,
 * down or up: in each decision that took four times as long as all else, on
 * 12 500 nodes.
 */
#include "policy/firn.h"

enum { MORE = 2, LOOK = 512, GPUS_MOST = 64 /* of a node, on one board */ };

void one_survey(struct one *one, const struct firn_cluster *cluster)
{
    struct one_nodes *nodes = &one->nodes;
    if (nodes->n == cluster->nnodes && nodes->ngpus == cluster->ngpus)
        return;
    *nodes = (struct one_nodes){.n = cluster->nnodes, .ngpus = cluster->ngpus};
    for (int i = 0; i < cluster->nnodes; i++) {
        const struct firn_node *node = &cluster->nodes[i];
        nodes->of_type[node->type]++;
        if (node->ngpus > nodes->gpus_most[node->type])
            nodes->gpus_most[node->type] = node->ngpus;
    }
}

static int least_nodes(const struct one_round *round,
                       const struct one_choice *choice)
{
    int most = round->one->nodes.gpus_most[choice->type];
    return most > 0 ? (choice->gpus + most - 1) / most : 1;
}

bool one_may_spread(const struct one_round *round, const struct one_seat *seat,
                    const struct firn_way *way)
{
    const struct firn_job_spec *spec = &seat->job->spec;
    return round->one->rules.spread_min > 0 && way->gpus > 1 &&
           way->nodes == 0 && way->parallel == 0 && way->stages == 0 &&
           way->tensor == 0 && spec->seq == 0 && !spec->one_node &&
           !spec->may_share &&
           round->one->nodes.gpus_most[way->type] <= GPUS_MOST;
}

void one_spread(const struct one_round *round, const struct one_seat *seat,
                struct one_choice *choice)
{
    int least = least_nodes(round, choice);
    int most = round->one->nodes.of_type[choice->type];
    most = choice->gpus < most ? choice->gpus : most;
    struct firn_way way = {
        .gpus = choice->gpus, .type = choice->type, .tunes = choice->tunes};
    double packed = choice->rate;
    for (int n = least + 1; n <= least + MORE && n <= most; n++) {
        way.nodes = n;
        double rate = firn_view_rate(round->view, seat->job, &way);
        if (!(rate >= packed * round->one->rules.spread_min) ||
            !(rate > choice->rate))
            return;
        choice->rate = rate;
        choice->nodes = n;
    }
}

/* A node, and how many of its GPUs a job takes. */
struct place {
    firn_node_id node;
    int free, take;
    bool is_held;
};

/* The emptiest first; of equal ones that which the job has GPUs of. */
static bool is_before(const struct place *a, const struct place *b)
{
    return a->free != b->free ? a->free > b->free : a->is_held && !b->is_held;
}

static bool holds_of(const struct firn_job *job, firn_node_id node)
{
    for (int i = 0; i < job->held.nparts; i++)
        if (job->held.parts[i].node == node)
            return true;
    return false;
}

static int free_on(const struct one_round *round, firn_node_id node)
{
    return __builtin_popcountll(firn_plan_free_on(round->plan, node, 0));
}

/* The emptiest nodes of the choice's type, as many as it says, from `first` on;
 * their number. */
static int find_places(const struct one_round *round,
                       const struct firn_job *job,
                       const struct one_choice *choice, struct place *places)
{
    const struct firn_cluster *cluster = round->view->cluster;
    int n = 0, looked = 0, first = job->id % cluster->nnodes;
    if (round->one->nodes.of_type[choice->type] <= LOOK)
        first = 0;
    for (int i = 0; i < cluster->nnodes && looked < LOOK; i++) {
        firn_node_id node = (first + i) % cluster->nnodes;
        if (cluster->nodes[node].type != choice->type ||
            !cluster->nodes[node].is_up || firn_job_is_barred(job, node))
            continue;
        looked++;
        struct place place = {.node = node,
                              .free = free_on(round, node),
                              .is_held = holds_of(job, node)};
        if (place.free == 0 ||
            (n == choice->nodes && !is_before(&place, &places[n - 1])))
            continue;
        int at = n < choice->nodes ? n++ : n - 1;
        for (; at > 0 && is_before(&place, &places[at - 1]); at--)
            places[at] = places[at - 1];
        places[at] = place;
    }
    return n;
}

/* Equal parts, as far as there is room; false: there is none for all. */
static bool part(struct place *places, int n, int gpus)
{
    for (int before = gpus + 1; gpus > 0 && gpus < before;) {
        before = gpus;
        for (int i = 0; i < n && gpus > 0; i++)
            if (places[i].take < places[i].free) {
                places[i].take++;
                gpus--;
            }
    }
    return gpus == 0;
}

static void sort_by_node(struct place *places, int n)
{
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && places[k].node < places[k - 1].node; k--) {
            struct place place = places[k];
            places[k] = places[k - 1];
            places[k - 1] = place;
        }
}

bool one_give_spread(const struct one_round *round, const struct one_seat *seat,
                     const struct one_choice *choice,
                     const struct firn_how *how)
{
    const struct firn_view *view = round->view;
    struct place *places =
        firn_view_alloc(view, (size_t)choice->nodes * sizeof *places);
    if (find_places(round, seat->job, choice, places) < choice->nodes ||
        !part(places, choice->nodes, choice->gpus))
        return false;
    sort_by_node(places, choice->nodes);
    struct firn_alloc alloc = FIRN_ALLOC_NONE;
    alloc.parts =
        firn_view_alloc(view, (size_t)choice->nodes * sizeof *alloc.parts);
    alloc.nparts = choice->nodes;
    alloc.ngpus = choice->gpus;
    alloc.how = *how;
    for (int i = 0; i < choice->nodes; i++) {
        uint64_t free = firn_plan_free_on(round->plan, places[i].node, 0);
        uint64_t mask = 0;
        for (int k = 0; k < places[i].take; k++, free &= free - 1)
            mask |= free & -free;
        alloc.parts[i] = (struct firn_part){places[i].node, 0, mask};
    }
    firn_plan_place(round->plan, seat->job, &alloc);
    return true;
}
