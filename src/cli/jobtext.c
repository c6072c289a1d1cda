/* jobtext.c - a job file made of options.
 *
 * The table of options is made from job_fields[] at its first use. Keys stand
 * in the order of that table; fields of one group ("retry.max", "retry.on")
 * stand side by side there, and become one mapping in braces.
 */
#include "cli/jobtext.h"
#include "base/buf.h"
#include "base/mem.h"
#include "cli/safetext.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FLAGS = 2 * JOB_NFIELDS, HELP_MAX = 320 };

void job_flags_init(struct job_flags *flags)
{
    *flags = (struct job_flags){0};
    for (size_t i = 0; i < JOB_NFIELDS; i++)
        flags->value[i].field = &job_fields[i];
}

void job_flags_release(struct job_flags *flags)
{
    for (size_t i = 0; i < JOB_NFIELDS; i++)
        words_release(&flags->value[i].words);
}

static bool is_given(const struct job_flag_value *value)
{
    return value->text != NULL || value->means != NULL || value->words.n > 0;
}

bool job_flags_any(const struct job_flags *flags)
{
    for (size_t i = 0; i < JOB_NFIELDS; i++)
        if (is_given(&flags->value[i]))
            return true;
    return false;
}

/* --- options -------------------------------------------------------------- */

static enum firn_status set_value(void *at, const char *text,
                                  struct firn_error *err)
{
    struct job_flag_value *value = at;
    const struct job_field *field = value->field;
    char what[JOB_WHAT_MAX];
    if (*text == '\0')
        return firn_fail(err, FIRN_EINVAL, "is empty");
    if (field->kind == JOB_ENV)
        return flag_word(&value->words, text, err);
    if (field->kind == JOB_TYPES || field->kind == JOB_WORDS ||
        field->kind == JOB_EVENTS) {
        size_t before = value->words.n;
        FIRN_TRY(flag_words(&value->words, text, err));
        for (size_t i = before; i < value->words.n; i++)
            if (!job_field_read(field, value->words.at[i], NULL, what))
                return firn_fail(err, FIRN_EINVAL, "'%s' is not %s",
                                 value->words.at[i], what);
        return FIRN_OK;
    }
    /* A relative path becomes absolute in job_text(). */
    if (field->kind != JOB_PATH && !job_field_read(field, text, NULL, what))
        return firn_fail(err, FIRN_EINVAL, "'%s' is not %s", text, what);
    value->text = text;
    return FIRN_OK;
}

static enum firn_status set_means(struct job_flag_value *value,
                                  const char *means, struct firn_error *err)
{
    if (value->means != NULL && strcmp(value->means, means) != 0)
        return firn_fail(err, FIRN_EINVAL, "contradicts --%s",
                         means[0] == 'n' ? value->field->flag
                                         : value->field->contrary);
    value->means = means;
    return FIRN_OK;
}

static enum firn_status set_allowed(void *at, const char *text,
                                    struct firn_error *err)
{
    (void)text;
    return set_means(at, "allowed", err);
}

static enum firn_status set_never(void *at, const char *text,
                                  struct firn_error *err)
{
    (void)text;
    return set_means(at, "never", err);
}

static enum firn_status set_group(void *at, const char *text,
                                  struct firn_error *err)
{
    (void)text;
    struct job_flag_value *value = at;
    return set_means(value, value->field->in_group, err);
}

const struct flag *job_flags_table(void)
{
    static struct flag table[MAX_FLAGS + 1];
    static char help[JOB_NFIELDS][HELP_MAX];
    static bool is_made;
    size_t n = 0;
    for (size_t i = 0; i < JOB_NFIELDS && !is_made; i++) {
        const struct job_field *f = &job_fields[i];
        size_t at = offsetof(struct job_flags, value) +
                    i * sizeof(struct job_flag_value);
        if (f->flag == NULL)
            continue;
        snprintf(help[i], HELP_MAX, f->standard ? "%s%s (default: %s)" : "%s%s",
                 f->help, f->flag_note ? f->flag_note : "", f->standard);
        table[n++] = (struct flag){f->flag,
                                   f->letter,
                                   f->metavar,
                                   help[i],
                                   f->metavar ? set_value : set_allowed,
                                   at};
        if (f->contrary)
            table[n++] = (struct flag){f->contrary,      0,         NULL,
                                       f->contrary_help, set_never, at};
        if (f->group_flag)
            table[n++] = (struct flag){f->group_flag, 0,         NULL,
                                       f->group_help, set_group, at};
    }
    is_made = true;
    return table;
}

/* --- the file ------------------------------------------------------------- */

static enum firn_status quote(struct firn_buf *out, const char *what,
                              const char *text, struct firn_error *err)
{
    if (safe_quote(out, text))
        return FIRN_OK;
    struct firn_buf shown = {0};
    safe_puts(&shown, text);
    firn_fail(err, FIRN_EINVAL, "%s '%s' is not UTF-8", what, shown.at);
    buf_release(&shown);
    return FIRN_EINVAL;
}

static enum firn_status put_list(struct firn_buf *out, const char *key,
                                 char *const *words, size_t n,
                                 struct firn_error *err)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < n; i++) {
        buf_puts(out, i > 0 ? ", " : "");
        FIRN_TRY(quote(out, key, words[i], err));
    }
    buf_putc(out, ']');
    return FIRN_OK;
}

