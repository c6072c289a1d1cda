/* data.h - where the public traces and tables lie, when they are here.
 *
 * Tests that read them must also pass on a machine that has none: data_path()
 * then gives NULL, and the test says so and skips.
 */
#ifndef LIB_DATA_H
#define LIB_DATA_H

/* The path of `rel` in the data folder ($FIRN_DATA, by default beside the
 * project), in memory that the next call but seven reuses; NULL when there is
 * no such file. */
const char *data_path(const char *rel);

#endif
