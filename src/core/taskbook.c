/* taskbook.c - Ymir's estimator: scores, gains, curves, epochs, corrections.
 *
 * For task B merged with A (`kind`: together with it, or after it):
 *
 *   score    S(A,B), together the mean of both directions
 *   line     ln(1 + G) = a + b S, ridge regression (firn/transfer.h) that
 *            begins with offline pairs of other base models and learns from
 *            each pair of this base that was seen
 *   effects  what the line leaves of B's pairs, and then of this pair, each
 *            shrunk: n e / (n + SHRINK). Most of what a task gains is its
 *            own: one that has much to learn gains from any other.
 *   curve    (3) of B alone, fitted to the losses that its jobs reported, by
 *            epoch, averaged over jobs
 *   epochs   those at which the curve, and the curve / (1 + G), meet the
 *            target of the job: K and K'. Without a target (2).
 *   table    K' / K, corrected by what merged jobs took in the end: the mean
 *            of the logarithms of measured over predicted, of this pair and of
 *            B's pairs, shrunk likewise
 *
 * A reported loss L' after k epochs of a merge is a measurement of the gain,
 * ln(1 + G) = ln(L(k) / L'), as P in (1) is 1 / loss.
 *
 * Cold start: nothing is answered of a task before a job of it has reported
 * three epochs alone, so the first jobs of a task are not merged. A task that
 * was never seen merged in this kind is given the benefit of the doubt: one
 * standard deviation of the line. Without it a base whose prior is poor would
 * never be tried; the guards end a trial after two epochs: that of the policy
 * together, taskbook_hurts() after another.
 *
 * Invariant: answers depend on observations, not on earlier questions. So a
 * curve is fitted when a loss comes in: every time at first, later when half
 * as many again have come since the last fit.
 * Cost: a remembered answer is a look into an array; after an observation of
 * the base O(pairs of the base) for the next. A fit takes 0.4 ms.
 */
#include "core/taskbook.h"
#include "base/fmath.h"
#include "base/keep.h"
#include "base/mem.h"
#include "base/vec.h"
#include <firn/losscurve.h>
#include <math.h>
#include <string.h>

enum { EPOCHS = 32, KINDS = 2 };
#define TRUST  4.0 /* rows that the offline line counts for */
#define SHRINK 0.5
#define NEVER  2.0  /* times the epochs allowed: a target that is not met */
#define LATER  1.5  /* times the epochs done: a job that should have ended */
#define LIMIT  10.0 /* epochs, of jobs that name none */
#define HARM   1.05 /* times the loss expected alone: a transfer that hurts */

struct mean {
    double n, sum;
};

static void mean_add(struct mean *m, double x)
{
    m->n++;
    m->sum += x;
}

static double mean_of(const struct mean *m)
{
    return m->n > 0 ? m->sum / m->n : 0;
}

static double shrunk(const struct mean *m)
{
    return m->sum / (m->n + SHRINK);
}

/* One task merged with another, in one kind. */
struct pair {
    struct mean by_epoch[EPOCHS]; /* ln of the loss, so merged */
    struct mean ends;             /* ln of the epochs that jobs took */
    double score;                 /* of this direction; kind does not matter */
    bool has_score;
    int seen, latest; /* epochs reported, and the highest of them */
    long version;     /* of the answer */
    struct taskbook_answer answer;
    bool is_known;
};

struct task {
    char *set;
    int base;
    double target, limit;
    struct mean by_epoch[EPOCHS]; /* ln of the loss, alone */
    struct mean ends;             /* epochs, alone */
    int seen;                     /* epochs reported alone */
    int fitted;                   /* of these at the last fit */
    bool has_curve;
    bool is_tried[KINDS]; /* merged so at least once */
    struct firn_losscurve curve;
    VEC(struct pair) pairs; /* by KINDS x the other's number + kind */
};

struct base {
    char *name;
    struct firn_gain_model offline[KINDS], line[KINDS];
    bool has_offline[KINDS];
    long version;       /* changed by observations */
    long fitted[KINDS]; /* of the line */
};

