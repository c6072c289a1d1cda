/* loop_answer.c - what a turn changed is committed, and then answered.
 *
 * loop.c has the argument (1) and (2). Also called while a policy thinks in a
 * thread of its own.
 */
#include "base/clock.h"
#include "base/failpoint.h"
#include "daemon/loopwork.h"

static enum firn_status commit(struct loop *loop, struct firn_error *err)
{
    if (book_broken(loop->book)->status != FIRN_OK) {
        store_rollback(loop->store);
        return firn_fail(err, book_broken(loop->book)->status, "%s",
                         book_broken(loop->book)->text);
    }
    bool has_changes = store_has_changes(loop->store);
    double began_s = clock_elapsed_s();
    enum firn_status status = store_commit(loop->store, err);
    if (has_changes)
        metrics_observe(loop->metrics, METRIC_COMMIT_S,
                        clock_elapsed_s() - began_s);
    if (status != FIRN_OK)
        metrics_add(loop->metrics, METRIC_COMMITS_FAILED, 0, 1);
    return status;
}

enum firn_status loop_answer(struct loop *loop, struct firn_error *err)
{
    failpoint("loop.commit.before");
    enum firn_status status = commit(loop, err); /* (1) */
    failpoint("loop.commit.after");
    if (!loop->desk.is_thinking) /* else it is a part of the decision */
        turnwatch_part(&loop->watch, TURN_COMMIT);
    bool has_answers = api_is_waiting(loop->api);
    if (has_answers)
        failpoint("loop.answer.before");
    api_settle(loop->api, status, err);
    has_answers = has_answers && !api_is_waiting(loop->api);
    if (status == FIRN_EUNSAVED)
        status = FIRN_OK; /* (2) */
    if (loop->http != NULL && has_answers)
        http_run(loop->http); /* they go out */
    if (has_answers) {
        failpoint("loop.answer.after");
        loop->answered_s = dock_now_s(&loop->dock);
    }
    return status;
}
