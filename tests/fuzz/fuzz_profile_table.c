/* fuzz_profile_table.c - any bytes as a measured table, and as its layers.
 *
 * What stands behind a line "===" is the layer table. Whatever the bytes are,
 * each row belongs to one application, no row is lost between them, and what
 * is called good is good.
 */
#include "cli/flags.c" /* programs link libfirn.a, which has no cli */
#include "cli/profile_table.c"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool is_true)
{
    if (!is_true)
        abort();
}

static void put_file(const char *path, const uint8_t *data, size_t n)
{
    FILE *file = fopen(path, "wb");
    must(file != NULL);
    must(n == 0 || fwrite(data, 1, n, file) == n);
    must(fclose(file) == 0);
}

/* Where the layer table begins; `size` when there is none. */
static size_t find_mark(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i + 5 <= size; i++)
        if (memcmp(data + i, "\n===\n", 5) == 0)
            return i + 1;
    return size;
}

static void check_rows(const struct profile_table *table)
{
    size_t nall = 0;
    for (size_t i = 0; i < table->apps.n; i++) {
        size_t n;
        struct evaluate_row *rows =
            profile_table_of(table, table->apps.at[i], &n);
        for (size_t k = 0; k < n; k++)
            must(evaluate_row_fault(&rows[k]) == NULL);
        mem_free(rows);
        nall += n;
    }
    must(nall == table->nrows);
    for (size_t i = 0; i < table->nrows; i++)
        must(table->rows[i].app >= 0 &&
             (size_t)table->rows[i].app < table->apps.n &&
             table->rows[i].line > 1);
    for (long i = 0; i < TABLE_BAD_SHOWN; i++)
        must((table->bad[i][0] != '\0') == (i < table->nbad));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[64], layers_path[80];
    static struct profile_layers layers;
    struct profile_table table;
    struct firn_error err = {0};
    size_t mark = find_mark(data, size);
    snprintf(path, sizeof path, "/tmp/firn-fuzz-table-%ld", (long)getpid());
    snprintf(layers_path, sizeof layers_path, "%s-layers", path);
    put_file(path, data, mark);
    layers = (struct profile_layers){0};
    if (mark < size) {
        put_file(layers_path, data + mark + 4, size - mark - 4);
        if (profile_layers_read(&layers, layers_path, path, &err) != FIRN_OK)
            must(*err.text != '\0');
        must(layers.n >= 0 && layers.n <= TABLE_LAYERS);
        unlink(layers_path);
    }
    err = (struct firn_error){0};
    if (profile_table_read(&table, path, &layers, &err) == FIRN_OK) {
        if (table.counts_layers)
            profile_table_count_layers(&table, table.most_frozen);
        check_rows(&table);
    } else {
        must(*err.text != '\0');
    }
    profile_table_release(&table);
    unlink(path);
    return 0;
}
