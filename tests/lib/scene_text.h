/* scene_text.h - the clauses of a scene, one by one; for scene.c.
 *
 * The readers cut the text they are given into pieces, which the results
 * borrow.
 */
#ifndef LIB_SCENE_TEXT_H
#define LIB_SCENE_TEXT_H
#include <firn/bytes.h>
#include <firn/job.h>
#include <stdio.h>

struct scene_said {
    struct firn_job_spec spec;
    double served_gpu_s, held_s, done_s;
    const char *on;         /* what it holds; NULL for nothing */
    const uint64_t *barred; /* nodes; NULL for none */
    bool is_old;            /* it has a past, or holds something */
};

/* Cuts the next clause off; NULL at the end. */
char *scene_clause(char **at);

/* "2 nodes x 4 gpus of v100": appended to a cluster spec; "3 jobs per gpu":
 * written to `share`. False for any other clause. */
bool scene_machines(const char *clause, struct firn_buf *spec, int *share);

/* "n1 down". */
bool scene_down(const char *clause, firn_node_id *node);

/* "A wants 4 ...". */
struct scene_said scene_said(char *clause);

#endif
