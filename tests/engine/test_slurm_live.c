/* test_slurm_live.c - what holds for jobs on this host holds on Slurm: the
 * scenes of test_local.c, by the Slurm engine and commands that are played
 * (lib/fakeslurm.h). */
#define LIVE_ENGINE "slurm"
#include "engine/test_local.c"
