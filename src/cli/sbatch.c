/* sbatch.c - reads #SBATCH lines and array texts: see the header.
 */
#include "cli/sbatch.h"
#include "base/str.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ARRAY_MOST = 10000, NUMBER_MOST = 1000000 };

enum kind {
    NAME,
    WORKDIR,
    QUEUE,
    AFTER,
    ARRAY,
    GPUS,
    NODE_GPUS,
    GRES,
    NODES,
    TIME,
    MAIL
};

static const struct {
    const char *name;
    char letter;
    enum kind kind;
} known[] = {{"job-name", 'J', NAME},
             {"chdir", 'D', WORKDIR},
             {"partition", 'p', QUEUE},
             {"dependency", 'd', AFTER},
             {"array", 'a', ARRAY},
             {"gpus", 'G', GPUS},
             {"gpus-per-node", 0, NODE_GPUS},
             {"gpus-per-task", 0, NODE_GPUS},
             {"gres", 0, GRES},
             {"nodes", 'N', NODES},
             {"time", 't', TIME},
             {"mail-type", 0, MAIL}};

/* "2" or "a100:2". */
static bool take_gpus(struct sbatch *out, const char *value, bool is_per_node)
{
    const char *colon = strrchr(value, ':');
    long n = 0;
    if (!str_int(colon != NULL ? colon + 1 : value, 1, NUMBER_MOST, &n))
        return false;
    if (colon != NULL)
        snprintf(out->type, SBATCH_TEXT, "%.*s", (int)(colon - value), value);
    out->ngpus = n;
    out->is_per_node = is_per_node;
    return true;
}

/* "gpu", "gpu:2" or "gpu:a100:2". */
static bool take_gres(struct sbatch *out, const char *value)
{
    if (strcmp(value, "gpu") == 0)
        return take_gpus(out, "1", true);
    return strncmp(value, "gpu:", 4) == 0 && take_gpus(out, value + 4, true);
}

/* "afterok:12:13,afterany:14" to "ok:12,ok:13,any:14". */
static bool take_after(struct sbatch *out, const char *value)
{
    static const struct {
        const char *slurm, *firn;
    } kinds[] = {
        {"afterok:", "ok:"}, {"afternotok:", "fail:"}, {"afterany:", "any:"}};
    size_t n = 0;
    while (*value != '\0') {
        size_t k = 0;
        while (k < 3 &&
               strncmp(value, kinds[k].slurm, strlen(kinds[k].slurm)) != 0)
            k++;
        if (k == 3)
            return false;
        value += strlen(kinds[k].slurm);
        while (*value != '\0' && *value != ',') {
            size_t length = strcspn(value, ":,");
            if (length == 0 || n + length + 8 > SBATCH_TEXT)
                return false;
            n += (size_t)snprintf(out->after + n, SBATCH_TEXT - n, "%s%s%.*s",
                                  n > 0 ? "," : "", kinds[k].firn, (int)length,
                                  value);
            value += length + (value[length] == ':');
        }
        value += *value == ',';
    }
    return n > 0;
}

/* "90", "90:00", "1:30:00", "2-0", "2-0:30", "2-0:30:00": minutes, unless there
 * are two colons or a day. 0 and UNLIMITED are no limit. */
static bool take_time(struct sbatch *out, const char *value)
{
    long days = 0, part[3] = {0}, n = 0;
    const char *dash = strchr(value, '-');
    char text[64];
    if (strcasecmp(value, "UNLIMITED") == 0 ||
        strcasecmp(value, "INFINITE") == 0)
        return true;
    if (dash != NULL) {
        snprintf(text, sizeof text, "%.*s", (int)(dash - value), value);
        if (!str_int(text, 0, NUMBER_MOST, &days))
            return false;
        value = dash + 1;
    }
    for (;; n++) {
        size_t length = strcspn(value, ":");
        snprintf(text, sizeof text, "%.*s", (int)length, value);
        if (n == 3 || !str_int(text, 0, NUMBER_MOST, &part[n]))
            return false;
        if (value[length] == '\0')
            break;
        value += length + 1;
    }
    bool has_hours = dash != NULL || n == 2;
    long s = has_hours ? 3600 * part[0] + 60 * part[1] + part[2]
                       : 60 * part[0] + part[1];
    if (s + days > 0)
        snprintf(out->limit, sizeof out->limit, "%lds", s + 86400 * days);
    return true;
}

/* "END,FAIL" */
static bool take_mail(struct sbatch *out, const char *value)
{
    static const struct {
        const char *slurm, *firn;
    } kinds[] = {{"END", "end"},
                 {"FAIL", "failure"},
                 {"REQUEUE", "preemption"},
                 {"ALL", "end,failure,preemption"},
                 {"NONE", ""}};
    while (*value != '\0') {
        size_t n = strcspn(value, ","), k = 0;
        while (k < 5 && (strlen(kinds[k].slurm) != n ||
                         strncasecmp(value, kinds[k].slurm, n) != 0))
            k++;
        if (k == 5)
            return false;
        for (const char *at = kinds[k].firn; *at != '\0';) {
            size_t length = strcspn(at, ",");
            words_add(&out->notify, at, length);
            at += length + (at[length] == ',');
        }
        value += n + (value[n] == ',');
    }
    return true;
}

