/* clock.h - how much processor time this process has used.
 *
 * For reports only: no decision may depend on it. Wall-clock time is an
 * engine's business.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

double clock_cpu_s(void);

#endif
