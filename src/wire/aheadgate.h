/* aheadgate.h - between a supervisor and a process that it has started early.
 *
 * The supervisor starts the process with FIRN_GATE=N, one end of a pair of
 * stream sockets. The process writes one byte when it waits (FIRN_GATE_READY);
 * the supervisor opens the gate by one message: struct firn_gate_head, then
 * "NAME=value" with a NUL behind each, the whole environment of the start. If
 * the supervisor closes its end instead, the process is not needed and exits.
 *
 * Until then the process has the mark FIRN_AHEAD=MARK-JOB in place of that of
 * an attempt. The mark is padded, and firn_gate_remark() overwrites it in
 * memory, so that /proc shows the attempt's mark from the opening on.
 */
#ifndef WIRE_AHEADGATE_H
#define WIRE_AHEADGATE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FIRN_GATE_READY 'r'
#define FIRN_GATE_MARK  "FIRN_AHEAD="

/* A longer environment is not sent: it might not fit into the socket while the
 * process does not read. */
enum { FIRN_GATE_BYTES = 65536, FIRN_GATE_MARK_TEXT = 128 };

struct firn_gate_head {
    uint64_t nbytes; /* behind it */
    double opened_s; /* by CLOCK_MONOTONIC */
};

/* May the variable ("NAME=value") change between an early start and the
 * opening? It may if it is read behind the gate only: FIRN_*, torchrun's,
 * CUDA's. */
bool firn_gate_is_late(const char *variable);
/* Are two environments (each ended by NULL) alike in all other variables? */
bool firn_gate_is_alike(const char *const *one, const char *const *two);

/* Writes the padded mark; empty without a mark of the state folder. */
void firn_gate_mark(char out[FIRN_GATE_MARK_TEXT], const char *mark, int job);
/* Overwrites the mark in this environment. False: there is none. */
bool firn_gate_remark(char **environment, const char *variable);

/* Opens the gate by one write(), at this time. False: the environment is too
 * long, or the process is gone. */
bool firn_gate_open(int fd, const char *const *environment, double now_s);

#endif
