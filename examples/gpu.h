/* gpu.h - a virtual GPU for example trainers: steps that take what a GPU would
 * take by the clock.
 */
#ifndef EXAMPLES_GPU_H
#define EXAMPLES_GPU_H

struct gpu {
    int file;      /* open from the first step on; -1: not available */
    int pace_ms;   /* of one thread's step */
    double beside; /* of another trainer's pace that a step takes longer */
    double due_s;  /* when the GPU has done the last step; 0: none yet */
};

/* `folder` has the files of all virtual GPUs. CUDA_VISIBLE_DEVICES and
 * LOCAL_RANK name the one of this process. */
void gpu_open(struct gpu *gpu, const char *folder, int pace_ms, double beside);
/* Waits until the GPU has done a step of `nthreads` threads that began at
 * `began_s` by loop_now_s(), behind `idle_s` in which it had nothing to do.
 * Returns the seconds that the step took there. */
double gpu_step(struct gpu *gpu, double began_s, double idle_s, int nthreads);
/* Behind the last step, also where there was none. */
void gpu_close(struct gpu *gpu);
/* Waits until `wait_ms` after `from_s`. */
void gpu_wait(double from_s, int wait_ms);

#endif
