/* book_limit.c - limits the number of unfinished jobs.
 *
 * A loop around `firn submit` could fill the memory and slow every decision. So
 * the number of unfinished jobs is limited, of all users and of each. Jobs that
 * were taken before stay, and a submit that is sent again gets its job whatever
 * the limit. Jobs of the engine's own queue (the inbox) count, but are not
 * refused here: they are in that queue already.
 *
 * Counts are kept as jobs come and end; a check costs a walk over the users
 * with unfinished jobs.
 */
#include "base/mem.h"
#include "daemon/bookwork.h"
#include <string.h>

void book_limits(struct book *book, size_t jobs_max, size_t user_max)
{
    book->jobs_max = jobs_max;
    book->user_max = user_max;
}

static struct book_user *find_user(struct book *book, const char *user)
{
    for (size_t i = 0; i < book->users.n; i++)
        if (strcmp(book->users.at[i].name, user) == 0)
            return &book->users.at[i];
    return NULL;
}

void book_limit_began(struct book *book, const struct live_job *job)
{
    const char *name = job->ask.user != NULL ? job->ask.user : "";
    struct book_user *user = find_user(book, name);
    book->nliving++;
    if (user != NULL) {
        user->nliving++;
        return;
    }
    struct book_user fresh = {mem_strdup(name), 1};
    vec_add(&book->users, fresh);
}

void book_limit_ended(struct book *book, const struct live_job *job)
{
    struct book_user *user =
        find_user(book, job->ask.user != NULL ? job->ask.user : "");
    if (user == NULL || book->nliving == 0)
        FIRN_BUG("job %d ended and was never counted", job->id);
    book->nliving--;
    if (--user->nliving > 0)
        return;
    mem_free(user->name);
    *user = book->users.at[--book->users.n];
}

void book_limit_release(struct book *book)
{
    for (size_t i = 0; i < book->users.n; i++)
        mem_free(book->users.at[i].name);
    vec_release(&book->users);
}

enum firn_status book_room(struct book *book, const struct live_ask *ask,
                           struct firn_error *err)
{
    if (ask->inbox != NULL && ask->inbox[0] != '\0')
        return FIRN_OK;
    if (book->jobs_max > 0 && book->nliving >= book->jobs_max)
        return firn_fail(err, FIRN_ELIMIT,
                         "%zu jobs wait or run, and firnd takes %zu "
                         "(jobs-max): submit again when some have ended",
                         book->nliving, book->jobs_max);
    const char *name = ask->user != NULL ? ask->user : "";
    const struct book_user *user = find_user(book, name);
    if (book->user_max > 0 && user != NULL && user->nliving >= book->user_max)
        return firn_fail(err, FIRN_ELIMIT,
                         "%zu jobs of %.60s wait or run, and firnd takes %zu "
                         "of a user (user-jobs-max): submit again when some "
                         "have ended",
                         user->nliving, name, book->user_max);
    return FIRN_OK;
}
