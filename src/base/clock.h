/* clock.h - processor time used, and time passed.
 *
 * For reports, and for deadlines of child processes: no decision may depend on
 * either. Wall-clock time of day is an engine's business.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

/* Used by this process. */
double clock_cpu_s(void);

/* Passed since some moment before; never goes back. */
double clock_elapsed_s(void);

#endif
