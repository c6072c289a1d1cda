/* contexts.c - the private state of each virtual rank, swapped in and out.
 *
 * Each part has one stored copy for each thread, side by side, and a length
 * (parts by functions may be shorter than their room). Entering copies the
 * thread's copies to where the trainer works; leaving copies them back
 * (EasyScale, section 3.2). Everything else of a process is shared.
 *
 * (1) While a thread is inside, the live state is the truth and its stored
 *     copies are stale; otherwise the stored ones are.
 * (2) A thread whose state cannot be taken out stays inside.
 * (3) firn_threads_read() checks all of the checkpoint before it changes
 *     anything.
 *
 * A packed blob is, little endian: "firnthrd", u32 version, u32 0; then for
 * each thread and part u32 thread, u32 name bytes, u64 bytes, name, bytes. It
 * comes from another process, so each length is checked.
 *
 * Cost: a switch is two copies of the parts; the memory is V copies of them.
 */
#include "train/ckpt_parts.h"
#include "train/rehome.h"
#include <firn/threads.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PART_NAME = 180, BLOB_HEAD = 16, ITEM_HEAD = 16, BLOB_VERSION = 1 };

#define BLOB_MAGIC "firnthrd"

struct part {
    char *name;
    void *live; /* NULL: by functions */
    struct firn_threads_by by;
    size_t room, stride; /* bytes of a copy; from one to the next */
    uint8_t *stored;
    size_t *nbytes; /* of each thread's copy */
};

