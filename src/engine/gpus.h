/* gpus.h - the GPUs of this host: the driver's, or declared ones.
 *
 * Declared GPUs come from a cluster spec ("4x2:v100@16": four nodes of two
 * GPUs) and need no driver. They may form several nodes on one host: for a job
 * each node is then a host of its own. With a driver, the GPUs of one kind form
 * one node, and the driver says which processes use each GPU.
 */
#ifndef ENGINE_GPUS_H
#define ENGINE_GPUS_H
#include "base/vec.h"
#include <firn/cluster.h>
#include <firn/forecast.h>
#include <stdbool.h>

/* The functions used of NVIDIA's management library; see gpus_nvml.c. */
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
    int (*minor)(void *device, unsigned *out);   /* may be NULL */
};

/* FIRN_ENOENT: no driver. */
enum firn_status nvml_open(struct nvml *out, struct firn_error *err);
void nvml_close(struct nvml *nvml);

/* Which processes use a GPU. A process may be ours if an attempt of any firnd
 * of this user started it; a process that we may not inspect is foreign,
 * because attempts run as our user. The owner of a listed process can be
 * unknown: it has ended (an H200's driver lists a killed process for a tenth of
 * a second), or its number is of another pid namespace, outside our container.
 * MPS processes (CUDA's multi-process service) are not counted. */
enum gpu_use {
    GPU_OURS,   /* no process, or only MPS processes */
    GPU_UNSURE, /* processes that may be ours */
    GPU_FOREIGN /* at least one foreign process */
};
enum gpu_use nvml_use(const struct nvml *nvml, unsigned index);

/* The present load of a GPU; false: the driver does not report it. */
bool nvml_load(const struct nvml *nvml, unsigned index, struct firn_load *out);

struct gpu {
    int node, index; /* in the cluster */
    unsigned device; /* NVML's number */
    unsigned minor;  /* N of /dev/nvidiaN */
    char type[FIRN_NAME_MAX];
    double mem_gib;
    char visible[96]; /* for CUDA_VISIBLE_DEVICES: uuid, or number */
};

struct gpus {
    struct firn_buf spec; /* as firn_cluster_parse_spec() reads it */
    struct firn_cluster cluster;
    VEC(struct gpu) at; /* by (node, index) */
    struct nvml nvml;
    bool has_nvml; /* false: declared GPUs */
};

/* An empty `spec` asks the driver. FIRN_EINVAL; FIRN_ENOENT, with a text that
 * says how to declare GPUs. */
enum firn_status gpus_open(struct gpus *out, const char *spec,
                           struct firn_error *err);
/* The same with the caller's library, which `out` then owns. */
enum firn_status gpus_ask(struct gpus *out, const struct nvml *nvml,
                          struct firn_error *err);
void gpus_close(struct gpus *gpus);

const struct gpu *gpus_at(const struct gpus *gpus, int node, int index);

#endif
