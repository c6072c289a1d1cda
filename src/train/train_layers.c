/* train_layers.c - layers that are not one behind the other in the gradient.
 *
 * Many trainers keep one array for each kind of parameter (all layers' weights
 * of attention, then all layers' weights of the MLP, ...), so a layer is many
 * pieces of the flat gradient. Groups, freezing and variances want layers one
 * behind the other, frozen ones first. So a thread's gradient is copied range
 * by range into its slot, which takes the place of the copy that the group
 * would make, and the mean is copied back range by range.
 *
 * Invariants
 *   1. Ranges are sorted by layer, then by place; `layer_start` counts their
 *      elements.
 *   2. Elements of frozen layers are neither read nor written.
 *
 * Cost: without ranges nothing; with ranges one pass over the mean in each
 * process.
 */
#include "train/trainwork.h"
#include <stdlib.h>
#include <string.h>

static int by_place(const void *a, const void *b)
{
    const struct firn_train_range *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static int by_layer(const void *a, const void *b)
{
    const struct firn_train_range *x = a, *y = b;
    int order = (x->layer > y->layer) - (x->layer < y->layer);
    return order != 0 ? order : by_place(a, b);
}

static struct firn_train_range *sorted(const struct firn_train_config *c,
                                       int (*order)(const void *, const void *))
{
    size_t nbytes = c->nranges * sizeof *c->range;
    struct firn_train_range *copy = malloc(nbytes + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, c->range, nbytes);
    qsort(copy, c->nranges, sizeof *copy, order);
    return copy;
}

static enum firn_status check_ranges(const struct firn_train_config *c,
                                     struct firn_error *err)
{
    for (size_t i = 0; i < c->nranges; i++)
        if (c->range[i].layer >= c->nlayers)
            return firn_fail(err, FIRN_EINVAL,
                             "range %zu belongs to layer %zu of %zu layers", i,
                             c->range[i].layer, c->nlayers);
    struct firn_train_range *r = sorted(c, by_place);
    if (r == NULL)
        return firn_fail(err, FIRN_ENOMEM, "no memory for the layers' ranges");
    enum firn_status status = FIRN_OK;
    for (size_t i = 0; i < c->nranges && status == FIRN_OK; i++) {
        if (r[i].n > SIZE_MAX - r[i].start)
            status = firn_fail(err, FIRN_EINVAL,
                               "a range of layer %zu is too long: %zu elements "
                               "from %zu on",
                               r[i].layer, r[i].n, r[i].start);
        else if (i + 1 < c->nranges && r[i].start + r[i].n > r[i + 1].start)
            status = firn_fail(err, FIRN_EINVAL,
                               "ranges of layers %zu and %zu overlap at "
                               "element %zu",
                               r[i].layer, r[i + 1].layer, r[i + 1].start);
    }
    free(r);
    return status;
}

enum firn_status firn_train_check_layers(const struct firn_train_config *c,
                                         struct firn_error *err)
{
    if (c->nlayers > 0 && c->range != NULL && c->layer_start == NULL)
        return check_ranges(c, err);
    if (c->range != NULL)
        return firn_fail(err, FIRN_EINVAL,
                         "a training job has layers, and either layer_start "
                         "or ranges for them, not both");
    if (c->nlayers == 0 || c->layer_start == NULL || c->layer_start[0] != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "a training job needs layers that start at 0");
    for (size_t l = 0; l < c->nlayers; l++)
        if (c->layer_start[l] > c->layer_start[l + 1])
            return firn_fail(err, FIRN_EINVAL,
                             "layer %zu ends before it starts", l);
    return FIRN_OK;
}

bool firn_train_place_layers(struct firn_train *t,
                             const struct firn_train_config *c)
{
    size_t nlayers = c->nlayers;
    if (c->range == NULL) {
        memcpy(t->layer_start, c->layer_start,
               (nlayers + 1) * sizeof *t->layer_start);
        t->nelements = t->layer_start[nlayers];
        return true;
    }
    t->range = sorted(c, by_layer);
    t->nranges = c->nranges;
    if (t->range == NULL)
        return false;
    memset(t->layer_start, 0, (nlayers + 1) * sizeof *t->layer_start);
    for (size_t i = 0; i < t->nranges; i++)
        t->layer_start[t->range[i].layer + 1] += t->range[i].n;
    for (size_t l = 0; l < nlayers; l++)
        t->layer_start[l + 1] += t->layer_start[l];
    t->nelements = t->layer_start[nlayers];
    t->packed = malloc(t->nelements * sizeof *t->packed + 1);
    return t->packed != NULL;
}

const float *firn_train_pack(struct firn_train *t, int thread,
                             const float *grad)
{
    if (t->range == NULL)
        return grad;
    float *slot = firn_group_slot(t->group, thread);
    float *out = slot != NULL ? slot : t->packed, *at = out;
    size_t nfrozen = firn_freezer_frozen(t->freezer);
    for (size_t i = 0; i < t->nranges; at += t->range[i++].n)
        if (t->range[i].layer >= nfrozen && t->range[i].n > 0)
            memcpy(at, grad + t->range[i].start, t->range[i].n * sizeof *at);
    return out;
}

float *firn_train_packed(struct firn_train *t, float *mean)
{
    return t->range == NULL ? mean : t->packed;
}

void firn_train_unpack(const struct firn_train *t, float *mean)
{
    const float *at = t->packed;
    size_t nfrozen = firn_freezer_frozen(t->freezer);
    for (size_t i = 0; i < t->nranges; at += t->range[i++].n)
        if (t->range[i].layer >= nfrozen && t->range[i].n > 0)
            memcpy(mean + t->range[i].start, at, t->range[i].n * sizeof *at);
}
