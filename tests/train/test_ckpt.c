/* test_ckpt.c - a checkpoint is whole, or it is refused with a sentence. */
#include "lib/folder.h"
#include "train/crc32c.h"
#include <firn/ckpt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *path_of(const char *name, int step)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/%s-%012d.ckpt", folder_path(), name, step);
    return path;
}

static size_t slurp(const char *path, uint8_t *bytes, size_t max)
{
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t n = read(fd, bytes, max);
    close(fd);
    assert_true(n >= 0 && (size_t)n < max);
    return (size_t)n;
}

static void spill(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_true(write(fd, bytes, n) == (ssize_t)n);
    close(fd);
}

/* --- small checkpoints --- */

static struct firn_ckpt_section f32(const char *name, const float *data,
                                    uint64_t n)
{
    return (struct firn_ckpt_section){.name = name,
                                      .type = FIRN_CKPT_F32,
                                      .ndims = 1,
                                      .dims = {n},
                                      .data = data,
                                      .nbytes = 4 * n};
}

static void write_these(const char *name, uint64_t step, unsigned keep,
                        const struct firn_ckpt_section *s, size_t n)
{
    struct firn_ckpt_writer *w = NULL;
    struct firn_error err = {0};
    assert_int_equal(firn_ckpt_create(&w, folder_path(), name, step, &err),
                     FIRN_OK);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(firn_ckpt_put(w, &s[i], &err), FIRN_OK);
    if (firn_ckpt_commit(w, keep, &err) != FIRN_OK)
        fail_msg("%s", err.text);
}

static void write_one(const char *name, uint64_t step, float value)
{
    struct firn_ckpt_section s = f32("weights", &value, 1);
    write_these(name, step, 0, &s, 1);
}

static float value_of(const struct firn_ckpt *c)
{
    float value = 0;
    struct firn_error err = {0};
    assert_int_equal(
        firn_ckpt_take(c, "weights", FIRN_CKPT_F32, &value, sizeof value, &err),
        FIRN_OK);
    return value;
}

static const uint8_t raw[] = "0123456789abcdef0123456789abcdef0123456789";
static const struct firn_ckpt_section every[] = {
    {"bytes", FIRN_CKPT_BYTES, 0, {0}, raw, 7},
    {"model/conv.weight", FIRN_CKPT_F32, 4, {2, 1, 1, 2}, raw, 16},
    {"f64", FIRN_CKPT_F64, 0, {0}, raw, 8},
    {"f16", FIRN_CKPT_F16, 1, {3}, raw, 6},
    {"bf16", FIRN_CKPT_BF16, 2, {3, 5}, raw, 30},
    {"i64", FIRN_CKPT_I64, 1, {2}, raw, 16},
    {"i32", FIRN_CKPT_I32, 8, {1, 1, 1, 1, 1, 1, 1, 3}, raw, 12},
    {"u8", FIRN_CKPT_U8, 2, {4, 4}, raw, 16},
    {"empty", FIRN_CKPT_F32, 2, {0, 1u << 31}, NULL, 0},
    {"nothing", FIRN_CKPT_BYTES, 0, {0}, NULL, 0},
};
enum { NEVERY = sizeof every / sizeof *every };

