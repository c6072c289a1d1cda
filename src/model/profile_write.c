/* profile_write.c - a profile as text.
 *
 * Six digits: a hundred times finer than any measurement here repeats. What is
 * not known, or within 1e-12 of its default, is not written.
 */
#include "base/buf.h"
#include "model/profiletext.h"
#include <math.h>

static void put(struct firn_buf *out, double value)
{
    buf_printf(out, " %.6g", value);
}

/* A line of two numbers, or of four where freezing saves something. */
static void put_usage(struct firn_buf *out, const char *key, const char *type,
                      const double v[4])
{
    if (!(v[0] > 0) && !(v[1] > 0))
        return;
    buf_printf(out, "%s %s", key, type);
    for (int i = 0; i < (v[2] > 0 || v[3] > 0 ? 4 : 2); i++)
        put(out, v[i]);
    buf_putc(out, '\n');
}

/* `sharded` and `pipeline`. */
static void put_more(const struct firn_profile_gpu *gpu, struct firn_buf *out)
{
    for (const struct profiletext_more *m = profiletext_mores; m->key; m++) {
        if (!(profiletext_get(m->needed, gpu) > 0))
            continue;
        buf_printf(out, "%s %s", m->key, gpu->type);
        for (const struct profiletext_field *f = m->fields; f->name; f++) {
            double value = profiletext_get(f, gpu);
            if (fabs(value) < 1e-12)
                continue;
            buf_printf(out, " %s", f->name);
            put(out, value);
        }
        buf_putc(out, '\n');
    }
}

static void put_gpu(const struct firn_profile_gpu *gpu, struct firn_buf *out)
{
    buf_printf(out, "time %s", gpu->type);
    for (size_t i = 0; i < profiletext_nfields; i++) {
        const struct profiletext_field *f = &profiletext_fields[i];
        double value = profiletext_get(f, &gpu->time);
        if (fabs(value - f->unless) < 1e-12)
            continue;
        buf_printf(out, " %s", f->name);
        put(out, value);
    }
    buf_putc(out, '\n');
    if (gpu->fit_rows > 0)
        buf_printf(out, "fit_error %s %.4f %.4f %ld\n", gpu->type,
                   gpu->fit_mean, gpu->fit_max, gpu->fit_rows);
    put_usage(out, "memory_mib", gpu->type,
              (double[]){gpu->mem_mib, gpu->mem_sample_mib, gpu->mem_saved_mib,
                         gpu->mem_saved_sample_mib});
    put_usage(out, "utilisation", gpu->type,
              (double[]){gpu->util, gpu->util_sample, gpu->util_saved,
                         gpu->util_saved_sample});
    put_more(gpu, out);
}

static void put_stats(const struct firn_profile_stats *s, struct firn_buf *out)
{
    if (s->nbatches == 0)
        return;
    buf_puts(out, "# stage: its last progress, then |g|^2 and tr(Sigma) at "
                  "each of these batches\nbatches");
    for (size_t i = 0; i < s->nbatches; i++)
        put(out, s->batch[i]);
    buf_putc(out, '\n');
    for (size_t i = 0; i < s->nstages; i++) {
        buf_printf(out, "stage %.9g", s->end[i]);
        for (size_t j = 0; j < s->nbatches; j++) {
            put(out, s->grad_sqr[i * s->nbatches + j]);
            put(out, s->grad_var[i * s->nbatches + j]);
        }
        buf_putc(out, '\n');
        if (s->nlayers == 0)
            continue;
        buf_puts(out, "layers");
        for (size_t j = 0; j < s->nlayers; j++)
            buf_printf(out, " %.4g", s->layer_var[i * s->nlayers + j]);
        buf_putc(out, '\n');
    }
}

void firn_profile_write(const struct firn_profile *profile,
                        struct firn_buf *out)
{
    const char *base = (const char *)profile;
    for (const struct profiletext_line *l = profiletext_lines; l->key; l++)
        buf_printf(out, "%s %s\n", l->key, base + l->at);
    buf_printf(out, "synthetic %s\n", profile->is_synthetic ? "yes" : "no");
    for (const struct profiletext_number *n = profiletext_numbers; n->key;
         n++) {
        double value = *(const double *)(const void *)(base + n->at);
        if (value == n->unless)
            continue;
        buf_printf(out, "%s %.9g\n", n->key, value);
    }
    for (size_t i = 0; i < profile->ngpus; i++)
        put_gpu(&profile->gpus[i], out);
    for (size_t i = 0; i < profile->npairs; i++)
        buf_printf(out, "beside %s %.4g\n", profile->pairs[i].other,
                   profile->pairs[i].xi);
    for (size_t i = 0; i < profile->nfrozen; i++) {
        buf_puts(out, "frozen");
        put(out, profile->frozen[i].frozen);
        put(out, profile->frozen[i].theta);
        put(out, profile->frozen[i].omega);
        buf_putc(out, '\n');
    }
    if (profile->stats_of[0] != '\0')
        buf_printf(out, "stats_of %s\n", profile->stats_of);
    put_stats(&profile->stats, out);
}
