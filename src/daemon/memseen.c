/* memseen.c - predicted memory over what was seen, by model and mode.
 *
 * A list in the order of the last change, the newest at the end. A key is the
 * application and the words of the mode, with blanks between them; a text line
 * is "mean floor n failures KEY".
 *
 * Invariant: keys differ, and there are at most ENTRIES of them.
 * Cost: a walk over the list for each answer.
 */
#include "daemon/memseen.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/vec.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ENTRIES = 256, KEY_MAX = 160 };

struct entry {
    char key[KEY_MAX];
    struct firn_peak_seen seen;
};

struct memseen {
    VEC(struct entry) all;
};

struct memseen *memseen_new(void)
{
    return mem_new(1, sizeof(struct memseen));
}

void memseen_free(struct memseen *seen)
{
    if (seen == NULL)
        return;
    vec_release(&seen->all);
    mem_free(seen);
}

static void write_key(char out[KEY_MAX], const struct firn_job_spec *spec)
{
    static const enum firn_training_setting words[] = {
        FIRN_TRAINING_PRECISION, FIRN_TRAINING_MODE,
        FIRN_TRAINING_CHECKPOINTING};
    size_t n = (size_t)snprintf(out, KEY_MAX, "%.90s", spec->app);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *word = firn_training_word(&spec->training, words[i]);
        if (words[i] == FIRN_TRAINING_MODE && *word == '\0' &&
            spec->training.lora > 0)
            word = "lora";
        n += (size_t)snprintf(out + n, KEY_MAX - n, " %s",
                              *word != '\0' ? word : "-");
    }
}

static size_t find(const struct memseen *seen, const char *key)
{
    size_t i = 0;
    while (i < seen->all.n && strcmp(seen->all.at[i].key, key) != 0)
        i++;
    return i;
}

struct firn_peak_seen memseen_get(const struct memseen *seen,
                                  const struct firn_job_spec *spec)
{
    char key[KEY_MAX];
    write_key(key, spec);
    size_t i = find(seen, key);
    return i < seen->all.n ? seen->all.at[i].seen : (struct firn_peak_seen){0};
}

double memseen_ratio(const struct memseen *seen,
                     const struct firn_job_spec *spec)
{
    struct firn_peak_seen of = memseen_get(seen, spec);
    return of.n > 0 || of.failures > 0 ? firn_peak_ratio(&of) : 0;
}

static void put(struct memseen *seen, const struct entry *entry)
{
    size_t i = find(seen, entry->key);
    if (i == seen->all.n && i == ENTRIES)
        i = 0;
    if (i < seen->all.n) {
        memmove(&seen->all.at[i], &seen->all.at[i + 1],
                (seen->all.n - i - 1) * sizeof *seen->all.at);
        seen->all.n--;
    }
    vec_add(&seen->all, *entry);
}

void memseen_put(struct memseen *seen, const struct firn_job_spec *spec,
                 const struct firn_peak_seen *now)
{
    struct entry entry = {.seen = *now};
    write_key(entry.key, spec);
    put(seen, &entry);
}

void memseen_save(const struct memseen *seen, struct firn_buf *out)
{
    for (size_t i = 0; i < seen->all.n; i++) {
        const struct entry *entry = &seen->all.at[i];
        buf_double(out, entry->seen.mean);
        buf_putc(out, ' ');
        buf_double(out, entry->seen.floor);
        buf_printf(out, " %d %d %s\n", entry->seen.n, entry->seen.failures,
                   entry->key);
    }
}

/* Cuts the next word off a line; "" at its end. */
static char *next_word(char **at)
{
    char *word = *at;
    size_t n = strcspn(word, " ");
    *at = word + n + (word[n] == ' ');
    word[n] = '\0';
    return word;
}

static bool read_line(char *line, struct entry *out)
{
    long n, failures;
    if (!str_double(next_word(&line), &out->seen.mean) ||
        !str_double(next_word(&line), &out->seen.floor) ||
        !str_int(next_word(&line), 0, 1000000, &n) ||
        !str_int(next_word(&line), 0, 1000000, &failures) || *line == '\0')
        return false;
    out->seen.n = (int)n;
    out->seen.failures = (int)failures;
    str_copy(out->key, sizeof out->key, line);
    return out->seen.mean >= 0 && out->seen.mean <= 2 && out->seen.floor >= 0 &&
           out->seen.floor <= 2 && (out->seen.n == 0 || out->seen.mean > 0);
}

void memseen_load(struct memseen *seen, const char *text)
{
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        struct entry entry = {0};
        char line[KEY_MAX + 128];
        snprintf(line, sizeof line, "%.*s", (int)n, text);
        if (n < sizeof line && read_line(line, &entry))
            put(seen, &entry);
        text += n + (text[n] == '\n');
    }
}
