/* jobtext.c - a job file made of flags.
 *
 * Whether the values make sense is the daemon's business, which reads files by
 * the same rules: here they only become text. A list of types, a range of GPUs
 * and names of rules are quoted like everything else.
 */
#include "cli/jobtext.h"
#include "base/buf.h"
#include "base/mem.h"
#include "cli/safetext.h"
#include <stdlib.h>
#include <string.h>

void job_flags_release(struct job_flags *flags)
{
    words_release(&flags->types);
    words_release(&flags->env);
}

bool job_flags_any(const struct job_flags *flags)
{
    const struct job_flags *f = flags;
    return f->name || f->queue || f->app || f->workdir || f->priority >= 0 ||
           f->gpus || f->types.n > 0 || f->may_share || f->is_alone ||
           f->env.n > 0 || f->consistency || f->is_elastic || f->threads > 0 ||
           f->batch > 0 || f->freeze || f->freeze_max || f->ckpt_dir ||
           f->grace_s > 0 || f->ckpt_every_s > 0 || f->retries > 0 ||
           f->duration_s > 0 || f->memory_gib > 0 || f->epochs > 0 ||
           f->iterations > 0 || f->may_restart || f->deadline;
}

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

/* `key: "text"`, when there is one. */
static enum firn_status put_text(struct firn_buf *out, const char *key,
                                 const char *text, struct firn_error *err)
{
    if (text == NULL)
        return FIRN_OK;
    buf_printf(out, "%s: ", key);
    FIRN_TRY(quote(out, key, text, err));
    buf_putc(out, '\n');
    return FIRN_OK;
}

static void put_number(struct firn_buf *out, const char *key, double value)
{
    if (!(value > 0))
        return;
    buf_printf(out, "%s: %.15g\n", key, value);
}

/* A part of a mapping in braces; `sep` is "{" before the first. */
static enum firn_status put_part(struct firn_buf *out, const char **sep,
                                 const char *key, const char *text,
                                 struct firn_error *err)
{
    if (text == NULL)
        return FIRN_OK;
    buf_printf(out, "%s%s: ", *sep, key);
    *sep = ", ";
    return quote(out, key, text, err);
}

static void put_part_number(struct firn_buf *out, const char **sep,
                            const char *key, double value)
{
    if (!(value > 0))
        return;
    buf_printf(out, "%s%s: %.15g", *sep, key, value);
    *sep = ", ";
}

/* A path from the root: of a relative one, that from `here`. */
static char *rooted(const char *path, const char *here)
{
    struct firn_buf out = {0};
    if (*path != '/')
        buf_printf(&out, "%s/", here);
    buf_puts(&out, path);
    return out.at;
}

static void end_parts(struct firn_buf *out, const char *sep, size_t before)
{
    if (*sep == '{') { /* none came */
        out->n = before;
        out->at[before] = '\0';
        return;
    }
    buf_puts(out, "}\n");
}

static enum firn_status put_list(struct firn_buf *out, const char *key,
                                 char *const *words, size_t n,
                                 struct firn_error *err)
{
    if (n == 0)
        return FIRN_OK;
    buf_printf(out, "%s: [", key);
    for (size_t i = 0; i < n; i++) {
        buf_puts(out, i > 0 ? ", " : "");
        FIRN_TRY(quote(out, key, words[i], err));
    }
    buf_puts(out, "]\n");
    return FIRN_OK;
}

/* The part of "K=V" before the sign, owned by the caller. */
static char *name_of(const char *word)
{
    size_t n = strcspn(word, "=");
    char *name = mem_new(n + 1, 1);
    memcpy(name, word, n);
    return name;
}

