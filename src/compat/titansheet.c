/* titansheet.c - opens a table and takes numbers out of it.
 *
 * A thin cover of model/sheet.h: the folder of the tables, and the errors for
 * missing tables and bad numbers.
 */
#include "compat/titansheet.h"
#include "base/buf.h"

enum firn_status titansheet_read(struct sheet *out, const char *folder,
                                 const char *name, struct firn_error *err)
{
    struct firn_buf path = {0};
    buf_printf(&path, "%s/ymir/%s", folder, name);
    enum firn_status status = sheet_read(out, path.at, err);
    if (status == FIRN_ENOENT)
        firn_fail(err, FIRN_ENOENT,
                  "%.200s: not there; the folder of tables (--profiles) must "
                  "have TitanSched's in 'ymir'",
                  path.at);
    buf_release(&path);
    return status;
}

bool titansheet_take(const struct sheet *sheet, size_t row, const char *column,
                     double min, double *out)
{
    *out = sheet_number(sheet, row, sheet_column(sheet, column));
    return *out >= min && *out <= 1e12;
}

enum firn_status titansheet_bad(struct sheet *sheet, const char *name,
                                size_t row, struct firn_error *err)
{
    sheet_release(sheet);
    return firn_fail(err, FIRN_EINVAL,
                     "ymir/%s: row %zu: a number is missing or out of range",
                     name, row + 1);
}
