/* fuzz_launchfile.c - any bytes as a launch file: refused, or read so that what
 * is written of it reads back the same.
 */
#include "base/buf.h"
#include "engine/launchfile.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a supervisor relies on. */
static void check(const struct launchfile *launch)
{
    size_t nown = 0;
    if (launch->argv.n == 0 || launch->workers.n == 0)
        abort();
    for (size_t i = 0; i < launch->workers.n; i++) {
        if (launch->workers.at[i].first != nown)
            abort();
        nown += launch->workers.at[i].n;
    }
    if (nown != launch->own.n)
        abort();
    for (size_t i = 0; i < launch->common.n; i++)
        if (strchr(launch->common.at[i], '=') == NULL)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct launchfile first = {0}, second = {0};
    struct firn_buf once = {0}, twice = {0};
    struct firn_error err = {0};
    struct firn_bytes bytes = {(const char *)data, size};
    if (launchfile_read(&first, bytes, &err) == FIRN_OK) {
        check(&first);
        launchfile_write(&first, &once);
        bytes = (struct firn_bytes){once.at, once.n};
        if (launchfile_read(&second, bytes, &err) != FIRN_OK)
            abort();
        launchfile_write(&second, &twice);
        if (once.n != twice.n || memcmp(once.at, twice.at, once.n) != 0)
            abort();
    } else if (err.text[0] == '\0') {
        abort();
    }
    launchfile_release(&first);
    launchfile_release(&second);
    buf_release(&once);
    buf_release(&twice);
    return 0;
}
