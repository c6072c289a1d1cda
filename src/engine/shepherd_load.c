/* shepherd_load.c - how much the GPU of a worker is used, on its own node.
 *
 * firnd asks the driver of its own host only. With Slurm the GPUs are on other
 * nodes, and so is a supervisor of each worker: it asks the driver there every
 * few seconds and overwrites a small file of the attempt (attempt_load_put()),
 * which the engine reads when it is asked for the load of the job. No
 * connection is needed, and firnd may be away.
 *
 * The GPU is the one that Slurm gave to the task: of CUDA_VISIBLE_DEVICES the
 * entry of its place on the node, or the only one; a number, or a UUID. A node
 * without NVIDIA's driver, or without that variable, is not asked again.
 *
 * Cost: one question to the driver and 64 bytes every SAMPLE_S seconds.
 */
#include "base/clock.h"
#include "base/str.h"
#include "engine/shepherdwork.h"
#include <stdlib.h>
#include <string.h>

static const double SAMPLE_S = 5;

/* The entry of this place in "0,2,GPU-1f..."; the only one for any place. */
static bool entry_of(const char *list, size_t place, char *out, size_t max)
{
    size_t n = strcspn(list, ",");
    bool is_only = list[n] == '\0';
    for (; place > 0 && !is_only; place--) {
        if (list[n] == '\0')
            return false;
        list += n + 1;
        n = strcspn(list, ",");
    }
    if (n == 0 || n >= max)
        return false;
    memcpy(out, list, n);
    out[n] = '\0';
    return true;
}

bool shepherd_load_device(const struct nvml *nvml, const char *visible,
                          const char *place, unsigned *device)
{
    char entry[96], uuid[96] = "";
    long number = 0, at = 0;
    unsigned n = 0;
    void *handle = NULL;
    if (visible == NULL || nvml->count(&n) != 0 ||
        (place != NULL && !str_int(place, 0, 4095, &at)) ||
        !entry_of(visible, (size_t)at, entry, sizeof entry))
        return false;
    if (str_int(entry, 0, (long)n - 1, &number)) {
        *device = (unsigned)number;
        return true;
    }
    for (unsigned i = 0; i < n; i++)
        if (nvml->handle(i, &handle) == 0 &&
            nvml->uuid(handle, uuid, sizeof uuid) == 0 &&
            strcmp(uuid, entry) == 0) {
            *device = i;
            return true;
        }
    return false;
}

void shepherd_load(struct shepherd *s)
{
    double now_s = clock_elapsed_s();
    struct firn_load load;
    if (s->kind != SHEPHERD_TASK || s->has_no_driver ||
        now_s < s->sampled_s + SAMPLE_S)
        return;
    bool is_first = s->sampled_s <= 0;
    s->sampled_s = now_s;
    if (is_first && nvml_open(&s->nvml, NULL) != FIRN_OK) {
        s->has_no_driver = true;
        return;
    }
    if (is_first &&
        !shepherd_load_device(&s->nvml, getenv("CUDA_VISIBLE_DEVICES"),
                              getenv("SLURM_LOCALID"), &s->device)) {
        nvml_close(&s->nvml);
        s->has_no_driver = true;
        return;
    }
    if (nvml_load(&s->nvml, s->device, &load))
        (void)attempt_load_put(s->folder, s->worker, s->launch.attempt, &load,
                               NULL); /* the next one will do */
}
