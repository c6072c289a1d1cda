/* history.c - could a scheduler have answered like that? A checker.
 */
#include "lib/history.h"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The machine's state. While `is_open` a start may have come before the last
 * request that forbids starts, unseen. */
struct machine {
    bool exists, is_held, is_ending, is_open, is_starting;
    bool may_die; /* by a cancel that was not acknowledged, and is forgotten */
    enum history_phase phase;
    int priority;
    long attempt;
};

struct search {
    const struct history_op *ops[HISTORY_MOST];
    int n, nmust, depth; /* operations; those with an answer; the deepest */
    uint64_t must, best; /* as sets; what the deepest explained */
    struct history_rule rule;
    struct entry *table; /* states seen, with what was done by then */
    size_t used, room;
};

struct entry {
    uint64_t done, machine; /* `done` + 1; 0: empty */
};

/* --- the machine --------------------------------------------------------- */

static bool is_over(enum history_phase phase)
{
    return phase >= HISTORY_SUCCEEDED;
}

/* Can it be there now, by itself? */
static bool can_be(const struct machine *m, const struct history_rule *rule,
                   enum history_phase phase, long attempt)
{
    bool may_start = (!m->is_held && !m->is_ending) || m->is_open ||
                     (m->is_starting && !m->is_ending);
    bool was_active = m->phase == HISTORY_ACTIVE || may_start;
    if (attempt < m->attempt)
        return false;
    if (is_over(m->phase))
        return phase == m->phase && (attempt == m->attempt || m->is_open);
    if (attempt > m->attempt && !may_start)
        return false;
    switch (phase) {
    case HISTORY_PENDING:
        return true;
    case HISTORY_ACTIVE:
        return was_active;
    case HISTORY_SUCCEEDED:
        return was_active && !rule->is_endless;
    case HISTORY_FAILED:
        return was_active && (rule->may_fail || m->may_die);
    case HISTORY_CANCELLED:
        return m->is_ending;
    }
    return false;
}

static bool matches(const struct machine *m, const struct history_seen *seen)
{
    bool is_ending = is_over(m->phase) ? seen->is_ending : m->is_ending;
    return seen->is_held == m->is_held && seen->priority == m->priority &&
           seen->is_ending == is_ending;
}

static void change(struct machine *m, const struct history_op *op)
{
    switch (op->what) {
    case HISTORY_HOLD:
        m->is_held = true;
        break;
    case HISTORY_RELEASE:
        m->is_held = false;
        break;
    case HISTORY_CANCEL:
        m->is_ending = true;
        break;
    case HISTORY_PRIORITY:
        m->priority = op->value;
        break;
    default:
        break;
    }
}

/* With an answer that shows the job as it was just afterwards. */
static bool apply_seen(struct machine *m, const struct history_rule *rule,
                       const struct history_op *op)
{
    bool is_change = op->what != HISTORY_SHOW;
    if (is_change && is_over(m->phase))
        return false;
    bool is_ended =
        op->what == HISTORY_CANCEL && op->seen.phase == HISTORY_CANCELLED;
    if (!can_be(m, rule, is_ended ? HISTORY_PENDING : op->seen.phase,
                op->seen.attempt))
        return false;
    change(m, op);
    m->phase = op->seen.phase;
    m->attempt = op->seen.attempt;
    m->is_starting = m->phase == HISTORY_ACTIVE && op->seen.is_starting;
    m->is_open = false;
    return matches(m, &op->seen);
}

/* The states after `op`, of which there may be several; how many. */
static int apply(const struct machine *m, const struct history_rule *rule,
                 const struct history_op *op, struct machine out[4])
{
    out[0] = *m;
    if (op->what == HISTORY_SUBMIT) {
        if (!m->exists)
            out[0] = (struct machine){.exists = true};
        return 1;
    }
    if (op->result == HISTORY_ABSENT)
        return !m->exists;
    if (!m->exists)
        return 0;
    if (op->result == HISTORY_OK)
        return apply_seen(&out[0], rule, op);
    if (op->result == HISTORY_UNKNOWN) { /* a start may have come before */
        if (is_over(m->phase))
            return 0;
        out[0].is_open = m->is_open || (!m->is_held && !m->is_ending);
        change(&out[0], op);
        if (op->what != HISTORY_CANCEL)
            return 1;
        out[1] = *m; /* its process is gone, its record too */
        out[0].may_die = out[1].may_die = true;
        return 2;
    }
    int n = 0; /* refused, for it is over: how, is seen later */
    for (int p = HISTORY_SUCCEEDED; p <= HISTORY_CANCELLED; p++) {
        if (!can_be(m, rule, (enum history_phase)p, m->attempt))
            continue;
        out[n] = *m;
        out[n].phase = (enum history_phase)p;
        if (!is_over(m->phase))
            out[n].is_open |= !m->is_held && !m->is_ending;
        n++;
    }
    return n;
}

