/* play.c - temporary folders, traces and runs for tests of the simulator.
 */
#include "lib/play.h"
#include "base/buf.h"
#include "lib/temp.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void play_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        fail_msg("cannot write %s", path);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

struct firn_buf play_read(const char *path)
{
    struct firn_buf out = {0};
    char bytes[4096];
    size_t n;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("cannot read %s", path);
    buf_puts(&out, "");
    while ((n = fread(bytes, 1, sizeof bytes, file)) > 0)
        buf_add(&out, bytes, n);
    fclose(file);
    return out;
}

void play_profile(const char *folder, const char *app, int restart_s)
{
    char text[400], name[64];
    snprintf(text, sizeof text,
             "app %s\nsource test\norigin test\nhardware none\nmethod made "
             "up\nsynthetic yes\nlocal_min 1\nlocal_max 4000\nrestart_s %d\n"
             "time v100 beta_s 0.01 batch_max 4000\n",
             app, restart_s);
    snprintf(name, sizeof name, "%s.txt", app);
    temp_write(folder, name, text);
}

static void name_file(const struct play *play, char path[PLAY_PATH],
                      const char *name)
{
    snprintf(path, PLAY_PATH, "%s/%s", play->folder, name);
}

static void make_folder(struct play *play)
{
    temp_open(play->folder);
    name_file(play, play->trace, "trace.csv");
    name_file(play, play->failures, "failures.csv");
    name_file(play, play->jobs, "jobs.csv");
    name_file(play, play->log, "events.tsv");
    name_file(play, play->timeline, "timeline.csv");
}

void play_open(struct play *play, const char *spec, const char *rows)
{
    struct firn_buf text = {0};
    *play = (struct play){.options = firn_sim_defaults()};
    make_folder(play);
    if (*rows != '#')
        buf_puts(&text, "#firn-trace 1\nname,submit_s,gpus,duration_s\n");
    buf_puts(&text, rows);
    play_write(play->trace, text.at);
    buf_release(&text);
    if (firn_cluster_open(&play->cluster, spec, &play->err) != FIRN_OK)
        fail_msg("cluster %s: %s", spec, play->err.text);
    play->options.trace = play->trace;
    play->options.cluster = &play->cluster;
    play->options.restart_s = 0;
    play->options.jobs_path = play->jobs;
    play->options.log_path = play->log;
    play->options.timeline_path = play->timeline;
}

void play_failures(struct play *play, const char *rows)
{
    play_write(play->failures, rows);
    play->options.failures = play->failures;
}

static double number(char **rest)
{
    char *at = *rest, *comma = at + strcspn(at, ",\n");
    char *end;
    double value = strtod(at, &end);
    assert_ptr_equal(end, comma);
    *rest = *comma ? comma + 1 : comma;
    return value;
}

/* name,app,group,gpus,submit_s,first_start_s,end_s,jct_s,queue_s,held_s,
 * served_gpu_s,restarts,rho */
static void read_job(struct play *play, char *line)
{
    struct play_job job = {0};
    size_t n = strcspn(line, ",");
    snprintf(job.name, sizeof job.name, "%.*s", (int)n, line);
    char *rest = line;
    for (int i = 0; i < 3; i++)
        rest = strchr(rest, ',') + 1;
    job.gpus = (int)number(&rest);
    job.submit_s = number(&rest);
    job.first_start_s = number(&rest);
    job.end_s = number(&rest);
    job.jct_s = number(&rest);
    job.queue_s = number(&rest);
    job.held_s = number(&rest);
    job.served_gpu_s = number(&rest);
    job.restarts = (int)number(&rest);
    job.rho = number(&rest);
    vec_add(&play->done, job);
}

static void read_jobs(struct play *play)
{
    struct firn_buf text = play_read(play->jobs);
    play->done.n = 0;
    char *line = strchr(text.at, '\n');
    while (line != NULL && line[1] != '\0') {
        char *after = strchr(line + 1, '\n');
        read_job(play, line + 1);
        line = after;
    }
    buf_release(&text);
}

enum firn_status play_try(struct play *play, const char *policy)
{
    play->options.policy = policy;
    play->err = (struct firn_error){0};
    play->done.n = 0;
    unlink(play->jobs);
    enum firn_status status =
        firn_sim_run(&play->options, &play->result, &play->err);
    if (play->options.jobs_path != NULL && access(play->jobs, R_OK) == 0)
        read_jobs(play);
    return status;
}

void play_run(struct play *play, const char *policy)
{
    struct firn_sim_result replayed;
    struct firn_error err = {0};
    if (play_try(play, policy) != FIRN_OK)
        fail_msg("%s: %s", policy, play->err.text);
    if (play->options.log_path != NULL &&
        firn_sim_replay(play->log, &replayed, &err) != FIRN_OK)
        fail_msg("%s: the replay says: %s", policy, err.text);
}

const struct play_job *play_job(const struct play *play, const char *name)
{
    for (size_t i = 0; i < play->done.n; i++)
        if (strcmp(play->done.at[i].name, name) == 0)
            return &play->done.at[i];
    fail_msg("job %s did not finish", name);
    return NULL;
}

double play_end(const struct play *play, const char *name)
{
    return play_job(play, name)->end_s;
}

void play_close(struct play *play)
{
    temp_close(play->folder);
    firn_cluster_release(&play->cluster);
    vec_release(&play->done);
}

bool play_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}
