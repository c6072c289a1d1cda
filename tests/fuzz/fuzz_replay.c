/* fuzz_replay.c - any bytes as an event log: refused or accepted, no crash.
 *
 * The header of a log is long and a random one is never whole, so inputs that
 * do not begin like a log are put behind a good header: the first byte says
 * which way it goes, and whether the log is of another world. What a life is
 * told from must be told without a crash too.
 */
#include "base/buf.h"
#include "base/lines.h"
#include "sim/explain.h"
#include "sim/replay.h"
#include <stddef.h>
#include <stdint.h>

static const char header[] =
    "#firn-log 1\ntrace\t\"t\"\npolicy\t\"p\"\nseed\t1\nrestart_s\t30\n"
    "scaling\t1\nshare_slowdown\t1\ninterval_s\t0\nquantum_s\t0\n"
    "charges_first_start\t0\nmtbf_s\t0\nmttr_s\t0\ncheckpoint_s\t60\n"
    "jobs_per_gpu\t2\ncluster\t\"c\"\t3\t136\nnodes\t0-1\t4\t\"a\"\tup\n"
    "nodes\t2\t128\t\"b\"\tup\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct firn_buf text = {0}, page = {0};
    struct explain life;
    struct firn_sim_result result;
    struct firn_error err = {0};
    if (size > 0 && data[0] != '#')
        buf_puts(&text, header);
    bool is_other = size > 0 && data[0] == 'w';
    if (is_other)
        buf_puts(&text, "world\t\"other\"\n");
    buf_add(&text, (const char *)data + is_other, size - is_other);
    struct lines *in = lines_from((struct firn_bytes){text.at, text.n});
    (void)replay_lines(in, "fuzz", &result, &err);
    lines_seek(in, 0, 1);
    if (explain_lines(&life, in, "fuzz", "0", &err) == FIRN_OK) {
        explain_page(&life, &page);
        explain_json(&life, &page);
        explain_release(&life);
    }
    lines_close(in);
    buf_release(&page);
    buf_release(&text);
    return 0;
}