static void crc_is_castagnolis_by_tables_and_by_instruction(void **state)
{
    (void)state;
    uint8_t bytes[4099];
    assert_int_equal(crc32c_add(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(crc32c_add_plain(0, "123456789", 9), 0xe3069283u);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * i * 31 + i / 7);
    uint32_t whole = crc32c_add(0, bytes, sizeof bytes);
    for (size_t cut = 0; cut <= 40; cut++) {
        uint32_t crc = crc32c_add(0, bytes, cut);
        assert_int_equal(crc, crc32c_add_plain(0, bytes, cut));
        assert_int_equal(
            whole, crc32c_add_plain(crc, bytes + cut, sizeof bytes - cut));
        assert_int_equal(whole,
                         crc32c_add(crc, bytes + cut, sizeof bytes - cut));
    }
}

static void every_type_comes_back_as_it_was(void **state)
{
    (void)state;
    struct firn_ckpt *c = NULL;
    struct firn_error err = {0};
    write_these("job", 42, 0, every, NEVERY);
    assert_int_equal(firn_ckpt_open(&c, path_of("job", 42), &err), FIRN_OK);
    assert_int_equal(firn_ckpt_step(c), 42);
    assert_int_equal(firn_ckpt_count(c), NEVERY);
    for (size_t i = 0; i < NEVERY; i++) {
        const struct firn_ckpt_section *s = firn_ckpt_at(c, i);
        assert_ptr_equal(s, firn_ckpt_find(c, every[i].name));
        assert_string_equal(s->name, every[i].name);
        assert_int_equal(s->type, every[i].type);
        assert_int_equal(s->ndims, every[i].ndims);
        assert_memory_equal(s->dims, every[i].dims, 8 * s->ndims);
        assert_int_equal(s->nbytes, every[i].nbytes);
        assert_int_equal((uintptr_t)s->data % 16, 0);
        if (s->nbytes > 0)
            assert_memory_equal(s->data, every[i].data, s->nbytes);
    }
    assert_null(firn_ckpt_find(c, "byte"));
    assert_null(firn_ckpt_at(c, NEVERY));
    firn_ckpt_close(c);
}

static void more_than_a_buffer_comes_back_as_it_was(void **state)
{
    (void)state;
    enum { N = 700001 };
    struct firn_ckpt *c = NULL;
    struct firn_error err = {0};
    float *data = malloc(N * sizeof *data), *back = malloc(N * sizeof *back);
    for (int i = 0; i < N; i++)
        data[i] = (float)i * 1.5f;
    struct firn_ckpt_section s[3] = {f32("a", data, 3), f32("b", data, N),
                                     f32("c", data + 5, 70000)};
    write_these("job", 1, 0, s, 3);
    assert_int_equal(
        firn_ckpt_open_newest(&c, folder_path(), "job", NULL, &err), FIRN_OK);
    assert_int_equal(
        firn_ckpt_take(c, "b", FIRN_CKPT_F32, back, N * sizeof *back, &err),
        FIRN_OK);
    assert_memory_equal(back, data, N * sizeof *back);
    assert_memory_equal(firn_ckpt_find(c, "c")->data, data + 5, 280000);
    firn_ckpt_close(c);
    free(data);
    free(back);
}

static void take_says_what_is_wrong(void **state)
{
    (void)state;
    struct firn_ckpt *c = NULL;
    struct firn_error err = {0};
    double out[2] = {7, 7};
    write_these("job", 3, 0, every, NEVERY);
    assert_int_equal(firn_ckpt_open(&c, path_of("job", 3), &err), FIRN_OK);
    assert_int_equal(firn_ckpt_take(c, "f65", FIRN_CKPT_F64, out, 8, &err),
                     FIRN_ENOENT);
    assert_non_null(strstr(err.text, "'f65'"));
    assert_int_equal(firn_ckpt_take(c, "f64", FIRN_CKPT_I64, out, 8, &err),
                     FIRN_EINVAL);
    assert_non_null(strstr(err.text, "8 bytes of f64, not 8 of i64"));
    assert_int_equal(firn_ckpt_take(c, "f64", FIRN_CKPT_F64, out, 16, &err),
                     FIRN_EINVAL);
    assert_true(out[0] == 7 && out[1] == 7);
    firn_ckpt_close(c);
}

/* --- damage --- */

static enum firn_status parse(const uint8_t *bytes, size_t n,
                              struct firn_error *err)
{
    struct firn_ckpt *c = NULL;
    enum firn_status status = firn_ckpt_parse(&c, bytes, n, "it", err);
    if (status != FIRN_OK)
        assert_null(c);
    firn_ckpt_close(c);
    return status;
}

static void a_file_torn_at_any_byte_is_refused(void **state)
{
    (void)state;
    static uint8_t bytes[4096];
    struct firn_error err = {0};
    struct firn_ckpt *c = NULL;
    write_these("job", 9, 0, every, NEVERY);
    size_t n = slurp(path_of("job", 9), bytes, sizeof bytes);
    assert_int_equal(parse(bytes, n, &err), FIRN_OK);
    for (size_t cut = 0; cut < n; cut++) {
        err.text[0] = '\0';
        assert_int_equal(parse(bytes, cut, &err), FIRN_EINVAL);
        assert_true(strlen(err.text) > 10);
        if (cut % 37 == 0 || cut < 64) { /* and so from the disk */
            assert_int_equal(truncate(path_of("job", 9), (off_t)cut), 0);
            assert_int_equal(firn_ckpt_open(&c, path_of("job", 9), &err),
                             FIRN_EINVAL);
            spill(path_of("job", 9), bytes, n);
        }
    }
    for (size_t more = 1; more < 40; more++) {
        assert_int_equal(parse(bytes, n + more, &err), FIRN_EINVAL);
    }
}

static void any_other_byte_is_refused(void **state)
{
    (void)state;
    static uint8_t bytes[4096];
    struct firn_error err = {0};
    write_these("job", 9, 0, every, NEVERY);
    size_t n = slurp(path_of("job", 9), bytes, sizeof bytes);
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (uint8_t)(1 << bit);
            if (parse(bytes, n, &err) != FIRN_EINVAL)
                fail_msg("byte %zu, bit %d", i, bit);
            bytes[i] ^= (uint8_t)(1 << bit);
        }
    assert_int_equal(parse(bytes, n, &err), FIRN_OK);
}

