/* gpu.c - a virtual GPU, for scenes on machines without GPUs.
 *
 * A step of a thread takes the trainer's pace, by the clock. Steps follow each
 * other: the next one begins when the GPU has done the last one, not when a
 * busy CPU has noticed it. So a trainer that the CPUs kept waiting for a moment
 * catches up, as one that queues its kernels ahead does, and a job takes its
 * steps times its pace on an idle machine and on a busy one. Pauses of PAUSE_S
 * between two steps (a checkpoint, a resize) are real and not caught up with.
 *
 * Trainers on one GPU slow each other down by a declared amount: a step takes
 * the trainer's pace and a share, `beside`, of the paces of the others. With a
 * share of 0.5 a trainer is 1.5 times slower beside one of the same pace,
 * beside one of twice its pace 2 times and that one 1.25 times; with 1 all
 * steps wait for each other, as on a GPU that one trainer keeps busy. Each
 * trainer holds a lock on a byte of the GPU's file from its first step to its
 * last one; where the byte is says which pace it has. The kernel drops the
 * locks of a killed process.
 *
 * Invariant: a process has the file open once, since closing any descriptor of
 * a file drops all locks of the process on it.
 * Cost: one fcntl() a step, and two more for each other trainer on the GPU.
 */
#include "gpu.h"
#include "loop.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PLACES = 64 }; /* bytes for trainers of one pace */
static const double PAUSE_S = 0.25;

/* The GPU of this process, out of those of its job. */
static int number_of_gpu(char *out, size_t nout)
{
    const char *gpus = getenv("CUDA_VISIBLE_DEVICES");
    const char *rank = getenv("LOCAL_RANK");
    long skip = rank != NULL ? strtol(rank, NULL, 10) : 0;
    while (gpus != NULL && skip-- > 0 && strchr(gpus, ',') != NULL)
        gpus = strchr(gpus, ',') + 1;
    if (gpus == NULL || *gpus == '\0')
        return -1;
    return snprintf(out, nout, "%.*s", (int)strcspn(gpus, ","), gpus);
}

void gpu_open(struct gpu *gpu, const char *folder, int pace_ms, double beside)
{
    char path[4096], number[256];
    *gpu = (struct gpu){.file = -1, .pace_ms = pace_ms, .beside = beside};
    if (folder == NULL || number_of_gpu(number, sizeof number) < 1)
        return;
    snprintf(path, sizeof path, "%s/gpu-%s", folder, number);
    gpu->file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct flock mine = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    for (int i = 0; i < PLACES && gpu->file >= 0; i++) {
        mine.l_start = (off_t)pace_ms * PLACES + i;
        if (fcntl(gpu->file, F_SETLK, &mine) == 0 || errno != EAGAIN)
            return;
    }
}

/* The paces of other trainers whose bytes are in [from, to), added up. */
static int others_ms(const struct gpu *gpu, off_t from, off_t to)
{
    struct flock held = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = from,
                         .l_len = to - from};
    if (to <= from || fcntl(gpu->file, F_GETLK, &held) != 0 ||
        held.l_type == F_UNLCK)
        return 0;
    return (int)(held.l_start / PLACES) + others_ms(gpu, from, held.l_start) +
           others_ms(gpu, held.l_start + 1, to);
}

static void sleep_until(double at_s)
{
    struct timespec t = {(time_t)at_s, 0};
    t.tv_nsec = (long)(1e9 * (at_s - (double)t.tv_sec));
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

double gpu_step(struct gpu *gpu, double began_s, double idle_s, int nthreads)
{
    const off_t end = (off_t)1000 * 1000 * PLACES;
    double step_s = 1e-3 * gpu->pace_ms * (nthreads > 0 ? nthreads : 1);
    if (gpu->file >= 0)
        step_s += 1e-3 * gpu->beside * others_ms(gpu, 0, end);
    if (!(gpu->due_s > 0) || began_s > gpu->due_s + PAUSE_S)
        gpu->due_s = began_s;
    else
        gpu->due_s += idle_s;
    gpu->due_s += step_s;
    sleep_until(gpu->due_s);
    return step_s;
}

void gpu_wait(double from_s, int wait_ms)
{
    if (wait_ms > 0)
        sleep_until(from_s + 1e-3 * wait_ms);
}

void gpu_close(struct gpu *gpu)
{
    if (gpu->pace_ms > 0 && gpu->file >= 0)
        close(gpu->file);
    gpu->file = -1;
}
