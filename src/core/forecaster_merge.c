/* forecaster_merge.c - when two merged jobs are done, and is it worth it?
 *
 * Together (Ymir's spatial transfer): both are trained at their rates of
 * struct merge_side until the first is done; the other goes on alone.
 * After (temporal): the second begins with the weights of the first and needs
 * `after` times less work.
 *
 * TranWt is Ymir's eq. (12) and (13): the run times of both alone, the shorter
 * first, over those of both merged.
 *
 * Where nothing was measured of a pair, two jobs that would take A and B
 * seconds alone are taken to be trained in turns, each in proportion to its
 * work, and each needs g times less of it for what the other learns: both are
 * done after (A + B) / g seconds. g is what a training of both gets done in a
 * second, counted in seconds of each alone: 1 when they only share the time.
 * So two jobs of the same length are worth merging with g above 4/3.
 *
 * g, and the factor for weights, before anything was seen: the medians over
 * the pairs of the Titan artifact that the simulator runs by
 * (sim/transfers.def): epochs alone over epochs together, 256 pairs, and over
 * epochs after the other, 192; a task that never got to its target in ten
 * epochs counts as twenty, tasks that got there with no other are left out.
 * Once seen: the pair's own g if these two datasets were trained together
 * before; else the mean of the pairs of that base and of one imagined pair of
 * the prior. The factor for weights cannot be seen in reports.
 *
 * Not kept over a restart. Cost: O(pairs seen) for an answer.
 */
#include "core/forecaster_merge.h"
#include "base/buf.h"
#include "base/keep.h"
#include "base/mem.h"
#include "base/vec.h"
#include <math.h>
#include <string.h>

#define TOGETHER 1.50
#define AFTER    1.11

static void both_at_once(const struct merge_side side[2],
                         struct firn_merge *out)
{
    for (int i = 0; i < 2; i++)
        out->left_s[i] = side[i].work_s / side[i].together;
    int last = out->left_s[0] <= out->left_s[1];
    double first_s = out->left_s[1 - last];
    out->left_s[last] =
        first_s +
        (side[last].work_s - side[last].together * first_s) / side[last].alone;
}

bool merge_expect(const struct merge_side side[2], enum firn_merge_kind kind,
                  struct firn_merge *out)
{
    double a = side[0].work_s / side[0].alone;
    double b = side[1].work_s / side[1].alone;
    bool is_after = kind == FIRN_MERGE_AFTER;
    if (!(a > 0) || !(b > 0))
        return false;
    if (is_after ? !side[1].is_new || !(side[1].after > 0)
                 : !(side[0].together > 0) || !(side[1].together > 0))
        return false;
    if (is_after) {
        out->left_s[0] = a;
        out->left_s[1] = a + b / side[1].after;
    } else
        both_at_once(side, out);
    out->weight =
        (2 * fmin(a, b) + fmax(a, b)) / (out->left_s[0] + out->left_s[1]);
    return true;
}

/* --- what was seen ------------------------------------------------------- */

struct gain {
    char *base, *set[2]; /* in the order of their names */
    double together;
};

struct gains {
    VEC(struct gain) pairs;
};

struct gains *gains_new(void)
{
    return mem_new(1, sizeof(struct gains));
}

void gains_free(struct gains *gains)
{
    if (gains == NULL)
        return;
    for (size_t i = 0; i < gains->pairs.n; i++) {
        mem_free(gains->pairs.at[i].base);
        mem_free(gains->pairs.at[i].set[0]);
        mem_free(gains->pairs.at[i].set[1]);
    }
    vec_release(&gains->pairs);
    mem_free(gains);
}

static struct gain *find(const struct gains *gains, const char *base,
                         const char *set, const char *other)
{
    bool is_first = strcmp(set, other) <= 0;
    for (size_t i = 0; i < gains->pairs.n; i++) {
        struct gain *pair = &gains->pairs.at[i];
        if (strcmp(pair->base, base) == 0 &&
            strcmp(pair->set[0], is_first ? set : other) == 0 &&
            strcmp(pair->set[1], is_first ? other : set) == 0)
            return pair;
    }
    return NULL;
}

double gains_together(const struct gains *gains, const char *base,
                      const char *set, const char *other)
{
    const struct gain *pair = find(gains, base, set, other);
    double sum = TOGETHER, n = 1;
    if (pair != NULL)
        return pair->together;
    for (size_t i = 0; i < gains->pairs.n; i++)
        if (strcmp(gains->pairs.at[i].base, base) == 0) {
            sum += gains->pairs.at[i].together;
            n++;
        }
    return sum / n;
}

double gains_after(const struct gains *gains)
{
    (void)gains;
    return AFTER;
}

void gains_learn(struct gains *gains, const char *base, const char *set,
                 const char *other, double together)
{
    struct gain *pair = find(gains, base, set, other);
    bool is_first = strcmp(set, other) <= 0;
    if (!(together > 0) || !isfinite(together))
        return;
    if (pair != NULL) {
        pair->together = together;
        return;
    }
    struct gain first = {mem_strdup(base),
                         {mem_strdup(is_first ? set : other),
                          mem_strdup(is_first ? other : set)},
                         together};
    vec_add(&gains->pairs, first);
}

void gains_save(const struct gains *gains, struct firn_buf *out)
{
    keep_int(out, (long)gains->pairs.n);
    for (size_t i = 0; i < gains->pairs.n; i++) {
        const struct gain *pair = &gains->pairs.at[i];
        keep_text(out, pair->base);
        keep_text(out, pair->set[0]);
        keep_text(out, pair->set[1]);
        keep_double(out, pair->together);
    }
}

static const char *read_name(struct keep *in, struct firn_buf *out)
{
    size_t n = 0;
    const char *text = keep_read_text(in, &n);
    buf_clear(out);
    buf_add(out, text, n);
    buf_putc(out, '\0');
    return out->at;
}

void gains_load(struct gains *gains, struct keep *in)
{
    struct firn_buf name[3] = {0};
    long n = keep_read_int(in, 0, 1 << 20);
    for (long i = 0; i < n && !in->is_bad; i++) {
        const char *base = read_name(in, &name[0]);
        const char *set = read_name(in, &name[1]);
        const char *other = read_name(in, &name[2]);
        double together = keep_read_double(in);
        if (!in->is_bad)
            gains_learn(gains, base, set, other, together);
    }
    for (int i = 0; i < 3; i++)
        buf_release(&name[i]);
}
