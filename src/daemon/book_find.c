/* book_find.c - finds a job by number, by name or by token.
 *
 * Names are looked up on disk, which has all jobs and sees the open transaction
 * too. The beginning of a name means an unfinished job if one begins so, else a
 * finished one.
 * A word of digits only is a number: it never means a name or its beginning,
 * so that `firn cancel 77` cannot cancel a job named 77-prod.
 *
 * Tokens are 32 random bytes. A search compares none of them byte by byte
 * with the bytes of a client: a hash under a secret key finds the cell, and one
 * comparison in constant time decides. Cells of jobs that left memory stay
 * until the table is made anew.
 */
#include "base/buf.h"
#include "base/str.h"
#include "daemon/bookwork.h"
#include <limits.h>
#include <sodium.h>
#include <string.h>

enum { NAMES_SHOWN = 5 };

/* --- by number ----------------------------------------------------------- */

/* Ids rise by 1 at least from one place to the next, so those of the first and
 * the last job bound the place: where no job is missing it is known at once. */
size_t book_place(const struct book *book, firn_job_id id)
{
    size_t low = 0, high = book->jobs.n;
    if (high > 0 && book->jobs.at[high - 1]->id < id)
        return high; /* as new ones are */
    if (high > 0 && id > book->jobs.at[0]->id) {
        size_t before = (size_t)(id - book->jobs.at[0]->id);
        size_t behind = (size_t)(book->jobs.at[high - 1]->id - id);
        low = behind < high ? high - 1 - behind : 0;
        high = before < high ? before + 1 : high;
    }
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (book->jobs.at[mid]->id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct live_job *in_memory(const struct book *book, firn_job_id id)
{
    size_t i = book_place(book, id);
    if (i < book->jobs.n && book->jobs.at[i]->id == id)
        return book->jobs.at[i];
    for (i = book->arrived.n; i > 0; i--)
        if (book->arrived.at[i - 1]->id == id)
            return book->arrived.at[i - 1];
    return NULL;
}

struct live_job *book_job(struct book *book, firn_job_id id)
{
    struct live_job *job = in_memory(book, id);
    struct firn_error ignored;
    if (job != NULL || id < 1)
        return job;
    if (store_read_job(book->store, id, &job, &ignored) != FIRN_OK)
        return NULL;
    book_put(book, job);
    return job;
}

/* Its place among those that are over goes when its turn to leave comes. */
void book_forget(struct book *book, firn_job_id id)
{
    size_t i = book_place(book, id);
    if (i == book->jobs.n || book->jobs.at[i]->id != id)
        return;
    live_job_free(book->jobs.at[i]);
    book->jobs.n--;
    memmove(&book->jobs.at[i], &book->jobs.at[i + 1],
            (book->jobs.n - i) * sizeof *book->jobs.at);
}

/* --- by name ------------------------------------------------------------- */

struct names {
    size_t n;
    firn_job_id newest;
    struct firn_buf text;
};

static bool note_name(void *arg, const char *name, firn_job_id newest)
{
    struct names *names = arg;
    names->n++;
    names->newest = newest;
    if (names->n <= NAMES_SHOWN)
        buf_printf(&names->text, "%s%s", names->n > 1 ? ", " : "", name);
    else
        buf_puts(&names->text, ", ...");
    return names->n <= NAMES_SHOWN;
}

static enum firn_status by_beginning(struct book *book, const char *word,
                                     firn_job_id *out, struct firn_error *err)
{
    struct names names = {0};
    enum firn_status status = FIRN_OK;
    for (int with_over = 0; with_over < 2 && names.n == 0; with_over++)
        if (status == FIRN_OK)
            status = store_find_prefix(book->store, word, with_over, note_name,
                                       &names, err);
    if (status == FIRN_OK && names.n == 0)
        status = firn_fail(err, FIRN_ENOENT, "there is no job '%s'", word);
    else if (status == FIRN_OK && names.n > 1)
        status = firn_fail(err, FIRN_EINVAL, "'%s' could be %.300s", word,
                           names.text.at);
    else if (status == FIRN_OK)
        *out = names.newest;
    buf_release(&names.text);
    return status;
}

static bool could_be_a_name(const char *word)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n = strspn(word, letters);
    return n > 0 && n <= LIVE_NAME_MAX && word[n] == '\0';
}

static bool is_number(const char *word)
{
    return word[0] != '\0' && word[strspn(word, "0123456789")] == '\0';
}

static enum firn_status by_number(struct book *book, const char *word,
                                  struct live_job **out, struct firn_error *err)
{
    long number = 0;
    struct live_job *job = str_int(word, 1, INT_MAX, &number)
                               ? book_job(book, (firn_job_id)number)
                               : NULL;
    if (job == NULL && number >= store_first_id(book->store) &&
        number < store_next_id(book->store)) /* numbers are given in a row */
        return firn_fail(err, FIRN_ENOENT,
                         "job %.20s is finished and no longer kept (keep-rows)",
                         word);
    if (job == NULL)
        return firn_fail(err, FIRN_ENOENT,
                         "there is no job %.20s; digits alone name a job by "
                         "its number, never by its name",
                         word);
    *out = job;
    return FIRN_OK;
}

enum firn_status book_find(struct book *book, const char *word,
                           struct live_job **out, struct firn_error *err)
{
    firn_job_id id = FIRN_NO_JOB;
    if (!could_be_a_name(word))
        return firn_fail(err, FIRN_ENOENT,
                         "a job is named by its number or by letters, digits "
                         "and . _ -");
    if (is_number(word))
        return by_number(book, word, out, err);
    FIRN_TRY(store_find_name(book->store, word, &id, err));
    if (id == FIRN_NO_JOB)
        FIRN_TRY(by_beginning(book, word, &id, err));
    struct live_job *job = book_job(book, id);
    if (job == NULL)
        return firn_fail(err, FIRN_EDATA,
                         "what is kept of job %d cannot be understood", id);
    *out = job;
    return FIRN_OK;
}

/* --- by token ------------------------------------------------------------ */

static uint64_t hash_of(const struct book *book, const char *token)
{
    unsigned char bytes[crypto_shorthash_BYTES];
    uint64_t hash = 0;
    crypto_shorthash(bytes, (const unsigned char *)token, strlen(token),
                     book->key);
    memcpy(&hash, bytes, sizeof hash);
    return hash;
}

static void set_cell(struct book *book, const struct live_job *job)
{
    uint64_t hash = hash_of(book, job->token);
    size_t i = hash & (book->ncells - 1);
    while (book->cells[i].job != 0)
        i = (i + 1) & (book->ncells - 1);
    book->cells[i] = (struct token_cell){hash, job->id};
    book->nused++;
}

void book_tokens(struct book *book)
{
    size_t n = 64;
    while (n < 4 * (book->jobs.n + book->arrived.n + 1))
        n *= 2;
    mem_free(book->cells);
    book->cells = mem_new(n, sizeof *book->cells);
    book->ncells = n;
    book->nused = 0;
    for (size_t i = 0; i < book->jobs.n; i++)
        set_cell(book, book->jobs.at[i]);
    for (size_t i = 0; i < book->arrived.n; i++)
        set_cell(book, book->arrived.at[i]);
}

void book_token_add(struct book *book, const struct live_job *job)
{
    if (2 * (book->nused + 1) > book->ncells)
        book_tokens(book); /* has it, if it is in memory already */
    else
        set_cell(book, job);
}

void book_token_make(char out[65])
{
    unsigned char bytes[32];
    randombytes_buf(bytes, sizeof bytes);
    sodium_bin2hex(out, 65, bytes, sizeof bytes);
    sodium_memzero(bytes, sizeof bytes);
}

firn_job_id book_token(const struct book *book, const char *token)
{
    if (strnlen(token, 65) != 64 || book->ncells == 0)
        return FIRN_NO_JOB;
    uint64_t hash = hash_of(book, token);
    firn_job_id found = FIRN_NO_JOB;
    for (size_t i = hash & (book->ncells - 1); book->cells[i].job != 0;
         i = (i + 1) & (book->ncells - 1)) {
        const struct live_job *job = in_memory(book, book->cells[i].job);
        if (book->cells[i].hash == hash && job != NULL &&
            sodium_memcmp(job->token, token, 64) == 0)
            found = job->id;
    }
    return found;
}
