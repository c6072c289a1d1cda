/* write.c - one job, one line of firn's CSV.
 *
 * firn.c reads what this writes. (1) Defaults are the same in both: gpus_min
 * and gpus_max are gpus, texts empty, numbers 0, restart_s -1; a column that
 * is not written means its default. (2) A name that begins with '#' is quoted,
 * since a line that begins so is a comment.
 */
#include "trace/write.h"
#include "base/buf.h"
#include "core/planjobs.h"

static const unsigned always = (1u << WRITE_NEEDED) - 1;

static const char *training_word(const struct firn_job_spec *spec, int setting)
{
    return firn_training_word(&spec->training,
                              (enum firn_training_setting)setting);
}

unsigned write_mask(const struct firn_job_spec *spec)
{
    unsigned mask = always;
    mask |= (unsigned)(spec->gpus_min != spec->gpus) << WRITE_MIN;
    mask |= (unsigned)(spec->gpus_max != spec->gpus) << WRITE_MAX;
    mask |= (unsigned)(*spec->app != '\0') << WRITE_APP;
    mask |= (unsigned)(*spec->group != '\0') << WRITE_GROUP;
    mask |= (unsigned)(spec->batch != 0) << WRITE_BATCH;
    mask |= (unsigned)(spec->priority != 0) << WRITE_PRIORITY;
    mask |= (unsigned)(spec->mem_gib > 0) << WRITE_MEM;
    mask |= (unsigned)(*spec->types != '\0') << WRITE_TYPES;
    mask |= (unsigned)spec->may_share << WRITE_SHARE;
    mask |= (unsigned)(spec->restart_s >= 0) << WRITE_RESTART;
    mask |= (unsigned)spec->is_nominal << WRITE_NOMINAL;
    mask |= (unsigned)(spec->seq != 0) << WRITE_SEQ;
    mask |= (unsigned)spec->may_merge << WRITE_MERGE;
    mask |= (unsigned)(spec->frozen_max > 0) << WRITE_FROZEN;
    mask |= (unsigned)(spec->threads != 0) << WRITE_THREADS;
    mask |= (unsigned)spec->one_type << WRITE_ONE_TYPE;
    mask |= (unsigned)spec->best_effort << WRITE_EFFORT;
    for (int i = 0; i < FIRN_TRAINING_COLUMNS; i++)
        if (*training_word(spec, i) != '\0')
            mask |= 1u << (WRITE_PRECISION + i);
    mask |= (unsigned)(spec->asked.parallel != 0) << WRITE_PLAN;
    return mask;
}

void write_header(struct firn_buf *out, unsigned mask)
{
    static const char *const names[] = {
#define X(id, name) name,
        WRITE_COLUMNS(X)
#undef X
    };
    buf_puts(out, "#firn-trace 1\n");
    for (int i = 0; i < WRITE_NCOLUMNS; i++) {
        if (!((mask | always) & 1u << i))
            continue;
        if (i > 0)
            buf_putc(out, ',');
        buf_puts(out, names[i]);
    }
    buf_putc(out, '\n');
}

static void write_name(struct firn_buf *out, const char *name)
{
    if (*name != '#') {
        buf_csv_string(out, name);
        return;
    }
    buf_putc(out, '"'); /* (2) */
    for (; *name != '\0'; name++) {
        if (*name == '"')
            buf_putc(out, '"');
        buf_putc(out, *name);
    }
    buf_putc(out, '"');
}

static void write_plan(struct firn_buf *out, const struct firn_job_spec *spec)
{
    struct planjob job = {.asked = spec->asked};
    struct exec_plan plan;
    char text[EXEC_PLAN_TEXT];
    if (spec->asked.parallel == 0)
        return;
    planjobs_plan(&job, &spec->asked, spec->gpus, &plan);
    exec_plan_write(&plan, text);
    buf_puts(out, text);
}

/* A bound of 0 with 0 GPUs: no number was given. */
static void write_bound(struct firn_buf *out, int gpus)
{
    if (gpus > 0)
        buf_double(out, gpus);
}

static void write_field(struct firn_buf *out, const struct firn_job_spec *spec,
                        enum write_column column)
{
    switch (column) {
    case WRITE_NAME:
        write_name(out, spec->name);
        return;
    case WRITE_SUBMIT:
        buf_double(out, spec->submit_s);
        return;
    case WRITE_GPUS:
        buf_double(out, spec->gpus);
        return;
    case WRITE_DURATION:
        buf_double(out, spec->duration_s);
        return;
    case WRITE_MIN:
        write_bound(out, spec->gpus_min);
        return;
    case WRITE_MAX:
        write_bound(out, spec->gpus_max);
        return;
    case WRITE_APP:
        buf_csv_string(out, spec->app);
        return;
    case WRITE_GROUP:
        buf_csv_string(out, spec->group);
        return;
    case WRITE_BATCH:
        buf_double(out, spec->batch);
        return;
    case WRITE_PRIORITY:
        buf_double(out, spec->priority);
        return;
    case WRITE_MEM:
        buf_double(out, spec->mem_gib);
        return;
    case WRITE_TYPES:
        buf_csv_string(out, spec->types);
        return;
    case WRITE_SHARE:
        buf_putc(out, spec->may_share ? '1' : '0');
        return;
    case WRITE_RESTART:
        buf_double(out, spec->restart_s >= 0 ? spec->restart_s : -1);
        return;
    case WRITE_NOMINAL:
        buf_putc(out, spec->is_nominal ? '1' : '0');
        return;
    case WRITE_SEQ:
        buf_double(out, spec->seq);
        return;
    case WRITE_MERGE:
        buf_putc(out, spec->may_merge ? '1' : '0');
        return;
    case WRITE_FROZEN:
        buf_double(out, spec->frozen_max);
        return;
    case WRITE_THREADS:
        buf_double(out, spec->threads);
        return;
    case WRITE_ONE_TYPE:
        buf_putc(out, spec->one_type ? '1' : '0');
        return;
    case WRITE_EFFORT:
        buf_putc(out, spec->best_effort ? '1' : '0');
        return;
    case WRITE_PRECISION:
    case WRITE_OPTIMIZER:
    case WRITE_ATTENTION:
    case WRITE_CHECKPOINTING:
        buf_puts(out, training_word(spec, (int)column - WRITE_PRECISION));
        return;
    case WRITE_PLAN:
        write_plan(out, spec);
        return;
    case WRITE_NCOLUMNS:
        break;
    }
}

void write_row(struct firn_buf *out, const struct firn_job_spec *spec,
               unsigned mask)
{
    for (int i = 0; i < WRITE_NCOLUMNS; i++) {
        if (!((mask | always) & 1u << i))
            continue;
        if (i > 0)
            buf_putc(out, ',');
        write_field(out, spec, (enum write_column)i);
    }
    buf_putc(out, '\n');
}
