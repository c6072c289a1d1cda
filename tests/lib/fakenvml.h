/* fakenvml.h - a fake of NVIDIA's management library.
 *
 * In two forms: linked into a test, which declares the GPUs by fakenvml_use();
 * and as a libnvidia-ml.so.1 of its own (`make`), which firnd loads
 * by LD_LIBRARY_PATH and which reads a file that $FAKE_NVML names, or the
 * file `gpus` beside it, again for each question:
 *
 *     15.5 Tesla T4: 123 456       GiB, name, processes at work there
 *     15.5/4 30% Tesla T4: 123     of which 4 are in use; busy 30 % of the time
 */
#ifndef LIB_FAKENVML_H
#define LIB_FAKENVML_H

enum { FAKE_PIDS = 4 };

struct fakegpu {
    const char *name;
    double gib;
    unsigned pids[FAKE_PIDS]; /* processes on the GPU; 0: none */
    double used_gib;
    unsigned percent; /* of the time */
};

struct nvml;

/* Declares the GPUs, which the caller owns; returns an opened library, for
 * gpus_ask(). */
struct nvml fakenvml_use(const struct fakegpu *gpus, unsigned n);
/* The number of libraries opened and not closed. */
int fakenvml_nopen(void);

#endif
