/* launchmsg.c - reads and writes the requests to the launcher.
 *
 * Strict, because the reader is root: one blank between words, no zero before a
 * number, nothing behind the last word, and the same line is written again for
 * what was read. Arguments of Slurm's commands follow in lines of their own.
 */
#include "engine/launchmsg.h"
#include "base/buf.h"
#include "base/str.h"
#include "engine/launchslurm.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    [LAUNCHMSG_CHECK] = "check",   [LAUNCHMSG_START] = "start",
    [LAUNCHMSG_GPUS] = "gpus",     [LAUNCHMSG_END] = "end",
    [LAUNCHMSG_SBATCH] = "sbatch", [LAUNCHMSG_SCANCEL] = "scancel"};

static bool has_words(enum launchmsg_kind kind)
{
    return kind == LAUNCHMSG_SBATCH || kind == LAUNCHMSG_SCANCEL;
}

/* Cuts the next word; NULL: there is none, or it is empty or too long. */
static const char *next_word(struct firn_bytes *text, char out[LAUNCHMSG_USER])
{
    const char *blank = memchr(text->at, ' ', text->n);
    size_t n = blank != NULL ? (size_t)(blank - text->at) : text->n;
    if (n == 0 || n >= LAUNCHMSG_USER || memchr(text->at, '\0', n) != NULL)
        return NULL;
    memcpy(out, text->at, n);
    out[n] = '\0';
    size_t used = blank != NULL ? n + 1 : n;
    text->at += used;
    text->n -= used;
    if (blank != NULL && text->n == 0)
        return NULL; /* a blank at the end */
    return out;
}

static bool is_user(const char *word)
{
    bool is_good = word[0] != '-' && word[0] != '.';
    for (; *word != '\0'; word++)
        is_good = is_good && (isalnum((unsigned char)*word) ||
                              strchr("_-.@+$", *word) != NULL);
    return is_good;
}

static bool read_number(const char *word, int64_t most, int64_t *out)
{
    size_t n = strlen(word);
    if (n == 0 || n > 18 || word[0] == '0' || strspn(word, "0123456789") != n)
        return false;
    *out = strtoll(word, NULL, 10);
    return *out <= most;
}

/* Exactly 16 hexadecimal digits, lower case. */
static bool is_hex(const char *word)
{
    return strlen(word) == LAUNCHMSG_MARK - 1 &&
           strspn(word, "0123456789abcdef") == LAUNCHMSG_MARK - 1;
}

static bool read_bits(struct firn_bytes *text, uint64_t *out)
{
    char word[LAUNCHMSG_USER];
    if (next_word(text, word) == NULL || !is_hex(word))
        return false;
    *out = strtoull(word, NULL, 16);
    return true;
}

static bool has_user(enum launchmsg_kind kind)
{
    return kind != LAUNCHMSG_GPUS && kind != LAUNCHMSG_END;
}

static bool has_attempt(enum launchmsg_kind kind)
{
    return kind != LAUNCHMSG_CHECK && kind != LAUNCHMSG_END;
}

static bool has_gpus(enum launchmsg_kind kind)
{
    return kind == LAUNCHMSG_START || kind == LAUNCHMSG_GPUS;
}

static bool read_words(struct launchmsg *out, struct firn_bytes text)
{
    char word[LAUNCHMSG_USER];
    int64_t job = 0;
    int kind = 0;
    *out = (struct launchmsg){0};
    if (next_word(&text, word) == NULL)
        return false;
    while (kind <= LAUNCHMSG_SCANCEL && strcmp(word, names[kind]) != 0)
        kind++;
    if (kind > LAUNCHMSG_SCANCEL)
        return false;
    out->kind = (enum launchmsg_kind)kind;
    if (has_user(out->kind) &&
        (next_word(&text, out->user) == NULL || !is_user(out->user)))
        return false;
    if (kind == LAUNCHMSG_CHECK)
        return text.n == 0;
    if (next_word(&text, word) == NULL || !read_number(word, INT32_MAX, &job))
        return false;
    out->job = (int)job;
    if (has_attempt(out->kind) &&
        (next_word(&text, word) == NULL ||
         !read_number(word, INT64_MAX, &out->attempt)))
        return false;
    if (next_word(&text, word) == NULL || !is_hex(word) ||
        !str_copy(out->mark, sizeof out->mark, word))
        return false;
    if (has_gpus(out->kind) &&
        (!read_bits(&text, &out->devices) || !read_bits(&text, &out->gpus)))
        return false;
    return text.n == 0;
}

/* The arguments behind the first line. */
static enum firn_status read_arguments(const struct launchmsg *msg,
                                       struct firn_error *err)
{
    const struct launchslurm_job job = {msg->job, msg->attempt};
    bool is_good = msg->kind == LAUNCHMSG_SBATCH
                       ? launchslurm_is_sbatch(msg->words, &job)
                       : launchslurm_is_scancel(msg->words, &job);
    if (is_good)
        return FIRN_OK;
    return firn_fail(err, FIRN_EINVAL,
                     "the launcher does not run %s with these arguments: only "
                     "those in engine/launchslurm.c, for jobs named by firn",
                     names[msg->kind]);
}

enum firn_status launchmsg_read(struct launchmsg *out, struct firn_bytes text,
                                struct firn_error *err)
{
    const char *end = text.n > 0 && text.n <= LAUNCHMSG_MOST
                          ? memchr(text.at, '\n', text.n)
                          : NULL;
    size_t n = end != NULL ? (size_t)(end - text.at) : 0;
    if (end == NULL || n >= LAUNCHMSG_LINE ||
        !read_words(out, (struct firn_bytes){text.at, n}))
        return firn_fail(err, FIRN_EINVAL,
                         "this request is none of a launcher");
    out->words = (struct firn_bytes){end + 1, text.n - n - 1};
    if (has_words(out->kind))
        return read_arguments(out, err);
    if (out->words.n > 0)
        return firn_fail(err, FIRN_EINVAL,
                         "this request of a launcher has further lines");
    return FIRN_OK;
}

void launchmsg_write(const struct launchmsg *msg, struct firn_buf *out)
{
    buf_puts(out, names[msg->kind]);
    if (has_user(msg->kind))
        buf_printf(out, " %s", msg->user);
    if (msg->kind != LAUNCHMSG_CHECK)
        buf_printf(out, " %d", msg->job);
    if (has_attempt(msg->kind))
        buf_printf(out, " %lld", (long long)msg->attempt);
    if (msg->kind != LAUNCHMSG_CHECK)
        buf_printf(out, " %s", msg->mark);
    if (has_gpus(msg->kind))
        buf_printf(out, " %016llx %016llx", (unsigned long long)msg->devices,
                   (unsigned long long)msg->gpus);
    buf_putc(out, '\n');
    if (has_words(msg->kind) && msg->words.n > 0)
        buf_add(out, msg->words.at, msg->words.n);
}
