/* liveconfig.h - puts the text of a config.json into a job file.
 */
#ifndef CLI_LIVECONFIG_H
#define CLI_LIVECONFIG_H
#include <firn/bytes.h>
#include <firn/status.h>

/* Replaces the path at `config` of `model` by the text of that file; a relative
 * path starts from the folder of the job file `where` (NULL or "-": from the
 * current one). A text without such a path stays as it is, also one that is no
 * job file: firnd says what is wrong with it. A model_type that is not known
 * and is taken for another is named on standard error. FIRN_EIO: the file
 * cannot be read; FIRN_EINVAL: it is larger than 64 KiB, or firn/arch.h does
 * not take it (the sentence names file and key). */
enum firn_status live_config_put(struct firn_buf *text, const char *where,
                                 struct firn_error *err);

#endif
