/* fuzz_shares.c - any bytes as a file of users and projects: read or refused.
 */
#include "core/accounts.h"
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct accounts *accounts = NULL;
    struct firn_error err = {0};
    struct firn_bytes bytes = {(const char *)data, size};
    enum firn_status status = accounts_parse(&accounts, bytes, "input", &err);
    if (status != FIRN_OK ? err.text[0] == '\0' : accounts == NULL)
        abort();
    for (size_t i = 0; status == FIRN_OK && i < accounts->list.n; i++)
        if (!(accounts->list.at[i].limits.share > 0))
            abort();
    accounts_free(accounts);
    return 0;
}