struct taskbook {
    VEC(struct task) tasks;
    VEC(struct base) bases;
    VEC(struct firn_gain_obs) rows; /* of a fit */
};

struct taskbook *taskbook_new(void)
{
    return mem_new(1, sizeof(struct taskbook));
}

void taskbook_free(struct taskbook *book)
{
    if (book == NULL)
        return;
    for (size_t i = 0; i < book->tasks.n; i++) {
        mem_free(book->tasks.at[i].set);
        vec_release(&book->tasks.at[i].pairs);
    }
    for (size_t i = 0; i < book->bases.n; i++)
        mem_free(book->bases.at[i].name);
    vec_release(&book->tasks);
    vec_release(&book->bases);
    vec_release(&book->rows);
    mem_free(book);
}

static int base_of(struct taskbook *book, const char *name)
{
    for (size_t i = 0; i < book->bases.n; i++)
        if (strcmp(book->bases.at[i].name, name) == 0)
            return (int)i;
    struct base base = {.name = mem_strdup(name), .version = 1};
    vec_add(&book->bases, base);
    return (int)book->bases.n - 1;
}

int taskbook_task(struct taskbook *book, const char *base, const char *set)
{
    int of = base_of(book, base);
    for (size_t i = 0; i < book->tasks.n; i++)
        if (book->tasks.at[i].base == of &&
            strcmp(book->tasks.at[i].set, set) == 0)
            return (int)i;
    struct task task = {.set = mem_strdup(set),
                        .base = of,
                        .target = (double)NAN,
                        .limit = LIMIT};
    vec_add(&book->tasks, task);
    return (int)book->tasks.n - 1;
}

static struct task *task_at(struct taskbook *book, int task)
{
    return &book->tasks.at[task];
}

static struct pair *pair_at(struct taskbook *book, int task, int other,
                            enum firn_merge_kind kind)
{
    struct task *t = task_at(book, task);
    size_t i = (size_t)other * KINDS + (size_t)kind;
    vec_reserve(&t->pairs, i + 1);
    if (t->pairs.n < i + 1)
        t->pairs.n = i + 1;
    return &t->pairs.at[i];
}

static void changed(struct taskbook *book, int task)
{
    book->bases.at[task_at(book, task)->base].version++;
}

/* --- the curve ----------------------------------------------------------- */

static void fit_curve(struct task *t)
{
    struct firn_loss_obs obs[EPOCHS];
    size_t n = 0;
    bool has_target = t->target > 0;
    for (int i = 0; i < EPOCHS; i++)
        if (t->by_epoch[i].n > 0)
            obs[n++] =
                (struct firn_loss_obs){i + 1, fm_exp(mean_of(&t->by_epoch[i]))};
    t->fitted = t->seen;
    t->has_curve =
        firn_losscurve_fit(&t->curve, FIRN_LOSSCURVE_YMIR,
                           has_target ? 0.98 * t->target : (double)INFINITY,
                           obs, n, NULL) == FIRN_OK;
}

/* --- observations -------------------------------------------------------- */

void taskbook_goal(struct taskbook *book, int task, double target_loss,
                   double epochs_max)
{
    struct task *t = task_at(book, task);
    double limit = epochs_max > 0 ? fmin(epochs_max, EPOCHS) : LIMIT;
    bool is_same = (t->target == target_loss ||
                    (isnan(t->target) && isnan(target_loss))) &&
                   t->limit == limit;
    if (is_same)
        return;
    t->target = target_loss;
    t->limit = limit;
    fit_curve(t);
    changed(book, task);
}

void taskbook_offline(struct taskbook *book, const char *base,
                      enum firn_merge_kind kind,
                      const struct firn_gain_obs *obs, size_t n)
{
    int of = base_of(book, base); /* may move the bases */
    struct base *b = &book->bases.at[of];
    b->has_offline[kind] =
        firn_gain_fit(&b->offline[kind], obs, n, NULL, 0, NULL) == FIRN_OK;
    b->version++;
}

