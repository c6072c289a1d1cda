/* gpus_nvml.c - NVIDIA's management library (NVML), if installed.
 *
 * Loaded at run time: firn is built without it, and a host without a driver
 * works with declared GPUs. The newest version of each function is tried first;
 * the structs below have the layout that those functions fill.
 */
#define _GNU_SOURCE
#include "engine/gpus.h"
#include "engine/procs.h"
#include <dlfcn.h>
#include <string.h>

/* As versions 2 and 3 of "running processes" fill it. */
struct process_info {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

enum { PROCESSES_MAX = 256, TOO_SMALL = 7 };

/* dlsym() returns a data pointer, which POSIX allows to copy into a function
 * pointer. */
static bool load(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    if (symbol != NULL)
        memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool load_all(struct nvml *n)
{
    void *from = n->library;
    if (!load(from, "nvmlDeviceGetComputeRunningProcesses_v3", &n->processes))
        load(from, "nvmlDeviceGetComputeRunningProcesses_v2", &n->processes);
    load(from, "nvmlDeviceGetUtilizationRates", &n->utilisation);
    load(from, "nvmlDeviceGetMinorNumber", &n->minor);
    return load(from, "nvmlInit_v2", &n->init) &&
           load(from, "nvmlShutdown", &n->shutdown) &&
           load(from, "nvmlDeviceGetCount_v2", &n->count) &&
           load(from, "nvmlDeviceGetHandleByIndex_v2", &n->handle) &&
           load(from, "nvmlDeviceGetName", &n->name) &&
           load(from, "nvmlDeviceGetUUID", &n->uuid) &&
           load(from, "nvmlDeviceGetMemoryInfo", &n->memory);
}

enum firn_status nvml_open(struct nvml *out, struct firn_error *err)
{
    *out = (struct nvml){0};
    out->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (out->library != NULL && load_all(out) && out->init() == 0)
        return FIRN_OK;
    if (out->library != NULL)
        dlclose(out->library);
    return firn_fail(err, FIRN_ENOENT,
                     "this host has no NVIDIA driver; declare GPUs by "
                     "local.gpus, such as gpus=1x4:v100@16");
}

void nvml_close(struct nvml *nvml)
{
    if (nvml->shutdown != NULL)
        nvml->shutdown();
    if (nvml->library != NULL)
        dlclose(nvml->library);
}

/* The driver lists the MPS server beside its clients, and after they ended. */
static enum gpu_use use_of(pid_t pid)
{
    if (procs_is_named(pid, "nvidia-cuda-mps"))
        return GPU_OURS;
    int is_ours = procs_has_variable(pid, "FIRN_EPOCH=");
    return is_ours == 0 ? GPU_FOREIGN : GPU_UNSURE;
}

enum gpu_use nvml_use(const struct nvml *nvml, unsigned index)
{
    struct process_info infos[PROCESSES_MAX] = {{0}};
    unsigned n = PROCESSES_MAX;
    enum gpu_use use = GPU_OURS;
    void *device = NULL;
    if (nvml->processes == NULL || nvml->handle(index, &device) != 0)
        return GPU_OURS;
    int code = nvml->processes(device, &n, infos);
    if (code == TOO_SMALL)
        return GPU_FOREIGN;
    for (unsigned i = 0; code == 0 && i < n; i++) {
        enum gpu_use one = use_of((pid_t)infos[i].pid);
        use = one > use ? one : use;
    }
    return use;
}

bool nvml_load(const struct nvml *nvml, unsigned index, struct firn_load *out)
{
    unsigned percent[2] = {0};          /* GPU busy, memory busy */
    unsigned long long memory[3] = {0}; /* total, free, used */
    const double gib = 1024.0 * 1024 * 1024;
    void *device = NULL;
    if (nvml->utilisation == NULL || nvml->handle(index, &device) != 0 ||
        nvml->utilisation(device, percent) != 0 || percent[0] > 100 ||
        nvml->memory(device, memory) != 0)
        return false;
    out->util = percent[0] / 100.0;
    out->mem_gib = (double)memory[2] / gib;
    return true;
}
