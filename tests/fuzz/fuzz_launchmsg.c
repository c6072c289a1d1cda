/* fuzz_launchmsg.c - any bytes as a request to the launcher, which is root:
 * refused, or read so that the same bytes are written again.
 */
#include "base/buf.h"
#include "engine/launchmsg.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct launchmsg msg;
    struct firn_buf again = {0};
    struct firn_error err = {0};
    if (launchmsg_read(&msg, (struct firn_bytes){(const char *)data, size},
                       &err) == FIRN_OK) {
        launchmsg_write(&msg, &again);
        if (again.n != size || memcmp(again.at, data, size) != 0 ||
            strpbrk(msg.user, "/ \n") != NULL || msg.job < 0)
            abort();
    } else if (err.text[0] == '\0') {
        abort();
    }
    buf_release(&again);
    return 0;
}
