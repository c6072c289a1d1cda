/* reprorun.h - runs the simulations of scenarios, each once.
 *
 * A scenario is a grid of cells: rules (firn's own, or those of a published
 * simulator), policy, point of the sweep. The value of a cell is the mean over
 * its traces and seeds. A run is one command line of `firn sim`; cells with the
 * same command line share a run, also between scenarios. Instead of a policy a
 * cell may have a memory model, and measured tables instead of traces.
 *
 *     struct repro_book book = {0};
 *     book_add(&book, scenario);           for each
 *     book_plan(&book);
 *     book_run(&book, nprocesses, quiet);
 *     book_value(&book, part, REPRO_HONEST, policy, point, metric);
 *     book_release(&book);
 */
#ifndef REPRO_RUN_H
#define REPRO_RUN_H
#include "cli/flags.h"
#include "repro/reproscenario.h"
#include <firn/sim.h>

enum repro_rules { REPRO_HONEST, REPRO_COMPAT, REPRO_NRULES };

/* One simulation, or one evaluation of a memory model. */
struct repro_run {
    struct words argv; /* of `firn sim`; or "memory", predictor, FILE#MODEL */
    const char *name;  /* of the first scenario that needs it */
    bool is_done;
    struct repro_result result; /* if is_done */
    char why[FIRN_ERROR_TEXT];  /* reason, if not is_done */
};

struct repro_cell {
    size_t *at; /* indices of runs */
    size_t n, cap;
    bool is_missing; /* the rules have no such policy */
    bool is_absent;  /* `missing` in the scenario: not public */
    char why[400];   /* why there is no run; empty: not part of the scenario */
};

struct repro_part {
    struct repro_scenario *scenario; /* owned */
    char skip[200];                  /* why it is skipped; empty: it is run */
    struct repro_cell *cells;        /* by rules, policy, point */
};

struct repro_book {
    struct {
        struct repro_part *at;
        size_t n, cap;
    } parts;
    struct {
        struct repro_run *at;
        size_t n, cap;
    } runs;
    struct words made;       /* synthetic traces: cluster and description */
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

/* Value of a cell in the unit of the metric; NaN if there is none. */
double book_value(const struct repro_book *book, const struct repro_part *part,
                  enum repro_rules rules, int policy, int point, int metric);

/* Number of finished jobs in all runs of a cell; -1 if a run failed. */
long book_jobs(const struct repro_book *book, const struct repro_cell *cell);

void book_release(struct repro_book *book);

#endif
