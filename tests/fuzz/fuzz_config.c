/* fuzz_config.c - any bytes as firn.yaml: read, or refused with the line.
 *
 * What is read has no control character in any text, and each setting is
 * "owner.option=value" as it was written.
 */
#include "daemon/config.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text)
{
    for (; text != NULL && *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config config = {0};
    struct firn_error err = {0};
    struct firn_bytes bytes = {(const char *)data, size};
    if (config_text(&config, bytes, "input", &err) == FIRN_OK) {
        const char *const texts[] = {
            config.engine, config.policy,     config.state, config.socket,
            config.listen, config.token_file, config.gpus,  config.callback};
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            check_text(texts[i]);
        for (size_t i = 0; i < config.nsettings; i++)
            check_text(config.settings[i]);
    } else if (strncmp(err.text, "input", 5) != 0) {
        abort();
    }
    config_release(&config);
    return 0;
}