static void sections_of_another_file_are_refused(void **state)
{
    (void)state;
    /* Each section is good, but they are in another order. */
    static uint8_t bytes[1024], other[1024];
    struct firn_error err = {0};
    float value[2] = {1, 2};
    struct firn_ckpt_section s[2] = {f32("a", &value[0], 1),
                                     f32("b", &value[1], 1)};
    write_these("job", 1, 0, s, 2);
    size_t n = slurp(path_of("job", 1), bytes, sizeof bytes);
    size_t half = (n - 16 - 32) / 2;
    memcpy(other, bytes, n);
    memcpy(other + 16, bytes + 16 + half, half);
    memcpy(other + 16 + half, bytes + 16, half);
    assert_int_equal(parse(bytes, n, &err), FIRN_OK);
    assert_int_equal(parse(other, n, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "sections"));
}

static void foreign_files_are_refused_with_a_sentence(void **state)
{
    (void)state;
    struct firn_ckpt *c = NULL;
    struct firn_error err = {0};
    char path[300];
    snprintf(path, sizeof path, "%s/x-000000000001.ckpt", folder_path());
    static const char zip[] = "PK\3\4 what torch.save writes, and many more "
                              "bytes than a checkpoint has at least";
    spill(path, zip, sizeof zip);
    assert_int_equal(firn_ckpt_open(&c, path, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "x-000000000001.ckpt: is not a check"));
    spill(path, "", 0);
    assert_int_equal(firn_ckpt_open(&c, path, &err), FIRN_EINVAL);
    assert_int_equal(firn_ckpt_open(&c, folder_path(), &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "not a regular file"));
    assert_int_equal(firn_ckpt_open(&c, "/nowhere/at/all", &err), FIRN_ENOENT);
    uint8_t later[64] = "firnckpt\2";
    spill(path, later, sizeof later);
    assert_int_equal(firn_ckpt_open(&c, path, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "version 2, not 1"));
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(firn_ckpt_open(&c, path, &err), FIRN_EINVAL);
    assert_null(c);
}

static void unaligned_memory_is_read_too(void **state)
{
    (void)state;
    static _Alignas(16) uint8_t bytes[4097];
    struct firn_ckpt *c = NULL;
    struct firn_error err = {0};
    write_these("job", 9, 0, every, NEVERY);
    size_t n = slurp(path_of("job", 9), bytes + 1, sizeof bytes - 1);
    assert_int_equal(firn_ckpt_parse(&c, bytes + 1, n, "it", &err), FIRN_OK);
    assert_int_equal((uintptr_t)firn_ckpt_find(c, "i64")->data % 16, 0);
    assert_memory_equal(firn_ckpt_find(c, "i64")->data, raw, 16);
    firn_ckpt_close(c);
}

