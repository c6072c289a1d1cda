/* test_launcher.c - firn-launch under a firnd that asks for what it may not
 * have, other users that ask at all, and the control groups of attempts. Needs
 * root and the users daemon and MEMBER, which every system has.
 */
#define _GNU_SOURCE
#include "engine/launcher.h"
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* A user without a home, of whose processes there are none. */
#define MEMBER \
    "no"       \
    "body"

static struct {
    char folder[64], path[100];
    char group[64];
    uid_t firnd, other;
    pid_t pid;
    const char *options[12]; /* more of them */
    char shepherd[120], text[160], words[200];
} s;

static void nap(void)
{
    nanosleep(&(struct timespec){0, 10000000}, NULL);
}

static void run_launcher(void)
{
    char program[PATH_MAX] = "";
    const char *argv[32] = {"firn-launch", "--state",    s.folder,  "--socket",
                            s.path,        "--user",     "daemon",  "--group",
                            s.group,       "--shepherd", s.shepherd};
    size_t n = 11;
    for (size_t i = 0; s.options[i] != NULL; i++)
        argv[n++] = s.options[i];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 32);
    char *at = length > 0 ? strstr(program, "/tests/engine/") : NULL;
    if (at != NULL) /* it is built beside the tests */
        strcpy(at, "/firn-launch");
    snprintf(s.words, sizeof s.words, "%s/words", s.folder);
    if (freopen(s.words, "w", stderr) != NULL)
        execv(program, (char **)argv);
    _exit(127);
}

/* Starts it; s.pid is 0 if it ends at once. */
static void spawn_launcher(void)
{
    struct stat st;
    s.pid = fork();
    if (s.pid == 0)
        run_launcher();
    for (int i = 0; i < 12000 && s.pid > 0 && stat(s.path, &st) != 0; i++) {
        nap();
        if (waitpid(s.pid, NULL, WNOHANG) != 0)
            s.pid = 0; /* it is not built, or may not listen */
    }
}

static void end_launcher(void)
{
    if (s.pid > 0) {
        kill(s.pid, SIGKILL);
        waitpid(s.pid, NULL, 0);
    }
    s.pid = 0;
    unlink(s.path);
}

/* The launcher with firnd's user `daemon`, for members of the group of
 * MEMBER. */
static int start(void **state)
{
    (void)state;
    const struct passwd *entry = getpwnam("daemon");
    s.pid = 0;
    if (geteuid() != 0 || entry == NULL)
        return 0;
    s.firnd = entry->pw_uid;
    entry = getpwnam(MEMBER);
    const struct group *group = entry != NULL ? getgrgid(entry->pw_gid) : NULL;
    if (group == NULL)
        return 0;
    s.other = entry->pw_uid;
    snprintf(s.group, sizeof s.group, "%s", group->gr_name);
    strcpy(s.folder, "/tmp/firn-launch.XXXXXX"); /* others can enter it */
    if (mkdtemp(s.folder) == NULL || chmod(s.folder, 0755) != 0)
        return 1;
    snprintf(s.path, sizeof s.path, "%s/launch", s.folder);
    strcpy(s.shepherd, "/bin/false");
    s.options[0] = "--without-cgroups"; /* nor refuses it without them */
    s.options[1] = NULL;
    spawn_launcher();
    return 0;
}

static int stop(void **state)
{
    (void)state;
    char command[100];
    end_launcher();
    snprintf(command, sizeof command, "rm -rf --one-file-system %s", s.folder);
    return s.folder[0] != '\0' && system(command) != 0; /* NOLINT */
}

