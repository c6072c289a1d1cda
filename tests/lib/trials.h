/* trials.h - how often a property test tries.
 */
#ifndef LIB_TRIALS_H
#define LIB_TRIALS_H

/* `normal`; with FIRN_QUICK set a tenth, at least once; with FIRN_SOAK
 * twenty times as often. */
int trials(int normal);

#endif
