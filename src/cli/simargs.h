/* simargs.h - what `firn sim` was asked to do, checked.
 *
 * All that can be known to be wrong before a run begins is refused here:
 * policies, their options, the cluster, options that contradict each other.
 */
#ifndef CLI_SIMARGS_H
#define CLI_SIMARGS_H
#include "cli/flags.h"
#include <firn/sim.h>

struct sim_restarts {
    struct firn_restart_cost *at; /* `app` is owned by `apps` */
    size_t n, cap;
};

struct sim_args {
    struct words traces, policies, settings, replays, apps, explains;
    struct sim_restarts restarts;
    const char *cluster_text, *out_dir, *format_name;
    enum firn_sim_format format;
    struct firn_cluster cluster;
    struct firn_sim_options options; /* all but trace, policy and files */
    int width;                       /* processes at a time */
    bool is_quiet, is_replay;
};

/* Reads the command line. -1: go on; else an exit status, after words on
 * standard error or the help page. The caller releases `out` in any case. */
int simargs_read(struct sim_args *out, int argc, char **argv);
void simargs_release(struct sim_args *args);

#endif