/* The answer to these bytes for a process of that user; "": none. */
static void ask_as(uid_t uid, const char *bytes, size_t n, char out[512])
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char answer[512] = "";
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        snprintf(at.sun_path, sizeof at.sun_path, "%.100s", s.path);
        if (uid != 0 && setresuid(uid, uid, uid) != 0)
            _exit(1);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
            send(fd, bytes, n, MSG_NOSIGNAL) >= 0 &&
            recv(fd, answer, sizeof answer - 1, 0) < 0)
            answer[0] = '\0';
        _exit(write(ends[1], answer, sizeof answer) < 0);
    }
    assert_true(pid > 0);
    assert_int_equal(read(ends[0], out, 512), 512);
    waitpid(pid, NULL, 0);
    close(ends[0]);
    close(ends[1]);
}

static bool is_ready(void)
{
    if (s.pid > 0 && waitpid(s.pid, NULL, WNOHANG) == 0)
        return true;
    print_message("skipped: it needs root, firn-launch and two system users\n");
    s.pid = 0;
    return false;
}

static void firnd_gets_jobs_of_members_and_no_others(void **state)
{
    (void)state;
    static const struct {
        const char *line, *answer;
    } cases[] = {
        {"check " MEMBER "\n", "ok 0"},
        {"check root\n", "no user root: jobs of system users"},
        {"check daemon\n", "no user daemon: jobs of system users"},
        {"check no-such-user-here\n", "no user no-such-user-here: this host"},
        {"start root 1 1 0123456789abcdef 0000000000000000 0000000000000000\n",
         "no user root: jobs of system"},
        {"end 1 0123456789abcdef\n", "ok 0"},
        {"start " MEMBER " 1 1 0123456789abcdef 0000000000000000 "
         "0000000000000000\n",
         "ok "},
    };
    char answer[512];
    if (!is_ready())
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ask_as(s.firnd, cases[i].line, strlen(cases[i].line), answer);
        if (strncmp(answer, cases[i].answer, strlen(cases[i].answer)) != 0)
            fail_msg("%s is answered by '%s'", cases[i].line, answer);
    }
}

static void other_users_and_root_get_no_answer(void **state)
{
    (void)state;
    char answer[512];
    if (!is_ready())
        skip();
    ask_as(s.other, "check " MEMBER "\n", 13, answer);
    assert_string_equal(answer, "");
    ask_as(0, "check " MEMBER "\n", 13, answer); /* root opens the socket */
    assert_string_equal(answer, "");
    ask_as(s.firnd, "check " MEMBER "\n", 13,
           answer); /* and it still answers */
    assert_string_equal(answer, "ok 0\n");
}

static void garbage_is_refused_and_the_launcher_goes_on(void **state)
{
    (void)state;
    char answer[512], bytes[400];
    if (!is_ready())
        skip();
    uint64_t seed = 42;
    for (int i = 0; i < 100; i++) {
        size_t n = 1 + seed % sizeof bytes;
        for (size_t k = 0; k < n; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            bytes[k] = (char)(seed >> 40);
        }
        ask_as(s.firnd, bytes, n, answer);
        assert_int_equal(strncmp(answer, "no ", 3), 0);
    }
    ask_as(s.firnd, "check " MEMBER "\n", 13, answer);
    assert_string_equal(answer, "ok 0\n");
}

/* firnd could move a folder of one user to where that of another belongs. */
static void a_folder_of_another_user_is_not_given_away(void **state)
{
    (void)state;
    static const char line[] = "start " MEMBER " 6 1 0123456789abcdef "
                               "0000000000000000 0000000000000000\n";
    char path[300], answer[512];
    struct stat st;
    if (!is_ready())
        skip();
    snprintf(path, sizeof path, "%s/jobs", s.folder);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/jobs/6", s.folder);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/jobs/6/ckpt", s.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chown(path, 12345, 12345), 0);
    ask_as(s.firnd, line, sizeof line - 1, answer);
    assert_non_null(strstr(answer, "no cannot give its folders"));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, 12345);
    assert_int_equal(chown(path, s.firnd, (gid_t)-1),
                     0); /* as firnd makes it */
    ask_as(s.firnd, line, sizeof line - 1, answer);
    assert_int_equal(strncmp(answer, "ok ", 3), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, s.other);
    assert_int_equal(st.st_mode & 07777, 0750);
}