/* --- newest and kept --- */

static void the_newest_whole_one_is_opened(void **state)
{
    (void)state;
    struct firn_ckpt *c = NULL;
    struct firn_error err = {0}, refused = {0};
    assert_int_equal(
        firn_ckpt_open_newest(&c, folder_path(), "job", &refused, &err),
        FIRN_ENOENT);
    write_one("job", 90, 1);
    write_one("job", 100, 2);
    write_one("job-2", 200, 3); /* another name */
    assert_int_equal(
        firn_ckpt_open_newest(&c, folder_path(), "job", &refused, &err),
        FIRN_OK);
    assert_string_equal(refused.text, "");
    assert_int_equal(firn_ckpt_step(c), 100);
    assert_true(value_of(c) == 2);
    firn_ckpt_close(c);
    assert_int_equal(truncate(path_of("job", 100), 100), 0);
    assert_int_equal(
        firn_ckpt_open_newest(&c, folder_path(), "job", &refused, &err),
        FIRN_OK);
    assert_int_equal(firn_ckpt_step(c), 90);
    assert_true(value_of(c) == 1);
    assert_non_null(strstr(refused.text, "job-000000000100.ckpt: is torn"));
    firn_ckpt_close(c);
    assert_int_equal(access(path_of("job", 100), R_OK), 0);
    assert_int_equal(truncate(path_of("job", 90), 3), 0);
    c = NULL;
    assert_int_equal(
        firn_ckpt_open_newest(&c, folder_path(), "job", &refused, &err),
        FIRN_EINVAL);
    assert_non_null(strstr(err.text, "no checkpoint of 'job' is whole"));
    assert_null(c);
}

static void the_newest_two_are_kept(void **state)
{
    (void)state;
    float value = 1;
    struct firn_ckpt_section s = f32("weights", &value, 1);
    for (int step = 8; step <= 12; step++)
        write_one("job", (uint64_t)step, 1);
    write_one("other", 1, 1);
    assert_int_equal(folder_count(), 3);
    assert_int_equal(access(path_of("job", 11), R_OK), 0);
    assert_int_equal(access(path_of("job", 12), R_OK), 0);
    write_these("job", 13, 3, &s, 1);
    assert_int_equal(folder_count(), 4);
    write_these("job", 14, 1, &s, 1);
    assert_int_equal(folder_count(), 2);
    assert_int_equal(access(path_of("job", 14), R_OK), 0);
}

static void one_that_was_gone_back_from_does_not_push_out_the_new(void **state)
{
    (void)state;
    write_one("job", 100, 1);
    write_one("job", 110, 1);
    assert_int_equal(truncate(path_of("job", 110), 50), 0);
    write_one("job", 105, 2);
    write_one("job", 106, 3);
    struct firn_ckpt *c = NULL;
    struct firn_error err = {0}, refused = {0};
    assert_int_equal(
        firn_ckpt_open_newest(&c, folder_path(), "job", &refused, &err),
        FIRN_OK);
    assert_int_equal(firn_ckpt_step(c), 106);
    firn_ckpt_close(c);
    assert_int_equal(access(path_of("job", 105), R_OK), 0);
    assert_int_equal(access(path_of("job", 110), R_OK), 0);
    write_one("job", 110, 4); /* the same step again, whole this time */
    assert_int_equal(
        firn_ckpt_open_newest(&c, folder_path(), "job", &refused, &err),
        FIRN_OK);
    assert_true(value_of(c) == 4);
    firn_ckpt_close(c);
}

/* --- writes that fail --- */

