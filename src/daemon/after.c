/* after.c - reads and judges what a job waits for: see the header.
 */
#include "daemon/after.h"
#include "base/buf.h"
#include "base/str.h"
#include <stdio.h>
#include <string.h>

enum kind { OK, FAIL, ANY };
static const char *const kinds[] = {
    [OK] = "ok:", [FAIL] = "fail:", [ANY] = "any:"};
static const char *const wishes[] = {
    [OK] = "to succeed", [FAIL] = "to fail", [ANY] = "to end"};
enum { WORD_MOST = 96 };

/* Cuts the next word of the list. False: it is empty or too long. */
static bool next_word(const char **at, char word[WORD_MOST])
{
    *at += strspn(*at, " ");
    size_t n = strcspn(*at, ", ");
    if (n == 0 || n >= WORD_MOST)
        return false;
    memcpy(word, *at, n);
    word[n] = '\0';
    *at += n;
    *at += strspn(*at, " ");
    *at += **at == ',';
    return true;
}

/* The kind of "ok:12", and where the job stands; without a kind it is ok. */
static enum kind kind_of(const char *word, const char **job)
{
    for (int kind = OK; kind <= ANY; kind++) {
        size_t n = strlen(kinds[kind]);
        *job = word + n;
        if (strncmp(word, kinds[kind], n) == 0)
            return (enum kind)kind;
    }
    *job = word;
    return OK;
}

enum firn_status after_resolve(struct book *book, const char *text,
                               struct firn_buf *out, struct firn_error *err)
{
    while (*text != '\0') {
        char word[WORD_MOST];
        const char *name;
        struct live_job *job;
        if (!next_word(&text, word))
            return firn_fail(err, FIRN_EINVAL,
                             "'after' must be like ok:JOB,any:JOB");
        enum kind kind = kind_of(word, &name);
        if (strchr(name, ':') != NULL)
            return firn_fail(err, FIRN_EINVAL,
                             "'after' knows ok:JOB, fail:JOB and any:JOB, not "
                             "'%.60s'",
                             word);
        FIRN_TRY(book_find(book, name, &job, err));
        buf_printf(out, "%s%s%d", out->n > 0 ? "," : "", kinds[kind], job->id);
    }
    return FIRN_OK;
}

static enum after_verdict judge_one(const struct live_job *job, enum kind kind)
{
    if (job != NULL && !live_state_is_over(job->state))
        return AFTER_WAITS;
    bool has_succeeded = job != NULL && job->state == LIVE_SUCCEEDED;
    if (kind == ANY || has_succeeded == (kind == OK))
        return AFTER_READY;
    return AFTER_NEVER;
}

enum after_verdict after_judge(struct book *book, const char *text,
                               char why[LIVE_TEXT])
{
    enum after_verdict all = AFTER_READY;
    char word[WORD_MOST];
    why[0] = '\0';
    while (all != AFTER_NEVER && *text != '\0' && next_word(&text, word)) {
        const char *number;
        long id = 0;
        enum kind kind = kind_of(word, &number);
        const struct live_job *job = str_id(number, INT32_MAX, &id)
                                         ? book_job(book, (firn_job_id)id)
                                         : NULL;
        enum after_verdict one = judge_one(job, kind);
        if (one <= all)
            continue;
        all = one;
        if (one == AFTER_WAITS)
            snprintf(why, LIVE_TEXT, "waits for job %ld %s", id, wishes[kind]);
        else
            snprintf(why, LIVE_TEXT, "was to wait for job %ld %s, which is %s",
                     id, wishes[kind],
                     job != NULL ? live_state_name(job->state) : "gone");
    }
    return all;
}
