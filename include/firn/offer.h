/* offer.h - the ways one job could run: its menu.
 *
 * Each published scheduler gives jobs another freedom: how many GPUs, of which
 * types, shared with which job, with which layers frozen, split how, merged
 * with which job. A policy asks for the menu with the freedoms it understands
 * and chooses; it does not build its own. An offer says what it takes and what
 * the job is expected to make of it. What the job's trainer cannot do
 * (firn_job_can()) is on no menu.
 */
#ifndef FIRN_OFFER_H
#define FIRN_OFFER_H
#include <firn/forecast.h>

FIRN_C_BEGIN

enum firn_offer_kind {
    FIRN_OFFER_ELASTIC = 1,   /* other numbers of GPUs than asked for */
    FIRN_OFFER_FREEZE = 2,    /* front layers frozen by its trainer */
    FIRN_OFFER_SHARE = 4,     /* half-shares beside one running job */
    FIRN_OFFER_PARALLEL = 8,  /* its model spread over the GPUs in each way its
                               * application has: sharded, in pipelines of 1, 2,
                               * 4 .. stages and replicas of them; language
                               * models tensor x data parallel, by memory */
    FIRN_OFFER_TYPES = 16,    /* every GPU type it accepts */
    FIRN_OFFER_MERGE = 32,    /* trained together with a waiting job */
    FIRN_OFFER_BATCH = 64,    /* batch tuned by its trainer */
    FIRN_OFFER_THREADS = 128, /* elastic threads instead of a tuned batch,
                               * where these are faster; of one type */
    FIRN_OFFER_PLANS = 256,   /* of an application whose execution plans were
                               * measured, for each number of GPUs the fastest
                               * plan: copies, sharded, offloaded, recomputing, or
                               * stages x tensor x copies; instead of PARALLEL */
};

struct firn_offer {
    unsigned kinds; /* the freedoms it takes; 0: as submitted */
    struct firn_way way;
    const struct firn_job *with; /* SHARE, MERGE: the other job */
    double rate;             /* of the job, reference seconds a second, > 0 */
    double with_rate;        /* SHARE: of the other, beside it */
    double mem_gib;          /* on each GPU, of SHARE, of passes and of language
                              * models; NaN: not known, or not looked up */
    double marp_gib;         /* PARALLEL: the same by Frenzy's formula */
    struct firn_merge merge; /* MERGE */
    struct firn_setting setting; /* FREEZE, BATCH: what its trainer should set
                                  * on these GPUs, as far as it is known */
};

/* The menu of `job` under these freedoms, in the round's scratch memory:
 * by type, then GPUs, then how its model is spread and stages, then the other
 * job's id; the tensor x data ways of a language model come last, best first.
 * The GPU counts are 1 to 8, then whole nodes of the type, the number asked for
 * and the most it can use, as far as the job allows. Ways that cannot be or of
 * which nothing is known are left out. O(offers) questions to the forecast;
 * with SHARE O(running) more, with MERGE O(waiting). */
FIRN_API const struct firn_offer *firn_offers(const struct firn_view *view,
                                              const struct firn_job *job,
                                              unsigned kinds, size_t *n);

/* The ways to run `job` on as many GPUs of that type as it asked for in 1, 2,
 * 4, ... passes of a step, down to one sample a pass: fewest passes first,
 * without those that change nothing. In the round's scratch memory. O(log
 * batch) questions to the forecast. */
FIRN_API const struct firn_offer *
firn_offer_passes(const struct firn_view *view, const struct firn_job *job,
                  firn_type_id type, size_t *n);

/* Do two jobs of that memory (NaN: not known, fits) share a GPU of that type?
 * Rule 1 of firn/sharing.h, with its margin. */
FIRN_API bool firn_offer_fits(const struct firn_view *view, firn_type_id type,
                              double mem_gib, double other_gib);

/* The best way to run `job` on half-shares beside a running `host`, on as many
 * GPUs as it asked for (SJF-BSBF, Algorithm 2): of firn_offer_passes() the one
 * with the highest rate of those whose memory fits what the host leaves. That
 * is also the one with the least mean completion time of the two, which rises
 * with the time that `job` takes (firn/pairtime.h). False when none fits or
 * sharing is not allowed. */
FIRN_API bool firn_offer_beside(const struct firn_view *view,
                                const struct firn_job *job,
                                const struct firn_job *host,
                                struct firn_offer *out);

FIRN_C_END

#endif