void taskbook_score(struct taskbook *book, int from, int to, double score)
{
    bool is_new = false;
    if (!isfinite(score) || from == to)
        return;
    for (int kind = 0; kind < KINDS; kind++) {
        struct pair *pair = pair_at(book, to, from, (enum firn_merge_kind)kind);
        is_new = is_new || !pair->has_score || pair->score != score;
        pair->score = score;
        pair->has_score = true;
    }
    if (is_new)
        changed(book, to);
}

void taskbook_begin(struct taskbook *book, const struct task_run *run)
{
    struct task *task = task_at(book, run->task);
    if (run->with == TASKBOOK_ALONE || task->is_tried[run->kind])
        return;
    task->is_tried[run->kind] = true;
    changed(book, run->task);
}

void taskbook_epoch(struct taskbook *book, const struct task_run *run,
                    int epoch, double loss)
{
    const struct firn_loss_obs now = {epoch, loss};
    if (firn_loss_check(&now, NULL) != FIRN_OK || epoch < 1 || epoch > EPOCHS)
        return;
    struct task *task = task_at(book, run->task);
    struct mean *mean = &task->by_epoch[epoch - 1];
    if (run->with != TASKBOOK_ALONE) {
        struct pair *pair = pair_at(book, run->task, run->with, run->kind);
        mean = &pair->by_epoch[epoch - 1];
        pair->seen++;
        if (epoch > pair->latest)
            pair->latest = epoch;
    }
    mean_add(mean, fm_log(loss));
    if (run->with == TASKBOOK_ALONE && 2 * ++task->seen >= 3 * task->fitted)
        fit_curve(task);
    changed(book, run->task);
}

void taskbook_end(struct taskbook *book, const struct task_run *run,
                  double epochs)
{
    if (!(epochs > 0) || !isfinite(epochs))
        return;
    struct mean *mean =
        run->with == TASKBOOK_ALONE
            ? &task_at(book, run->task)->ends
            : &pair_at(book, run->task, run->with, run->kind)->ends;
    mean_add(mean, fm_log(epochs));
    changed(book, run->task);
}

/* --- epochs --------------------------------------------------------------- */

/* Epochs at which a task with this gain is done. */
static double epochs_with(const struct task *t, double gain)
{
    struct firn_losscurve curve;
    double most = NEVER * t->limit;
    if (firn_losscurve_transfer(&t->curve, gain, &curve, NULL) != FIRN_OK)
        return most;
    if (t->target > 0)
        return firn_losscurve_hit(&curve, t->target, 0, 1, most);
    return fmax(
        firn_losscurve_converge(&curve, FIRN_LOSSCURVE_TOLERANCE, 1, most), 1);
}

double taskbook_first_loss(struct taskbook *book, int task)
{
    struct task *t = task_at(book, task);
    return t->has_curve ? firn_losscurve_at(&t->curve, 0).value : (double)NAN;
}

double taskbook_loss(struct taskbook *book, int task, int epoch)
{
    struct task *t = task_at(book, task);
    return t->has_curve ? firn_losscurve_at(&t->curve, epoch).value
                        : (double)NAN;
}

/* --- the line and the effects -------------------------------------------- */

static bool score_of(struct taskbook *book, int task, int other,
                     enum firn_merge_kind kind, double *out)
{
    const struct pair *here = pair_at(book, task, other, kind);
    bool is_known = here->has_score;
    double score = here->score;
    if (kind == FIRN_MERGE_TOGETHER) {
        const struct pair *back = pair_at(book, other, task, kind);
        is_known = is_known && back->has_score;
        score = firn_gain_spatial_score(score, back->score);
    }
    *out = score;
    return is_known;
}

/* Mean ln(1 + G) that was seen of a pair; false: none. */
static bool seen_gain(const struct task *t, const struct pair *pair,
                      double *out)
{
    double sum = 0, n = 0;
    if (pair->seen == 0 || !t->has_curve)
        return false;
    for (int i = 0; i < EPOCHS; i++) {
        const struct mean *m = &pair->by_epoch[i];
        double own = firn_losscurve_at(&t->curve, i + 1).value;
        if (m->n > 0) {
            sum +=
                m->n *
                fm_log(firn_transfer_gain(1 / fm_exp(mean_of(m)), 1 / own) + 1);
            n += m->n;
        }
    }
    *out = sum / n;
    return true;
}

