/* easyscalemenu.h - the offers EasyScale's artifact makes to a job.
 *
 * A job has maxP workers of one batch each. An offer is a number of GPUs of
 * each type and A, how many workers each GPU of a type runs in turn; a menu
 * has all offers to jobs of one kind. The next offer to a job is a pure
 * function of its menu and of the GPUs it holds.
 */
#ifndef COMPAT_EASYSCALEMENU_H
#define COMPAT_EASYSCALEMENU_H
#include "base/vec.h"
#include <stdbool.h>

enum {
    ES_TYPES = 3, /* v100, p100, t4, in this order everywhere */
    ES_GPUS = 64, /* of all types */
    ES_ANY = -1,  /* any type */
};

extern const char *const es_type_names[ES_TYPES];
extern const int es_type_gpus[ES_TYPES];

/* One application. A mini-batch of b takes batch_s (1 + slope (b / batch - 1))
 * on a GPU: slope 1 is time proportional to the batch. */
struct es_app {
    char name[32];
    double samples; /* in one epoch */
    double batch[ES_TYPES], batch_s[ES_TYPES];
    double slope;
};

struct es_offer {
    int gpus[ES_TYPES];
    int ests[ES_TYPES]; /* A: workers on each GPU of the type */
    double waste;       /* share of the GPUs' power left idle */
    double speedup;     /* over one t4 */
};

/* Fastest first. */
struct es_menu {
    const struct es_app *app;
    int batch, workers;
    VEC(struct es_offer) offers;
};

/* Seconds of one mini-batch on a GPU. */
double es_batch_s(const struct es_app *app, int type, int batch);
/* GPUs of all types. */
int es_gpus(const int counts[ES_TYPES]);

/* Makes all offers; `app` is borrowed. The caller frees it. */
struct es_menu *es_menu_new(const struct es_app *app, int batch, int workers);
void es_menu_free(struct es_menu *menu);

/* The slowest offer; with `only` a type, of those on that type alone. Lives as
 * long as the menu. */
const struct es_offer *es_menu_slowest(const struct es_menu *menu, int only);

/* The best offer with more GPUs of `type` to a job that holds `has`; false for
 * none. `gain` is the speedup that each added GPU brings, above 1. */
bool es_menu_grow(const struct es_menu *menu, int only,
                  const struct es_offer *has, int type, struct es_offer *to,
                  double *gain);

#endif
