/* outlook.h - the forecast's insides: what is kept of each job, and the fit.
 *
 * Between simforecast.c, which corrects and remembers, and outlook.c, which
 * works out one way by the fit.
 */
#ifndef SIM_OUTLOOK_H
#define SIM_OUTLOOK_H
#include "base/vec.h"
#include "core/llmjobs.h"
#include "sim/truth_table.h"
#include "sim/waytable.h"
#include <firn/sharing.h>

/* A way that the job was run in: reported over fitted, the last time. */
struct tried {
    struct firn_way way; /* with everything said, but for `counts` */
    double ratio;
    bool is_mixed; /* of several types: */
    int counts[FIRN_TYPES_MAX];
};

/* What is expected of one job, by slot. */
struct outlook {
    firn_job_id id; /* whose it is, from 1 on; 0: nobody's */
    struct known_app app;
    bool is_llm;
    struct llmjob llm;
    firn_type_id type;  /* its reference */
    struct running ref; /* by the fit */
    struct parts parts;
    double *ends; /* reference seconds at which each part ends */
    size_t part;
    double from_s, until_s; /* of done_s, while it is in `part` */
    VEC(struct tried) tried;
    double correction; /* of other ways: the geometric mean of those */
    /* By the fit; or, of ways it was run in, corrected and below 0. */
    struct waytable answers;
};

struct forecast {
    struct truth base;
    struct truth_table *table;
    int largest[FIRN_TYPES_MAX]; /* node of each type */
    VEC(struct outlook) jobs;
    struct firn_pairs pairs; /* by profile */
    double *pairs_storage;
    int *class_of;
};

/* The rate of a way with everything said, by the fit in the job's present part
 * of training; 0 when it cannot be. */
double outlook_fit(const struct forecast *f, const struct outlook *o,
                   const struct firn_job *job, const struct firn_way *way);

/* The same way with everything said: its type, and how many nodes. */
struct firn_way outlook_plain(const struct forecast *f, const struct outlook *o,
                              const struct firn_way *way);

#endif