static void a_full_disk_leaves_the_old_one_and_nothing_else(void **state)
{
    (void)state;
    struct rlimit before, small;
    struct firn_ckpt_writer *w = NULL;
    struct firn_error err = {0}, again = {0};
    static float data[400000];
    struct firn_ckpt_section s = f32("weights", data, 400000);
    write_one("job", 1, 1);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 1000000;
    setrlimit(RLIMIT_FSIZE, &small);
    assert_int_equal(firn_ckpt_create(&w, folder_path(), "job", 2, &err),
                     FIRN_OK);
    enum firn_status put = firn_ckpt_put(w, &s, &err);
    enum firn_status more = firn_ckpt_put(w, &every[0], &again);
    enum firn_status commit = firn_ckpt_commit(w, 0, &again);
    /* and when only the last bytes have no room */
    small.rlim_cur = 60;
    setrlimit(RLIMIT_FSIZE, &small);
    struct firn_error late = {0};
    assert_int_equal(firn_ckpt_create(&w, folder_path(), "job", 3, &late),
                     FIRN_OK);
    enum firn_status first = firn_ckpt_put(w, &every[0], &late);
    enum firn_status last = firn_ckpt_commit(w, 0, &late);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(put, FIRN_EIO);
    assert_int_equal(more, FIRN_EIO);
    assert_int_equal(commit, FIRN_EIO);
    assert_string_equal(err.text, again.text);
    assert_non_null(strstr(err.text, "job-000000000002.ckpt: cannot be wri"));
    assert_int_equal(first, FIRN_OK);
    assert_int_equal(last, FIRN_EIO);
    assert_int_equal(folder_count(), 1);
    struct firn_ckpt *c = NULL;
    assert_int_equal(
        firn_ckpt_open_newest(&c, folder_path(), "job", &err, &again), FIRN_OK);
    assert_int_equal(firn_ckpt_step(c), 1);
    firn_ckpt_close(c);
}

static void a_dropped_checkpoint_leaves_nothing(void **state)
{
    (void)state;
    struct firn_ckpt_writer *w = NULL;
    struct firn_error err = {0};
    assert_int_equal(firn_ckpt_create(&w, folder_path(), "job", 2, &err),
                     FIRN_OK);
    assert_int_equal(firn_ckpt_put(w, &every[1], &err), FIRN_OK);
    firn_ckpt_drop(w);
    firn_ckpt_drop(NULL);
    assert_int_equal(folder_count(), 0);
}

static void what_a_crash_left_is_swept_and_what_is_written_is_not(void **state)
{
    (void)state;
    struct firn_ckpt_writer *w = NULL;
    struct firn_error err = {0};
    char byte;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) { /* a writer that is killed in the midst of it */
        if (firn_ckpt_create(&w, folder_path(), "job", 7, &err) != FIRN_OK ||
            write(ready[1], "x", 1) != 1)
            _exit(1);
        alarm(60);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    assert_int_equal(firn_ckpt_create(&w, folder_path(), "job", 7, &err),
                     FIRN_EIO);
    assert_non_null(strstr(err.text, "another process"));
    write_one("job", 6, 1);
    assert_int_equal(folder_count(), 2);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(folder_count(), 2);
    write_one("job", 7, 1);
    assert_int_equal(folder_count(), 2);
    assert_int_equal(access(path_of("job", 7), R_OK), 0);
}

