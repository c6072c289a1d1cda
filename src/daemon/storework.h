/* storework.h - what the parts of the store share; for store*.c and its tests.
 *
 * store_open.c opens the file, store_schema.c makes and checks its schema,
 * store_redo.c keeps transactions, store_room.c the reserve file, store.c has
 * attempts, events, reports and settings, store_job.c turns jobs into rows and
 * back, store_judge.c refuses impossible values, store_trim.c deletes old rows.
 */
#ifndef DAEMON_STOREWORK_H
#define DAEMON_STOREWORK_H
#include "base/arena.h"
#include "base/vec.h"
#include "daemon/store.h"
#include <sqlite3.h>

/* The loop keeps a pointer for each id from the first on, a GiB at most: a job
 * whose id is not within this of the first is a damaged row. */
enum { STORE_IDS_SPAN = 1 << 27 };

/* Statements that are prepared once, at their first use. */
enum store_sql {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_NEXT_ID,
    SQL_NEXT_EVENT,
    SQL_BAD_EVENTS,
    SQL_DROP_EVENTS,
    SQL_ADD_JOB,
    SQL_PUT_JOB,
    SQL_READ_JOB,
    SQL_LIVE_JOBS,
    SQL_OVER_JOBS,
    SQL_ALL_JOBS,
    SQL_FIND_REQUEST,
    SQL_FIND_NAME,
    SQL_FIND_PREFIX,
    SQL_PUT_ATTEMPT,
    SQL_EACH_ATTEMPT,
    SQL_STOP_ATTEMPT,
    SQL_FIRST_STEP,
    SQL_ADD_EVENT,
    SQL_EACH_EVENT,
    SQL_EACH_BACK,
    SQL_ADD_REPORT,
    SQL_EACH_REPORT,
    SQL_COUNT_REPORTS,
    SQL_THIN_REPORTS,
    SQL_PUT_META,
    SQL_GET_META,
    SQL_TRIM_REPORTS,
    SQL_TRIM_EVENTS,
    SQL_CLOSE_ATTEMPTS,
    SQL_CLOSE_OVER,
    SQL_OLD_REPORTS,
    SQL_OLD_EVENTS,
    SQL_EACH_END,
    SQL_FORGET_REPORTS,
    SQL_HAS_REPORTS,
    SQL_FORGET_ATTEMPTS,
    SQL_FORGET_JOB,
    SQL_PUT_SPAN,
    SQL_FORGET_SPANS,
    SQL_RESIZE_ATTEMPT,
    SQL_TIME_SPAN,
    SQL_TIME_ATTEMPT,
    SQL_KEEP_USAGE,
    SQL_EACH_USAGE,
    SQL_EACH_KEPT_USAGE,
    SQL_N
};

/* A value as it was given: SQLite gets it again, to the bit, at each replay. */
struct store_value {
    enum { STORE_INT, STORE_REAL, STORE_TEXT, STORE_BLOB } kind;
    int64_t whole;
    double real;
    const char *at; /* of a text or a blob; in the store's `redo_text` */
    size_t n;
};

/* A change: a statement and its values, of which [0] is parameter 1. */
struct store_change {
    enum store_sql which;
    int nvalues;
    struct store_value *values;
};

/* The disk and the reserve file: store_room.c. */
struct store_disk {
    enum room room;
    bool has_reserve;
    bool wants_reserve; /* store_look() was called once */
    double looked_s;
    double retry_s, delay_s; /* the next try of pending changes; its delay */
    char why[300];           /* SQLite's words when a write failed last */
    char trouble[600];       /* the sentence for users; "" while AMPLE */
};

struct store {
    sqlite3 *db;
    int lock_fd;
    sqlite3_stmt *sql[SQL_N];
    bool is_changing; /* a transaction is open in SQLite */
    bool is_stalled;  /* the changes in `redo` wait for a replay */
    bool has_failed;  /* rolled back; store_commit() has not reported it yet */
    unsigned nrollbacks;
    firn_job_id next_id, first_id;
    int64_t next_event;
    VEC(struct store_change) redo; /* since the last commit, in their order */
    struct arena redo_text;
    struct store_disk disk;
    char path[4096];
};

/* The steps of the schema: `n` texts of SQL. */
const char *const *store_schema(size_t *n);
/* Writes the statements that make the result of the steps at once to `out`,
 * which is cleared first. False if a step does more than to make tables and
 * indexes and to add columns. */
