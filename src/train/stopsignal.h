/* stopsignal.h - SIGUSR1, counted.
 *
 * One handler for the process, however many ask for it. It counts and calls
 * the handler that was there before. Safe to use from several threads.
 */
#ifndef TRAIN_STOPSIGNAL_H
#define TRAIN_STOPSIGNAL_H
#include <firn/status.h>

/* From now on SIGUSR1 is counted and no longer kills. */
enum firn_status firn_stopsignal_catch(struct firn_error *err);
/* Undoes one catch; the last restores the former handler, unless the program
 * has installed another one since. */
void firn_stopsignal_release(void);
/* How many signals came so far. */
unsigned firn_stopsignal_count(void);

#endif