struct firn_threads {
    int *id;
    size_t n;
    struct part *parts;
    size_t nparts, cap;
    size_t inside; /* n: none */
    bool was_entered;
    double switch_s;
    uint64_t nswitches;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static enum firn_status no_memory(struct firn_error *err)
{
    return firn_fail(err, FIRN_ENOMEM, "contexts of threads: out of memory");
}

/* The index of the thread; n: not of this process. */
static size_t find(const struct firn_threads *t, int id)
{
    size_t low = 0, high = t->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->id[middle] == id)
            return middle;
        if (id < t->id[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return t->n;
}

static uint8_t *copy_of(const struct part *part, size_t i)
{
    return part->stored + i * part->stride;
}

/* --- threads and parts --- */

enum firn_status firn_threads_new(struct firn_threads **out, const int *id,
                                  size_t n, struct firn_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (id[i] < 0 || (i > 0 && id[i] <= id[i - 1]))
            return firn_fail(err, FIRN_EINVAL,
                             "threads must rise from 0: %d cannot be number "
                             "%zu",
                             id[i], i);
    struct firn_threads *t = calloc(1, sizeof *t);
    if (t == NULL)
        return no_memory(err);
    t->id = calloc(n + 1, sizeof *t->id);
    if (t->id == NULL) {
        free(t);
        return no_memory(err);
    }
    if (n > 0)
        memcpy(t->id, id, n * sizeof *id);
    t->n = t->inside = n;
    *out = t;
    return FIRN_OK;
}

static void release(struct part *part)
{
    free(part->name);
    free(part->stored);
    free(part->nbytes);
}

void firn_threads_free(struct firn_threads *t)
{
    if (t == NULL)
        return;
    for (size_t i = 0; i < t->nparts; i++)
        release(&t->parts[i]);
    free(t->parts);
    free(t->id);
    free(t);
}

static struct part *find_part(const struct firn_threads *t, const char *name,
                              size_t n)
{
    for (size_t i = 0; i < t->nparts; i++)
        if (strlen(t->parts[i].name) == n &&
            memcmp(t->parts[i].name, name, n) == 0)
            return &t->parts[i];
    return NULL;
}

static enum firn_status may_add(struct firn_threads *t, const char *name,
                                struct firn_error *err)
{
    size_t n = strlen(name);
    if (!ckpt_is_name(name, n) || n > PART_NAME || strchr(name, '/') != NULL)
        return firn_fail(err, FIRN_EINVAL,
                         "'%s' cannot be the name of a part: it has 1 to %d "
                         "bytes, no '/' and no control character",
                         name, PART_NAME);
    if (find_part(t, name, n) != NULL)
        return firn_fail(err, FIRN_EINVAL, "part '%s' was added twice", name);
    if (t->was_entered)
        return firn_fail(err, FIRN_EINVAL,
                         "part '%s': parts are named before the first thread "
                         "is entered",
                         name);
    if (t->nparts < t->cap)
        return FIRN_OK;
    size_t more = t->cap * 2 + 8;
    struct part *grown = realloc(t->parts, more * sizeof *grown);
    if (grown == NULL)
        return no_memory(err);
    t->parts = grown;
    t->cap = more;
    return FIRN_OK;
}

/* Copies with room for all threads, of which the first is filled from the
 * live state. */
static enum firn_status fill(const struct firn_threads *t, struct part *part,
                             struct firn_error *err)
{
    size_t slots = t->n > 0 ? t->n : 1;
    part->stride = (size_t)ckpt_padded(part->room);
    if (part->stride < part->room || part->stride > SIZE_MAX / slots)
        return no_memory(err);
    part->stored = calloc(slots, part->stride > 0 ? part->stride : 1);
    part->nbytes = calloc(slots, sizeof *part->nbytes);
    if (part->name == NULL || part->stored == NULL || part->nbytes == NULL)
        return no_memory(err);
    size_t n = part->room;
    if (part->by.save != NULL)
        n = part->by.save(part->by.arg, part->stored);
    else if (part->live != NULL)
        memcpy(part->stored, part->live, n);
    if (n > part->room)
        return firn_fail(err, FIRN_EINVAL,
                         "part '%s' has %zu bytes, more than its declared %zu",
                         part->name, n, part->room);
    for (size_t i = 0; i < t->n; i++) {
        part->nbytes[i] = n;
        if (i > 0)
            memcpy(copy_of(part, i), part->stored, n);
    }
    return FIRN_OK;
}

static enum firn_status add(struct firn_threads *t, const char *name,
                            struct part part, struct firn_error *err)
{
    FIRN_TRY(may_add(t, name, err));
    part.name = strdup(name);
    enum firn_status status = fill(t, &part, err);
    if (status != FIRN_OK) {
        release(&part);
        return status;
    }
    t->parts[t->nparts++] = part;
    return FIRN_OK;
}

enum firn_status firn_threads_part(struct firn_threads *t, const char *name,
                                   void *live, size_t nbytes,
                                   struct firn_error *err)
{
    if (live == NULL && nbytes > 0)
        return firn_fail(err, FIRN_EINVAL, "part '%s' has no address", name);
    return add(t, name, (struct part){.live = live, .room = nbytes}, err);
}

enum firn_status firn_threads_part_by(struct firn_threads *t, const char *name,
                                      const struct firn_threads_by *by,
                                      struct firn_error *err)
{
    if (by->save == NULL || by->load == NULL)
        return firn_fail(err, FIRN_EINVAL,
                         "part '%s' lacks a function to save or to load it",
                         name);
    return add(t, name, (struct part){.by = *by, .room = by->max}, err);
}

/* --- switching --- */

int firn_threads_inside(const struct firn_threads *t)
{
    return t->inside < t->n ? t->id[t->inside] : -1;
}

static enum firn_status take_out(struct firn_threads *t, struct firn_error *err)
{
    size_t i = t->inside;
    for (size_t p = 0; p < t->nparts; p++) {
        struct part *part = &t->parts[p];
        size_t n = part->room;
        if (part->by.save != NULL)
            n = part->by.save(part->by.arg, copy_of(part, i));
        else if (part->live != NULL)
            memcpy(copy_of(part, i), part->live, n);
        if (n > part->room)
            return firn_fail(
                err, FIRN_EINVAL,
                "thread %d: part '%s' has %zu bytes, more than its "
                "declared %zu",
                t->id[i], part->name, n, part->room);
        part->nbytes[i] = n;
    }
    t->inside = t->n;
    return FIRN_OK;
}

static void put_in(struct firn_threads *t, size_t i)
{
    for (size_t p = 0; p < t->nparts; p++) {
        struct part *part = &t->parts[p];
        if (part->by.load != NULL)
            part->by.load(part->by.arg, copy_of(part, i), part->nbytes[i]);
        else if (part->live != NULL)
            memcpy(part->live, copy_of(part, i), part->room);
    }
    t->inside = i;
    t->was_entered = true;
    t->nswitches++;
}

enum firn_status firn_threads_enter(struct firn_threads *t, int id,
                                    struct firn_error *err)
{
    size_t i = find(t, id);
    if (i == t->n)
        return firn_fail(err, FIRN_EINVAL,
                         "thread %d does not belong to this process", id);
    if (i == t->inside)
        return FIRN_OK;
    double start_s = now_s();
    enum firn_status status = FIRN_OK;
    if (t->inside < t->n)
        status = take_out(t, err);
    if (status == FIRN_OK)
        put_in(t, i);
    t->switch_s += now_s() - start_s;
    return status;
}

enum firn_status firn_threads_leave(struct firn_threads *t,
                                    struct firn_error *err)
{
    if (t->inside == t->n)
        return FIRN_OK;
    double start_s = now_s();
    enum firn_status status = take_out(t, err);
    t->switch_s += now_s() - start_s;
    return status;
}

void firn_threads_cost(const struct firn_threads *t, double *switch_s,
                       uint64_t *nswitches)
{
    *switch_s = t->switch_s;
    *nswitches = t->nswitches;
}

void *firn_threads_stored(struct firn_threads *t, int id, const char *name,
                          size_t *nbytes)
{
    size_t i = find(t, id);
    const struct part *part = find_part(t, name, strlen(name));
    if (i == t->n || part == NULL || i == t->inside)
        return NULL;
    *nbytes = part->nbytes[i];
    return copy_of(part, i);
}

/* --- packing --- */

static enum firn_status no_thread_inside(const struct firn_threads *t,
                                         struct firn_error *err)
{
    if (t->inside == t->n)
        return FIRN_OK;
    return firn_fail(err, FIRN_EINVAL, "thread %d is still inside",
                     t->id[t->inside]);
}

static uint8_t *pack_item(uint8_t *to, int id, const struct part *part,
                          size_t i)
{
    size_t nname = strlen(part->name), n = part->nbytes[i];
    ckpt_put32(to, (uint32_t)id);
    ckpt_put32(to + 4, (uint32_t)nname);
    ckpt_put64(to + 8, n);
    memcpy(to + ITEM_HEAD, part->name, nname);
    memcpy(to + ITEM_HEAD + nname, copy_of(part, i), n);
    return to + ITEM_HEAD + nname + n;
}

enum firn_status firn_threads_pack(const struct firn_threads *t, void **bytes,
                                   size_t *nbytes, struct firn_error *err)
{
    FIRN_TRY(no_thread_inside(t, err));
    size_t total = BLOB_HEAD;
    for (size_t i = 0; i < t->n; i++)
        for (size_t p = 0; p < t->nparts; p++)
            total +=
                ITEM_HEAD + strlen(t->parts[p].name) + t->parts[p].nbytes[i];
    uint8_t *blob = calloc(1, total), *to = blob;
    if (blob == NULL)
        return no_memory(err);
    memcpy(to, BLOB_MAGIC, 8);
    ckpt_put32(to + 8, BLOB_VERSION);
    to += BLOB_HEAD;
    for (size_t i = 0; i < t->n; i++)
        for (size_t p = 0; p < t->nparts; p++)
            to = pack_item(to, t->id[i], &t->parts[p], i);
    *bytes = blob;
    *nbytes = total;
    return FIRN_OK;
}

void firn_threads_pack_free(void *bytes)
{
    free(bytes);
}

struct item {
    int id;
    const char *name;
    size_t nname, n;
    const uint8_t *bytes;
};

/* The item at *at, of `left` bytes; steps over it. */
static bool next_item(const uint8_t **at, size_t *left, struct item *out)
{
    if (*left < ITEM_HEAD)
        return false;
    const uint8_t *head = *at;
    uint32_t id = ckpt_get32(head), nname = ckpt_get32(head + 4);
    uint64_t n = ckpt_get64(head + 8);
    size_t room = *left - ITEM_HEAD;
    if (id > INT32_MAX || nname > PART_NAME || nname > room || n > room - nname)
        return false;
    *out = (struct item){(int)id, (const char *)head + ITEM_HEAD, nname,
                         (size_t)n, head + ITEM_HEAD + nname};
    *at = out->bytes + out->n;
    *left = room - nname - out->n;
    return ckpt_is_name(out->name, nname) &&
           memchr(out->name, '/', nname) == NULL;
}

static enum firn_status put_item(const struct item *item,
                                 struct firn_ckpt_writer *writer,
                                 struct firn_error *err)
{
    char name[FIRN_CKPT_NAME + 1];
    snprintf(name, sizeof name, "thread/%d/%.*s", item->id, (int)item->nname,
             item->name);
    return firn_ckpt_put(writer,
                         &(struct firn_ckpt_section){
                             .name = name,
                             .type = FIRN_CKPT_BYTES,
                             .data = item->bytes,
                             .nbytes = item->n,
                         },
                         err);
}

enum firn_status firn_threads_write(const void *bytes, size_t nbytes,
                                    struct firn_ckpt_writer *writer,
                                    struct firn_error *err)
{
    const uint8_t *blob = bytes;
    if (nbytes < BLOB_HEAD || memcmp(blob, BLOB_MAGIC, 8) != 0 ||
        ckpt_get32(blob + 8) != BLOB_VERSION || ckpt_get32(blob + 12) != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "these %zu bytes are not packed contexts of threads",
                         nbytes);
    for (int pass = 0; pass < 2; pass++) {
        const uint8_t *at = blob + BLOB_HEAD;
        size_t left = nbytes - BLOB_HEAD;
        struct item item;
        while (left > 0) {
            if (!next_item(&at, &left, &item))
                return firn_fail(err, FIRN_EINVAL,
                                 "packed contexts of threads are damaged, "
                                 "%zu bytes before their end",
                                 left);
            if (pass == 1)
                FIRN_TRY(put_item(&item, writer, err));
        }
    }
    return FIRN_OK;
}

/* --- reading --- */

static const struct firn_ckpt_section *
section_of(const struct firn_ckpt *ckpt, int id, const struct part *part)
{
    char name[FIRN_CKPT_NAME + 1];
    snprintf(name, sizeof name, "thread/%d/%s", id, part->name);
    return firn_ckpt_find(ckpt, name);
}

/* Has the checkpoint any part of this thread? */
static bool has_thread(const struct firn_ckpt *ckpt, int id)
{
    char prefix[32];
    int n = snprintf(prefix, sizeof prefix, "thread/%d/", id);
    const struct firn_ckpt_section *s;
    for (size_t i = 0; (s = firn_ckpt_at(ckpt, i)) != NULL; i++)
        if (strncmp(s->name, prefix, (size_t)n) == 0)
            return true;
    return false;
}

static enum firn_status check_part(const struct firn_ckpt *ckpt, int id,
                                   const struct part *part,
                                   struct firn_error *err)
{
    const struct firn_ckpt_section *s = section_of(ckpt, id, part);
    if (s == NULL && !has_thread(ckpt, id))
        return firn_fail(err, FIRN_ENOENT, "the checkpoint has no thread %d",
                         id);
    if (s == NULL)
        return firn_fail(err, FIRN_ENOENT,
                         "the checkpoint has no part '%s' of thread %d",
                         part->name, id);
    bool is_by = part->by.load != NULL;
    if (s->nbytes > part->room || (!is_by && s->nbytes != part->room))
        return firn_fail(err, FIRN_EINVAL,
                         "the checkpoint's part '%s' of thread %d has %" PRIu64
                         " bytes, not %s%zu",
                         part->name, id, s->nbytes, is_by ? "at most " : "",
                         part->room);
    return FIRN_OK;
}

enum firn_status firn_threads_read(struct firn_threads *t,
                                   const struct firn_ckpt *ckpt,
                                   struct firn_error *err)
{
    FIRN_TRY(no_thread_inside(t, err));
    for (size_t i = 0; i < t->n; i++)
        for (size_t p = 0; p < t->nparts; p++)
            FIRN_TRY(check_part(ckpt, t->id[i], &t->parts[p], err));
    for (size_t i = 0; i < t->n; i++)
        for (size_t p = 0; p < t->nparts; p++) {
            struct part *part = &t->parts[p];
            const struct firn_ckpt_section *s =
                section_of(ckpt, t->id[i], part);
            part->nbytes[i] = (size_t)s->nbytes;
            memcpy(copy_of(part, i), s->data, part->nbytes[i]);
        }
    return FIRN_OK;
}

/* --- moving to another process --- */

/* The parts of `like`, with room for the threads of `to` and no contents. */
static enum firn_status copy_parts(struct firn_threads *to,
                                   const struct firn_threads *like,
                                   struct firn_error *err)
{
    size_t slots = to->n > 0 ? to->n : 1;
    to->parts = calloc(like->nparts + 1, sizeof *to->parts);
    if (to->parts == NULL)
        return no_memory(err);
    to->cap = like->nparts + 1;
    for (size_t p = 0; p < like->nparts; p++) {
        struct part *part = &to->parts[to->nparts++];
        *part = like->parts[p];
        part->name = strdup(like->parts[p].name);
        part->stored = calloc(slots, part->stride > 0 ? part->stride : 1);
        part->nbytes = calloc(slots, sizeof *part->nbytes);
        if (part->name == NULL || part->stored == NULL || part->nbytes == NULL)
            return no_memory(err);
    }
    return FIRN_OK;
}

/* Puts an item in its place if the thread is one of these; *nput counts. */
static enum firn_status place_item(struct firn_threads *to,
                                   const struct item *item, size_t *nput,
                                   struct firn_error *err)
{
    size_t i = find(to, item->id);
    struct part *part = find_part(to, item->name, item->nname);
    if (i == to->n)
        return FIRN_OK;
    if (part == NULL || item->n > part->room ||
        (part->by.load == NULL && item->n != part->room))
        return firn_fail(err, FIRN_EINVAL,
                         "thread %d came with a part '%.*s' of %zu bytes that "
                         "does not fit here",
                         item->id, (int)item->nname, item->name, item->n);
    part->nbytes[i] = item->n;
    memcpy(copy_of(part, i), item->bytes, item->n);
    (*nput)++;
    return FIRN_OK;
}

static enum firn_status place_all(struct firn_threads *to, const uint8_t *at,
                                  size_t left, struct firn_error *err)
{
    size_t nput = 0;
    while (left > 0) {
        struct item item;
        if (left >= BLOB_HEAD && memcmp(at, BLOB_MAGIC, 8) == 0) {
            at += BLOB_HEAD; /* those of the next process */
            left -= BLOB_HEAD;
            continue;
        }
        if (!next_item(&at, &left, &item))
            return firn_fail(err, FIRN_EINVAL,
                             "contexts of threads that moved are damaged");
        FIRN_TRY(place_item(to, &item, &nput, err));
    }
    if (nput != to->n * to->nparts)
        return firn_fail(err, FIRN_ENOENT,
                         "%zu of %zu parts of threads that moved are missing",
                         to->n * to->nparts - nput, to->n * to->nparts);
    return FIRN_OK;
}

enum firn_status firn_threads_rehome(struct firn_threads **out,
                                     const struct firn_threads *like,
                                     const int *id, size_t n, const void *blobs,
                                     size_t nbytes, struct firn_error *err)
{
    struct firn_threads *t = NULL;
    FIRN_TRY(firn_threads_new(&t, id, n, err));
    enum firn_status status = copy_parts(t, like, err);
    if (status == FIRN_OK)
        status = place_all(t, blobs, nbytes, err);
    if (status != FIRN_OK) {
        firn_threads_free(t);
        return status;
    }
    *out = t;
    return FIRN_OK;
}

void firn_threads_swap(struct firn_threads *a, struct firn_threads *b)
{
    struct firn_threads was = *a;
    *a = *b;
    *b = was;
    b->switch_s = a->switch_s;
    b->nswitches = a->nswitches;
    b->was_entered = a->was_entered;
    a->switch_s = was.switch_s;
    a->nswitches = was.nswitches;
    a->was_entered = was.was_entered;
}
