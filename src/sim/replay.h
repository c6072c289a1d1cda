/* replay.h - checking an event log; the entry for tests and fuzzers.
 *
 * firn_sim_replay() in <firn/sim.h> opens the file and calls this.
 */
#ifndef SIM_REPLAY_H
#define SIM_REPLAY_H
#include <firn/sim.h>

struct lines;

/* Reads a log to its end. `where` names it in sentences. FIRN_EINVAL for the
 * first line that is wrong; `out` is filled only on success. */
enum firn_status replay_lines(struct lines *in, const char *where,
                              struct firn_sim_result *out,
                              struct firn_error *err);

#endif
