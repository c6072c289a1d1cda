/* fuzz_message.c - no bytes crash the readers of reports and orders, and what
 * they take is written so that it reads back the same.
 */
#include <firn/message.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 64, TEXT = 8192 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_report(const char *text, size_t n)
{
    double first[LAYERS], second[LAYERS];
    char out[TEXT], again[TEXT];
    struct firn_trainer_report report;
    struct firn_error err;
    if (firn_trainer_report_read(&report, first, LAYERS, text, n, &err) !=
        FIRN_OK)
        return;
    size_t nout = firn_trainer_report_write(out, sizeof out, &report);
    if (nout >= sizeof out ||
        firn_trainer_report_read(&report, second, LAYERS, out, nout, &err) !=
            FIRN_OK ||
        firn_trainer_report_write(again, sizeof again, &report) != nout ||
        strcmp(out, again) != 0)
        abort();
}

static void try_orders(const char *text, size_t n)
{
    char out[TEXT];
    struct firn_orders orders, again;
    struct firn_error err;
    if (firn_orders_read(&orders, text, n, &err) != FIRN_OK)
        return;
    size_t nout = firn_orders_write(out, sizeof out, &orders);
    if (firn_orders_read(&again, out, nout, &err) != FIRN_OK ||
        memcmp(&orders, &again, sizeof orders) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_report((const char *)data, size);
    try_orders((const char *)data, size);
    return 0;
}
