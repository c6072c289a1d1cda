/* fakenvml.c - the functions by the names that the driver's library has.
 *
 * A device's handle is its record. Records of processes are written by their
 * sizes, as the real ones are read: see engine/gpus_nvml.c.
 */
#define _GNU_SOURCE
#include "lib/fakenvml.h"
#include "engine/gpus.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))

enum { GPUS = 8, LINE = 256, FAILED = 2 };

static struct fakegpu from_file[GPUS];
static char names[GPUS][LINE];
static const struct fakegpu *gpus;
static unsigned ngpus;
static int nopen;

SHOWN int nvmlInit_v2(void);
SHOWN int nvmlShutdown(void);
SHOWN int nvmlDeviceGetCount_v2(unsigned *n);
SHOWN int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
SHOWN int nvmlDeviceGetName(void *device, char *out, unsigned size);
SHOWN int nvmlDeviceGetUUID(void *device, char *out, unsigned size);
SHOWN int nvmlDeviceGetMemoryInfo(void *device, void *out);
SHOWN int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n,
                                                  void *infos);
SHOWN int nvmlDeviceGetUtilizationRates(void *device, void *out);
SHOWN int nvmlDeviceGetMinorNumber(void *device, unsigned *out);

/* The file with the GPUs: $FAKE_NVML, else `gpus` beside this library, for
 * processes that are not given the variable. */
static const char *file_of(void)
{
    static char beside[4096];
    const char *file = getenv("FAKE_NVML");
    Dl_info here;
    if (file != NULL || dladdr((void *)from_file, &here) == 0 ||
        here.dli_fname == NULL)
        return file;
    const char *slash = strrchr(here.dli_fname, '/');
    if (slash == NULL)
        return NULL;
    snprintf(beside, sizeof beside, "%.*s/gpus", (int)(slash - here.dli_fname),
             here.dli_fname);
    return beside;
}

static bool read_line(const char *line, unsigned at)
{
    char *rest = NULL;
    struct fakegpu gpu = {.gib = strtod(line, &rest)};
    char *colon = strchr(rest, ':');
    if (rest == line || colon == NULL)
        return false;
    if (*rest == '/')
        gpu.used_gib = strtod(rest + 1, &rest);
    if (strchr(line, '%') != NULL) {
        gpu.percent = (unsigned)strtoul(rest, &rest, 10);
        rest++;
    }
    snprintf(names[at], LINE, "%.*s", (int)(colon - rest - 1), rest + 1);
    gpu.name = names[at];
    rest = colon + 1;
    for (int i = 0; i < FAKE_PIDS; i++)
        gpu.pids[i] = (unsigned)strtoul(rest, &rest, 10);
    from_file[at] = gpu;
    return true;
}

/* Where a file says what there is. */
static void look(void)
{
    const char *path = file_of();
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    char line[LINE];
    if (file == NULL)
        return;
    gpus = from_file;
    for (ngpus = 0; ngpus < GPUS && fgets(line, sizeof line, file) != NULL;)
        ngpus += read_line(line, ngpus);
    fclose(file);
}

int nvmlInit_v2(void)
{
    look();
    nopen++;
    return 0;
}

int nvmlShutdown(void)
{
    nopen--;
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *n)
{
    look();
    *n = ngpus;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    look();
    if (index >= ngpus)
        return FAILED;
    *device = (void *)&gpus[index];
    return 0;
}

int nvmlDeviceGetName(void *device, char *out, unsigned size)
{
    snprintf(out, size, "%s", ((struct fakegpu *)device)->name);
    return 0;
}

int nvmlDeviceGetUUID(void *device, char *out, unsigned size)
{
    snprintf(out, size, "GPU-%d", (int)((struct fakegpu *)device - gpus));
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, void *out)
{
    const struct fakegpu *gpu = device;
    const unsigned long long memory[3] = {
        (unsigned long long)(gpu->gib * (1 << 30)),
        (unsigned long long)((gpu->gib - gpu->used_gib) * (1 << 30)),
        (unsigned long long)(gpu->used_gib * (1 << 30))};
    memcpy(out, memory, sizeof memory);
    return 0;
}

/* Not the index: on a real host, too, the two may differ. */
int nvmlDeviceGetMinorNumber(void *device, unsigned *out)
{
    *out = ngpus - 1 - (unsigned)((struct fakegpu *)device - gpus);
    return 0;
}

int nvmlDeviceGetUtilizationRates(void *device, void *out)
{
    const unsigned percent[2] = {((struct fakegpu *)device)->percent, 0};
    memcpy(out, percent, sizeof percent);
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n,
                                            void *infos)
{
    enum { SIZE = 24 };
    const struct fakegpu *gpu = device;
    *n = 0;
    for (int i = 0; i < FAKE_PIDS; i++)
        if (gpu->pids[i] != 0)
            memcpy((char *)infos + SIZE * (*n)++, &gpu->pids[i],
                   sizeof gpu->pids[i]);
    return 0;
}

struct nvml fakenvml_use(const struct fakegpu *of, unsigned n)
{
    gpus = of;
    ngpus = n;
    nopen++;
    return (struct nvml){.init = nvmlInit_v2,
                         .shutdown = nvmlShutdown,
                         .count = nvmlDeviceGetCount_v2,
                         .handle = nvmlDeviceGetHandleByIndex_v2,
                         .name = nvmlDeviceGetName,
                         .uuid = nvmlDeviceGetUUID,
                         .memory = nvmlDeviceGetMemoryInfo,
                         .processes = nvmlDeviceGetComputeRunningProcesses_v3,
                         .utilisation = nvmlDeviceGetUtilizationRates,
                         .minor = nvmlDeviceGetMinorNumber};
}

int fakenvml_nopen(void)
{
    return nopen;
}
