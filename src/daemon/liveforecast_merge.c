/* liveforecast_merge.c - two live jobs as core/forecaster_merge.h has them.
 *
 * Both are taken to be trained in turns, by epochs of both: a job gets its
 * epoch's share of the time of both, and needs `ratio` times the epochs that it
 * needs alone (core/taskbook.h). That is known once three epochs of each task
 * were reported alone. How alike two tasks are follows from the embeddings that
 * their trainers report (Task2Vec; firn_transfer_score()): one score for each
 * direction. Tasks without an embedding all have the same score, and what is
 * learned is how much each task and each pair gains.
 *
 * Before that, a prior: each gets on in proportion to its work, with the gain
 * of struct gains (core/forecaster_merge.c).
 */
#include "daemon/liveforecast_merge.h"
#include "base/buf.h"
#include "base/keep.h"
#include "base/mem.h"
#include "base/vec.h"
#include "core/forecaster_merge.h"
#include "core/taskbook.h"
#include <firn/message.h>
#include <math.h>
#include <string.h>

#define NO_SCORE 0.5 /* of tasks whose embeddings are not reported */

struct place {
    double at[FIRN_MESSAGE_EMBEDDING];
    int n; /* 0: not known */
};

struct livemerge {
    struct gains *gains;
    struct taskbook *book;
    VEC(struct place) places; /* by task */
};

struct livemerge *livemerge_new(void)
{
    struct livemerge *merges = mem_new(1, sizeof *merges);
    merges->gains = gains_new();
    merges->book = taskbook_new();
    return merges;
}

void livemerge_free(struct livemerge *merges)
{
    if (merges == NULL)
        return;
    gains_free(merges->gains);
    taskbook_free(merges->book);
    vec_release(&merges->places);
    mem_free(merges);
}

/* --- keeping it ---------------------------------------------------------- */

static const char WHOSE[] = "merges";
enum { VERSION = 1 };

void livemerge_save(const struct livemerge *merges, struct firn_buf *out)
{
    struct firn_buf book = {0};
    keep_begin(out, WHOSE, VERSION);
    taskbook_save(merges->book, &book);
    keep_text(out, book.at);
    gains_save(merges->gains, out);
    keep_int(out, (long)merges->places.n);
    for (size_t i = 0; i < merges->places.n; i++) {
        const struct place *place = &merges->places.at[i];
        keep_int(out, place->n);
        for (int k = 0; k < place->n; k++)
            keep_double(out, place->at[k]);
    }
    buf_release(&book);
}

static void load_places(struct livemerge *merges, struct keep *in)
{
    long n = keep_read_int(in, 0, 1 << 20);
    for (long i = 0; i < n && !in->is_bad; i++) {
        struct place place = {0};
        place.n = (int)keep_read_int(in, 0, FIRN_MESSAGE_EMBEDDING);
        for (int k = 0; k < place.n; k++)
            place.at[k] = keep_read_double(in);
        vec_add(&merges->places, place);
    }
}

enum firn_status livemerge_load(struct livemerge *merges,
                                struct firn_bytes text, struct firn_error *err)
{
    struct keep in;
    struct firn_bytes book = {0};
    struct livemerge *read = livemerge_new();
    enum firn_status status = keep_open(&in, text, WHOSE, VERSION, err);
    if (status == FIRN_OK) {
        book.at = keep_read_text(&in, &book.n);
        gains_load(read->gains, &in);
        load_places(read, &in);
        status = keep_close(&in, err);
    }
    if (status == FIRN_OK)
        status = taskbook_load(read->book, book, err);
    if (status == FIRN_OK) {
        struct livemerge old = *merges;
        *merges = *read;
        *read = old;
    }
    livemerge_free(read);
    return status;
}

/* --- reports ------------------------------------------------------------- */

static struct task_run run_of(struct livemerge *merges,
                              const struct livemerge_epoch *report)
{
    struct task_run run = {
        .task = taskbook_task(merges->book, report->base, report->dataset),
        .with = TASKBOOK_ALONE,
        .kind = report->kind};
    if (report->with != NULL)
        run.with = taskbook_task(merges->book, report->base, report->with);
    return run;
}

void livemerge_epoch(struct livemerge *merges,
                     const struct livemerge_epoch *report)
{
    struct task_run run = run_of(merges, report);
    taskbook_goal(merges->book, run.task, report->target_loss,
                  report->epochs_max);
    taskbook_begin(merges->book, &run);
    taskbook_epoch(merges->book, &run, report->epoch, report->loss);
}

void livemerge_place(struct livemerge *merges, const char *base,
                     const char *dataset, const double *embedding, int n)
{
    int task = taskbook_task(merges->book, base, dataset);
    if (n < 1 || n > FIRN_MESSAGE_EMBEDDING)
        return;
    vec_reserve(&merges->places, (size_t)task + 1);
    if (merges->places.n < (size_t)task + 1)
        merges->places.n = (size_t)task + 1;
    struct place *place = &merges->places.at[task];
    memcpy(place->at, embedding, (size_t)n * sizeof *embedding);
    place->n = n;
}

