/* fakenvml.h - a management library of NVIDIA's that is made up.
 *
 * In two shapes: linked into a test, which says by fakenvml_use() what GPUs
 * there are; and as a libnvidia-ml.so.1 of its own (`make`), which firnd loads
 * by LD_LIBRARY_PATH and which reads a file that $FAKE_NVML names, again for
 * each question:
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

/* From now on these, which stay the caller's; a library that was opened, for
 * gpus_ask(). */
struct nvml fakenvml_use(const struct fakegpu *gpus, unsigned n);
/* How many were opened and not closed. */
int fakenvml_nopen(void);

#endif
