/* simargs.h - the command line of `firn sim`, parsed and checked.
 *
 * Errors that can be found before a simulation starts are reported here:
 * unknown policies and options, unreadable clusters, contradicting options.
 */
#ifndef CLI_SIMARGS_H
#define CLI_SIMARGS_H
#include "cli/flags.h"
#include <firn/sim.h>

struct sim_restarts {
    struct firn_restart_cost *at; /* `app` is owned by `apps` */
    size_t n, cap;
};

struct sim_resizes {
    struct firn_resize_cost *at; /* as above */
    size_t n, cap;
};

struct sim_pairs {
    struct firn_pair_slowdown *at; /* as above */
    size_t n, cap;
};

struct sim_args {
    struct words traces, policies, settings, replays, apps, explains;
    struct sim_restarts restarts, prepared, ends;
    struct sim_resizes resizes;
    struct sim_pairs pairs;
    const char *report_path; /* of a page; NULL: none */
    const char *cluster_text, *out_dir;
    enum firn_sim_format format;
    struct firn_cluster cluster;
    struct firn_sim_options options; /* without trace, policy and files */
    int width;                       /* simulations in parallel */
    bool is_quiet, is_replay;
};

/* Parses the command line. Returns -1 to go on; otherwise the exit status,
 * after an error message or the help page. The caller releases `out` in both
 * cases. */
int simargs_read(struct sim_args *out, int argc, char **argv);
void simargs_release(struct sim_args *args);

#endif
