/* launchmsg.h - what firnd asks of the launcher, as one line of text.
 *
 *     check ann                     may jobs of this user be started?
 *     start ann 7 3 MARK GPUS GPUS  start attempt 3 of job 7 on these GPUs
 *     gpus 7 3 MARK GPUS GPUS       attempt 3 of job 7 has these GPUs now
 *     end 7 MARK                    kill what is left of job 7
 *     sbatch ann 7 3 MARK           submit attempt 3 of job 7 to Slurm
 *     scancel ann 7 3 MARK          cancel it in Slurm's queue
 *
 * MARK is that of the state folder (engine/herd.h). GPUS are bits: first the
 * devices that the attempt may open (bit N: /dev/nvidiaN; all: no limit), then
 * the GPUs of the host that it holds (bit N: GPU N). All three have 16
 * hexadecimal digits. There are no paths in a request: the launcher makes them
 * from its own options and the numbers. The answer is `ok NUMBER` (0, the
 * supervisor's process, how many processes were found) or `no SENTENCE`.
 *
 * The last two are followed by arguments of that command, a line each, of a
 * closed list (engine/launchslurm.h). Their answer is `ok STATUS BYTES`: the
 * command's exit status and how many bytes of its output follow in the next
 * lines; its error text is behind them.
 */
#ifndef ENGINE_LAUNCHMSG_H
#define ENGINE_LAUNCHMSG_H
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdint.h>

enum {
    LAUNCHMSG_LINE = 256,
    LAUNCHMSG_MOST = 1 << 16,
    LAUNCHMSG_USER = 64,
    LAUNCHMSG_MARK = 17
};

enum launchmsg_kind {
    LAUNCHMSG_CHECK,
    LAUNCHMSG_START,
    LAUNCHMSG_GPUS,
    LAUNCHMSG_END,
    LAUNCHMSG_SBATCH,
    LAUNCHMSG_SCANCEL
};

struct launchmsg {
    enum launchmsg_kind kind;
    char user[LAUNCHMSG_USER]; /* "" of GPUS and END */
    int job;                   /* 0 of CHECK */
    int64_t attempt;           /* not of CHECK and END; from 1 */
    char mark[LAUNCHMSG_MARK]; /* 16 hexadecimal digits; "" of CHECK */
    uint64_t devices, gpus;    /* of START and GPUS */
    struct firn_bytes words;   /* arguments of SBATCH and SCANCEL, each with a
                                  line end; in the text that was read */
};

/* A function of its bytes. FIRN_EINVAL: it is no such line, or an argument is
 * not in the closed list. */
enum firn_status launchmsg_read(struct launchmsg *out, struct firn_bytes text,
                                struct firn_error *err);
/* Appends the line. */
void launchmsg_write(const struct launchmsg *msg, struct firn_buf *out);

#endif
