/* titansheet.h - the tables that TitanSched was published with.
 *
 * Private to the titan world. They lie in the folder `ymir` of the folder of
 * tables.
 */
#ifndef COMPAT_TITANSHEET_H
#define COMPAT_TITANSHEET_H
#include "model/sheet.h"

/* Reads FOLDER/ymir/NAME; the caller releases it. FIRN_ENOENT with what should
 * be there. */
enum firn_status titansheet_read(struct sheet *out, const char *folder,
                                 const char *name, struct firn_error *err);

/* A number from `min` to 1e12; false for anything else. */
bool titansheet_take(const struct sheet *sheet, size_t row, const char *column,
                     double min, double *out);

/* Says that a row cannot be used, and releases the sheet. */
enum firn_status titansheet_bad(struct sheet *sheet, const char *name,
                                size_t row, struct firn_error *err);

#endif
