/* trace_kube.h - pods of Kubernetes as jobs: `firn trace convert --from kube`.
 */
#ifndef CLI_TRACE_KUBE_H
#define CLI_TRACE_KUBE_H
#include "base/arena.h"
#include "cli/trace_import.h"

/* Reads the text that 'kubectl get pods -A -o json' prints and adds its jobs.
 * Their texts are in `arena`. FIRN_EDATA with the byte if it is not JSON or has
 * no list of pods. */
enum firn_status trace_kube_read(struct firn_bytes text, struct arena *arena,
                                 struct trace_import_jobs *jobs,
                                 struct trace_import *report,
                                 struct firn_error *err);

#endif
