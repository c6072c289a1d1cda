/* test_history.c - the checker of histories rejects every planted fault.
 *
 * Histories are written in letters, one word for each request, at the times
 * 0-1, 2-3, 4-5 and so on unless a word says otherwise:
 *
 *     S            submit          H R C        hold, release, cancel
 *     P7           priority 7      L            show
 *
 * and behind it the answer: nothing (unknown), "=" and the state shown, "!"
 * for "is over", "-" for "no such job", "x" for "refused". A state is p, a, s,
 * f or c (pending, active, succeeded, failed, cancelled) or t (active, but only
 * starting), then h (held), e (ending), the attempt as a digit, and last "p7"
 * for a priority other than 0. "@3-9" gives the times, "#5" another id than 1,
 * "&1" the second job.
 */
#include "lib/history.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 40 };

static void read_seen(const char *at, struct history_seen *out)
{
    static const char phases[] = "pasfc";
    out->is_starting = *at == 't';
    out->phase = out->is_starting
                     ? HISTORY_ACTIVE
                     : (enum history_phase)(strchr(phases, *at) - phases);
    at++;
    for (; *at == 'h' || *at == 'e' || (*at >= '0' && *at <= '9'); at++) {
        out->is_held |= *at == 'h';
        out->is_ending |= *at == 'e';
        if (*at >= '0' && *at <= '9')
            out->attempt = *at - '0';
    }
    if (*at == 'p')
        out->priority = (int)strtol(at + 1, NULL, 10);
}

static struct history_op read_op(const char *word, int i)
{
    static const char whats[] = "SHRCPL";
    struct history_op op = {
        .what = (enum history_what)(strchr(whats, word[0]) - whats),
        .from_s = 2 * i,
        .to_s = 2 * i + 1,
        .seen = {.id = 1}};
    const char *at = word + 1;
    if (op.what == HISTORY_PRIORITY)
        op.value = (int)strtol(at, (char **)&at, 10);
    if (*at == '=') {
        op.result = HISTORY_OK;
        if (op.what != HISTORY_SUBMIT)
            read_seen(at + 1, &op.seen);
    }
    op.result = *at == '!'   ? HISTORY_OVER
                : *at == '-' ? HISTORY_ABSENT
                : *at == 'x' ? HISTORY_REFUSED
                             : op.result;
    if (op.result == HISTORY_UNKNOWN)
        op.to_s = INFINITY;
    if ((at = strchr(word, '@')) != NULL)
        sscanf(at, "@%lf-%lf", &op.from_s, &op.to_s);
    if ((at = strchr(word, '#')) != NULL)
        op.seen.id = strtol(at + 1, NULL, 10);
    if ((at = strchr(word, '&')) != NULL)
        op.key = (int)strtol(at + 1, NULL, 10);
    return op;
}

static bool judge(const char *text, struct history_rule rule)
{
    struct history_op ops[MOST];
    struct history_rule rules[2] = {rule, rule};
    char words[400], said[HISTORY_SAID];
    int n = 0;
    snprintf(words, sizeof words, "%s", text);
    for (char *word = strtok(words, " "); word != NULL && n < MOST;
         word = strtok(NULL, " ")) {
        ops[n] = read_op(word, n);
        n++;
    }
    bool is_good = history_is_good(ops, (size_t)n, rules, 2, said);
    assert_true(is_good == (said[0] == '\0'));
    return is_good;
}