/* --- the search ---------------------------------------------------------- */

static uint64_t pack(const struct machine *m)
{
    return (uint64_t)m->exists | (uint64_t)m->is_held << 1 |
           (uint64_t)m->is_ending << 2 | (uint64_t)m->is_open << 3 |
           (uint64_t)m->phase << 4 | (uint64_t)m->may_die << 7 |
           (uint64_t)m->priority << 8 | (uint64_t)m->attempt << 16;
}

static void put(struct search *s, struct entry e)
{
    uint64_t h =
        (e.done * 0x9e3779b97f4a7c15u) ^ (e.machine * 0xc2b2ae3d27d4eb4fu);
    size_t i = (size_t)(h >> 20) & (s->room - 1);
    while (s->table[i].done != 0 &&
           (s->table[i].done != e.done || s->table[i].machine != e.machine))
        i = (i + 1) & (s->room - 1);
    s->used += s->table[i].done == 0;
    s->table[i] = e;
}

/* True: it is new, and remembered. */
static bool is_new(struct search *s, uint64_t done, const struct machine *m)
{
    if (2 * (s->used + 1) > s->room) {
        struct entry *old = s->table;
        size_t n = s->room;
        s->room = n > 0 ? 2 * n : 1024;
        s->table = calloc(s->room, sizeof *s->table);
        if (s->table == NULL)
            abort();
        s->used = 0;
        for (size_t i = 0; i < n; i++)
            if (old[i].done != 0)
                put(s, old[i]);
        free(old);
    }
    size_t before = s->used;
    put(s, (struct entry){done + 1, pack(m)});
    return s->used > before;
}

/* Of requests without an answer that are alike, the one that was sent first
 * goes first: any other order comes to the same. */
static bool has_elder(const struct search *s, uint64_t done, int i)
{
    const struct history_op *op = s->ops[i];
    for (int k = 0; k < i && op->result == HISTORY_UNKNOWN; k++)
        if ((done >> k & 1) == 0 && s->ops[k]->result == HISTORY_UNKNOWN &&
            s->ops[k]->what == op->what && s->ops[k]->value == op->value &&
            s->ops[k]->to_s >= op->to_s)
            return true;
    return false;
}

static bool is_explained(struct search *s, uint64_t done,
                         const struct machine *m)
{
    double first_s = INFINITY;   /* answer of what is not explained yet */
    double latest_s = -INFINITY; /* begin of what is */
    int depth = __builtin_popcountll(done & s->must);
    if (depth >= s->depth) {
        s->depth = depth;
        s->best = done;
    }
    if ((done & s->must) == s->must)
        return true;
    if (!is_new(s, done, m))
        return false;
    for (int i = 0; i < s->n; i++) {
        if ((done >> i & 1) != 0)
            latest_s = fmax(latest_s, s->ops[i]->from_s);
        else if (s->ops[i]->result != HISTORY_UNKNOWN)
            first_s = fmin(first_s, s->ops[i]->to_s);
    }
    for (int i = 0; i < s->n; i++) {
        struct machine next[4];
        if ((done >> i & 1) != 0 || s->ops[i]->from_s > first_s ||
            s->ops[i]->to_s < latest_s || has_elder(s, done, i))
            continue;
        int n = apply(m, &s->rule, s->ops[i], next);
        while (n > 0)
            if (is_explained(s, done | (uint64_t)1 << i, &next[--n]))
                return true;
    }
    return false;
}

/* --- words --------------------------------------------------------------- */

