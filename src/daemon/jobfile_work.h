/* jobfile_work.h - what is known of a job file while it is read; for
 * jobfile*.c.
 */
#ifndef DAEMON_JOBFILE_WORK_H
#define DAEMON_JOBFILE_WORK_H
#include "daemon/jobfile.h"
#include "daemon/jobfile_tree.h"
#include <firn/llm.h>

/* The lines of keys that others depend on are 0 when they are not given. */
struct reading {
    struct live_ask ask;
    struct firn_llm_shape shape;
    char *model_name, *model_kind;
    const char *where;
    struct firn_error *err;
    long gpus_line, batch_line, model_line, seq_line, freeze_line, max_line;
    long elastic_line, threads_line, finetune_line, checkpoint_line;
    long retry_line, on_line, retries_line, target_line;
};

/* Takes all keys of the file's mapping. FIRN_EINVAL with file and line; what
 * was taken before stays in `r`. */
enum firn_status jobfile_take(struct reading *r, const struct tree *map);

#endif
