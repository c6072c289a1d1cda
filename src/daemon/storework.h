/* storework.h - what the parts of the store share; for store*.c and its tests.
 *
 * store_open.c makes a connection, store.c keeps transactions and statements,
 * store_job.c turns jobs into rows and back, store_trim.c deletes old rows.
 */
#ifndef DAEMON_STOREWORK_H
#define DAEMON_STOREWORK_H
#include "daemon/store.h"
#include <sqlite3.h>

/* Statements that are prepared once, at their first use. */
enum store_sql {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_NEXT_ID,
    SQL_ADD_JOB,
    SQL_PUT_JOB,
    SQL_READ_JOB,
    SQL_LIVE_JOBS,
    SQL_OVER_JOBS,
    SQL_ALL_JOBS,
    SQL_FIND_REQUEST,
    SQL_FIND_NAME,
    SQL_FIND_PREFIX,
    SQL_PUT_EPOCH,
    SQL_EACH_EPOCH,
    SQL_ADD_EVENT,
    SQL_EACH_EVENT,
    SQL_ADD_REPORT,
    SQL_EACH_REPORT,
    SQL_PUT_META,
    SQL_GET_META,
    SQL_TRIM_REPORTS,
    SQL_TRIM_EVENTS,
    SQL_OLD_REPORTS,
    SQL_OLD_EVENTS,
    SQL_EACH_END,
    SQL_FORGET_REPORTS,
    SQL_HAS_REPORTS,
    SQL_FORGET_EPOCHS,
    SQL_FORGET_JOB,
    SQL_N
};

struct store {
    sqlite3 *db;
    int lock_fd;
    sqlite3_stmt *sql[SQL_N];
    bool is_changing; /* a transaction is open */
    bool has_failed;  /* it is rolled back; nobody has been told by commit */
    unsigned nrollbacks;
    firn_job_id next_id, first_id;
    char path[4096];
};

/* A schema is a list of steps; the file's user_version says how many it has
 * had. Each step is a transaction with its number. FIRN_EIO when the file has
 * had more than there are: a newer firn made it. */
enum firn_status store_migrate(sqlite3 *db, const char *const *steps,
                               size_t nsteps, struct firn_error *err);

/* The statement, reset and without values. NULL: it could not be prepared,
 * and the transaction has failed. */
sqlite3_stmt *store_sql(struct store *store, enum store_sql which);
/* Its text, where that is long: see store_job.c. NULL: it is not there. The
 * caller frees it by mem_free. */
char *store_job_sql(enum store_sql which);
/* Before a change: opens the transaction if none is. */
enum firn_status store_begin(struct store *store, struct firn_error *err);
/* Runs a change to its end. */
enum firn_status store_step(struct store *store, sqlite3_stmt *sql,
                            struct firn_error *err);
/* Rolls back and says what SQLite says. FIRN_EIO. */
enum firn_status store_torn(struct store *store, struct firn_error *err);
/* The same of a reading, which harms nothing. */
enum firn_status store_unread(struct store *store, struct firn_error *err);
/* After a failure: if it was damage, the next opening checks the whole file. */
void store_suspect(const struct store *store);
/* Reads what is kept in memory again: the next id. */
enum firn_status store_count(struct store *store, struct firn_error *err);
/* Text bound as it is; NULL is "". It must live until the step is done. */
void store_bind(sqlite3_stmt *sql, int at, const char *text);

#endif
