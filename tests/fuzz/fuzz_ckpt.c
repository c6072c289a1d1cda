/* fuzz_ckpt.c - no bytes crash the reader of checkpoints, and what it takes
 * can be asked, compared and packed into threads.
 *
 * A random file never has the right CRCs, so the harness sets them right:
 * it walks the sections as far as their lengths lead, writes the CRC of each,
 * and those of the end. The first byte of the input says whether it does,
 * whether the file is put at an odd address, and whether the bytes are tried
 * as saved loader states too; the rest is the file.
 */
#include "train/ckpt_parts.h"
#include "train/crc32c.h"
#include <firn/feed.h>
#include <firn/threads.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bytes of the section at `at`, up to its CRC; 0: it leads out of the file. */
static size_t section_bytes(const uint8_t *at, size_t left)
{
    if (left < CKPT_FIXED || ckpt_get32(at) != CKPT_MARK)
        return 0;
    uint32_t ndims = ckpt_get32(at + 8), nname = ckpt_get32(at + 12);
    if (ndims > FIRN_CKPT_DIMS || nname > 1000 ||
        CKPT_FIXED + 8 * (size_t)ndims > left)
        return 0;
    uint64_t nbytes = ckpt_get64(at + 16 + 8 * (size_t)ndims);
    uint64_t n = ckpt_head_bytes(ndims, nname) + nbytes;
    return nbytes > left || n + 4 > left ? 0 : (size_t)n;
}

static void set_right(uint8_t *file, size_t size)
{
    if (size < CKPT_HEAD + CKPT_END)
        return;
    size_t end = size - CKPT_END, at = CKPT_HEAD;
    uint32_t crc_of_crcs = 0;
    uint64_t count = 0;
    for (size_t n; at < end && (n = section_bytes(file + at, end - at)) > 0;) {
        ckpt_put32(file + at + n, crc32c_add(0, file + at, n));
        crc_of_crcs = crc32c_add(crc_of_crcs, file + at + n, 4);
        at += (size_t)ckpt_padded(n + 4);
        count++;
    }
    ckpt_put64(file + end + 8, count);
    ckpt_put32(file + end + 16, crc_of_crcs);
}

static void use(const struct firn_ckpt *c)
{
    const int id[] = {0, 3};
    struct firn_threads *threads = NULL;
    struct firn_error err;
    char rng[8] = {0}, back[16];
    for (size_t i = 0; i < firn_ckpt_count(c); i++) {
        const struct firn_ckpt_section *s = firn_ckpt_at(c, i);
        if (firn_ckpt_find(c, s->name) != s)
            abort();
        (void)firn_ckpt_take(c, s->name, s->type, back,
                             s->nbytes < 16 ? s->nbytes : 16, &err);
        if (s->nbytes > 0 && crc32c_add(0, s->data, s->nbytes) == 1)
            back[0] = 1; /* all of it is there to be read */
    }
    if (firn_ckpt_compare(c, c, NULL, NULL) != 0)
        abort();
    if (firn_threads_new(&threads, id, 2, &err) == FIRN_OK &&
        firn_threads_part(threads, "rng", rng, sizeof rng, &err) == FIRN_OK)
        (void)firn_threads_read(threads, c, &err);
    firn_threads_free(threads);
}

/* The same bytes as what another process sent: refused, or read to the end. */
static void as_messages(const uint8_t *data, size_t size)
{
    const int id[] = {0, 1};
    const struct firn_feed_config config = {
        .threads = id, .nthreads = 2, .nworkers = 2, .state_max = 24};
    struct firn_feed *feed = NULL;
    struct firn_feed_request request;
    struct firn_error err;
    if (firn_feed_new(&feed, &config, &err) != FIRN_OK)
        return;
    firn_feed_start(feed, 0, 100);
    if (firn_feed_load(feed, 1, data, size, &err) == FIRN_OK)
        for (int i = 0; i < 20 && firn_feed_next(feed, &request); i++)
            (void)firn_feed_commit(feed, request.thread, request.batch, "state",
                                   5, &err);
    firn_feed_free(feed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct firn_ckpt *c = NULL;
    struct firn_error err;
    size_t odd = data[0] & 2 ? 1 : 0, n = size - 1;
    uint8_t *bytes = malloc(n + odd + 1), *file = bytes + odd;
    memcpy(file, data + 1, n);
    if (data[0] & 4)
        as_messages(file, n);
    if (data[0] & 1)
        set_right(file, n);
    if (firn_ckpt_parse(&c, file, n, "fuzz", &err) == FIRN_OK)
        use(c);
    firn_ckpt_close(c);
    free(bytes);
    return 0;
}
