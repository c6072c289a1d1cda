/* frozentable.h - measured tables of frozen layers, held out share by share.
 *
 * A table has the columns of profiles/h200/freeze.csv, or those of them that
 * visits.csv has; rows of one application stand together, and a batch begins
 * with its row that has nothing frozen.
 */
#ifndef LIB_FROZENTABLE_H
#define LIB_FROZENTABLE_H
#include <firn/freeze.h>
#include <stdbool.h>
#include <stddef.h>

enum { TABLE_ROWS = 1280, TABLE_NAME = 32 };

struct table {
    struct firn_backward_obs obs[TABLE_ROWS];
    double iter_s[TABLE_ROWS];
    double visit[TABLE_ROWS]; /* NaN when the file has none */
    char app[TABLE_ROWS][TABLE_NAME];
    size_t n;
};

/* False when the file cannot be read. */
bool table_load(struct table *t, const char *path);

/* Held-out rows. is_bare, set by the caller: nothing is printed, and steps
 * means nothing. */
struct score {
    double predicted[TABLE_ROWS], measured[TABLE_ROWS];
    double steps[TABLE_ROWS]; /* predicted by the step model instead */
    size_t row[TABLE_ROWS];   /* of the table */
    bool is_bare;
    size_t n;
};

/* Holds out each frozen share but the least and the largest of each
 * application; prints the error by application. */
void table_hold_out(const struct table *t, struct score *all);

#endif
