/* why.c - why a job is where it is: one reason, numbers, and what to do.
 *
 * The reasons in this order; the first that holds is reported:
 *
 *     held, retry, never           it is not in the round at all
 *     engine       the engine can start nothing at present
 *     quota        its user or project is over a quota, with the numbers
 *     share        users or projects with a larger claim go first
 *     drained      without the drained nodes there are too few GPUs
 *     memory       too few of the free GPUs have enough memory
 *     type         too few of the free GPUs are of its types
 *     capacity     too few GPUs are free
 *     policy       the policy's own words
 *     fragmented   enough are free, on no node together
 *     new          no round has been since it came
 *     priority     it could have them: the policy gives others precedence
 *
 * Asked for one job, the answer has the moment at which `firn eta` and `firn
 * plan` expect the start, from the same simulated future, and names the jobs
 * that hold the GPUs: number, user, GPUs, and the time until their expected
 * ends. Where no future is known, the moment is that at which these jobs will
 * have let enough GPUs go, one after the other.
 *
 * Cost: O(nodes + running jobs log running jobs); in short O(nodes).
 */
#include "base/buf.h"
#include "base/jsonwrite.h"
#include "base/str.h"
#include "core/gate.h"
#include "daemon/after.h"
#include "daemon/loopwork.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKERS = 5 };

/* A job that holds GPUs that another waits for. */
struct blocker {
    firn_job_id id; /* the book's */
    int gpus;
    double left_s; /* NaN: not known */
};

struct answer {
    enum live_reason reason;
    char text[LIVE_TEXT], next[LIVE_TEXT];
    int need, have; /* GPUs; have -1: its reason is not a lack of GPUs */
    double mem_gib;
    double start_s; /* until it starts, as `firn eta` says; NaN: not known */
    double next_s;  /* until `need` GPUs may be free; NaN: not known */
    bool is_short;  /* for a list: that is not looked for */
    struct blocker blockers[BLOCKERS]; /* the first to end first */
    int nblockers;
};

/* What the cluster has for a job. */
struct stock {
    int suit, suit_up, suit_free; /* GPUs of types that it accepts */
    int suit_outside;             /* of them, used by foreign processes */
    int free, up;                 /* any */
    int together;                 /* free and suiting on one node */
    int up_of[FIRN_TYPES_MAX];    /* suiting, by type */
    int free_of[FIRN_TYPES_MAX];
    bool lacks_memory; /* a free type is too small for it */
    bool is_down;      /* a node that suits is, not only drained */
};

static struct stock take_stock(const struct loop *loop,
                               const struct firn_job *job)
{
    const struct state *state = round_state(loop->desk.round);
    struct stock stock = {0};
    for (int i = 0; i < state->cluster.nnodes; i++) {
        const struct firn_node *node = &state->cluster.nodes[i];
        double gib = state->cluster.types[node->type].mem_gib;
        int nfree = state->map.node_free[i];
        stock.free += nfree;
        stock.up += node->is_up ? node->ngpus : 0;
        if (firn_job_is_barred(job, i))
            continue;
        if (!(job->type_mask >> node->type & 1)) {
            if (nfree > 0 && gib > 0 && job->spec.mem_gib > gib)
                stock.lacks_memory = true;
            continue;
        }
        stock.suit += node->ngpus;
        stock.is_down = stock.is_down || loop->dock.is_down[i];
        stock.suit_up += node->is_up ? node->ngpus : 0;
        stock.suit_free += nfree;
        stock.up_of[node->type] += node->is_up ? node->ngpus : 0;
        stock.free_of[node->type] += nfree;
        stock.suit_outside += foreign_count(&loop->desk, i);
        stock.together = nfree > stock.together ? nfree : stock.together;
    }
    return stock;
}

/* Those whose end is not known last. */
static int by_left(const void *a, const void *b)
{
    const struct blocker *p = a, *q = b;
    if (isnan(p->left_s) || isnan(q->left_s))
        return (int)isnan(p->left_s) - (int)isnan(q->left_s);
    int by = firn_cmp(p->left_s, q->left_s);
    return by != 0 ? by : (p->id > q->id) - (p->id < q->id);
}