static void bad_sections_and_names_are_refused(void **state)
{
    (void)state;
    struct firn_ckpt_writer *w = NULL;
    struct firn_error err = {0};
    char longname[FIRN_CKPT_NAME + 2];
    memset(longname, 'x', sizeof longname - 1);
    longname[sizeof longname - 1] = '\0';
    const struct firn_ckpt_section bad[] = {
        {"", FIRN_CKPT_U8, 1, {1}, raw, 1},
        {"a\nb", FIRN_CKPT_U8, 1, {1}, raw, 1},
        {longname, FIRN_CKPT_U8, 1, {1}, raw, 1},
        {"a", FIRN_CKPT_F32, 1, {2}, raw, 4},
        {"a", FIRN_CKPT_F32, 0, {0}, raw, 8},
        {"a", FIRN_CKPT_U8, 2, {UINT64_C(1) << 63, 2}, raw, 0},
        {"a", FIRN_CKPT_U8, 9, {1}, raw, 1},
        {"a", FIRN_CKPT_NTYPES, 1, {1}, raw, 1},
        {"a", FIRN_CKPT_U8, 1, {1}, NULL, 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(firn_ckpt_create(&w, folder_path(), "job", 1, &err),
                         FIRN_OK);
        assert_int_equal(firn_ckpt_put(w, &bad[i], &err), FIRN_EINVAL);
        assert_int_equal(firn_ckpt_commit(w, 0, &err), FIRN_EINVAL);
    }
    assert_int_equal(firn_ckpt_create(&w, folder_path(), "job", 1, &err),
                     FIRN_OK);
    assert_int_equal(firn_ckpt_put(w, &every[0], &err), FIRN_OK);
    assert_int_equal(firn_ckpt_put(w, &every[0], &err), FIRN_OK);
    assert_int_equal(firn_ckpt_commit(w, 0, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "'bytes' was put twice"));
    assert_int_equal(firn_ckpt_create(&w, folder_path(), "a/b", 1, &err),
                     FIRN_EINVAL);
    assert_int_equal(firn_ckpt_create(&w, folder_path(), ".a", 1, &err),
                     FIRN_EINVAL);
    assert_int_equal(
        firn_ckpt_create(&w, folder_path(), "a", UINT64_C(1000000000000), &err),
        FIRN_EINVAL);
    assert_int_equal(firn_ckpt_create(&w, "/nowhere", "a", 1, &err), FIRN_EIO);
    assert_int_equal(folder_count(), 0);
}

static void write_step(const char *name, uint64_t step)
{
    struct firn_ckpt_writer *w = NULL;
    struct firn_error err;
    assert_int_equal(firn_ckpt_create(&w, folder_path(), name, step, &err),
                     FIRN_OK);
    assert_int_equal(firn_ckpt_commit(w, 0, &err), FIRN_OK);
}

static void a_job_that_begins_anew_loses_its_checkpoints_once(void **state)
{
    (void)state;
    struct firn_error err = {0};
    write_step("7", 4);
    write_step("7", 8);
    write_step("7-2", 8); /* another job's */
    assert_int_equal(firn_ckpt_anew(folder_path(), "7", 3, &err), FIRN_OK);
    assert_int_equal(folder_count(), 2); /* the other's, and the mark */
    write_step("7", 2);
    assert_int_equal(firn_ckpt_anew(folder_path(), "7", 3, &err), FIRN_OK);
    assert_int_equal(folder_count(), 3); /* of this beginning: it stays */
    assert_int_equal(firn_ckpt_anew(folder_path(), "7", 5, &err), FIRN_OK);
    assert_int_equal(folder_count(), 2); /* begun anew once more */
    assert_int_equal(firn_ckpt_anew("/nowhere", "7", 1, &err), FIRN_OK);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, folder_make, folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc_is_castagnolis_by_tables_and_by_instruction),
        CASE(every_type_comes_back_as_it_was),
        CASE(more_than_a_buffer_comes_back_as_it_was),
        CASE(take_says_what_is_wrong),
        CASE(a_file_torn_at_any_byte_is_refused),
        CASE(any_other_byte_is_refused),
        CASE(sections_of_another_file_are_refused),
        CASE(foreign_files_are_refused_with_a_sentence),
        CASE(unaligned_memory_is_read_too),
        CASE(the_newest_whole_one_is_opened),
        CASE(the_newest_two_are_kept),
        CASE(one_that_was_gone_back_from_does_not_push_out_the_new),
        CASE(a_full_disk_leaves_the_old_one_and_nothing_else),
        CASE(a_dropped_checkpoint_leaves_nothing),
        CASE(what_a_crash_left_is_swept_and_what_is_written_is_not),
        CASE(bad_sections_and_names_are_refused),
        CASE(a_job_that_begins_anew_loses_its_checkpoints_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
