/* summary.h - the fields of a simulation's result, in one table.
 *
 * JSON, CSV and the block at the end of an event log are all written from
 * this table, and the replay reads the last from it, so they cannot disagree.
 * firn_sim_print() is declared in <firn/sim.h>.
 */
#ifndef SIM_SUMMARY_H
#define SIM_SUMMARY_H
#include <firn/bytes.h>
#include <firn/sim.h>

enum summary_kind {
    SUMMARY_TEXT,
    SUMMARY_SEED,   /* uint64_t */
    SUMMARY_COUNT,  /* long */
    SUMMARY_NUMBER, /* double */
};

struct summary_field {
    const char *name; /* column of a CSV; key of JSON outside of a class */
    enum summary_kind kind;
    size_t offset, size;   /* in struct firn_sim_result */
    const char *class_of;  /* size class it belongs to ("2-4"), or NULL */
    const char *class_key; /* its key inside the class */
    bool is_measured;      /* differs from run to run: only in JSON */
};

const struct summary_field *summary_fields(size_t *n);

/* Appends the value with all its digits: "nan" for none; text as it is. */
void summary_value(const struct summary_field *field,
                   const struct firn_sim_result *result, struct firn_buf *out);

/* Reads what summary_value() wrote. FIRN_EINVAL when it is none. */
enum firn_status summary_read(const struct summary_field *field,
                              const char *text, struct firn_sim_result *out,
                              struct firn_error *err);

/* The table for people, as firn_sim_print() gives it; empty for no results. */
void summary_page(const struct firn_sim_result *results, size_t n,
                  struct firn_buf *out);

/* A time for people, "12.34s", "12m34.5s", "5h33m43s", "4d05h33m"; "-" for
 * NaN. */
void summary_time(double time_s, struct firn_buf *out);

#endif
