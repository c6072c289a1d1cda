/* fuzz_failures.c - no bytes crash the reader of failure files.
 */
#include "sim/failure.h"
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct failures failures = {0};
    struct firn_error err;
    struct lines *in =
        lines_from((struct firn_bytes){(const char *)data, size});
    failures_parse(&failures, in, "fuzz", 8, &err);
    lines_close(in);
    while (failures_next_s(&failures) < 1e300)
        failures_take(&failures);
    failures_release(&failures);
    return 0;
}