/* GPUs of an allocation that the job accepts. */
static int suiting(const struct state *state, const struct firn_job *job,
                   const struct firn_alloc *held)
{
    int n = 0;
    for (int i = 0; i < held->nparts; i++)
        if (job->type_mask >> state->cluster.nodes[held->parts[i].node].type &
            1)
            n += __builtin_popcountll(held->parts[i].gpus);
    return n;
}

/* The jobs that hold GPUs which suit the job, in the round or outside. The
 * caller frees the list. */
static struct blocker *list_blockers(const struct loop *loop,
                                     const struct firn_job *job, size_t *n)
{
    const struct state *state = round_state(loop->desk.round);
    struct blocker *list = mem_new(loop->desk.tracks.n + 1, sizeof *list);
    *n = 0;
    for (size_t i = 0; i < loop->desk.tracks.n; i++) {
        const struct track *track = loop->desk.tracks.at[i];
        const struct live_job *live =
            track != NULL ? book_job(loop->book, track->id) : NULL;
        const struct firn_job *in_round =
            live != NULL ? desk_job(&loop->desk, track) : NULL;
        if (live == NULL)
            continue;
        const struct firn_alloc *held =
            in_round != NULL ? &in_round->held : &track->blocked;
        int gpus = suiting(state, job, held);
        struct desk_left left = {0};
        if (gpus == 0)
            continue;
        left = desk_left(&loop->desk, live, track);
        list[(*n)++] = (struct blocker){
            track->id, gpus, left.is_known ? left.left_s : (double)NAN};
    }
    if (*n > 1)
        qsort(list, *n, sizeof *list, by_left);
    return list;
}

/* Notes the jobs that have to end for `more` GPUs; returns the seconds until
 * then, or NaN. */
static double frees_in_s(const struct loop *loop, const struct firn_job *job,
                         int more, struct answer *a)
{
    double at_s = NAN;
    size_t n = 0;
    struct blocker *list = list_blockers(loop, job, &n);
    for (size_t i = 0; i < n && more > 0; i++) {
        more -= list[i].gpus;
        at_s = list[i].left_s;
        if (a->nblockers < BLOCKERS)
            a->blockers[a->nblockers++] = list[i];
    }
    mem_free(list);
    return more > 0 ? (double)NAN : at_s;
}

static void in_words(double seconds, char *out, size_t max)
{
    if (seconds < 90)
        snprintf(out, max, "%.0f s", seconds);
    else if (seconds < 5400)
        snprintf(out, max, "%.0f min", seconds / 60);
    else
        snprintf(out, max, "%.1f h", seconds / 3600);
}

/* It keeps to the type that it began on. */
static bool has_begun(const struct firn_job *job)
{
    uint32_t mask = job->type_mask;
    return job->spec.one_type && job->starts > 0 && mask != 0 &&
           (mask & (mask - 1)) == 0;
}

/* Of which types it wants GPUs; "" for any. */
static const char *types_in_words(const struct loop *loop,
                                  const struct firn_job *job)
{
    if (has_begun(job))
        return loop->dock.cluster.types[__builtin_ctz(job->type_mask)].name;
    return job->spec.types[0] == '\0' && job->spec.one_type ? "one type"
                                                            : job->spec.types;
}

/* ", when job 7 (ann, 4 GPUs) ends" */
static void blockers_in_words(const struct loop *loop, const struct answer *a,
                              char *out, size_t max)
{
    size_t at = 0;
    for (int i = 0; i < a->nblockers && i < 2 && at < max; i++) {
        const struct blocker *b = &a->blockers[i];
        const struct live_job *job = book_job(loop->book, b->id);
        const char *user = job != NULL ? job->ask.user : "";
        int n = snprintf(out + at, max - at, "%s job %d (%.20s%s%d GPU%s)",
                         i == 0 ? ", when" : " and", b->id, user,
                         user[0] != '\0' ? ", " : "", b->gpus,
                         b->gpus > 1 ? "s" : "");
        at += n > 0 ? (size_t)n : 0;
    }
    if (a->nblockers > 0 && at < max)
        snprintf(out + at, max - at, "%s",
                 a->nblockers > 2    ? " and others end"
                 : a->nblockers == 2 ? " end"
                                     : " ends");
}

