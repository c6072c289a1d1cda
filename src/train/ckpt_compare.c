/* ckpt_compare.c - where two checkpoints differ, section by section, by bits.
 *
 * As EasyScale's profiling tool: two runs that should be equal are compared
 * tensor by tensor, and the first difference shows where to look. Equal means
 * equal bits: -0 differs from +0, and a NaN equals itself. `left`, `right` and
 * `largest` are doubles whatever the type, for people to read.
 *
 * Cost: one memcmp of each pair; one pass over the elements of those that
 * differ.
 */
#include <firn/ckpt.h>
#include <math.h>
#include <string.h>

/* A number of `bits` with `nexp` bits of exponent behind its sign. */
static double small_float(unsigned bits, int nexp, int nfraction)
{
    unsigned sign = bits >> (nexp + nfraction) & 1;
    int most = (1 << nexp) - 1, bias = most / 2;
    int exponent = (int)(bits >> nfraction) & most;
    double fraction = bits & ((1u << nfraction) - 1);
    double value;
    if (exponent == most)
        value = fraction > 0 ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        value = ldexp(fraction, 1 - bias - nfraction);
    else
        value = ldexp(fraction + (1 << nfraction), exponent - bias - nfraction);
    return sign ? -value : value;
}

static double number(enum firn_ckpt_type type, const unsigned char *at)
{
    float f32;
    double f64;
    int64_t i64;
    int32_t i32;
    uint16_t half;
    switch (type) {
    case FIRN_CKPT_F32:
        memcpy(&f32, at, sizeof f32);
        return (double)f32;
    case FIRN_CKPT_F64:
        memcpy(&f64, at, sizeof f64);
        return f64;
    case FIRN_CKPT_I64:
        memcpy(&i64, at, sizeof i64);
        return (double)i64;
    case FIRN_CKPT_I32:
        memcpy(&i32, at, sizeof i32);
        return i32;
    case FIRN_CKPT_F16:
        memcpy(&half, at, sizeof half);
        return small_float(half, 5, 10);
    case FIRN_CKPT_BF16:
        memcpy(&half, at, sizeof half);
        return small_float(half, 8, 7);
    case FIRN_CKPT_BYTES:
    case FIRN_CKPT_U8:
    case FIRN_CKPT_NTYPES:
        break;
    }
    return *at;
}

static bool is_same_shape(const struct firn_ckpt_section *a,
                          const struct firn_ckpt_section *b)
{
    return a->type == b->type && a->ndims == b->ndims &&
           a->nbytes == b->nbytes &&
           memcmp(a->dims, b->dims, a->ndims * sizeof *a->dims) == 0;
}

/* Counts the elements that differ and finds the first. */
static void count(const struct firn_ckpt_section *a,
                  const struct firn_ckpt_section *b,
                  struct firn_ckpt_difference *d)
{
    size_t size = firn_ckpt_type_bytes(a->type);
    const unsigned char *x = a->data, *y = b->data;
    for (uint64_t i = 0; i < d->nelements; i++, x += size, y += size) {
        if (memcmp(x, y, size) == 0)
            continue;
        double left = number(a->type, x), right = number(a->type, y);
        if (d->ndiffer++ == 0) {
            d->first = i;
            d->left = left;
            d->right = right;
        }
        d->largest = fmax(d->largest, fabs(left - right)); /* skips NaN */
    }
}

/* A section that is in one file only. */
static size_t only(const struct firn_ckpt_section *s, bool is_left,
                   firn_ckpt_tell *tell, void *arg)
{
    if (tell != NULL)
        tell(arg,
             &(struct firn_ckpt_difference){
                 .name = s->name,
                 .kind = is_left ? FIRN_CKPT_ONLY_LEFT : FIRN_CKPT_ONLY_RIGHT,
                 .nelements = s->nbytes / firn_ckpt_type_bytes(s->type),
             });
    return 1;
}

/* Compares a section that is in both files: 1 if they differ. */
static size_t compare(const struct firn_ckpt_section *a,
                      const struct firn_ckpt_section *b, firn_ckpt_tell *tell,
                      void *arg)
{
    struct firn_ckpt_difference d = {
        .name = a->name,
        .nelements = a->nbytes / firn_ckpt_type_bytes(a->type),
    };
    if (!is_same_shape(a, b))
        d.kind = FIRN_CKPT_OTHER_SHAPE;
    else if (a->nbytes > 0 && memcmp(a->data, b->data, a->nbytes) != 0) {
        d.kind = FIRN_CKPT_OTHER_BITS;
        count(a, b, &d);
    } else
        return 0;
    if (tell != NULL)
        tell(arg, &d);
    return 1;
}

size_t firn_ckpt_compare(const struct firn_ckpt *left,
                         const struct firn_ckpt *right, firn_ckpt_tell *tell,
                         void *arg)
{
    size_t n = 0;
    const struct firn_ckpt_section *s, *other;
    for (size_t i = 0; (s = firn_ckpt_at(left, i)) != NULL; i++) {
        other = firn_ckpt_find(right, s->name);
        n += other == NULL ? only(s, true, tell, arg)
                           : compare(s, other, tell, arg);
    }
    for (size_t i = 0; (s = firn_ckpt_at(right, i)) != NULL; i++)
        if (firn_ckpt_find(left, s->name) == NULL)
            n += only(s, false, tell, arg);
    return n;
}
