/* jobscsv.c - one line of CSV for each job that finished.
 *
 * queue_s is the time from submission to end without GPUs: jct_s - held_s.
 * `restarts` counts changes of GPUs after the first start.
 */
#include "sim/jobscsv.h"
#include "base/buf.h"
#include "base/mem.h"
#include "sim/outfile.h"
#include <math.h>

struct jobscsv {
    struct outfile file;
};

enum firn_status jobscsv_open(struct jobscsv **out, const char *path,
                              struct firn_error *err)
{
    struct outfile file;
    FIRN_TRY(outfile_open(&file, path, err));
    *out = mem_new(1, sizeof **out);
    (*out)->file = file;
    buf_puts(&(*out)->file.text,
             "name,app,group,gpus,submit_s,first_start_s,end_s,jct_s,queue_s,"
             "held_s,served_gpu_s,restarts,rho\n");
    return FIRN_OK;
}

static void put_text(struct firn_buf *out, const char *text)
{
    buf_csv_string(out, text);
    buf_putc(out, ',');
}

static void put_number(struct firn_buf *out, double value)
{
    if (isfinite(value))
        buf_double(out, value);
    buf_putc(out, ',');
}

void jobscsv_add(struct jobscsv *csv, const struct firn_job *job, double end_s,
                 double rho)
{
    if (!csv)
        return;
    struct firn_buf *out = &csv->file.text;
    double jct_s = end_s - job->spec.submit_s, held_s = job->held_s;
    if (job->held.nparts > 0)
        held_s += end_s - job->since_s;
    put_text(out, job->spec.name);
    put_text(out, job->spec.app);
    put_text(out, job->spec.group);
    buf_printf(out, "%d,", job->spec.gpus);
    put_number(out, job->spec.submit_s);
    put_number(out, job->first_start_s);
    put_number(out, end_s);
    put_number(out, jct_s);
    put_number(out, jct_s - held_s);
    put_number(out, held_s);
    put_number(out, firn_job_served_gpu_s(job, end_s));
    buf_printf(out, "%d,", job->starts > 0 ? job->starts - 1 : 0);
    if (isfinite(rho))
        buf_double(out, rho);
    buf_putc(out, '\n');
    outfile_drain(&csv->file);
}

enum firn_status jobscsv_close(struct jobscsv *csv, struct firn_error *err)
{
    if (!csv)
        return FIRN_OK;
    enum firn_status status = outfile_close(&csv->file, err);
    mem_free(csv);
    return status;
}