/* "4 GPUs of a100|v100 with >= 40 GiB" */
static void needs_in_words(const struct loop *loop, const struct firn_job *job,
                           char *out, size_t max)
{
    const char *types = types_in_words(loop, job);
    int n = snprintf(out, max, "%d GPU%s", job->spec.gpus_min,
                     job->spec.gpus_min > 1 ? "s" : "");
    if (types[0] != '\0' && n > 0 && (size_t)n < max)
        n += snprintf(out + n, max - (size_t)n, " of %.60s", types);
    if (job->spec.mem_gib > 0 && n > 0 && (size_t)n < max)
        snprintf(out + n, max - (size_t)n, " with >= %.1f GiB",
                 job->spec.mem_gib);
}

/* `ngpus` are free for it now. Whether the policy lets other jobs go first is
 * what a dry run finds out. */
static void fewer(int ngpus, struct answer *a)
{
    if (ngpus > 0)
        snprintf(a->next, sizeof a->next,
                 "could start now on %d GPU%s: firn plan with gpus: %d", ngpus,
                 ngpus > 1 ? "s" : "", ngpus);
    else
        snprintf(a->next, sizeof a->next, "nothing to do but wait");
}

static void too_few(const struct loop *loop, const struct firn_job *job,
                    const struct stock *stock, struct answer *a)
{
    char needs[128], outside[64] = "", when[32] = "";
    needs_in_words(loop, job, needs, sizeof needs);
    bool others = stock->free >= a->need;
    a->reason = !others               ? LIVE_BECAUSE_CAPACITY
                : stock->lacks_memory ? LIVE_BECAUSE_MEMORY
                                      : LIVE_BECAUSE_TYPE;
    if (!a->is_short) {
        double free_s = frees_in_s(loop, job, a->need - stock->suit_free, a);
        a->next_s = isfinite(a->start_s) ? a->start_s : free_s;
    }
    if (stock->suit_outside > 0)
        snprintf(outside, sizeof outside,
                 ", %d used by processes outside of firn", stock->suit_outside);
    if (isfinite(a->next_s))
        in_words(a->next_s, when, sizeof when);
    int n = snprintf(a->text, sizeof a->text, "waits for %s; %d free%s%s%s",
                     needs, stock->suit_free, outside,
                     when[0] != '\0' ? "; enough in about " : "", when);
    if (n > 0 && (size_t)n < sizeof a->text)
        blockers_in_words(loop, a, a->text + n, sizeof a->text - (size_t)n);
    if (others && has_begun(job))
        snprintf(a->next, sizeof a->next,
                 "%d GPUs of other types are free: on them its results would "
                 "differ (consistency)",
                 stock->free - stock->suit_free);
    else if (others)
        snprintf(a->next, sizeof a->next,
                 "%d other GPUs are free: allow them with gpu: or ask for "
                 "less memory",
                 stock->free - stock->suit_free);
    else if (stock->suit_up - stock->suit_outside < a->need)
        snprintf(a->next, sizeof a->next,
                 "starts when processes outside of firn leave enough GPUs");
    else
        fewer(job->spec.gpus_min > 1 ? stock->suit_free : 0, a);
}

static int most_of(const int *by_type)
{
    int most = 0;
    for (int t = 0; t < FIRN_TYPES_MAX; t++)
        most = by_type[t] > most ? by_type[t] : most;
    return most;
}

/* Enough are free, but not of one type. */
static void too_few_alike(const struct loop *loop, const struct stock *stock,
                          const char *needs, struct answer *a)
{
    struct firn_buf frees = {0};
    for (int t = 0; t < loop->dock.cluster.ntypes; t++)
        if (stock->free_of[t] > 0)
            buf_printf(&frees, "%s%d of %s", frees.n > 0 ? " and " : "",
                       stock->free_of[t], loop->dock.cluster.types[t].name);
    a->reason = LIVE_BECAUSE_FRAGMENTED;
    snprintf(a->text, sizeof a->text, "waits for %s; %.90s are free", needs,
             frees.at);
    fewer(most_of(stock->free_of), a);
    buf_release(&frees);
}

/* The engine can do nothing at present. */
static void in_trouble(const struct loop *loop, struct answer *a)
{
    a->reason = LIVE_BECAUSE_ENGINE;
    snprintf(a->text, sizeof a->text, "%.250s", loop_trouble(loop));
    snprintf(a->next, sizeof a->next,
             "it is safe here, and goes on when engine %s does",
             loop->dock.engine->name);
}

