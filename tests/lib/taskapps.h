/* taskapps.h - two toy models that are fine-tuned, for tests of merged jobs.
 *
 * "vit" and "roberta-base" take 0.01 s a sample on one V100 and half of that on
 * two; restarts cost nothing. Their profiles are in a folder of their own.
 */
#ifndef TESTS_LIB_TASKAPPS_H
#define TESTS_LIB_TASKAPPS_H

/* The folder, for struct firn_sim_options. */
extern char taskapps_folder[64];

/* Setup and teardown of a group of cmocka's tests. */
int taskapps_make(void **state);
int taskapps_remove(void **state);

#endif
