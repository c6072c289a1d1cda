/* plantime.h - seconds of a training step by execution plan.
 *
 * An execution plan says how a model of a fixed global batch is trained on n
 * GPUs: whole copies (data parallel), ZeRO, ZeRO with the optimizer on the
 * host, or split into tensor shares and pipeline stages; with or without
 * recomputed activations. plantime.c has the equations. Pure functions; nothing
 * is allocated but by the fit.
 */
#ifndef MODEL_PLANTIME_H
#define MODEL_PLANTIME_H
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>

enum exec_kind {
    PLAN_DATA,    /* a whole copy on each GPU */
    PLAN_ZERO,    /* gradients and optimizer sharded over all GPUs */
    PLAN_OFFLOAD, /* the same, on the host */
    PLAN_SPLIT,   /* stages x tensor x data */
    PLAN_KINDS,
};

/* stages x tensor x data GPUs. stages and tensor are 1 but for PLAN_SPLIT. */
struct exec_plan {
    enum exec_kind kind;
    bool recomputes; /* activation checkpointing */
    int stages, tensor, data;
    int micro; /* micro-batches in the pipeline at a time, >= 1 */
};

enum { EXEC_PLAN_TEXT = 40 };

/* Reads a plan as Rubick's tables write it: "ga", "gc", "zero-dp",
 * "zero-offload", "zero-offload+gc", "tp+ga", or three digits, stages x tensor
 * x data; or as exec_plan_write() does, with an x between the three numbers.
 * False: it is none of them, or its digits are not `gpus` GPUs. */
bool exec_plan_read(const char *word, int gpus, struct exec_plan *out);
void exec_plan_write(const struct exec_plan *plan, char out[EXEC_PLAN_TEXT]);
bool exec_plan_equal(const struct exec_plan *a, const struct exec_plan *b);

/* Where the GPUs are. */
struct plan_spot {
    int gpus, nodes;
    int least, most; /* GPUs on the node with the fewest, the most */
    int step;        /* largest number that divides those of every node */
    bool is_lone;    /* several nodes with one GPU each */
    bool is_odd;     /* several nodes, unlike is_lone, one with an odd number */
    bool is_odd_large; /* and one of these numbers is 3 or more */
};
struct plan_spot plan_spot_of(const int *each, int nodes);

/* The terms of a step; plantime.c says what each multiplies. */
enum plan_term {
    PLAN_HOST,
    PLAN_COMPUTE,
    PLAN_RECOMPUTE,
    PLAN_OPTIMIZER,
    PLAN_LINK,
    PLAN_NET,
    PLAN_RAIL,
    PLAN_HOPS,
    PLAN_PCIE,
    PLAN_CROWD,
    PLAN_TENSOR,
    PLAN_TENSOR_HOPS,
    PLAN_STRADDLE,
    PLAN_STAGE,
    PLAN_LONE,
    PLAN_ODD,
    PLAN_ODD_LARGE,
    PLAN_TERMS,
};
const char *plan_term_name(enum plan_term term);

/* Seconds of each term; a kind that was never fitted is all 0. */
struct plan_law {
    double seconds[PLAN_KINDS][PLAN_TERMS];
};

bool plan_law_knows(const struct plan_law *law, enum exec_kind kind);

/* The equations: how often each term counts. False: the plan cannot be there
 * (its GPUs are not those of the spot). */
bool plan_counts(const struct exec_plan *plan, const struct plan_spot *spot,
                 double counts[PLAN_TERMS]);
/* Seconds of a step; NaN when the plan cannot be there or its kind is not
 * known. */
double plan_step_s(const struct plan_law *law, const struct exec_plan *plan,
                   const struct plan_spot *spot);

/* Another GPU type: how many times as fast it computes, and its links within
 * and between nodes are, as those of the law. */
struct plan_ratio {
    double compute, link, net;
};
struct plan_law plan_law_on(const struct plan_law *law,
                            const struct plan_ratio *ratio);

/* --- fit ----------------------------------------------------------------- */

/* A measured step. */
struct plan_row {
    struct exec_plan plan;
    struct plan_spot spot;
    double step_s;
    double compute_s;  /* forward, backward and what these wait for */
    double optimize_s; /* both 0: not measured apart */
};

/* Least squares of relative errors with no negative term, each kind alone.
 * FIRN_EDATA without rows; `out` is then unchanged. */
enum firn_status plan_fit(struct plan_law *out, const struct plan_row *rows,
                          size_t n, struct firn_error *err);

/* Which rows to measure when few can be: of each kind as many as it has terms
 * and `extra`, at most two thirds, each the one that says most beside those
 * chosen before. Looks at plans and places, never at times. */
void plan_choose(const struct plan_row *rows, size_t n, size_t extra,
                 bool *chosen);

#endif
