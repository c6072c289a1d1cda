/* fuzz_json.c - no bytes crash the JSON reader; text that it accepts is printed
 * as ASCII, and indented text reads back as the same values.
 */
#include "base/buf.h"
#include "cli/jsontext.c" /* the library has no cli */
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool print(const char *text, size_t n, int indent, struct firn_buf *out)
{
    struct jsonread in;
    jsonread_init(&in, text, n, NULL);
    jsontext_value(&in, indent, out);
    jsonread_end(&in);
    return in.status == FIRN_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct firn_buf line = {0}, page = {0}, again = {0};
    struct jsonread in;
    jsonread_init(&in, text, size, NULL);
    jsonread_skip(&in);
    jsonread_end(&in);
    bool is_json = print(text, size, -1, &line);
    if (in.status == FIRN_OK && !is_json)
        abort(); /* jsonread_skip() rejects repeated keys, so is stricter */
    if (is_json) {
        for (size_t i = 0; i < line.n; i++)
            if ((unsigned char)line.at[i] < ' ' ||
                (unsigned char)line.at[i] > 0x7f)
                abort();
        if (!print(text, size, 0, &page) ||
            !print(page.at, page.n, -1, &again) ||
            strcmp(line.at, again.at) != 0)
            abort();
    }
    buf_release(&line);
    buf_release(&page);
    buf_release(&again);
    return 0;
}
