/* cmd_usage.c - `firn usage`: GPU-hours by user, project and application.
 *
 * firnd sums the attempts on its disk, running ones up to now. CSV is for
 * spreadsheets and bills: numbers in full, one header line.
 */
#include "base/buf.h"
#include "base/str.h"
#include "base/table.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/live.h"
#include "cli/safetext.h"
#include <string.h>

struct usage_args {
    struct live_args live;
    const char *by, *format;
    double since_s;
};

static const struct flag flag_table[] = {
    {"by", 0, "A,B,...", "columns: user, project, app (default: user,project)",
     flag_text, offsetof(struct usage_args, by)},
    {"since", 0, "TIME", "time back from now (default: 30d)", flag_duration,
     offsetof(struct usage_args, since_s)},
    {"output", 'o', "FORMAT",
     "output format: table, json or csv (default: table)", flag_text,
     offsetof(struct usage_args, format)},
    LIVE_PLACE_FLAGS,
    {0}};

static const struct flags_page page = {
    .command = "usage",
    .usage = "[options]",
    .about =
        "Prints the GPU-hours that jobs held, over all attempts, running jobs "
        "up to now. A GPU that two jobs share counts half for each. Restarts "
        "of firnd change no number. Jobs older than firnd's keep-rows are "
        "counted on the day on which their attempts ended.",
    .table = flag_table,
};

static const char *const numbers[] = {"gpu_hours", "jobs", "attempts"};

/* The next of "user,project"; NULL at the end. */
static const char *next_column(const char **at, char name[16])
{
    size_t n = strcspn(*at, ",");
    if (**at == '\0')
        return NULL;
    str_copy(name, n + 1 < 16 ? n + 1 : 16, *at);
    *at += n + ((*at)[n] == ',');
    return name;
}

static void put_csv(const json_t *answer, const char *by, struct firn_buf *out)
{
    const json_t *rows = answer_list(answer, "usage");
    char name[16];
    buf_puts(out, by); /* the columns that are texts: those asked for */
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        buf_printf(out, ",%s", numbers[i]);
    buf_putc(out, '\n');
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        for (const char *at = by; next_column(&at, name) != NULL;) {
            buf_csv_string(out, answer_text(row, name));
            buf_putc(out, ',');
        }
        buf_double(out, answer_number(row, "gpu_hours", 0));
        buf_printf(out, ",%.0f,%.0f\n", answer_number(row, "jobs", 0),
                   answer_number(row, "attempts", 0));
    }
}

static void put_table(const json_t *answer, const char *by,
                      struct firn_buf *out)
{
    const json_t *rows = answer_list(answer, "usage");
    struct table table;
    char name[16], layout[8] = "";
    size_t n = 0;
    for (const char *at = by; n < 3 && next_column(&at, name) != NULL;)
        layout[n++] = 'l';
    str_copy(layout + n, sizeof layout - n, "rrr");
    table_init(&table, layout);
    for (const char *at = by; next_column(&at, name) != NULL;)
        table_cell(&table, name);
    table_cell(&table, "GPU-hours");
    table_cell(&table, "jobs");
    table_cell(&table, "attempts");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        for (const char *at = by; next_column(&at, name) != NULL;)
            answer_cell(&table, answer_text(row, name));
        table_cellf(&table, "%.2f", answer_number(row, "gpu_hours", 0));
        table_cellf(&table, "%.0f", answer_number(row, "jobs", 0));
        table_cellf(&table, "%.0f", answer_number(row, "attempts", 0));
    }
    table_print(&table, out);
    table_release(&table);
    buf_printf(out, "%.2f GPU-hours in all\n",
               answer_number(answer, "gpu_hours", 0));
}

static int show(struct live *live, const struct usage_args *args)
{
    struct firn_error err = {0};
    struct firn_buf path = {0}, out = {0};
    json_t *answer = NULL;
    bool is_csv = strcmp(args->format, "csv") == 0;
    buf_printf(&path, "/v1/usage?seconds=%.0f&by=", args->since_s);
    client_escape(&path, args->by);
    enum firn_status status = client_get(live->client, path.at, &answer, &err);
    buf_release(&path);
    if (status != FIRN_OK)
        return live_failed(live, &err);
    if (strcmp(args->format, "json") == 0)
        answer_print(answer, &out);
    else
        (is_csv ? put_csv : put_table)(answer, args->by, &out);
    int rc = live_write(live, &out);
    buf_release(&out);
    json_decref(answer);
    return rc;
}

int cmd_usage(int argc, char **argv)
{
    struct usage_args args = {
        .by = "user,project", .format = "table", .since_s = 30 * 86400.0};
    struct live live;
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&page, argc, argv, 0, 0, "");
    if (rc < 0 && strcmp(args.format, "table") != 0 &&
        strcmp(args.format, "json") != 0 && strcmp(args.format, "csv") != 0)
        rc = flags_wrong(&page, "unknown format '%s'; use table, json or csv",
                         args.format);
    if (rc >= 0)
        return rc;
    rc = live_open(&live, &page, &args.live);
    if (rc < 0)
        rc = show(&live, &args);
    live_close(&live);
    return rc;
}
