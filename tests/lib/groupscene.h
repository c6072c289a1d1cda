/* groupscene.h - groups of forked processes with gradients made from numbers.
 *
 * A scene says how many processes there are, which threads they have and how
 * they are spread over simulated hosts. Any process can make the gradients of
 * all threads, and so tell what a reduction has to give.
 */
#ifndef LIB_GROUPSCENE_H
#define LIB_GROUPSCENE_H
#include <firn/group.h>

enum { SCENE_THREADS = 8, SCENE_N = 1003 }; /* at most; elements */

struct groupscene {
    int nprocs, nthreads;
    int owner[SCENE_THREADS];
    int nhosts;
    int host_procs[3];  /* processes of each, when there are several */
    bool chain;         /* little memory */
    enum firn_sum sum;  /* the order */
    enum firn_sum then; /* not the default: changed to it after step 1 */
    size_t start;
    double timeout_s;
    const char *key, *other_key; /* host 1 has the other */
    int port, victim;
    char name[64];
};

/* The key of all scenes. */
extern const char groupscene_key[65];

/* One host, a name of its own; owner NULL: even. */
struct groupscene groupscene_of(int nprocs, int nthreads, const int *owner);
/* The same on two hosts, or three where c > 0. */
struct groupscene groupscene_on(struct groupscene s, int a, int b, int c);

/* --- in a process of the scene --- */

enum firn_status groupscene_try(struct firn_group **g,
                                const struct groupscene *s, int rank,
                                struct firn_error *err);
/* Ends the process when it cannot be opened. */
struct firn_group *groupscene_open(const struct groupscene *s, int rank);
/* The gradient of a thread at a step: numbers of very different sizes, so that
 * the order of a sum shows. */
void groupscene_draw(float *grad, int thread, int step);
/* One reduction; puts by slot or by copy, by turns. */
enum firn_status groupscene_step(struct firn_group *g,
                                 const struct groupscene *s, int step,
                                 float *out, struct firn_error *err);
/* A body for forks_run(): three steps, each compared with a fold of its own. */
int groupscene_equal(int rank, void *scene);

#endif