bool store_schema_whole(const char *const *steps, size_t nsteps,
                        struct firn_buf *out);
/* The file's user_version says how many it has had. Each step is a transaction
 * with its number; a new file gets all of them in one. FIRN_EIO when the file
 * has had more than there are: a newer firn made it; FIRN_EDATA: it is damaged.
 */
enum firn_status store_migrate(sqlite3 *db, const char *const *steps,
                               size_t nsteps, struct firn_error *err);

/* Is the file's schema that of the steps it has had? Its indexes are mended.
 * FIRN_EDATA: it is not; FIRN_EIO: unknown, as it could not be compared or
 * mended: the file may be good. */
enum firn_status store_check_schema(sqlite3 *db, const char *const *steps,
                                    size_t nsteps, struct firn_error *err);

/* The statement, reset and without values. NULL: it could not be prepared,
 * and the transaction has failed. */
sqlite3_stmt *store_sql(struct store *store, enum store_sql which);
/* Its text, where that is long: see store_job.c. NULL: it is not there. The
 * caller frees it by mem_free. */
char *store_job_sql(enum store_sql which);
/* A change with room for `nvalues` values, all of them the number 0; then each
 * value; then store_apply(), which hands it to SQLite, or, while the store is
 * stalled, keeps it for the next replay. Texts are copied. NULL is "". */
struct store_change store_change(struct store *store, enum store_sql which,
                                 int nvalues);
void store_give_int(struct store_change *change, int at, int64_t value);
void store_give_real(struct store_change *change, int at, double value);
void store_give_text(struct store *store, struct store_change *change, int at,
                     const char *text);
void store_give_blob(struct store *store, struct store_change *change, int at,
                     struct firn_bytes blob);
enum firn_status store_apply(struct store *store,
                             const struct store_change *change,
                             struct firn_error *err);
/* Rows that the last change has changed; 0 while it is pending. */
int store_nchanged(const struct store *store);
/* Rolls back, forgets the changes and says what SQLite says. FIRN_EIO. */
enum firn_status store_torn(struct store *store, struct firn_error *err);
/* May a write that failed with this code succeed later? False: damage, or a
 * statement that SQLite refuses. */
bool store_may_pass(int code);
/* Does this code of a failed reading say that the file is damaged? False: it
 * tells nothing about the file (no memory, no descriptor, a lock, the disk). */
bool store_is_damage(int code);

/* --- what a row may have: store_judge.c ---------------------------------- */

/* The value of a column of the table of jobs: an integer within bounds; a real
 * number that is finite. False: it is not. */
bool store_judge_whole(sqlite3_stmt *row, int at, int64_t least, int64_t most,
                       int64_t *out);
bool store_judge_real(sqlite3_stmt *row, int at, double *out);
/* A number of an attempt. */
bool store_judge_count(int64_t value);
/* A time; 0 for one that cannot be. */
double store_judge_s(double value);
/* The column that makes it a bad row; NULL: none does. */
const char *store_judge_job(const struct live_job *job, int over,
                            firn_job_id first_id);

/* --- the disk: store_room.c ----------------------------------------------- */

/* Where the reserve file is: <folder>/firn.reserve. */
void store_reserve_path(const struct store *store, struct firn_buf *out);
/* A write failed, with the words in store->disk.why; true: the reserve was
 * given up, try once more. */
bool store_room_failed(struct store *store);
/* A commit is on disk. */
void store_room_wrote(struct store *store);
/* Deletes the reserve file of a store that is being opened; false: there is
 * none. */
bool store_room_give_up(struct store *store);

/* The same of a reading, which harms nothing. */
enum firn_status store_unread(struct store *store, struct firn_error *err);
/* After a failure: if it was damage, the next opening checks the whole file. */
void store_suspect(const struct store *store);
/* The path of that mark, appended. store_suspect.c */
void store_suspect_path(const char *path, struct firn_buf *out);
/* Reads what is kept in memory again: the next ids. */
enum firn_status store_count(struct store *store, struct firn_error *err);
/* When it is opened: deletes events whose numbers cannot be. */
enum firn_status store_drop_events(struct store *store, struct firn_error *err);
/* Text bound as it is; NULL is "". It must live until the step is done. */
void store_bind(sqlite3_stmt *sql, int at, const char *text);
/* Did SQLite lack memory for a value of the row that was read last? Its text
 * came as NULL then. */
bool store_row_is_unread(sqlite3_stmt *row);

#endif