/* It has its GPUs, and the cluster's own scheduler does not start it yet. */
static void in_line(const struct loop *loop, const struct live_job *job,
                    struct answer *a)
{
    const char *word =
        loop->dock.engine->job_trouble != NULL
            ? loop->dock.engine->job_trouble(loop->dock.engine_state, job->id)
            : NULL;
    if (word == NULL)
        return;
    a->reason = LIVE_BECAUSE_ENGINE;
    snprintf(a->text, sizeof a->text, "%.250s", word);
    snprintf(a->next, sizeof a->next, "it is tried until engine %s takes it",
             loop->dock.engine->name);
}

/* Is the quota that `job` is over filled by that other job, too: are they of
 * one user or one project? */
static bool is_of_quota(const struct loop *loop, const struct firn_job *job,
                        const struct live_job *other)
{
    const struct accounts *accounts = loop->desk.accounts;
    const struct account *member =
        &accounts->list.at[state_record(job)->member];
    const struct account *project = &accounts->list.at[member->project];
    return strcmp(other->ask.user, member->name) == 0 ||
           strcmp(
               accounts_project(accounts, other->ask.user, other->ask.project),
               project->name) == 0;
}

/* Notes the jobs in the way of one that is kept back: of a quota those of the
 * same user or project, else all that hold GPUs that suit it. */
static void note_holders(const struct loop *loop, const struct firn_job *job,
                         struct answer *a)
{
    size_t n = 0;
    struct blocker *list = list_blockers(loop, job, &n);
    bool is_quota = state_record(job)->gated != GATE_SHARE;
    for (size_t i = 0; i < n && a->nblockers < BLOCKERS; i++) {
        const struct live_job *other = book_job(loop->book, list[i].id);
        if (!is_quota || (loop->desk.accounts != NULL && other != NULL &&
                          is_of_quota(loop, job, other)))
            a->blockers[a->nblockers++] = list[i];
    }
    mem_free(list);
}

/* Its user or project is over a quota, or has had its share. */
static void kept_back(const struct loop *loop, const struct firn_job *job,
                      struct answer *a)
{
    bool is_share = state_record(job)->gated == GATE_SHARE;
    a->reason = is_share ? LIVE_BECAUSE_SHARE : LIVE_BECAUSE_QUOTA;
    gate_text(round_state(loop->desk.round), job, dock_now_s(&loop->dock),
              a->text, sizeof a->text);
    snprintf(a->next, sizeof a->next, "%s",
             is_share ? "firn shares shows the claims"
                      : "starts when jobs of the same account end, or in the "
                        "next window: firn shares");
    if (a->is_short)
        return;
    if (isfinite(a->start_s))
        a->next_s = a->start_s;
    note_holders(loop, job, a);
}

/* It waits in the round. */
static void waits(const struct loop *loop, const struct firn_job *job,
                  struct answer *a)
{
    struct stock stock = take_stock(loop, job);
    bool alike = job->spec.one_type;
    int up = alike ? most_of(stock.up_of) : stock.suit_up;
    char needs[128];
    needs_in_words(loop, job, needs, sizeof needs);
    a->need = job->spec.gpus_min;
    a->have = stock.suit_free;
    a->mem_gib = job->spec.mem_gib;
    if (loop_trouble(loop) != NULL) {
        in_trouble(loop, a);
    } else if (state_record(job)->gated != GATE_OPEN) {
        kept_back(loop, job, a);
    } else if (up < a->need && stock.suit >= a->need) {
        a->reason = LIVE_BECAUSE_DRAINED;
        snprintf(a->text, sizeof a->text,
                 "waits for %s; %d are left on nodes that are %s", needs, up,
                 stock.is_down ? "up and not drained" : "not drained");
        snprintf(a->next, sizeof a->next, "%s",
                 stock.is_down ? "firn nodes says which are out, and why"
                               : "firn undrain NODE");
    } else if (stock.suit_free < a->need) {
        too_few(loop, job, &stock, a);
    } else if (alike && most_of(stock.free_of) < a->need) {
        too_few_alike(loop, &stock, needs, a);
    } else if (job->note[0] != '\0') {
        a->reason = LIVE_BECAUSE_POLICY;
        snprintf(a->text, sizeof a->text, "policy %s: %s",
                 loop->desk.policy->name, job->note);
        snprintf(a->next, sizeof a->next, "nothing to do but wait");
    } else if (stock.together < a->need) {
        a->reason = LIVE_BECAUSE_FRAGMENTED;
        snprintf(a->text, sizeof a->text,
                 "waits for %s; %d are free, at most %d on one node", needs,
                 stock.suit_free, stock.together);
        fewer(stock.together, a);
    } else {
        bool is_new = round_is_due(loop->desk.round);
        a->reason = is_new ? LIVE_BECAUSE_NEW : LIVE_BECAUSE_PRIORITY;
        snprintf(a->text, sizeof a->text,
                 is_new ? "no round has seen it yet"
                        : "waits for %s; %d are free and policy %s keeps them "
                          "for other jobs",
                 needs, stock.suit_free, loop->desk.policy->name);
        snprintf(a->next, sizeof a->next,
                 is_new ? "ask again in a moment"
                        : "firn ls shows the other jobs");
    }
}

