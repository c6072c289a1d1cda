/* livejob.c - names of states and reasons; freeing a job.
 *
 * The lists of the header give the enums and, here, the tables, so that every
 * state has a name. Looking a name up is a walk over twenty entries.
 */
#include "daemon/livejob.h"
#include "base/mem.h"
#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    bool is_over;
} states[] = {
#define X(code, name, over) {name, over},
    LIVE_STATE_MAP(X)
#undef X
};

static const char *const reasons[] = {
#define X(code, name) name,
    LIVE_REASON_MAP(X)
#undef X
};

enum {
    NSTATES = sizeof states / sizeof *states,
    NREASONS = sizeof reasons / sizeof *reasons
};

const char *live_state_name(enum live_state state)
{
    if ((size_t)state >= NSTATES)
        FIRN_BUG("there is no state %d", (int)state);
    return states[state].name;
}

bool live_state_is_over(enum live_state state)
{
    return (size_t)state < NSTATES && states[state].is_over;
}

bool live_state_named(const char *name, enum live_state *out)
{
    for (size_t i = 0; i < NSTATES; i++)
        if (strcmp(states[i].name, name) == 0) {
            *out = (enum live_state)i;
            return true;
        }
    return false;
}

const char *live_reason_name(enum live_reason reason)
{
    if ((size_t)reason >= NREASONS)
        FIRN_BUG("there is no reason %d", (int)reason);
    return reasons[reason];
}

bool live_reason_named(const char *name, enum live_reason *out)
{
    for (size_t i = 0; i < NREASONS; i++)
        if (strcmp(reasons[i], name) == 0) {
            *out = (enum live_reason)i;
            return true;
        }
    return false;
}

static const char *const causes[] = {"",
#define X(code, name) name,
                                     LIVE_CAUSE_MAP(X)
#undef X
};
enum { NCAUSES = sizeof causes / sizeof *causes };

const char *live_cause_name(enum live_cause cause)
{
    if ((size_t)cause >= NCAUSES)
        FIRN_BUG("there is no cause %d", (int)cause);
    return causes[cause];
}

enum live_cause live_cause_named(const char *name)
{
    for (size_t i = 0; i < NCAUSES; i++)
        if (strcmp(causes[i], name) == 0)
            return (enum live_cause)i;
    return LIVE_CAUSE_NONE;
}

void *live_ask_member(const struct live_ask *ask, enum job_field_id id)
{
    static const size_t offsets[] = {
#define JOB_FIELD(member, ...) offsetof(struct live_ask, member),
#include "core/jobfields.def"
    };
    return (char *)ask + offsets[id];
}

void live_ask_complete(struct live_ask *ask)
{
    for (int i = 0; i < JOB_NFIELDS; i++) {
        void *member = live_ask_member(ask, (enum job_field_id)i);
        enum job_storage storage = job_field_storage(&job_fields[i]);
        if (storage == JOB_AS_TEXT && *(char **)member == NULL)
            *(char **)member = mem_strdup("");
        else if (storage == JOB_AS_LIST && *(char ***)member == NULL)
            *(char ***)member = mem_new(1, sizeof(char *));
    }
}

void live_ask_release(struct live_ask *ask)
{
    if (ask == NULL)
        return;
    for (int i = 0; i < JOB_NFIELDS; i++) {
        void *member = live_ask_member(ask, (enum job_field_id)i);
        if (job_field_storage(&job_fields[i]) == JOB_AS_TEXT)
            mem_free(*(char **)member);
        else if (job_field_storage(&job_fields[i]) == JOB_AS_LIST) {
            char **list = *(char ***)member;
            for (size_t k = 0; list != NULL && list[k] != NULL; k++)
                mem_free(list[k]);
            mem_free(list);
        }
    }
    *ask = (struct live_ask){0};
}

void live_job_free(struct live_job *job)
{
    if (job == NULL)
        return;
    live_ask_release(&job->ask);
    mem_free(job->text);
    mem_free(job->request);
    mem_free(job->end_why);
    mem_free(job->held);
    mem_free(job->variance);
    mem_free(job);
}
