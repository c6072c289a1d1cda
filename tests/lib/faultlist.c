/* faultlist.c - which faults a test plays: one, a sample, or all.
 */
#define _GNU_SOURCE
#include "lib/faultlist.h"
#include "base/rng.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_BAD = 20, PARTS = 4 };

struct run {
    const struct faultlist *list;
    faultlist_play_fn *play;
    void *arg;
};

void faultlist_count(struct faultlist *list, const struct faultplan *plan,
                     const struct fault *fault)
{
    for (int r = 0; r < FAULT_ROLES && fault->nth == 0; r++)
        for (int c = 0; c < FAULT_CALLS; c++)
            list->counts[r][c] = plan->counts[r][c];
}

void faultlist_print(const struct faultlist *list)
{
    printf("# calls");
    for (int r = 0; r < FAULT_ROLES; r++)
        for (int c = 0; c < FAULT_CALLS; c++)
            if (list->counts[r][c] > 0)
                printf(" %s.%s %ld", fault_role_name((enum fault_role)r),
                       fault_call_name((enum fault_call)c), list->counts[r][c]);
    printf("\n");
}

void faultlist_tell(const struct fault *fault, const char *where,
                    const char *said)
{
    fprintf(stderr, "FIRN_FAULT='%s %s %s %ld %ld' %s: %s\n",
            fault_role_name(fault->role), fault_call_name(fault->call),
            fault->nth > 0 ? fault_error_name(fault->error) : "none",
            fault->nth, fault->length, where, said);
}

/* "daemon open EMFILE 94 10" */
static bool read_fault(const char *text, struct fault *out)
{
    char role[20], call[20], error[20];
    if (sscanf(text, "%19s %19s %19s %ld %ld", role, call, error, &out->nth,
               &out->length) != 5)
        return false;
    for (int r = 0; r < FAULT_ROLES; r++)
        for (int c = 0; c < FAULT_CALLS; c++) {
            const int *e = fault_errors((enum fault_call)c);
            if (strcmp(fault_role_name((enum fault_role)r), role) != 0 ||
                strcmp(fault_call_name((enum fault_call)c), call) != 0)
                continue;
            while (*e != 0 && strcmp(fault_error_name(*e), error) != 0)
                e++;
            out->role = (enum fault_role)r;
            out->call = (enum fault_call)c;
            out->error = *e;
            return *e != 0;
        }
    return false;
}

/* Every kind is as likely; those that a role never calls are left out. */
static struct fault draw(const struct faultlist *list, struct rng *rng)
{
    struct fault f = {.length = rng_below(rng, 3) == 0 ? 10 : 1};
    int n = 0;
    do {
        f.role = (enum fault_role)(
            list->first +
            rng_below(rng, (uint64_t)(list->last - list->first + 1)));
        f.call = (enum fault_call)rng_below(rng, FAULT_CALLS);
    } while (list->counts[f.role][f.call] == 0);
    const int *errors = fault_errors(f.call);
    while (errors[n] != 0)
        n++;
    f.error = errors[rng_below(rng, (uint64_t)n)];
    f.nth = 1 + (long)rng_below(rng, (uint64_t)list->counts[f.role][f.call]);
    return f;
}

static int play_sample(const struct run *run, int n)
{
    const char *said = getenv("FIRN_SEED");
    uint64_t seed =
        said != NULL ? strtoull(said, NULL, 10) : (uint64_t)time(NULL);
    struct rng rng;
    int nbad = 0;
    printf("# seed %llu\n", (unsigned long long)seed);
    rng_seed(&rng, seed);
    for (int i = 0; i < n && nbad < MOST_BAD; i++) {
        struct fault f = draw(run->list, &rng);
        nbad += !run->play(run->arg, &f);
    }
    return nbad;
}

/* The faults of one kind whose place is `part` of PARTS. */
static int play_kind(const struct run *run, struct fault f, int part,
                     long *nplayed)
{
    long n = run->list->counts[f.role][f.call], place = 0;
    int nbad = 0;
    for (f.nth = 1; f.nth <= n; f.nth += 1 + n / FAULTLIST_EACH)
        for (const int *e = fault_errors(f.call); *e != 0; e++) {
            f.error = *e;
            if (place++ % PARTS != part || nbad >= MOST_BAD)
                continue;
            nbad += !run->play(run->arg, &f);
            ++*nplayed;
        }
    return nbad;
}

/* A soak takes hours: its log tells how far it is. */
static void tell_progress(int part, const struct fault *f, long nplayed,
                          int nbad, time_t began)
{
    if (nplayed > 0)
        printf("# part %d: %s %s: %ld faults, %d not survived, %ld s\n", part,
               fault_role_name(f->role), fault_call_name(f->call), nplayed,
               nbad, (long)(time(NULL) - began));
    fflush(stdout);
}

static int play_part(const struct run *run, int part)
{
    long nplayed = 0;
    int nbad = 0;
    for (int r = (int)run->list->first; r <= (int)run->list->last; r++)
        for (int c = 0; c < FAULT_CALLS && nbad < MOST_BAD; c++) {
            struct fault f = {.role = (enum fault_role)r,
                              .call = (enum fault_call)c,
                              .length = 1};
            long nof_kind = 0;
            time_t began = time(NULL);
            int nbad_of_kind = play_kind(run, f, part, &nof_kind);
            tell_progress(part, &f, nof_kind, nbad_of_kind, began);
            nplayed += nof_kind;
            nbad += nbad_of_kind;
        }
    printf("# part %d: %ld faults, %d not survived\n", part, nplayed, nbad);
    fflush(stdout);
    return nbad < MOST_BAD ? nbad : MOST_BAD;
}

/* Most of the time each of them waits. */
static int play_all(const struct run *run)
{
    pid_t pids[PARTS];
    int nbad = 0;
    fflush(stdout);
    for (int i = 0; i < PARTS; i++)
        if ((pids[i] = fork()) == 0)
            _exit(play_part(run, i));
    for (int i = 0; i < PARTS; i++) {
        int status = 0;
        if (pids[i] > 0)
            waitpid(pids[i], &status, 0);
        nbad += pids[i] > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    return nbad;
}

int faultlist_play(const struct faultlist *list, int nsample,
                   faultlist_play_fn *play, void *arg)
{
    const char *one = getenv("FIRN_FAULT"), *number = getenv("FIRN_FAULTS");
    const struct run run = {list, play, arg};
    struct fault f;
    if (one != NULL)
        return !read_fault(one, &f) || !play(arg, &f);
    if (number != NULL)
        return play_sample(&run, (int)strtol(number, NULL, 10));
    if (getenv("FIRN_SOAK") != NULL)
        return play_all(&run);
    return play_sample(&run, nsample);
}