/* A link in place of a job's folder: its target stays root's. */
static void a_link_in_place_of_a_folder_is_not_given_away(void **state)
{
    (void)state;
    char path[300], target[300], answer[512];
    struct stat st;
    if (!is_ready())
        skip();
    snprintf(path, sizeof path, "%s/jobs", s.folder);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/jobs/5", s.folder);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(target, sizeof target, "%s/secret", s.folder);
    assert_int_equal(mkdir(target, 0700), 0);
    snprintf(path, sizeof path, "%s/jobs/5/work", s.folder);
    assert_int_equal(symlink(target, path), 0);
    static const char line[] = "start " MEMBER " 5 1 0123456789abcdef "
                               "0000000000000000 0000000000000000\n";
    ask_as(s.firnd, line, sizeof line - 1, answer);
    assert_non_null(strstr(answer, "no cannot give its folders"));
    assert_int_equal(stat(target, &st), 0);
    assert_int_equal(st.st_uid, 0);
    unlink(path);
    rmdir(target);
    snprintf(path, sizeof path, "%s/jobs/5", s.folder);
    rmdir(path);
    snprintf(path, sizeof path, "%s/jobs", s.folder);
    rmdir(path);
}

/* --- control groups --------------------------------------------------------
 */

/* MARK of requests here; groups are named by it. */
#define MARK "00112233445566ff"

/* Restarts the launcher with these options; false: it ends at once. */
static bool restart(const char *const *options)
{
    end_launcher();
    size_t n = 0;
    for (; options[n] != NULL; n++)
        s.options[n] = options[n];
    s.options[n] = NULL;
    spawn_launcher();
    return s.pid > 0;
}

/* The last words of the launcher. */
static bool has_said(const char *text)
{
    char line[300] = "";
    snprintf(s.words, sizeof s.words, "%s/words", s.folder);
    FILE *file = fopen(s.words, "r");
    bool found = false;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        found = found || strstr(line, text) != NULL;
    if (file != NULL)
        (void)fclose(file);
    return found;
}

/* In place of a supervisor: writes what it can open and where it runs into
 * `seen`, waits for `again`, and writes it into `seen-again`. */
static void write_shepherd(void)
{
    snprintf(s.shepherd, sizeof s.shepherd, "%s/shepherd", s.folder);
    FILE *file = fopen(s.shepherd, "w");
    assert_non_null(file);
    fprintf(file,
            "#!/bin/sh\n"
            "cd %s\n"
            "look() {\n"
            "  for i in 0 1 2 255; do\n"
            "    (true <nv$i) 2>err && echo \"opened $i\" ||\n"
            "      if grep -q 'not permitted' err; then echo \"closed $i\"\n"
            "      else echo \"open $i\"; fi\n"
            "  done\n"
            "  grep Cpus_allowed_list /proc/self/status | tr '\\t' ' '\n"
            "}\n"
            "look >now; mv now seen\n"
            "until [ -e again ] || [ -e stop ]; do sleep 0.02; done\n"
            "look >now; mv now seen-again\n",
            s.folder);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(s.shepherd, 0755), 0);
}

/* Character devices of GPUs that no driver has: open() fails by ENXIO if the
 * control group allows it, and by EPERM if it does not. */
static bool make_devices(void)
{
    static const int minors[] = {0, 1, 2, 255};
    bool is_made = true;
    for (size_t i = 0; i < 4; i++) {
        char path[100];
        snprintf(path, sizeof path, "%s/nv%d", s.folder, minors[i]);
        is_made = is_made && mknod(path, S_IFCHR | 0666,
                                   makedev(195, (unsigned)minors[i])) == 0;
    }
    return is_made;
}