/* The cluster's own scheduler does not let it have some GPUs that are free. */
static void add_bars(const struct loop *loop, const struct live_job *job,
                     struct answer *a)
{
    struct firn_bars bars;
    if (a->reason == LIVE_BECAUSE_NEW ||
        !dock_bars(&loop->dock, job->id, &bars) || bars.why[0] == '\0')
        return;
    size_t n = strlen(a->text);
    snprintf(a->text + n, sizeof a->text - n, "; engine %s: %s",
             loop->dock.engine->name, bars.why);
    a->reason = LIVE_BECAUSE_ENGINE;
}

/* It is not in the round. */
static void is_away(const struct loop *loop, const struct live_job *job,
                    const struct track *track, struct answer *a)
{
    double now_s = dock_now_s(&loop->dock);
    a->reason = job->reason;
    str_copy(a->text, sizeof a->text, job->why);
    char waits[LIVE_TEXT];
    if (job->is_held && job->ask.waits_for[0] != '\0' &&
        after_judge(loop->book, job->ask.waits_for, waits) == AFTER_WAITS) {
        a->reason = LIVE_BECAUSE_HELD;
        str_copy(a->text, sizeof a->text, waits);
        snprintf(a->next, sizeof a->next,
                 "firn release %d starts it without waiting", job->id);
    } else if (job->is_held) {
        a->reason = LIVE_BECAUSE_HELD;
        snprintf(a->text, sizeof a->text, "its user holds it back");
        snprintf(a->next, sizeof a->next, "firn release %d", job->id);
    } else if (track != NULL && track->again_s > now_s) {
        a->next_s = track->again_s - now_s;
        snprintf(a->next, sizeof a->next, "it is tried again within %.0f s",
                 ceil(a->next_s));
    } else if (job->reason == LIVE_BECAUSE_NEVER &&
               desk_type_is_lost(&loop->desk, job)) {
        snprintf(a->next, sizeof a->next,
                 "if %s has another name now, give it its old one back and "
                 "restart firnd; else firn cancel %d and submit it again, "
                 "which may begin on any type",
                 job->gpu_type, job->id);
    } else if (job->reason == LIVE_BECAUSE_NEVER) {
        snprintf(a->next, sizeof a->next,
                 "ask for fewer or other GPUs: firn cancel %d, then submit "
                 "again",
                 job->id);
    }
}

