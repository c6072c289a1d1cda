/* sjf_bsbf.c - shortest job first, with the best sharing benefit first.
 *
 * A job that finds too few free GPUs may share those of running jobs, if the
 * two together are better off than apart. Theorem 1 of Luo et al. (Wise
 * Resource Sharing) says that the best moment to join a host is now or after
 * its end, so the mean completion time of the pair is compared for these two
 * (firn/pairtime.h), with the sub-batch of Algorithm 2. Hosts that pass are
 * taken in the order of Algorithm 1, by the pair's mean completion time; a job
 * that finds too few waits. The order of jobs, the passes of a step, and GPUs
 * of several hosts are in pairing.c.
 *
 * That is the paper, and the default, with its errata: sub-batches are tried
 * down to 1 and must fit in memory, the search ends after the last of them, and
 * free GPUs fill up what hosts lack. Three options are this project's own:
 *
 *   wait=first   A job that does not share need not wait for the end of the
 *                very host it was tried with, but until enough GPUs come free
 *                anywhere. Beside a host that runs for a day the theorem lets
 *                nearly everything share, at any slowdown. So sharing must also
 *                beat starting elsewhere at that moment. (Other jobs that wait
 *                for these GPUs are not counted.)
 *   order=saving Hosts by what sharing saves against one after the other, as
 *                the policy's name says, rather than by the pair's mean time:
 *                that prefers hosts about to end, which are worth waiting for.
 *   gang=whole   Hosts of a job with several GPUs are judged together, at the
 *                worst of the slowdowns, which is how the gang will run; the
 *                paper judges each pair as if it were alone.
 *
 * The three were chosen on Pollux's own workloads (16x4 T4, four sets of five,
 * every job shares), which no scenario of SJF-BSBF reports: with a slowdown of
 * 1.5, 1.75 or 2 for all pairs the mean completion time of a set is 2 to 39 %
 * below sjf-ffs with all three, from 17 % above to 34 % below with wait=first
 * and gang=whole, and from 19 % above to 18 % below with gang=whole alone. At
 * 1.25 all are within 4 % of sjf-ffs.
 *
 * Nothing is ever preempted or moved. A slowdown that is not known is no
 * reason to share. The time left and all slowdowns are the engine's forecasts;
 * the paper has them from measurements made before. Memory is predicted, and
 * counted with the margin of firn/sharing.h.
 *
 * Cost: that of pairing.c.
 */
#include "policy/pairing.h"

enum { HOST, FIRST };
static const char *const waits[] = {"host", "first", NULL};
enum { TIME, SAVING };
static const char *const orders[] = {"time", "saving", NULL};
enum { PAIRS, WHOLE };
static const char *const gangs[] = {"pairs", "whole", NULL};

struct sjf_bsbf {
    struct pairing_rule rule; /* comes first: the score finds the options */
    int wait, order, gang;
};

static const struct firn_option options[] = {
    FIRN_CHOICE(struct sjf_bsbf, wait, "wait", "host", waits,
                "a job that does not share would start after the host it was "
                "tried with, or when GPUs first come free"),
    FIRN_CHOICE(struct sjf_bsbf, order, "order", "time", orders,
                "hosts by the mean completion time of the pair, or by the time "
                "that sharing saves"),
    FIRN_CHOICE(struct sjf_bsbf, gang, "gang", "pairs", gangs,
                "several hosts of one job are judged one by one, or together "
                "at the worst slowdown"),
    {0},
};

static double score(const struct pairing_rule *rule,
                    const struct pairing_pair *pair)
{
    const struct sjf_bsbf *bsbf = (const struct sjf_bsbf *)rule;
    double shared_s = firn_pairtime_shared(&pair->time);
    double in_turn_s = firn_pairtime_in_turn(&pair->time);
    if (!(shared_s < in_turn_s) ||
        (bsbf->wait == FIRST &&
         shared_s >= firn_pairtime_apart(&pair->time, pair->wait_s)))
        return (double)NAN;
    return bsbf->order == TIME ? shared_s : shared_s - in_turn_s;
}

static enum firn_status init(void *state, struct firn_error *err)
{
    struct sjf_bsbf *bsbf = state;
    (void)err;
    bsbf->rule.score = score;
    bsbf->rule.searches = true;
    bsbf->rule.judges_gangs = bsbf->gang == WHOLE;
    bsbf->rule.reads_wait = bsbf->wait == FIRST;
    return FIRN_OK;
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    const struct sjf_bsbf *bsbf = state;
    pairing_decide(view, plan, &bsbf->rule);
    return FIRN_OK;
}

const struct firn_policy_def firn_policy_sjf_bsbf = {
    .size = sizeof(struct firn_policy_def),
    .name = "sjf-bsbf",
    .summary = "shortest job first, shares GPUs where the pair gains by it",
    .paper = "Luo et al., Wise Resource Sharing, 2024",
    .needs = FIRN_NEED_DURATION | FIRN_NEED_FORECAST,
    .does = FIRN_DOES_SHARE,
    .options = options,
    .state_size = sizeof(struct sjf_bsbf),
    .decide = decide,
    .init = init,
};