/* Waits for the file and returns it in s.text. */
static const char *read_file(const char *name)
{
    char path[200];
    FILE *file = NULL;
    snprintf(path, sizeof path, "%s/%s", s.folder, name);
    for (int i = 0; i < 3000 && (file = fopen(path, "r")) == NULL; i++)
        nap();
    assert_non_null(file);
    s.text[fread(s.text, 1, sizeof s.text - 1, file)] = '\0';
    (void)fclose(file);
    return s.text;
}

static void touch(const char *name)
{
    char path[100];
    snprintf(path, sizeof path, "%s/%s", s.folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fclose(file);
}

static void asks(const char *line, const char *answer)
{
    char got[512];
    ask_as(s.firnd, line, strlen(line), got);
    if (strncmp(got, answer, strlen(answer)) != 0)
        fail_msg("%s is answered by '%s'", line, got);
}

/* GPU 1 at first, then 0 and 2: of the launcher that runs. */
static void opens_its_own_gpus_only(void)
{
    char path[100];
    asks("start " MEMBER " 9 1 " MARK " 0000000000000002 0000000000000001\n",
         "ok ");
    assert_memory_equal(read_file("seen"),
                        "closed 0\nopen 1\nclosed 2\n"
                        "open 255\n",
                        34);
    asks("gpus 9 1 " MARK " 0000000000000005 0000000000000002\n", "ok 0");
    touch("again");
    assert_memory_equal(read_file("seen-again"),
                        "open 0\nclosed 1\nopen 2\n"
                        "open 255\n",
                        32);
    touch("stop");
    asks("end 9 " MARK "\n", "ok ");
    for (size_t i = 0; i < 4; i++) {
        static const char *const names[] = {"again", "seen", "seen-again",
                                            "stop"};
        snprintf(path, sizeof path, "%s/%s", s.folder, names[i]);
        assert_int_equal(unlink(path), 0);
    }
}

static void gpus_of_others_are_closed(void **state)
{
    (void)state;
    static const char *const own[] = {"--devices", "own", NULL};
    char v2[100];
    const char *const mounted[] = {"--devices", "own", "--cgroup-root", v2,
                                   NULL};
    int ntried = 0;
    if (!is_ready() || !make_devices())
        skip();
    write_shepherd();
    if (restart(own)) { /* of this host */
        opens_its_own_gpus_only();
        ntried++;
    }
    snprintf(v2, sizeof v2, "%s/v2", s.folder);
    assert_int_equal(mkdir(v2, 0755), 0);
    if (mount("none", v2, "cgroup2", 0, NULL) == 0) {
        if (restart(mounted)) {
            assert_true(has_said("version 2"));
            opens_its_own_gpus_only();
            ntried++;
        }
        end_launcher();
        umount2(v2, MNT_DETACH);
    }
    print_message("devices: %d hierarchies of control groups tried\n", ntried);
    if (ntried == 0)
        skip();
}

static void an_attempt_has_the_processors_of_its_gpus(void **state)
{
    (void)state;
    static const char *const first[] = {"--cpuset", "0", NULL};
    static const char *const each[] = {"--cpuset", "0-1", "--cpus-per-gpu", "1",
                                       NULL};
    if (!is_ready() || sysconf(_SC_NPROCESSORS_ONLN) < 2)
        skip();
    write_shepherd();
    if (!restart(first)) { /* version 2 without that controller */
        assert_true(has_said("no control groups that limit cpuset"));
        skip();
    }
    asks("start " MEMBER " 9 1 " MARK " ffffffffffffffff 0000000000000002\n",
         "ok ");
    assert_non_null(strstr(read_file("seen"), "Cpus_allowed_list: 0\n"));
    asks("end 9 " MARK "\n", "ok ");
    (void)remove(strcat(strcpy(s.text, s.folder), "/seen"));
    assert_true(restart(each));
    asks("start " MEMBER " 9 2 " MARK " ffffffffffffffff 0000000000000002\n",
         "ok ");
    assert_non_null(strstr(read_file("seen"), "Cpus_allowed_list: 1\n"));
    asks("gpus 9 2 " MARK " ffffffffffffffff 0000000000000003\n", "ok 0");
    touch("again");
    assert_non_null(
        strstr(read_file("seen-again"), "Cpus_allowed_list: 0-1\n"));
    asks("end 9 " MARK "\n", "ok ");
    asks("start " MEMBER " 9 3 " MARK " ffffffffffffffff 0000000000000004\n",
         "no the limits of its control group cannot be set");
}

/* The controllers of most test hosts belong to version 1: that the right files
 * of version 2 are written is looked up in folders that only look like it. */
static void the_limits_of_version_2_are_its_files(void **state)
{
    (void)state;
    static const char *const folders[] = {"fake", "fake/firn",
                                          "fake/firn/" MARK "-9-1"};
    static const char *const files[][2] = {
        {"cpu.max", "300000 100000"}, {"cpuset.cpus", "4,5"},
        {"memory.max", "209715200"},  {"memory.swap.max", "0"},
        {"pids.max", "300"},          {"cgroup.procs", "0"}};
    char root[100], name[100];
    const char *const options[] = {"--cgroup-root", root,
                                   "--memory-max",  "200M",
                                   "--pids-max",    "300",
                                   "--cpus-max",    "3",
                                   "--cpuset=2-9",  "--cpus-per-gpu=2",
                                   "--devices=all", NULL};
    if (!is_ready())
        skip();
    for (size_t i = 0; i < 3; i++) {
        snprintf(root, sizeof root, "%s/%s", s.folder, folders[i]);
        assert_int_equal(mkdir(root, 0755), 0);
    }
    touch("fake/cgroup.controllers");
    touch("fake/cgroup.subtree_control");
    touch("fake/firn/cgroup.subtree_control");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(name, sizeof name, "%s/%s", folders[2], files[i][0]);
        touch(name);
    }
    snprintf(root, sizeof root, "%s/fake", s.folder);
    assert_true(restart(options));
    asks("start " MEMBER " 9 1 " MARK " 0000000000000002 0000000000000002\n",
         "ok ");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(name, sizeof name, "%s/%s", folders[2], files[i][0]);
        assert_string_equal(read_file(name), files[i][1]);
    }
}