static struct answer explain(const struct loop *loop,
                             const struct live_job *job, bool is_short)
{
    const struct track *track = desk_track(&loop->desk, job->id);
    const struct firn_job *in_round =
        track != NULL ? desk_job(&loop->desk, track) : NULL;
    struct answer a = {.next_s = NAN,
                       .start_s = NAN,
                       .reason = job->reason,
                       .need = job->ask.gpus_min,
                       .have = -1,
                       .mem_gib = job->ask.mem_gib,
                       .is_short = is_short};
    if (!is_short && job->state == LIVE_PENDING && in_round != NULL)
        a.start_s = dryrun_start_s((struct loop *)loop, job);
    if (job->state != LIVE_PENDING) {
        str_copy(a.text, sizeof a.text, job->why);
        if (in_round != NULL && in_round->held.nparts > 0 && in_round->rate > 0)
            a.next_s = firn_job_left_s(in_round, dock_now_s(&loop->dock));
        if (job->state == LIVE_STARTING && loop_trouble(loop) != NULL)
            in_trouble(loop, &a);
        else if (job->state == LIVE_STARTING || job->state == LIVE_RUNNING)
            in_line(loop, job, &a);
    } else if (in_round != NULL && in_round->held.nparts == 0) {
        waits(loop, in_round, &a);
        add_bars(loop, job, &a);
        if (a.reason == LIVE_BECAUSE_CAPACITY && job->ask.may_share &&
            dock_no_sharing(&loop->dock) != NULL)
            snprintf(a.next, sizeof a.next, "it may share and cannot: %.200s",
                     dock_no_sharing(&loop->dock));
    } else {
        is_away(loop, job, track, &a);
    }
    return a;
}

void why_waits(const struct loop *loop, const struct live_job *job,
               enum live_reason *reason, char text[LIVE_TEXT])
{
    struct answer a = explain(loop, job, true);
    *reason = a.reason;
    str_copy(text, LIVE_TEXT, a.text);
}

/* What the policy said of a job that waits, where that is not the reason: it
 * may lack GPUs and be kept from them too. Left out when it said nothing. */
static void add_note(const struct loop *loop, const struct live_job *job,
                     const struct answer *a, struct firn_buf *json)
{
    const struct track *track = desk_track(&loop->desk, job->id);
    const struct firn_job *in_round =
        track != NULL ? desk_job(&loop->desk, track) : NULL;
    char text[LIVE_TEXT];
    if (job->state != LIVE_PENDING || a->reason == LIVE_BECAUSE_POLICY ||
        in_round == NULL || in_round->note[0] == '\0')
        return;
    snprintf(text, sizeof text, "policy %s: %s", loop->desk.policy->name,
             in_round->note);
    jsonbuf_text(json, "note", text);
}

static void add_blockers(const struct loop *loop, const struct answer *a,
                         struct firn_buf *json)
{
    jsonbuf_open(json, "blockers", '[');
    for (int i = 0; i < a->nblockers; i++) {
        const struct live_job *job = book_job(loop->book, a->blockers[i].id);
        jsonbuf_open(json, NULL, '{');
        jsonbuf_int(json, "job", a->blockers[i].id);
        jsonbuf_text(json, "user", job != NULL ? job->ask.user : "");
        jsonbuf_int(json, "gpus", a->blockers[i].gpus);
        jsonbuf_double(json, "left_s", a->blockers[i].left_s);
        jsonbuf_close(json, '}');
    }
    jsonbuf_close(json, ']');
}

enum firn_status why_job(struct loop *loop, struct live_job *job,
                         struct firn_buf *json, struct firn_error *err)
{
    struct answer a = explain(loop, job, false);
    (void)err;
    jsonbuf_open(json, NULL, '{');
    jsonbuf_int(json, "id", job->id);
    jsonbuf_text(json, "name", job->ask.name);
    jsonbuf_text(json, "state", live_state_name(job->state));
    jsonbuf_text(json, "reason", live_reason_name(a.reason));
    jsonbuf_text(json, "text", a.text);
    jsonbuf_open(json, "need", '{');
    jsonbuf_int(json, "gpus", a.need);
    jsonbuf_double(json, "mem_gib", a.mem_gib);
    jsonbuf_text(json, "types", job->ask.types);
    jsonbuf_close(json, '}');
    if (a.have >= 0) {
        jsonbuf_open(json, "have", '{');
        jsonbuf_int(json, "gpus", a.have);
        jsonbuf_close(json, '}');
    }
    jsonbuf_text(json, "next", a.next);
    jsonbuf_double(json, "next_s", a.next_s);
    jsonbuf_double(json, "start_s", a.start_s);
    add_blockers(loop, &a, json);
    add_note(loop, job, &a, json);
    jsonbuf_key(json, "not_merged");
    desk_not_merged(&loop->desk, job, json);
    jsonbuf_close(json, '}');
    return FIRN_OK;
}
