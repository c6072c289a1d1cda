/* usagecsv.c - GPU-hours of each user and project of a simulation, as CSV.
 *
 * One row for each member (a user in a project), in the order of accounts. The
 * share is that of the user and that of the project; `part` is the member's
 * part of all GPU-hours, from 0 to 1.
 */
#include "sim/usagecsv.h"
#include "base/buf.h"
#include "sim/outfile.h"

enum firn_status usagecsv_write(const struct firn_sim_options *options,
                                struct accounts *accounts, double now_s,
                                struct firn_error *err)
{
    struct outfile file;
    double all_gpu_s = 0;
    if (options->usage_path == NULL || accounts == NULL)
        return FIRN_OK;
    FIRN_TRY(outfile_open(&file, options->usage_path, err));
    accounts_settle(accounts, now_s);
    for (size_t i = 0; i < accounts->list.n; i++)
        if (accounts->list.at[i].kind == ACCOUNT_MEMBER)
            all_gpu_s += accounts->list.at[i].total_gpu_s;
    buf_puts(&file.text,
             "project,user,project_share,user_share,gpu_hours,part\n");
    for (size_t i = 0; i < accounts->list.n; i++) {
        const struct account *member = &accounts->list.at[i];
        if (member->kind != ACCOUNT_MEMBER)
            continue;
        const struct account *project = &accounts->list.at[member->project];
        buf_csv_string(&file.text, project->name);
        buf_putc(&file.text, ',');
        buf_csv_string(&file.text, member->name);
        buf_putc(&file.text, ',');
        buf_double(&file.text, project->limits.share);
        buf_putc(&file.text, ',');
        buf_double(&file.text, member->limits.share);
        buf_putc(&file.text, ',');
        buf_double(&file.text, member->total_gpu_s / 3600);
        buf_putc(&file.text, ',');
        buf_double(&file.text,
                   all_gpu_s > 0 ? member->total_gpu_s / all_gpu_s : 0);
        buf_putc(&file.text, '\n');
    }
    return outfile_close(&file, err);
}