static void without_control_groups_it_must_be_told(void **state)
{
    (void)state;
    const char *const bare[] = {"--cgroup-root", s.folder, NULL};
    const char *const told[] = {"--cgroup-root", s.folder, "--without-cgroups",
                                NULL};
    const char *const limited[] = {
        "--cgroup-root", s.folder, "--without-cgroups",
        "--memory-max",  "1G",     NULL};
    if (!is_ready())
        skip();
    assert_false(restart(bare));
    assert_true(has_said("root can make no control groups in"));
    assert_false(restart(limited));
    assert_true(has_said("no control groups that limit memory"));
    assert_true(restart(told));
    asks("check " MEMBER "\n", "ok 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            firnd_gets_jobs_of_members_and_no_others, start, stop),
        cmocka_unit_test_setup_teardown(other_users_and_root_get_no_answer,
                                        start, stop),
        cmocka_unit_test_setup_teardown(
            garbage_is_refused_and_the_launcher_goes_on, start, stop),
        cmocka_unit_test_setup_teardown(
            a_link_in_place_of_a_folder_is_not_given_away, start, stop),
        cmocka_unit_test_setup_teardown(
            a_folder_of_another_user_is_not_given_away, start, stop),
        cmocka_unit_test_setup_teardown(gpus_of_others_are_closed, start, stop),
        cmocka_unit_test_setup_teardown(
            an_attempt_has_the_processors_of_its_gpus, start, stop),
        cmocka_unit_test_setup_teardown(the_limits_of_version_2_are_its_files,
                                        start, stop),
        cmocka_unit_test_setup_teardown(without_control_groups_it_must_be_told,
                                        start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