static enum firn_status put_env(struct firn_buf *out, const struct words *env,
                                struct firn_error *err)
{
    const char *sep = "{";
    size_t before = out->n;
    buf_puts(out, "env: ");
    for (size_t i = 0; i < env->n; i++) {
        char *name = name_of(env->at[i]);
        const char *sign = strchr(env->at[i], '=');
        const char *value = sign != NULL ? sign + 1 : getenv(name);
        enum firn_status status = FIRN_OK;
        buf_puts(out, sep);
        sep = ", ";
        if (value == NULL)
            status = firn_fail(err, FIRN_EINVAL,
                               "--env %s: it is not set here; say %s=VALUE",
                               name, name);
        else
            status = quote(out, "--env", name, err);
        mem_free(name);
        FIRN_TRY(status);
        buf_puts(out, ": ");
        FIRN_TRY(quote(out, "--env", value, err));
    }
    end_parts(out, sep, before);
    return FIRN_OK;
}

static enum firn_status put_checkpoint(struct firn_buf *out,
                                       const struct job_flags *flags,
                                       const char *here, struct firn_error *err)
{
    const char *sep = "{";
    size_t before = out->n;
    char *dir = flags->ckpt_dir != NULL ? rooted(flags->ckpt_dir, here) : NULL;
    buf_puts(out, "checkpoint: ");
    enum firn_status status = put_part(out, &sep, "dir", dir, err);
    mem_free(dir);
    put_part_number(out, &sep, "grace", flags->grace_s);
    put_part_number(out, &sep, "interval", flags->ckpt_every_s);
    end_parts(out, sep, before);
    return status;
}

static enum firn_status put_groups(struct firn_buf *out,
                                   const struct job_flags *flags,
                                   struct firn_error *err)
{
    const char *sep = "{";
    size_t before = out->n;
    buf_puts(out, "elastic: ");
    const char *level = flags->consistency;
    if (level == NULL && flags->is_elastic)
        level = "D1";
    FIRN_TRY(put_part(out, &sep, "consistency", level, err));
    put_part_number(out, &sep, "threads", flags->threads);
    end_parts(out, sep, before);

    sep = "{", before = out->n;
    buf_puts(out, "freeze: ");
    FIRN_TRY(put_part(out, &sep, "rule", flags->freeze, err));
    FIRN_TRY(put_part(out, &sep, "max", flags->freeze_max, err));
    end_parts(out, sep, before);

    sep = "{", before = out->n;
    buf_puts(out, "target: ");
    put_part_number(out, &sep, "epochs", (double)flags->epochs);
    put_part_number(out, &sep, "iterations", (double)flags->iterations);
    end_parts(out, sep, before);
    return FIRN_OK;
}

enum firn_status job_text(struct firn_buf *out, const struct job_flags *flags,
                          char **argv, const char *here, struct firn_error *err)
{
    size_t nargs = 0;
    while (argv[nargs] != NULL)
        nargs++;
    FIRN_TRY(put_text(out, "name", flags->name, err));
    FIRN_TRY(put_text(out, "queue", flags->queue, err));
    FIRN_TRY(put_text(out, "app", flags->app, err));
    if (flags->priority >= 0)
        buf_printf(out, "priority: %ld\n", flags->priority);
    FIRN_TRY(put_list(out, "run", argv, nargs, err));
    char *workdir =
        rooted(flags->workdir != NULL ? flags->workdir : here, here);
    enum firn_status status = put_text(out, "workdir", workdir, err);
    mem_free(workdir);
    FIRN_TRY(status);
    FIRN_TRY(put_env(out, &flags->env, err));
    FIRN_TRY(put_text(out, "gpus", flags->gpus, err));
    FIRN_TRY(put_list(out, "gpu", flags->types.at, flags->types.n, err));
    if (flags->may_share || flags->is_alone)
        buf_printf(out, "share: %s\n", flags->may_share ? "allowed" : "never");
    put_number(out, "batch", flags->batch);
    FIRN_TRY(put_groups(out, flags, err));
    FIRN_TRY(put_checkpoint(out, flags, here, err));
    if (flags->may_restart)
        buf_puts(out, "restart: allowed\n");
    FIRN_TRY(put_text(out, "deadline", flags->deadline, err));
    if (flags->retries > 0)
        buf_printf(out, "retry: {max: %d}\n", flags->retries);
    put_number(out, "duration", flags->duration_s);
    put_number(out, "memory", flags->memory_gib);
    return FIRN_OK;
}
