/* test_shepherd_ports.c - the ports of an attempt are held from their choice to
 * its end. */
#define _GNU_SOURCE
#include "base/buf.h"
#include "engine/attemptfiles.h"
#include "engine/launchfile.h"
#include "engine/shepherd.h"
#include "lib/folder.h"
#include "lib/workers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A job that tells its port and then waits: no worker ever listens. */
static void fill(struct launchfile *launch)
{
    static const char *const words[] = {
        "/bin/sh", "-c",
        "echo $MASTER_PORT >port.new && mv port.new port && exec sleep 1000"};
    launch->job = 7;
    launch->attempt = 1;
    launch->workdir = folder_path();
    launch->log = folder_file("log");
    launch->grace_s = 60;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        vec_add(&launch->argv, words[i]);
    vec_add(&launch->common, "FIRN_EPOCH=1");
    launchfile_add_worker(launch);
    launchfile_add_own(launch, "RANK=0");
}

static pid_t start(void)
{
    struct launchfile launch = {0};
    struct firn_buf text = {0};
    struct firn_error err;
    char job[300], folder[320];
    pid_t pid;
    snprintf(job, sizeof job, "%s/job", folder_path());
    snprintf(folder, sizeof folder, "%s/epoch-1", job);
    int dir = attempt_folder(job, 1, true);
    int above = open(job, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir >= 0 && above >= 0);
    assert_int_equal(attempt_fence_raise(above, 1, &err), FIRN_OK);
    fill(&launch);
    launchfile_write(&launch, &text);
    assert_int_equal(
        attempt_put(dir, "launch", (struct firn_bytes){text.at, text.n}, &err),
        FIRN_OK);
    char *argv[] = {(char *)workers_program(), "--shepherd", folder, NULL};
    assert_int_equal(posix_spawn(&pid, argv[0], NULL, NULL, argv, environ), 0);
    buf_release(&text);
    launchfile_release(&launch);
    close(dir);
    close(above);
    return pid;
}

static int told_port(void)
{
    for (int i = 0; i < 12000; i++) {
        FILE *file = fopen(folder_file("port"), "re");
        int port = 0;
        if (file != NULL) {
            char text[32] = "";
            if (fgets(text, sizeof text, file) != NULL)
                port = (int)strtol(text, NULL, 10);
            fclose(file);
        }
        if (port > 0)
            return port;
        usleep(10000);
    }
    return -1;
}

/* Binds and listens as any program may that does not know of firn; 0 or errno.
 */
static int try_listen(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    int code =
        bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 1) == 0
            ? 0
            : errno;
    close(fd);
    return code;
}

static bool is_in_proc_net_unix(const char *text)
{
    char line[512];
    FILE *file = fopen("/proc/net/unix", "re");
    bool is_there = false;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        is_there = is_there || strstr(line, text) != NULL;
    if (file != NULL)
        fclose(file);
    return is_there;
}

static void a_thief_cannot_listen_where_trainers_will_meet(void **state)
{
    (void)state;
    char name[64];
    int status;
    pid_t pid = start();
    int port = told_port();
    assert_in_range(port, 10000, 29996);
    int first = try_listen(port + 1), second = try_listen(port + 2);
    snprintf(name, sizeof name, "firn-port-%d", port);
    bool is_told = is_in_proc_net_unix(name);
    kill(pid, SIGTERM);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(first, EADDRINUSE);
    assert_int_equal(second, EADDRINUSE);
    assert_false(is_told);
    assert_int_equal(try_listen(port + 1), 0); /* free again with its end */
}

int main(int argc, char **argv)
{
    int code = workers_main(argc, argv);
    if (code >= 0)
        return code;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_thief_cannot_listen_where_trainers_will_meet, folder_make,
            workers_sweep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
