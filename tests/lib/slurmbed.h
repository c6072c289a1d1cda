/* slurmbed.h - a real Slurm on this host, of tools/slurm-bed, for C tests.
 *
 * What the commands print goes into a log that the caller names.
 */
#ifndef TESTS_LIB_SLURMBED_H
#define TESTS_LIB_SLURMBED_H
#include <stdbool.h>

enum { SLURMBED_PATH = 400 };

struct slurmbed {
    char dir[SLURMBED_PATH]; /* short: sockets lie in it; "": none */
    char log[SLURMBED_PATH];
};

/* Runs a program to its end, its output into the log; its status, 128 for a
 * signal, -1: it could not be started. */
int slurmbed_run(const struct slurmbed *bed, const char *const *argv);
/* The same for a program that replaces this process. */
void slurmbed_exec(const struct slurmbed *bed, const char *const *argv);

/* Is Slurm installed? */
bool slurmbed_is_possible(const struct slurmbed *bed);
/* Nodes n0, n1, ... of four v100 each; sets SLURM_CONF. False: no bed. */
bool slurmbed_up(struct slurmbed *bed, int nnodes);
void slurmbed_down(struct slurmbed *bed);
/* "kill" or "start" of "ctld" or a node; `option` may be NULL. */
int slurmbed_tell(const struct slurmbed *bed, const char *verb,
                  const char *what, const char *option);
/* Sends a signal to the controller; false: it is not there. */
bool slurmbed_signal(const struct slurmbed *bed, int number);
/* The first word of a file of the bed, or what it is without. */
void slurmbed_word(const struct slurmbed *bed, const char *name,
                   const char *otherwise, char out[32]);

#endif
