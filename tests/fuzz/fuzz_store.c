/* fuzz_store.c - a state file with any bytes changed: opened, moved aside, or
 * refused with a sentence; never a crash.
 *
 * An input is a list of changes to a small file that a daemon left: three bytes
 * of offset, one of length, then what is written there. A length of 0 cuts the
 * file off at the offset. What opens is read whole, and takes a new job.
 */
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "daemon/book.h"
#include "fuzz/fuzzfolder.h"
#include <fcntl.h>
#include <firn/launch.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[FUZZ_FOLDER], file[FUZZ_FOLDER + 20];
static uint8_t *whole;
static size_t nwhole;

static void tidy_up(void)
{
    fuzz_folder_empty(folder);
    rmdir(folder);
    mem_free(whole);
}

static struct live_job *add(struct book *book, const char *name)
{
    struct live_ask ask = {.name = mem_strdup(name), .gpus_min = 1};
    struct firn_error err = {0};
    struct live_job *job = NULL;
    bool is_new = false;
    if (book_submit(book, &ask, "run: x\n", name, 1, &job, &is_new, &err) !=
        FIRN_OK)
        job = NULL;
    live_ask_release(&ask);
    return job;
}

/* Jobs, an attempt, a report and events, as a daemon leaves them. */
static void fill(void)
{
    struct firn_trainer_report report = firn_trainer_report_unknown();
    struct store *store = NULL;
    struct book *book = NULL;
    struct firn_error err = {0};
    struct firn_bytes round = {"fifo 1\n1 0\n\n", 12};
    int64_t attempt = 0;
    char said[512];
    if (store_open(&store, folder, said, sizeof said, &err) != FIRN_OK ||
        book_open(&book, store, &err) != FIRN_OK)
        abort();
    add(book, "a");
    struct live_job *job = add(book, "b");
    report.step = 3;
    if (book_held(book, job, "n0[0-3]", &err) != FIRN_OK ||
        book_next_attempt(book, job, &attempt, &err) != FIRN_OK ||
        book_report(book, job, attempt, &report, 2, &err) != FIRN_OK ||
        book_state(book, add(book, "c"), LIVE_CANCELLED, LIVE_BECAUSE_USER, 2,
                   "", &err) != FIRN_OK ||
        store_put_meta(store, "round", round, &err) != FIRN_OK ||
        store_commit(store, &err) != FIRN_OK)
        abort();
    book_close(book);
    store_close(store);
}

static void begin(void)
{
    struct stat about;
    fuzz_folder_make(folder);
    snprintf(file, sizeof file, "%s/firn.db", folder);
    fill();
    int fd = open(file, O_RDONLY);
    if (fd < 0 || fstat(fd, &about) != 0)
        abort();
    nwhole = (size_t)about.st_size;
    whole = mem_new(nwhole, 1);
    if (read(fd, whole, nwhole) != (ssize_t)nwhole)
        abort();
    close(fd);
    atexit(tidy_up);
}

static void write_changed(const uint8_t *data, size_t size)
{
    size_t n = nwhole;
    uint8_t *bytes = mem_new(nwhole, 1);
    memcpy(bytes, whole, nwhole);
    while (size >= 4) {
        size_t at =
            ((size_t)data[0] << 16 | (size_t)data[1] << 8 | data[2]) % nwhole;
        size_t length = data[3] <= size - 4 ? data[3] : size - 4;
        if (data[3] == 0)
            n = at;
        for (size_t i = 0; i < length && at + i < nwhole; i++)
            bytes[at + i] = data[4 + i];
        data += 4 + length;
        size -= 4 + length;
    }
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
        abort();
    close(fd);
    mem_free(bytes);
}

static bool see_event(void *arg, const struct store_event *event)
{
    (void)arg;
    return event->kind != NULL && event->text != NULL;
}

static bool see_attempt(void *arg, const struct store_attempt *attempt)
{
    (void)arg;
    return attempt->held != NULL;
}

static bool see_report(void *arg, int64_t attempt, double at_s,
                       const struct firn_trainer_report *report)
{
    (void)arg, (void)attempt, (void)at_s;
    return report->nlayers <= LIVE_LAYERS;
}

static void read_all(struct store *store, struct book *book)
{
    struct firn_buf text = {0};
    struct firn_error err = {0};
    struct live_job *job = NULL;
    store_each_event(store, 0, 1000, see_event, NULL, &err);
    for (firn_job_id id = 1; id < 5; id++) {
        store_each_attempt(store, id, see_attempt, NULL, &err);
        store_each_report(store, id, see_report, NULL, &err);
        book_job(book, id);
    }
    book_find(book, "b", &job, &err);
    store_get_meta(store, "round", &text, &err);
    buf_release(&text);
    add(book, "new");
    store_commit(store, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct store *store = NULL;
    struct book *book = NULL;
    struct firn_error err = {0};
    char said[512] = "";
    if (whole == NULL)
        begin();
    fuzz_folder_empty(folder);
    write_changed(data, size);
    enum firn_status status =
        store_open(&store, folder, said, sizeof said, &err);
    if (status != FIRN_OK && err.text[0] == '\0')
        abort();
    if (status == FIRN_OK && book_open(&book, store, &err) == FIRN_OK)
        read_all(store, book);
    book_close(book);
    if (status == FIRN_OK)
        store_close(store);
    return 0;
}
