/* firncmd.c - the firn command against a daemon with prepared answers. */
#include "firncmd.h"
#include "folder.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ARGS_MAX = 16 };

struct fake cmd_fake;
struct ran cmd_ran;
static char socket_path[256];

const char *cmd_program(void)
{
    const char *path = getenv("FIRN");
    return path != NULL && *path != '\0' ? path : "build/firn";
}

int cmd_setup(void **state)
{
    static const char *const names[] = {"FIRN_SOCKET", "FIRN_API_URL",
                                        "FIRN_API_TOKEN_FILE",
                                        "XDG_RUNTIME_DIR", "XDG_STATE_HOME"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    folder_make(state);
    snprintf(socket_path, sizeof socket_path, "%s/s", folder_path());
    fake_start(&cmd_fake, socket_path);
    setenv("FIRN_SOCKET", socket_path, 1);
    setenv("TZ", "UTC", 1);
    return 0;
}

int cmd_teardown(void **state)
{
    fake_stop(&cmd_fake);
    return folder_remove(state);
}

int cmd_run(const char *line, const char *in, const char *until)
{
    static char words[1024];
    const char *argv[ARGS_MAX] = {cmd_program()};
    int n = 1;
    if (access(cmd_program(), X_OK) != 0) {
        print_message("skipped: there is no %s\n", cmd_program());
        skip();
    }
    snprintf(words, sizeof words, "%s", line);
    for (char *at = words; *at != '\0' && n < ARGS_MAX - 1;) {
        argv[n++] = at;
        at += strcspn(at, " ");
        if (*at == ' ')
            *at++ = '\0';
    }
    run_program(&cmd_ran, argv, in, until);
    return cmd_ran.status;
}

int cmd_firn(const char *line)
{
    return cmd_run(line, NULL, NULL);
}

void cmd_out_has(const char *text)
{
    if (strstr(cmd_ran.out, text) == NULL)
        fail_msg("no '%s' in:\n%s", text, cmd_ran.out);
}

void cmd_err_has(const char *text)
{
    if (strstr(cmd_ran.err, text) == NULL)
        fail_msg("no '%s' in:\n%s", text, cmd_ran.err);
}

const struct fake_request *cmd_asked(int i, const char *what)
{
    static struct fake_request one;
    assert_true(fake_request(&cmd_fake, i, &one));
    assert_string_equal(one.what, what);
    return &one;
}

const char cmd_job[] =
    "{\"id\": 7, \"name\": \"resnet\", \"user\": \"root\", \"state\": "
    "\"pending\", \"reason\": \"new\", \"why\": \"no round yet\", \"held\": "
    "false, \"gpus_min\": 1, \"gpus_max\": 4, \"gpus\": \"-\"}";