static void fit_line(struct taskbook *book, int of, enum firn_merge_kind kind)
{
    struct base *base = &book->bases.at[of];
    book->rows.n = 0;
    for (size_t b = 0; b < book->tasks.n; b++)
        for (size_t a = 0; a < book->tasks.n && book->tasks.at[b].base == of;
             a++) {
            struct firn_gain_obs row;
            double y;
            if (a == b || book->tasks.at[a].base != of ||
                !seen_gain(task_at(book, (int)b),
                           pair_at(book, (int)b, (int)a, kind), &y) ||
                !score_of(book, (int)b, (int)a, kind, &row.score))
                continue;
            row.gain = fm_exp(y) - 1;
            vec_add(&book->rows, row);
        }
    static const struct firn_gain_model none;
    firn_gain_fit(&base->line[kind], book->rows.at, book->rows.n,
                  base->has_offline[kind] ? &base->offline[kind] : &none, TRUST,
                  NULL);
    base->fitted[kind] = base->version;
}

static double on_line(const struct firn_gain_model *line, double score)
{
    return fm_log(1 + firn_gain_at(line, score));
}

/* What all of a task's pairs of a kind leave to the line, and to the table. */
struct effects {
    struct mean gain, epochs;
};

static double alone_epochs(const struct task *t)
{
    return t->ends.n > 0 ? fm_exp(mean_of(&t->ends)) : epochs_with(t, 0);
}

static struct effects effects_of(struct taskbook *book, int task,
                                 enum firn_merge_kind kind)
{
    struct task *t = task_at(book, task);
    const struct firn_gain_model *line = &book->bases.at[t->base].line[kind];
    struct effects effects = {0};
    double alone = epochs_with(t, 0), y, score;
    for (size_t a = 0; a < book->tasks.n; a++) {
        if ((int)a == task || book->tasks.at[a].base != t->base)
            continue;
        const struct pair *pair = pair_at(book, task, (int)a, kind);
        if (!seen_gain(t, pair, &y) ||
            !score_of(book, task, (int)a, kind, &score))
            continue;
        mean_add(&effects.gain, y - on_line(line, score));
        if (pair->ends.n > 0)
            mean_add(&effects.epochs,
                     mean_of(&pair->ends) - fm_log(alone_epochs(t)) -
                         fm_log(epochs_with(t, fm_exp(y) - 1) / alone));
    }
    return effects;
}

/* --- answers ------------------------------------------------------------- */

static bool estimate(struct taskbook *book, const struct task_run *run,
                     struct taskbook_answer *out)
{
    struct task *t = task_at(book, run->task);
    struct base *base = &book->bases.at[t->base];
    double score, y;
    if (!score_of(book, run->task, run->with, run->kind, &score) ||
        !t->has_curve)
        return false;
    if (base->fitted[run->kind] != base->version)
        fit_line(book, t->base, run->kind);
    const struct firn_gain_model *line = &base->line[run->kind];
    const struct pair *pair = pair_at(book, run->task, run->with, run->kind);
    struct effects effects = effects_of(book, run->task, run->kind);
    double expected = on_line(line, score) + shrunk(&effects.gain);
    if (!t->is_tried[run->kind])
        expected += line->scatter; /* the benefit of the doubt */
    if (seen_gain(t, pair, &y)) {
        struct mean rest = {pair->seen, pair->seen * (y - expected)};
        expected += shrunk(&rest);
    }
    double alone = epochs_with(t, 0);
    double log_ratio = fm_log(epochs_with(t, fm_exp(expected) - 1) / alone) +
                       shrunk(&effects.epochs);
    if (pair->ends.n > 0) {
        double took = mean_of(&pair->ends) - fm_log(alone_epochs(t));
        struct mean rest = {pair->ends.n, pair->ends.n * (took - log_ratio)};
        log_ratio += shrunk(&rest);
    }
    double ratio = fm_exp(log_ratio), all = alone_epochs(t);
    if (pair->ends.n == 0 && pair->latest >= ratio * all) /* later than that */
        ratio = fmin(LATER * pair->latest, NEVER * t->limit) / all;
    *out = (struct taskbook_answer){.ratio = ratio,
                                    .gain = fm_exp(expected) - 1,
                                    .epochs = all,
                                    .seen = pair->seen,
                                    .ended = (int)pair->ends.n};
    return true;
}

