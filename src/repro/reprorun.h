/* reprorun.h - runs the simulations of scenarios, each once.
 *
 * A scenario is a grid of cells: rules (firn's own, or those of a published
 * simulator), policy, point of the sweep. A cell has one value for each draw of
 * its workload. A draw is one of the traces of a pattern ("workload-{1..8}",
 * "seed={1..20}") with one of the seeds; if a scenario lists several patterns,
 * the value of a draw is the mean over the i-th trace of each pattern. Draw i
 * of every policy is the same workload, so draws are compared in pairs.
 *
 * A run is one command line of `firn sim`; cells with the same command line
 * share a run, also between scenarios. With `repeats` a command line is run
 * several times, for metrics that a clock measures: the least of them counts,
 * because other load only adds to it. All cells are run once before the second
 * time begins, so that the policies alternate. Instead of a policy a cell may
 * have a memory model, and measured tables instead of traces.
 *
 *     struct repro_book book = {0};
 *     book_add(&book, scenario);           for each
 *     book_plan(&book);
 *     book_run(&book, nprocesses, quiet);
 *     book_value(&book, part, REPRO_HONEST, policy, point, metric);
 *     book_release(&book);
 *
 * A book may be planted: then every policy that a claim is about is replaced by
 * a wrong one, to see whether the claim can fail (reprojudge.h).
 */
#ifndef REPRO_RUN_H
#define REPRO_RUN_H
#include "base/map.h"
#include "cli/flags.h"
#include "repro/reproscenario.h"
#include "repro/reprostat.h"
#include <firn/sim.h>

enum repro_rules {
    REPRO_HONEST,
    REPRO_COMPAT,
    REPRO_NRULES,
    REPRO_PLANTED = REPRO_NRULES, /* own rules, the planted policy instead */
    REPRO_NROWS,
};

/* One simulation, or one evaluation of a memory model. */
struct repro_run {
    struct words argv; /* of `firn sim`; or "memory", predictor, FILE#MODEL */
    int repeat;        /* from 0 */
    const char *name;  /* of the first scenario that needs it */
    bool keeps_files;  /* its jobs and timeline are kept: book_files() */
    bool is_done;
    struct repro_result result; /* if is_done */
    char why[FIRN_ERROR_TEXT];  /* reason, if not is_done */
};

struct repro_cell {
    size_t *at; /* indices of runs, by repeat, draw, pattern */
    size_t n, cap;
    int ndraws, npatterns;
    bool is_missing; /* the rules have no such policy */
    bool is_absent;  /* `missing` in the scenario: not public */
    char why[400];   /* why there is no run; empty: not part of the scenario */
};

struct repro_part {
    struct repro_scenario *scenario; /* owned */
    char skip[200];                  /* why it is skipped; empty: it is run */
    bool is_drawn;                   /* a workload is drawn, none is a file */
    struct repro_cell *cells;        /* by rules, policy, point */
};

struct repro_book {
    const char *plant; /* policy planted in place of those of claims; or NULL */
    int draws_max;     /* draws used of each workload; 0: all */
    bool is_mute;      /* all points of a sweep of noise have the first's */
    struct {
        struct repro_part *at;
        size_t n, cap;
    } parts;
    struct {
        struct repro_run *at;
        size_t n, cap;
    } runs;
    struct map lines;        /* command lines of runs, with their repeat */
    struct map made;         /* synthetic traces: cluster and description */
    struct firn_buf scratch; /* their directory; empty: not created */
};

void book_add(struct repro_book *book, struct repro_scenario *scenario);

/* Fills cells and runs. Scenarios without their data are skipped. FIRN_EIO or
 * FIRN_EINVAL if a synthetic trace cannot be written. */
enum firn_status book_plan(struct repro_book *book, struct firn_error *err);

/* Runs everything, `width` runs in parallel. False if interrupted. */
bool book_run(struct repro_book *book, int width, bool is_quiet);

struct repro_cell *book_cell(const struct repro_part *part,
                             enum repro_rules rules, int policy, int point);

/* Value of one draw of a cell in the unit of the metric; NaN if a run of the
 * cell failed. */
double book_draw(const struct repro_book *book, const struct repro_part *part,
                 const struct repro_cell *cell, int metric, int draw);

/* Mean over the draws of a cell, with its interval; NaN if there is none. */
struct repro_figure book_value(const struct repro_book *book,
                               const struct repro_part *part,
                               enum repro_rules rules, int policy, int point,
                               int metric);

/* Number of finished jobs in all runs of a cell; -1 if a run failed. */
long book_jobs(const struct repro_book *book, const struct repro_cell *cell);

/* Behind book_plan(): the runs of each scenario's first draw at its first
 * point, by firn's own rules, keep files of their jobs and timelines until the
 * book is released: for pages with charts. FIRN_EIO. */
enum firn_status book_keep_files(struct repro_book *book,
                                 struct firn_error *err);
/* That run of a policy; NULL: there is none, or it failed. Sets `path` to its
 * file of jobs. */
const struct repro_run *book_files(const struct repro_book *book,
                                   const struct repro_part *part, int policy,
                                   struct firn_buf *path);

void book_release(struct repro_book *book);

#endif