static void possible_histories_are_accepted(void **state)
{
    (void)state;
    static const char *const good[] = {
        "",
        "S= L=p L=a1 L=s1 L=s1",
        "L- S= L=p",
        "S S= L=a1",                   /* sent again */
        "S L- S L=p",                  /* the first was lost, or came late */
        "Sx L- S= L=p",                /* refused, then taken */
        "S= H=ph L=ph R=p L=a1 L=s1",  /* held and released */
        "S= H=ah1 L=ah1 L=s1h",        /* hold does not stop what runs */
        "S= H L=a1 L=ah1 L=ah1",       /* a hold that came late */
        "S= H L=a1 L=a2 L=s2",         /* one that never came */
        "S= H=th1 L=th2 L=ah2",        /* a start that was tried again */
        "S= C=c L=c H!",               /* cancelled while it waited */
        "S= L=a1 C=ae1 L=ae1 L=c1 C!", /* and while it ran */
        "S= L=a1 C=ae1 L=s1",          /* it ended by itself just before */
        "S= L=a1 C L=f1", /* its record was lost, its signal was not */
        "S= C C! L=c",    /* an unknown cancel did happen */
        "S= L=a1 C! L=s1",
        "S= P7=pp7 L=a1p7 P3=a1p3 L=a1p3",
        "S= P7=pp7@2-9 P3=pp3@2-9 L=pp7@10-11", /* either order */
        "S= P7 L=p L=pp7 L=pp7",
        "S= L=a1 L=p1 L=a2 L=s2", /* lost and started again */
        "S= L=p@2-9 L=a1@2-9",
        "S= S=&1#2 L=p&1#2 L=p",
        "S= H R L=ph L=a1",
        "S= H@2-3 L=ph L=ph", /* it came in time */
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (!judge(good[i], (struct history_rule){0}))
            fail_msg("rejected: %s", good[i]);
    assert_true(judge("S= L=a1 L=f1", (struct history_rule){.may_fail = true}));
}

static void every_planted_fault_is_rejected(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "S= L-",                  /* an acknowledged job is lost */
        "S= L=p L-",              /* later, too */
        "S= S=#2",                /* one request, two jobs */
        "S= L=p#2",               /* an id that changes */
        "S= S=&1#1",              /* one id, two jobs */
        "L=p",                    /* a job that was never sent */
        "Sx L=p",                 /* one that was refused */
        "S= L=s1 L=a1",           /* backwards */
        "S= L=s1 L=c1",           /* from one end to another */
        "S= L=a2 L=a1",           /* attempts go back */
        "S= L=a1 L=s1 L=s2",      /* started after its end */
        "S= H=ph L=a1",           /* an acknowledged hold is gone */
        "S= H=ph L=ah1",          /* started while it was held */
        "S= H=ph L=ph1",          /* so, though it waits again */
        "S= H=ah1 L=ah2",         /* started anew while it was held */
        "S= H=th1 L=ah1 L=ah2",   /* not once it ran */
        "S= C=te1 L=te2",         /* nor when it is cancelled */
        "S= H=ph R=p L=ph",       /* an acknowledged release is gone */
        "S= C=c L=p",             /* an acknowledged cancel is gone */
        "S= C=c L=a1",            /* a cancelled job starts */
        "S= H=ph C=ch L=s1h",     /* a cancelled job succeeds */
        "S= L=a1 C=ae1 L=a1",     /* forgotten while it ran */
        "S= L=a1 C=ae1 L=ae2",    /* started anew after a cancel */
        "S= L=c",                 /* cancelled by no request */
        "S= P7=pp7 L=p",          /* an acknowledged priority is gone */
        "S= P7=pp7 P3=pp3 L=pp7", /* an older one comes back */
        "S= P7 L=pp7 L=p",        /* seen, and gone */
        "S= P7=pp7@2-9 P3=pp3@2-9 L=p@10-11",
        "S= L=p C! L=p", /* "is over", and it is not */
        "S= L=a1 H!@4-5 L=a1@6-7",
        "S= L=a1 C=ae1 L=f1", /* an acknowledged cancel is kept */
        "S= L=f1",            /* nothing should have failed */
        "S= H@2-3 L=p L=ph",  /* by a request of the dead */
        "S= H=ph H L=ah1",    /* an unknown request is no excuse */
        "L=p@0-1 S=@2-3",     /* seen before it was sent */
        "S= C=c@2-3 R=p@4-5", /* released after its end */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (judge(bad[i], (struct history_rule){0}))
            fail_msg("accepted: %s", bad[i]);
    assert_false(
        judge("S= L=a1 L=s1", (struct history_rule){.is_endless = true}));
    assert_false(
        judge("S= L=a1 C=ae1 L=s1", (struct history_rule){.is_endless = true}));
}

/* Many without an answer: the search remembers what it has seen. */
static void forty_concurrent_requests_are_searched_in_time(void **state)
{
    (void)state;
    struct history_op ops[MOST] = {
        {.what = HISTORY_SUBMIT, .result = HISTORY_OK, .to_s = 1}};
    struct history_rule rule = {0};
    char said[HISTORY_SAID];
    for (int i = 1; i < MOST - 1; i++)
        ops[i] = (struct history_op){.what = i % 2 == 0 ? HISTORY_HOLD
                                                        : HISTORY_RELEASE,
                                     .from_s = 2,
                                     .to_s = INFINITY};
    ops[MOST - 1] = (struct history_op){
        .what = HISTORY_SHOW,
        .result = HISTORY_OK,
        .from_s = 3,
        .to_s = 4,
        .seen = {.phase = HISTORY_CANCELLED}}; /* by no request */
    assert_false(history_is_good(ops, MOST, &rule, 1, said));
    ops[MOST - 1].seen.phase = HISTORY_PENDING;
    assert_true(history_is_good(ops, MOST, &rule, 1, said));
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(possible_histories_are_accepted),
        cmocka_unit_test(every_planted_fault_is_rejected),
        cmocka_unit_test(forty_concurrent_requests_are_searched_in_time),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
