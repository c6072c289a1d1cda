/* gpus.h - the GPUs of this host: those the driver has, or declared ones.
 *
 * Declared GPUs come from a cluster spec ("4x2:v100@16": four nodes of two
 * GPUs), need no driver, and may be several nodes though it is one host: each
 * node then is a host of its own as far as jobs can see. With a driver, GPUs of
 * one kind make one node; who is at work on each can be asked.
 */
#ifndef ENGINE_GPUS_H
#define ENGINE_GPUS_H
#include "base/vec.h"
#include <firn/cluster.h>
#include <firn/forecast.h>
#include <stdbool.h>

/* What we need of NVIDIA's management library; see gpus_nvml.c. */
struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *n);
    int (*handle)(unsigned index, void **device);
    int (*name)(void *device, char *out, unsigned size);
    int (*uuid)(void *device, char *out, unsigned size);
    int (*memory)(void *device, void *out);                   /* 3 u64 */
    int (*processes)(void *device, unsigned *n, void *infos); /* may be NULL */
    int (*utilisation)(void *device, void *out); /* 2 unsigned; may be NULL */
};

/* FIRN_ENOENT: there is no driver. */
enum firn_status nvml_open(struct nvml *out, struct firn_error *err);
void nvml_close(struct nvml *nvml);

/* Who is at work on a GPU. A process may be ours if an attempt of firn's
 * started it, be it of this firnd or of another one of our user's; it is
 * somebody else's if we may not look into it: attempts run as our user. The
 * driver may also name one that nothing can be said of: it has ended (on an
 * H200 one that was killed was named for a tenth of a second more), or it is
 * counted in another space of process numbers than ours, as around a container.
 */
enum gpu_use {
    GPU_OURS,   /* nobody, or a service of the driver */
    GPU_UNSURE, /* besides, processes that may be ours */
    GPU_FOREIGN /* somebody else */
};
enum gpu_use nvml_use(const struct nvml *nvml, unsigned index);

/* How a GPU is used at present; false: the driver does not tell. */
bool nvml_load(const struct nvml *nvml, unsigned index, struct firn_load *out);

struct gpu {
    int node, index; /* in the cluster */
    unsigned device; /* NVML's number */
    char type[FIRN_NAME_MAX];
    double mem_gib;
    char visible[96]; /* for CUDA_VISIBLE_DEVICES: uuid, or number */
};

struct gpus {
    struct firn_buf spec; /* as firn_cluster_parse_spec() reads it */
    struct firn_cluster cluster;
    VEC(struct gpu) at; /* by (node, index) */
    struct nvml nvml;
    bool has_nvml; /* else declared */
};

/* `spec` "" asks the driver. FIRN_EINVAL, FIRN_ENOENT with a sentence that says
 * how to declare some. */
enum firn_status gpus_open(struct gpus *out, const char *spec,
                           struct firn_error *err);
/* The same with a library of the caller's, which is given away. */
enum firn_status gpus_ask(struct gpus *out, const struct nvml *nvml,
                          struct firn_error *err);
void gpus_close(struct gpus *gpus);

const struct gpu *gpus_at(const struct gpus *gpus, int node, int index);

#endif
