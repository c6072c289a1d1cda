/* probe.c - the place of a fine-tuning task, and how long a start takes.
 *
 * Task2Vec: tasks are alike if the same parameters matter to them, and a
 * parameter matters if the gradient of the loss with respect to it is large. So
 * the mean squared gradients of the first PROBES batches of this process, at
 * or near the weights that all jobs of the base begin with, are the task's
 * embedding (firn/transfer.h). Parameters are put into at most
 * FIRN_MESSAGE_EMBEDDING bins of neighbours, which fits into a report. A job
 * that was resumed, or began with another job's weights, is not at those
 * weights and has none.
 *
 * The scheduler also hears how long a start takes, from the start of the
 * process to its first step: what starting ahead could hide.
 *
 * Cost: one pass over each of the first PROBES gradients.
 */
#include "train/trainwork.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PROBES = 8 };

void firn_train_probe(struct firn_train *t, const float *grad)
{
    if (t->nprobed < 0 || t->nprobed >= PROBES)
        return;
    for (size_t i = firn_train_first(t); i < t->nelements; i++) {
        size_t bin = i * FIRN_MESSAGE_EMBEDDING / t->nelements;
        t->probe[bin] += (double)grad[i] * (double)grad[i];
    }
    t->nprobed++;
}

void firn_train_unprobe(struct firn_train *t)
{
    t->nprobed = -1;
}

/* Elements of a bin. */
static double size_of(const struct firn_train *t, size_t bin)
{
    size_t n = FIRN_MESSAGE_EMBEDDING;
    size_t from = (bin * t->nelements + n - 1) / n;
    size_t to = ((bin + 1) * t->nelements + n - 1) / n;
    return (double)(to - from);
}

void firn_train_probed(const struct firn_train *t,
                       struct firn_trainer_report *report)
{
    double sum = 0;
    if (t->nprobed < PROBES)
        return;
    for (size_t i = 0; i < FIRN_MESSAGE_EMBEDDING; i++) {
        double n = size_of(t, i) * PROBES;
        report->embedding[i] = n > 0 ? t->probe[i] / n : 0;
        sum += report->embedding[i];
    }
    if (sum > 0 && isfinite(sum))
        report->nembedding = FIRN_MESSAGE_EMBEDDING;
}

/* --- the start of this process -------------------------------------------- */

/* Field 22 of /proc/self/stat: ticks from the start of the system. The name
 * before it, in brackets, may hold anything. */
static double started_s(void)
{
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    size_t n = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file != NULL)
        fclose(file);
    text[n] = '\0';
    const char *at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    double ticks = at != NULL ? strtod(at + 1, NULL) : -1;
    long second = sysconf(_SC_CLK_TCK);
    return ticks >= 0 && second > 0 ? ticks / (double)second : -1;
}

static double now_s(clockid_t clock)
{
    struct timespec now;
    if (clock_gettime(clock, &now) != 0)
        return -1;
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double firn_process_age_s(void)
{
    double since = started_s(), now = now_s(CLOCK_BOOTTIME);
    double age_s = since < 0 || now < 0 ? -1 : fmax(now - since, 0);
    double opened_s = firn_ahead_opened_s();
    double open_s = fmax(now_s(CLOCK_MONOTONIC) - opened_s, 0);
    /* A process that was started behind the gate is younger. */
    return opened_s > 0 && !(age_s >= 0 && age_s < open_s) ? open_s : age_s;
}