static bool take_value(struct sbatch *out, enum kind kind, const char *value)
{
    switch (kind) {
    case NAME:
        return str_copy(out->name, SBATCH_TEXT, value);
    case WORKDIR:
        return str_copy(out->workdir, SBATCH_TEXT, value);
    case QUEUE:
        return str_copy(out->queue, SBATCH_TEXT, value);
    case ARRAY:
        return str_copy(out->array, SBATCH_TEXT, value);
    case AFTER:
        return take_after(out, value);
    case GPUS:
        return take_gpus(out, value, false);
    case NODE_GPUS:
        return take_gpus(out, value, true);
    case GRES:
        return take_gres(out, value);
    case NODES:
        return str_int(value, 1, NUMBER_MOST, &out->nnodes);
    case TIME:
        return take_time(out, value);
    case MAIL:
        return take_mail(out, value);
    }
    return false;
}

/* One word "--name=value", or "-J" with the value behind it. `*next` is the
 * next word, which is used up (NULL) if it is the value. */
static void take_option(struct sbatch *out, const char *word, const char **next)
{
    bool is_long = strncmp(word, "--", 2) == 0;
    const char *equals = is_long ? strchr(word, '=') : NULL;
    size_t n = equals != NULL ? (size_t)(equals - word) : strlen(word);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        bool is_it = is_long ? n == strlen(known[i].name) + 2 &&
                                   strncmp(word + 2, known[i].name, n - 2) == 0
                             : word[0] == '-' && known[i].letter != 0 &&
                                   word[1] == known[i].letter;
        if (!is_it)
            continue;
        const char *value = equals != NULL                ? equals + 1
                            : !is_long && word[2] != '\0' ? word + 2
                                                          : *next;
        if (value == NULL || !take_value(out, known[i].kind, value))
            break;
        if (value == *next)
            *next = NULL;
        return;
    }
    words_add(&out->ignored, word, strlen(word));
}

/* The options of one line, at most 32 words. */
static void take_line(struct sbatch *out, char *line)
{
    char *words[33] = {NULL}, *rest = NULL;
    size_t n = 0;
    line[strcspn(line, "#")] = '\0'; /* a comment behind them */
    for (char *word = strtok_r(line, " \t\r", &rest); word != NULL && n < 32;
         word = strtok_r(NULL, " \t\r", &rest))
        words[n++] = word;
    for (size_t i = 0; i < n; i++) {
        const char *next = i + 1 < n ? words[i + 1] : NULL;
        bool has_next = next != NULL;
        if (words[i][0] != '-') {
            words_add(&out->ignored, words[i], strlen(words[i]));
            continue;
        }
        take_option(out, words[i], &next);
        i += has_next && next == NULL;
    }
}

bool sbatch_read(struct sbatch *out, const char *text)
{
    bool is_one = false;
    *out = (struct sbatch){0};
    for (size_t i = 0; *text != '\0'; i++) {
        char line[4096];
        size_t n = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(n < 4095 ? n : 4095), text);
        text += n + (text[n] == '\n');
        if (i == 0 && strncmp(line, "#!", 2) == 0)
            str_copy(out->interpreter, SBATCH_TEXT, line + 2);
        if (line[0] != '#' && line[strspn(line, " \t\r")] != '\0')
            break; /* the first command */
        if (strncmp(line, "#SBATCH", 7) != 0)
            continue;
        is_one = true;
        take_line(out, line + 7);
    }
    return is_one;
}

void sbatch_release(struct sbatch *sbatch)
{
    words_release(&sbatch->ignored);
    words_release(&sbatch->notify);
}

long sbatch_gpus(const struct sbatch *sbatch)
{
    long nnodes = sbatch->nnodes > 0 ? sbatch->nnodes : 1;
    return sbatch->ngpus * (sbatch->is_per_node ? nnodes : 1);
}

/* --- arrays --------------------------------------------------------------- */

static bool read_number(const char **at, long *out)
{
    char digits[8];
    size_t n = strspn(*at, "0123456789");
    if (n == 0 || n >= sizeof digits)
        return false;
    memcpy(digits, *at, n);
    digits[n] = '\0';
    *out = strtol(digits, NULL, 10);
    *at += n;
    return *out <= NUMBER_MOST;
}

/* "7", "0-99" or "0-8:2". */
static bool read_part(const char **at, struct words *out)
{
    long from = 0, to = 0, step = 1;
    if (!read_number(at, &from))
        return false;
    to = from;
    if (**at == '-' && (++*at, !read_number(at, &to)))
        return false;
    if (**at == ':' && (++*at, !read_number(at, &step)))
        return false;
    if (to < from || step < 1)
        return false;
    for (long i = from; i <= to; i += step) {
        char text[16];
        int n = snprintf(text, sizeof text, "%ld", i);
        if (out->n == ARRAY_MOST)
            return false;
        words_add(out, text, (size_t)n);
    }
    return true;
}

bool array_read(const char *text, struct words *out, long *at_once)
{
    *at_once = 0;
    if (!read_part(&text, out))
        return false;
    while (*text == ',') {
        text++;
        if (!read_part(&text, out))
            return false;
    }
    if (*text == '%' && (++text, !read_number(&text, at_once) || *at_once < 1))
        return false;
    return *text == '\0';
}