bool taskbook_answer(struct taskbook *book, const struct task_run *run,
                     struct taskbook_answer *out)
{
    struct pair *pair = pair_at(book, run->task, run->with, run->kind);
    long version = book->bases.at[task_at(book, run->task)->base].version;
    if (pair->version != version) {
        struct taskbook_answer answer;
        bool is_known = estimate(book, run, &answer);
        pair = pair_at(book, run->task, run->with, run->kind);
        pair->version = version;
        pair->is_known = is_known;
        if (is_known)
            pair->answer = answer;
    }
    if (pair->is_known)
        *out = pair->answer;
    return pair->is_known;
}

bool taskbook_hurts(struct taskbook *book, const struct task_run *run,
                    int epoch, double loss, struct taskbook_harm *out)
{
    const struct task *t = task_at(book, run->task);
    const struct firn_loss_obs now = {epoch, loss};
    struct taskbook_answer answer;
    *out = (struct taskbook_harm){taskbook_loss(book, run->task, epoch), 0};
    if (epoch < 2 || !(loss > HARM * out->alone)) /* or not known */
        return false;
    out->behind = -firn_losscurve_head_start(&t->curve, &now, 1);
    if (!(t->target > 0) || !taskbook_answer(book, run, &answer))
        return true;
    return answer.ratio * answer.epochs - epoch > answer.epochs;
}

/* --- keeping it ---------------------------------------------------------- */

static const char WHOSE[] = "taskbook";
enum { VERSION = 1, MOST = 1 << 20 };

static void save_mean(struct firn_buf *out, const struct mean *m)
{
    keep_double(out, m->n);
    keep_double(out, m->sum);
}

static struct mean load_mean(struct keep *in)
{
    double n = keep_read_double(in);
    return (struct mean){n, keep_read_double(in)};
}

/* Most of a book's means are empty: the others have their number before them.
 */
static void save_epochs(struct firn_buf *out, const struct mean by_epoch[])
{
    for (int i = 0; i < EPOCHS; i++)
        if (by_epoch[i].n > 0) {
            keep_int(out, i);
            save_mean(out, &by_epoch[i]);
        }
    keep_int(out, EPOCHS);
}

static void load_epochs(struct keep *in, struct mean by_epoch[])
{
    for (;;) {
        long i = keep_read_int(in, 0, EPOCHS);
        if (i == EPOCHS || in->is_bad)
            return;
        by_epoch[i] = load_mean(in);
    }
}

static void save_curve(struct firn_buf *out, const struct firn_losscurve *c)
{
    for (int i = 0; i < 4; i++)
        keep_double(out, c->b[i]);
    keep_double(out, c->scale);
    keep_double(out, c->noise);
    keep_double(out, c->k_min);
    keep_double(out, c->k_max);
}

static void load_curve(struct keep *in, struct firn_losscurve *c)
{
    for (int i = 0; i < 4; i++)
        c->b[i] = keep_read_double(in);
    c->scale = keep_read_double(in);
    c->noise = keep_read_double(in);
    c->k_min = keep_read_double(in);
    c->k_max = keep_read_double(in);
}

/* Does it say anything of the pair? */
static bool is_blank(const struct pair *pair)
{
    return !pair->has_score && pair->seen == 0 && !(pair->ends.n > 0);
}

static void save_pairs(struct firn_buf *out, const struct task *t)
{
    for (size_t i = 0; i < t->pairs.n; i++) {
        const struct pair *pair = &t->pairs.at[i];
        if (is_blank(pair))
            continue;
        keep_int(out, (long)i);
        keep_int(out, pair->has_score);
        keep_double(out, pair->score);
        keep_int(out, pair->seen);
        keep_int(out, pair->latest);
        save_mean(out, &pair->ends);
        save_epochs(out, pair->by_epoch);
    }
    keep_int(out, MOST);
}

