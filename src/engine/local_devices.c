/* local_devices.c - the GPUs of an attempt, as the launcher understands them.
 *
 * The launcher (engine/launchmsg.h) closes the devices of other GPUs to an
 * attempt, and gives it the processors of its GPUs. Both are bits: the numbers
 * of devices, /dev/nvidiaN, which the driver tells, and the places of the GPUs
 * on this host, in the order of `firn nodes`.
 *
 * (1) Declared GPUs (`gpus:`) have no device that firnd knows, and their
 *     CUDA_VISIBLE_DEVICES counts all devices of the host: none is closed.
 * (2) While an attempt is resized it may open the old and the new GPUs, from
 *     before its supervisor hears of the resize until the resize is over.
 *
 * Cost: a request of the launcher for each resize, some milliseconds.
 */
#define _GNU_SOURCE
#include "base/log.h"
#include "base/str.h"
#include "engine/launcher.h"
#include "engine/localwork.h"

enum { BITS = 64 };

/* The place of a GPU among all of the host; BITS: it has none. */
static size_t place_of(const struct gpus *gpus, int node, int index)
{
    for (size_t i = 0; i < gpus->at.n && i < BITS; i++)
        if (gpus->at.at[i].node == node && gpus->at.at[i].index == index)
            return i;
    return BITS;
}

void local_devices(const struct local *local, const struct firn_alloc *alloc,
                   struct launchmsg *out)
{
    const struct gpus *gpus = &local->gpus;
    out->devices = gpus->has_nvml ? 0 : UINT64_MAX; /* (1) */
    out->gpus = 0;
    for (int i = 0; i < alloc->nparts; i++)
        for (int k = 0; k < FIRN_BOARD_GPUS; k++) {
            const struct firn_part *part = &alloc->parts[i];
            if (!(part->gpus >> k & 1))
                continue;
            size_t at =
                place_of(gpus, part->node, FIRN_BOARD_GPUS * part->board + k);
            if (at == BITS)
                continue;
            out->gpus |= (uint64_t)1 << at;
            if (gpus->has_nvml && gpus->at.at[at].minor < BITS)
                out->devices |= (uint64_t)1 << gpus->at.at[at].minor;
        }
}

bool local_devices_change(const struct local *local, const struct localjob *job,
                          const struct firn_alloc *alloc)
{
    struct launchmsg msg = {.kind = LAUNCHMSG_GPUS,
                            .job = job->base.id,
                            .attempt = job->base.attempt};
    struct firn_error err = {0};
    long number = 0;
    if (local->launcher[0] == '\0')
        return true;
    local_devices(local, alloc, &msg);
    if (str_copy(msg.mark, sizeof msg.mark, local->host.mark) &&
        launcher_ask(local->launcher, &msg, &number, &err) == FIRN_OK)
        return true;
    log_warn("job %d: its GPUs cannot be changed: %s", job->base.id, err.text);
    return false;
}
