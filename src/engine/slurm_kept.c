/* slurm_kept.c - keeps the list of nodes in a file, for a start without Slurm.
 *
 * The file `slurm-nodes` of the state folder holds Slurm's answers at
 * discovery: the version, the partition asked for ("": the default one), the
 * partition found, and the nodes as Slurm printed them. A firnd that is started
 * while the controller is away begins with them.
 *
 * (1) A damaged file, one of another format version, or one for another
 *     partition is ignored.
 * (2) Only names and GPUs are used. States and GPUs in use are out of date: a
 *     node that was down may run our jobs now, and believing the file would end
 *     them. All nodes count as up and free, and nothing is started until Slurm
 *     has answered.
 * (3) The nodes' ids are those of the file while this process lives. New nodes
 *     are used from the next start of firnd on; missing nodes are down.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/keep.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/slurmwork.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static const char file[] = "slurm-nodes", whose[] = "slurm nodes";
enum { FORMAT = 1, VERSION_MAX = 999999 };

static int open_folder(const struct slurm *slurm)
{
    return slurm->state[0] == '/'
               ? open(slurm->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
               : -1;
}

/* FNV-1a, of Fowler, Noll and Vo. */
static long sum_of(const char *at, size_t n)
{
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ (unsigned char)at[i]) * 16777619u;
    return (long)(sum >> 1);
}

/* --- the file ------------------------------------------------------------- */

void slurm_kept_write(const struct slurm *slurm, const char *asked,
                      const struct firn_buf *nodes)
{
    struct firn_buf out = {0};
    struct firn_error err = {0};
    int folder = open_folder(slurm);
    if (folder < 0)
        return;
    keep_begin(&out, whose, FORMAT);
    keep_int(&out, slurm->version);
    keep_text(&out, asked);
    keep_text(&out, slurm->partition);
    keep_text(&out, nodes->at);
    keep_int(&out, sum_of(out.at, out.n));
    if (attempt_put(folder, file, (struct firn_bytes){out.at, out.n}, &err) !=
        FIRN_OK)
        log_warn("cannot keep the list of Slurm's nodes: %s", err.text);
    close(folder);
    buf_release(&out);
}

static bool take_text(char *out, size_t size, const char *at, size_t n)
{
    if (at == NULL || n >= size)
        return false;
    memcpy(out, at, n);
    out[n] = '\0';
    return true;
}

static bool read_kept(struct slurm_kept *out, struct firn_bytes bytes)
{
    struct keep in;
    size_t nasked = 0, nname = 0, nnodes = 0;
    if (keep_open(&in, bytes, whose, FORMAT, NULL) != FIRN_OK)
        return false;
    out->version = (int)keep_read_int(&in, 0, VERSION_MAX);
    const char *asked = keep_read_text(&in, &nasked);
    const char *name = keep_read_text(&in, &nname);
    const char *nodes = keep_read_text(&in, &nnodes);
    long sum = sum_of(bytes.at, (size_t)(in.at - bytes.at));
    bool is_whole = keep_read_int(&in, 0, INT32_MAX) == sum;
    if (keep_close(&in, NULL) != FIRN_OK || !is_whole || nname == 0 ||
        nnodes == 0)
        return false;
    buf_add(&out->nodes, nodes, nnodes);
    return take_text(out->asked, sizeof out->asked, asked, nasked) &&
           take_text(out->partition, sizeof out->partition, name, nname);
}

bool slurm_kept_read(const struct slurm *slurm, struct slurm_kept *out)
{
    struct firn_buf text = {0};
    int folder = open_folder(slurm);
    if (folder < 0)
        return false;
    enum attempt_found found = attempt_get(folder, file, &text);
    if (found == ATTEMPT_UNKNOWN)
        log_warn("cannot read '%s/%s': %s", slurm->state, file,
                 strerror(errno));
    bool is_there = found == ATTEMPT_PRESENT && text.n > 0;
    bool is_good =
        is_there && read_kept(out, (struct firn_bytes){text.at, text.n});
    if (is_there && !is_good)
        log_warn("'%s/%s' is damaged; firn ignores it", slurm->state, file);
    close(folder);
    buf_release(&text);
    return is_good && strcmp(out->asked, slurm->partition) == 0; /* (1) */
}

/* --- compared with Slurm -------------------------------------------------- */

void slurm_kept_compare(const struct slurm *slurm,
                        const struct slurm_nodes *nodes)
{
    for (size_t i = 0; i < nodes->at.n; i++) {
        const struct slurm_node *node = &nodes->at.at[i];
        const struct slurm_host *host = NULL;
        if (!slurm_is_mine(slurm, node))
            continue;
        for (size_t k = 0; k < slurm->hosts.n && host == NULL; k++)
            if (strcmp(slurm->hosts.at[k].name, node->name) == 0)
                host = &slurm->hosts.at[k];
        if (host == NULL)
            log_warn("Slurm has a new node, %s; restart firnd to use it",
                     node->name);
        else if (host->ngpus != node->ngpus || host->naming != node->naming ||
                 host->shards_per_gpu != node->shards_per_gpu ||
                 strcmp(host->type, node->type) != 0)
            log_warn("the GPUs of node %s have changed; restart firnd to use "
                     "them",
                     node->name);
    }
}
