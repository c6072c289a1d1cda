/* fuzz_group.c - no bytes crash the handshake of a group, and none are taken
 * for a member's.
 *
 * The first byte says on which side the bytes come in and in which pieces. The
 * nonces are drawn anew in each run, so that no bytes can be right.
 */
#include "train/groupauth.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned char key[GRP_KEY] = "a key that is never sent";
    struct grp_claim claim = {1, 2, 3, 4, 1, 1, 5000, 5001};
    struct grp_shake s;
    if (size == 0 || firn_grp_auth_ready(NULL) != FIRN_OK)
        return 0;
    if (data[0] % 2 == 0)
        firn_grp_shake_expect(&s, key);
    else
        (void)firn_grp_shake_call(&s, key, &claim);
    size_t piece = 1 + data[0] / 2;
    for (size_t at = 1; at < size;) {
        unsigned char *to;
        size_t room = firn_grp_shake_room(&s, &to);
        size_t n = size - at < piece ? size - at : piece;
        n = n < room ? n : room;
        if (n == 0)
            break;
        memcpy(to, data + at, n);
        (void)firn_grp_shake_take(&s, n);
        at += n;
    }
    if (s.state == SHAKE_JUDGE || s.state == SHAKE_DONE ||
        s.state == SHAKE_REFUSED || s.state == SHAKE_WANTS_VERDICT)
        abort();
    return 0;
}