static double score_of(const struct livemerge *merges, int from, int to)
{
    size_t n = merges->places.n;
    if ((size_t)from >= n || (size_t)to >= n)
        return NO_SCORE;
    const struct place *a = &merges->places.at[from];
    const struct place *b = &merges->places.at[to];
    double score = a->n > 0 && a->n == b->n
                       ? firn_transfer_score(a->at, b->at, (size_t)a->n)
                       : (double)NAN;
    return isfinite(score) ? score : NO_SCORE;
}

bool livemerge_hurts(struct livemerge *merges,
                     const struct livemerge_epoch *report,
                     struct taskbook_harm *out)
{
    struct task_run run = run_of(merges, report);
    return taskbook_hurts(merges->book, &run, report->epoch, report->loss, out);
}

void livemerge_ended(struct livemerge *merges,
                     const struct livemerge_epoch *last)
{
    struct task_run run = run_of(merges, last);
    taskbook_end(merges->book, &run, last->epoch);
}

/* --- what is expected ---------------------------------------------------- */

/* What is expected of `side[i]` merged with the other; a ratio of NaN: it is
 * not known. */
static struct taskbook_answer answer_of(struct livemerge *merges,
                                        const struct livemerge_side side[2],
                                        int i, enum firn_merge_kind kind)
{
    struct taskbook *book = merges->book;
    struct taskbook_answer answer;
    int me = taskbook_task(book, side[i].base, side[i].dataset);
    int other = taskbook_task(book, side[1 - i].base, side[1 - i].dataset);
    struct task_run run = {me, other, kind};
    taskbook_score(book, me, other, score_of(merges, me, other));
    taskbook_score(book, other, me, score_of(merges, other, me));
    static const struct taskbook_answer none = {.ratio = (double)NAN};
    return taskbook_answer(book, &run, &answer) ? answer : none;
}

/* The seconds that an epoch of the job takes of one of both. */
static double share_of(const struct livemerge_side side[2], int i)
{
    double epochs_s = side[0].epoch_s + side[1].epoch_s;
    if (epochs_s > 0)
        return side[i].epoch_s / epochs_s;
    return side[i].alone_s / (side[0].alone_s + side[1].alone_s);
}

static struct merge_side expect_one(struct livemerge *merges,
                                    const struct livemerge_side side[2], int i,
                                    enum firn_merge_kind kind)
{
    double ratio = answer_of(merges, side, i, kind).ratio;
    struct merge_side out = {.work_s = side[i].alone_s, /* alone: seconds */
                             .alone = 1,
                             .is_new = side[i].is_new};
    if (ratio > 0) {
        out.together = share_of(side, i) / ratio;
        out.after = 1 / ratio;
        return out;
    }
    double gain = gains_together(merges->gains, side[0].base, side[0].dataset,
                                 side[1].dataset);
    out.together = gain * side[i].alone_s / (side[0].alone_s + side[1].alone_s);
    out.after = gains_after(merges->gains);
    return out;
}

bool livemerge_expect(struct livemerge *merges,
                      const struct livemerge_side side[2],
                      enum firn_merge_kind kind, struct firn_merge *out)
{
    struct merge_side sides[2];
    struct firn_merge merge = {0};
    if (side[0].base[0] == '\0' || strcmp(side[0].base, side[1].base) != 0 ||
        strcmp(side[0].dataset, side[1].dataset) == 0)
        return false;
    for (int i = 0; i < 2; i++)
        sides[i] = expect_one(merges, side, i, kind);
    if (!merge_expect(sides, kind, &merge))
        return false;
    merge.epoch_s = kind == FIRN_MERGE_AFTER
                        ? side[1].epoch_s
                        : side[0].epoch_s + side[1].epoch_s;
    *out = merge;
    return true;
}

bool livemerge_after(struct livemerge *merges,
                     const struct livemerge_side side[2],
                     struct firn_after *out)
{
    if (side[0].base[0] == '\0' || strcmp(side[0].base, side[1].base) != 0 ||
        strcmp(side[0].dataset, side[1].dataset) == 0)
        return false;
    struct taskbook_answer answer =
        answer_of(merges, side, 1, FIRN_MERGE_AFTER);
    out->gain =
        answer.ratio > 0 ? 1 / answer.ratio : gains_after(merges->gains);
    out->ended = answer.ended;
    return true;
}

void livemerge_saw(struct livemerge *merges,
                   const struct livemerge_side side[2], double together)
{
    gains_learn(merges->gains, side[0].base, side[0].dataset, side[1].dataset,
                together);
}
