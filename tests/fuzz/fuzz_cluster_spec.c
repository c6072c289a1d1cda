/* fuzz_cluster_spec.c - any text as a cluster spec: read or refused. */
#include "base/mem.h"
#include <firn/cluster.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct firn_cluster cluster = {0};
    struct firn_error err = {0};
    char *spec = mem_new(size + 1, 1);
    if (size > 0)
        memcpy(spec, data, size);
    enum firn_status status = firn_cluster_parse_spec(&cluster, spec, &err);
    if (status == FIRN_OK ? cluster.ngpus < 1 : err.text[0] == '\0')
        abort();
    firn_cluster_release(&cluster);
    mem_free(spec);
    return 0;
}