static void load_pairs(struct keep *in, struct taskbook *book, int task,
                       long ntasks)
{
    for (;;) {
        long i = keep_read_int(in, 0, MOST);
        if (i == MOST || in->is_bad)
            return;
        if (i >= ntasks * KINDS) {
            in->is_bad = true;
            return;
        }
        struct pair *pair = pair_at(book, task, (int)(i / KINDS),
                                    (enum firn_merge_kind)(i % KINDS));
        pair->has_score = keep_read_int(in, 0, 1) != 0;
        pair->score = keep_read_double(in);
        pair->seen = (int)keep_read_int(in, 0, MOST);
        pair->latest = (int)keep_read_int(in, 0, EPOCHS);
        pair->ends = load_mean(in);
        load_epochs(in, pair->by_epoch);
    }
}

void taskbook_save(const struct taskbook *book, struct firn_buf *out)
{
    keep_begin(out, WHOSE, VERSION);
    keep_int(out, (long)book->bases.n);
    for (size_t i = 0; i < book->bases.n; i++)
        keep_text(out, book->bases.at[i].name);
    keep_int(out, (long)book->tasks.n);
    for (size_t i = 0; i < book->tasks.n; i++) {
        const struct task *t = &book->tasks.at[i];
        keep_text(out, t->set);
        keep_int(out, t->base);
        keep_double(out, t->target > 0 ? t->target : 0);
        keep_double(out, t->limit);
        keep_int(out, t->seen);
        keep_int(out, t->fitted);
        for (int kind = 0; kind < KINDS; kind++)
            keep_int(out, t->is_tried[kind]);
        save_mean(out, &t->ends);
        save_epochs(out, t->by_epoch);
        keep_int(out, t->has_curve);
        if (t->has_curve)
            save_curve(out, &t->curve);
        save_pairs(out, t);
    }
}

static char *load_text(struct keep *in)
{
    size_t n = 0;
    const char *text = keep_read_text(in, &n);
    char *copy = mem_new(n + 1, 1);
    memcpy(copy, text, n);
    return copy;
}

static void load_task(struct keep *in, struct taskbook *book, long nbases,
                      long ntasks)
{
    struct task t = {.set = load_text(in)};
    t.base = (int)keep_read_int(in, 0, nbases - 1);
    double target = keep_read_double(in);
    t.target = target > 0 ? target : (double)NAN;
    t.limit = keep_read_double(in);
    t.seen = (int)keep_read_int(in, 0, MOST);
    t.fitted = (int)keep_read_int(in, 0, MOST);
    for (int kind = 0; kind < KINDS; kind++)
        t.is_tried[kind] = keep_read_int(in, 0, 1) != 0;
    t.ends = load_mean(in);
    load_epochs(in, t.by_epoch);
    t.has_curve = keep_read_int(in, 0, 1) != 0;
    if (t.has_curve)
        load_curve(in, &t.curve);
    vec_add(&book->tasks, t);
    load_pairs(in, book, (int)book->tasks.n - 1, ntasks);
}

enum firn_status taskbook_load(struct taskbook *book, struct firn_bytes text,
                               struct firn_error *err)
{
    struct keep in;
    struct taskbook *read = taskbook_new();
    enum firn_status status = keep_open(&in, text, WHOSE, VERSION, err);
    if (status == FIRN_OK) {
        long nbases = keep_read_int(&in, 0, MOST);
        for (long i = 0; i < nbases && !in.is_bad; i++) {
            struct base base = {.name = load_text(&in), .version = 1};
            vec_add(&read->bases, base);
        }
        long ntasks = keep_read_int(&in, 0, MOST);
        for (long i = 0; i < ntasks && !in.is_bad; i++)
            load_task(&in, read, nbases, ntasks);
        status = keep_close(&in, err);
    }
    if (status == FIRN_OK) {
        struct taskbook old = *book;
        *book = *read;
        *read = old;
    }
    taskbook_free(read);
    return status;
}
