/* play.h - a small simulation for a test: a folder, a trace, a cluster.
 *
 *     struct play p;
 *     play_open(&p, "1x4:v100", "a,0,2,100\n"
 *                               "b,10,4,50\n");
 *     play_run(&p, "fifo");
 *     assert_true(play_end(&p, "b") == 150);
 *     play_close(&p);
 *
 * Restarts cost nothing unless the test says so. The jobs' file of each run is
 * read back, so that what is checked is what a user would see.
 */
#ifndef LIB_PLAY_H
#define LIB_PLAY_H
#include "base/vec.h"
#include <firn/bytes.h>
#include <firn/sim.h>

enum { PLAY_PATH = 96 };

/* A line of the jobs' file. */
struct play_job {
    char name[32];
    double submit_s, first_start_s, end_s, jct_s, queue_s, held_s;
    double served_gpu_s, rho;
    int gpus, restarts;
};

struct play {
    char folder[64];
    char trace[PLAY_PATH], failures[PLAY_PATH];
    char jobs[PLAY_PATH], log[PLAY_PATH], timeline[PLAY_PATH];
    struct firn_cluster cluster;
    struct firn_sim_options options; /* changed at will between runs */
    struct firn_sim_result result;   /* of the last run */
    struct firn_error err;
    VEC(struct play_job) done; /* in order of completion */
};

/* `rows` are "name,submit_s,gpus,duration_s"; or a whole file of firn's own
 * format, if they begin with '#'. Fails the test when the spec is wrong. */
void play_open(struct play *play, const char *spec, const char *rows);

/* Node failures "time_s,node,down|up" for the runs to come. */
void play_failures(struct play *play, const char *rows);

/* Runs and reads the jobs' file; the log and the timeline are written too. */
enum firn_status play_try(struct play *play, const char *policy);

/* The same; fails the test unless it is FIRN_OK and the replay accepts the
 * log. */
void play_run(struct play *play, const char *policy);

/* The job of that name in the last run; fails the test when it did not
 * finish. */
const struct play_job *play_job(const struct play *play, const char *name);

/* When it ended. */
double play_end(const struct play *play, const char *name);

void play_close(struct play *play);

/* Puts a profile into a folder, for play.options.profiles: the application
 * takes 0.01 s a sample on one V100, whatever the batch. */
void play_profile(const char *folder, const char *app, int restart_s);

/* Writes a file; reads one (the caller releases it). Fail the test when they
 * cannot. */
void play_write(const char *path, const char *text);
struct firn_buf play_read(const char *path);

/* Equal up to rounding, 1e-9 of the larger one. */
bool play_near(double a, double b);

#endif
