/* fuzz_cluster_yaml.c - any bytes as a cluster file: read or refused. */
#include <firn/cluster.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct firn_cluster cluster = {0};
    struct firn_error err = {0};
    struct firn_bytes bytes = {(const char *)data, size};
    enum firn_status status =
        firn_cluster_parse_yaml(&cluster, bytes, "input", &err);
    if (status == FIRN_OK ? cluster.ngpus < 1 : err.text[0] == '\0')
        abort();
    firn_cluster_release(&cluster);
    return 0;
}
