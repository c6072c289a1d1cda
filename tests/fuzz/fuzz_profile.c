/* fuzz_profile.c - no bytes crash the reader of profiles, and what it takes
 * is written so that it reads back.
 */
#include "base/buf.h"
#include <firn/profile.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct firn_profile *p = calloc(2, sizeof *p);
    struct firn_error err;
    struct firn_buf text = {0};
    struct firn_bytes in = {(const char *)data, size};
    if (firn_profile_parse(&p[0], in, "fuzz", &err) == FIRN_OK) {
        firn_profile_write(&p[0], &text);
        firn_profile_gain(&p[0], firn_profile_stage(&p[0], 5), 64);
        firn_profile_split(&p[0], 100, 3, p[0].local_max);
        in = (struct firn_bytes){text.at, text.n};
        if (firn_profile_parse(&p[1], in, "again", &err) == FIRN_OK)
            firn_profile_release(&p[1]);
        firn_profile_release(&p[0]);
    }
    buf_release(&text);
    free(p);
    return 0;
}