/* One variable: "K=V", or "K" for the value that it has here. */
static enum firn_status put_variable(struct firn_buf *out, const char *word,
                                     struct firn_error *err)
{
    char name[256];
    const char *sign = strchr(word, '=');
    size_t n = sign != NULL ? (size_t)(sign - word) : strlen(word);
    if (n >= sizeof name)
        return firn_fail(err, FIRN_EINVAL,
                         "--env: a name of %zu bytes; at most %zu", n,
                         sizeof name - 1);
    memcpy(name, word, n);
    name[n] = '\0';
    const char *wrong = job_env_wrong(name);
    const char *value = sign != NULL ? sign + 1 : getenv(name);
    if (wrong != NULL) {
        struct firn_buf shown = {0};
        safe_puts(&shown, name);
        firn_fail(err, FIRN_EINVAL, "--env %s: %s", shown.n > 0 ? shown.at : "",
                  wrong);
        buf_release(&shown);
        return FIRN_EINVAL;
    }
    if (value == NULL)
        return firn_fail(err, FIRN_EINVAL,
                         "--env %s: %s is not set in the environment; give "
                         "%s=VALUE",
                         name, name, name);
    FIRN_TRY(quote(out, "--env", name, err));
    buf_puts(out, ": ");
    return quote(out, "--env", value, err);
}

static enum firn_status put_env(struct firn_buf *out, const struct words *env,
                                struct firn_error *err)
{
    buf_putc(out, '{');
    for (size_t i = 0; i < env->n; i++) {
        buf_puts(out, i > 0 ? ", " : "");
        FIRN_TRY(put_variable(out, env->at[i], err));
    }
    buf_putc(out, '}');
    return FIRN_OK;
}

/* A number alone needs no quotes; a relative path starts from `here`. */
static enum firn_status put_scalar(struct firn_buf *out, const char *key,
                                   enum job_kind kind, const char *text,
                                   const char *here, struct firn_error *err)
{
    struct firn_buf path = {0};
    if (kind != JOB_PATH && kind != JOB_CONFIG &&
        strspn(text, "0123456789.") == strlen(text)) {
        buf_puts(out, text);
        return FIRN_OK;
    }
    bool is_path = kind == JOB_PATH || (kind == JOB_CONFIG && *text != '{');
    if (is_path && *text != '/')
        buf_printf(&path, "%s/%s", here, text);
    enum firn_status status = quote(out, key, path.n > 0 ? path.at : text, err);
    buf_release(&path);
    return status;
}

static enum firn_status put_value(struct firn_buf *out, const char *key,
                                  const struct job_flag_value *value,
                                  char **argv, const char *here,
                                  struct firn_error *err)
{
    size_t nargs = 0;
    switch (value->field->kind) {
    case JOB_COMMAND:
        while (argv[nargs] != NULL)
            nargs++;
        return put_list(out, key, argv, nargs, err);
    case JOB_ENV:
        return put_env(out, &value->words, err);
    case JOB_TYPES:
    case JOB_WORDS:
    case JOB_EVENTS:
        return put_list(out, key, value->words.at, value->words.n, err);
    default:
        return put_scalar(out, key, value->field->kind,
                          value->text != NULL    ? value->text
                          : value->means != NULL ? value->means
                                                 : here,
                          here, err);
    }
}

enum firn_status job_text(struct firn_buf *out, const struct job_flags *flags,
                          char **argv, const char *here, struct firn_error *err)
{
    const char *open = ""; /* the group whose mapping is open */
    size_t nopen = 0;
    for (size_t i = 0; i < JOB_NFIELDS; i++) {
        const struct job_flag_value *value = &flags->value[i];
        const char *last, *key = job_fields[i].key;
        bool is_always =
            i == JOB_FIELD_argv || i == JOB_FIELD_workdir; /* here */
        if (key == NULL || (!is_given(value) && !is_always))
            continue;
        size_t n = job_field_group(&job_fields[i], &last);
        bool goes_on = n > 0 && n == nopen && strncmp(key, open, n) == 0;
        if (nopen > 0 && !goes_on)
            buf_puts(out, "}\n");
        if (goes_on)
            buf_puts(out, ", ");
        else if (n > 0)
            buf_printf(out, "%.*s: {", (int)n, key);
        buf_printf(out, "%s: ", last);
        FIRN_TRY(put_value(out, last, value, argv, here, err));
        if (n == 0)
            buf_putc(out, '\n');
        open = key;
        nopen = n;
    }
    if (nopen > 0)
        buf_puts(out, "}\n");
    return FIRN_OK;
}

bool job_env_has(const struct words *env, const char *variable)
{
    size_t n = strcspn(variable, "=");
    for (size_t i = 0; i < env->n; i++)
        if (strncmp(env->at[i], variable, n) == 0 &&
            (env->at[i][n] == '=' || env->at[i][n] == '\0'))
            return true;
    return false;
}

void job_env_python(struct words *env)
{
    static const char *const names[] = {"VIRTUAL_ENV", "CONDA_PREFIX",
                                        "CONDA_DEFAULT_ENV"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]) != NULL && !job_env_has(env, names[i]))
            words_add(env, names[i], strlen(names[i]));
}