static size_t say_op(char *out, size_t room, const struct history_op *op)
{
    static const char *const whats[] = {"submit", "hold",     "release",
                                        "cancel", "priority", "show"};
    static const char *const results[] = {"unknown", "ok", "over", "absent",
                                          "refused"};
    static const char *const phases[] = {"pending", "active", "succeeded",
                                         "failed", "cancelled"};
    int n = snprintf(out, room, "%s %d [%.3f %.3f] %s", whats[op->what],
                     op->value, op->from_s, op->to_s, results[op->result]);
    if (op->result == HISTORY_OK && op->what != HISTORY_SUBMIT && n > 0 &&
        (size_t)n < room)
        n += snprintf(out + n, room - (size_t)n, " %s%s%s p%d a%ld",
                      phases[op->seen.phase], op->seen.is_held ? " held" : "",
                      op->seen.is_ending ? " ending" : "", op->seen.priority,
                      op->seen.attempt);
    return n > 0 ? (size_t)n : 0;
}

void history_say(const struct history_op *op, char out[200])
{
    say_op(out, 200, op);
}

/* The last that were explained and the first that were not. */
static void tell(const struct search *s, int key, char said[HISTORY_SAID])
{
    size_t n = (size_t)snprintf(
        said, HISTORY_SAID, "job %d: %d of %d answers have an order; not:", key,
        s->depth, s->nmust);
    for (int i = 0, told = 0; i < s->n && told < 4 && n < HISTORY_SAID; i++)
        if ((s->best >> i & 1) == 0 && (s->must >> i & 1) != 0) {
            n += (size_t)snprintf(said + n, HISTORY_SAID - n, "%s ",
                                  told++ > 0 ? ";" : "");
            if (n < HISTORY_SAID)
                n += say_op(said + n, HISTORY_SAID - n, s->ops[i]);
        }
}

static int by_time(const void *a, const void *b)
{
    const struct history_op *x = *(const struct history_op *const *)a;
    const struct history_op *y = *(const struct history_op *const *)b;
    return (x->from_s > y->from_s) - (x->from_s < y->from_s);
}

/* Requests that changed nothing, and looks without an answer, say nothing. */
static bool is_told(const struct history_op *op)
{
    return op->result != HISTORY_REFUSED &&
           (op->result != HISTORY_UNKNOWN || op->what != HISTORY_SHOW);
}

static bool job_is_good(const struct history_op *ops, size_t n, int key,
                        struct history_rule rule, char said[HISTORY_SAID])
{
    struct search s = {.rule = rule};
    struct machine none = {0};
    for (size_t i = 0; i < n; i++) {
        if (ops[i].key != key || !is_told(&ops[i]))
            continue;
        if (s.n == HISTORY_MOST) {
            snprintf(said, HISTORY_SAID, "job %d: more than %d operations", key,
                     HISTORY_MOST);
            return false;
        }
        s.ops[s.n++] = &ops[i];
    }
    qsort(s.ops, (size_t)s.n, sizeof s.ops[0], by_time);
    for (int i = 0; i < s.n; i++)
        if (s.ops[i]->result != HISTORY_UNKNOWN) {
            s.must |= (uint64_t)1 << i;
            s.nmust++;
        }
    bool is_good = is_explained(&s, 0, &none);
    if (!is_good)
        tell(&s, key, said);
    free(s.table);
    return is_good;
}

/* (1) */
static bool ids_are_good(const struct history_op *ops, size_t n, int nkeys,
                         char said[HISTORY_SAID])
{
    long *of_key = calloc((size_t)nkeys, sizeof *of_key);
    bool is_good = of_key != NULL;
    for (size_t i = 0; i < n && is_good; i++) {
        if (ops[i].result != HISTORY_OK)
            continue;
        long *id = &of_key[ops[i].key];
        is_good = *id == 0 || *id == ops[i].seen.id;
        if (!is_good)
            snprintf(said, HISTORY_SAID, "job %d has the ids %ld and %ld",
                     ops[i].key, *id, ops[i].seen.id);
        *id = ops[i].seen.id;
    }
    for (int a = 0; a < nkeys && is_good; a++)
        for (int b = 0; b < a && is_good; b++) {
            is_good = of_key[a] == 0 || of_key[a] != of_key[b];
            if (!is_good)
                snprintf(said, HISTORY_SAID, "jobs %d and %d have the id %ld",
                         b, a, of_key[a]);
        }
    free(of_key);
    return is_good;
}

bool history_is_good(const struct history_op *ops, size_t n,
                     const struct history_rule *rules, int nkeys,
                     char said[HISTORY_SAID])
{
    said[0] = '\0';
    if (!ids_are_good(ops, n, nkeys, said))
        return false;
    for (int key = 0; key < nkeys; key++)
        if (!job_is_good(ops, n, key, rules[key], said))
            return false;
    return true;
}
