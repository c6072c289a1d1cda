/* livehistory.c - means of run times, the nearest kind first.
 *
 * The guess for a job is the mean of what its user's jobs of the same
 * application took; if there were none, of the application's of all users; else
 * of its user's of any application. A job without an application is of the
 * application "". A mean counts its past for MEMORY jobs at most, so that old
 * news fade. A change of a CHANGE-th is worth telling.
 *
 * Cost: three looks into a hash table. At most KEYS_MAX means are kept; who
 * comes later is not learned of.
 */
#include "daemon/livehistory.h"
#include "base/map.h"
#include "base/vec.h"
#include <math.h>
#include <stdio.h>

#define CHANGE 0.2

enum { MEMORY = 20, KEYS_MAX = 20000, KEY = 256 };

struct mean {
    double mean_s, n;
    double told_s; /* when a change was last worth telling */
};

struct livehistory {
    struct map keys;
    VEC(struct mean) means; /* by number */
};

struct livehistory *livehistory_new(void)
{
    return mem_new(1, sizeof(struct livehistory));
}

void livehistory_free(struct livehistory *history)
{
    if (history == NULL)
        return;
    map_release(&history->keys);
    vec_release(&history->means);
    mem_free(history);
}

enum { BOTH, APP, USER, KINDS };

/* Of a kind; false: there is no such key. */
static bool key_of(int kind, const char *user, const char *app, char out[KEY])
{
    if (kind == APP && *app == '\0')
        return false;
    snprintf(out, KEY, "%d\t%.100s\t%.100s", kind, kind == APP ? "" : user,
             kind == USER ? "" : app);
    return true;
}

static bool learn(struct mean *mean, double duration_s)
{
    mean->n = mean->n < MEMORY ? mean->n + 1 : MEMORY;
    mean->mean_s += (duration_s - mean->mean_s) / mean->n;
    if (fabs(mean->mean_s - mean->told_s) <= CHANGE * mean->told_s)
        return false;
    mean->told_s = mean->mean_s;
    return true;
}

bool livehistory_done(struct livehistory *history, const char *user,
                      const char *app, double duration_s)
{
    bool is_news = false;
    char key[KEY];
    if (!(duration_s > 0) || !isfinite(duration_s))
        return false;
    for (int kind = 0; kind < KINDS; kind++) {
        if (!key_of(kind, user, app, key) ||
            (history->keys.n >= KEYS_MAX && map_find(&history->keys, key) < 0))
            continue;
        size_t number = (size_t)map_add(&history->keys, key);
        vec_reserve(&history->means, number + 1);
        if (history->means.n <= number)
            history->means.n = number + 1;
        is_news |= learn(&history->means.at[number], duration_s);
    }
    return is_news;
}

double livehistory_guess(const struct livehistory *history, const char *user,
                         const char *app)
{
    char key[KEY];
    for (int kind = 0; kind < KINDS; kind++) {
        int number =
            key_of(kind, user, app, key) ? map_find(&history->keys, key) : -1;
        if (number >= 0)
            return history->means.at[number].mean_s;
    }
    return 0;
}
