/* matching.c - Edmonds' blossoms with dual values, dense, O(n^3).
 *
 * Each vertex v has a dual value y(v) >= 0 and each odd set of vertices in
 * use, a blossom B, has z(B) >= 0, such that for every edge
 *
 *     slack(u, v) = y(u) + y(v) + sum of z(B) over B containing both
 *                   - 2 w(u, v)  >=  0.
 *
 * All matched edges are tight (slack 0), every blossom with z > 0 is full
 * (all but one of its vertices matched inside), and when the free vertices
 * reach y = 0 the sum over y and z equals twice the weight: no matching can be
 * heavier (Edmonds 1965; Galil, ACM Computing Surveys 18, 1986).
 *
 * A stage grows alternating trees from all free vertices at once. Nodes are
 * vertices or outermost blossoms; OUTER ones (even distance from a root) look
 * for tight edges: to a node in no tree, which joins with the node it is
 * matched to; to an OUTER node of another tree, which augments the matching and
 * ends the stage; of the same tree, which closes a new blossom. When there is
 * none, the duals of OUTER nodes fall and those of INNER ones rise by the
 * largest step that keeps every slack at 0 or more; INNER blossoms whose z has
 * come to 0 are taken apart. Each node remembers its tightest edge to an OUTER
 * vertex, which makes a step O(n) and a stage O(n^2).
 *
 * (1) All y of vertices in trees have the same parity, and z is even, so the
 *     steps are whole.
 * (2) A blossom's first child holds its base; the children 2k+1 and 2k+2 are
 *     matched to each other.
 * (3) Node x lies in the outermost node top[x]; a blossom not in use has
 *     top = NONE.
 *
 * Weights are scaled by a power of two to at most 2^50 and rounded, so the
 * sums fit in 64 bits and no comparison depends on rounding. Ties go to the
 * vertex with the lower number, which is looked at first.
 */
#include "math/matching.h"
#include "base/arena.h"
#include <firn/status.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { NONE = -1, WEIGHT_BITS = 50 };
enum label { FREE, OUTER, INNER };

/* An edge of the graph that stands for the link between two nodes. */
struct link {
    int16_t from, to;
};

/* Nodes 0 .. n-1 are the vertices, n .. size-1 blossoms or spare. */
struct matching {
    int n, size, stride, most;
    int64_t *w;        /* [vertex][vertex], by `most`; 0: no edge */
    int64_t *dual;     /* [node]: y, or z */
    int *partner;      /* [node]: the vertex at the other end, or NONE */
    int *top;          /* [node]: (3) */
    int *parent;       /* [node in a tree]: the vertex it was found from */
    enum label *label; /* [outermost node] */
    int *near;         /* [outermost node]: tightest OUTER vertex, or NONE */
    int64_t *distance; /* [outermost node]: slack of the edge to `near` */
    int *seen, mark;   /* for finding the common ancestor */
    int *nchild;       /* [blossom] */
    int16_t *child;    /* [blossom][..]: (2) */
    int16_t *holder;   /* [blossom][vertex]: the child it lies in, or NONE */
    struct link *link; /* [node][node] */
    int *queue, head, tail;
    int64_t lowest; /* y of the free vertices */
};

struct matching *matching_new(struct arena *arena, size_t most)
{
    struct matching *m = arena_alloc(arena, sizeof *m);
    size_t nodes = most + most / 2 + 2, blossoms = most / 2 + 2;
    if (nodes > INT16_MAX)
        FIRN_BUG("matching: %zu vertices", most);
    m->most = (int)most;
    m->stride = (int)nodes;
    m->w = arena_alloc(arena, most * most * sizeof *m->w);
    m->dual = arena_alloc(arena, nodes * sizeof *m->dual);
    m->partner = arena_alloc(arena, nodes * sizeof *m->partner);
    m->top = arena_alloc(arena, nodes * sizeof *m->top);
    m->parent = arena_alloc(arena, nodes * sizeof *m->parent);
    m->label = arena_alloc(arena, nodes * sizeof *m->label);
    m->near = arena_alloc(arena, nodes * sizeof *m->near);
    m->distance = arena_alloc(arena, nodes * sizeof *m->distance);
    m->seen = arena_alloc(arena, nodes * sizeof *m->seen);
    m->nchild = arena_alloc(arena, nodes * sizeof *m->nchild);
    m->child = arena_alloc(arena, blossoms * nodes * sizeof *m->child);
    m->holder = arena_alloc(arena, blossoms * nodes * sizeof *m->holder);
    m->link = arena_alloc(arena, nodes * nodes * sizeof *m->link);
    m->queue = arena_alloc(arena, 2 * nodes * sizeof *m->queue);
    return m;
}

/* --- small things -------------------------------------------------------- */

static int16_t *children(const struct matching *m, int b)
{
    return &m->child[(b - m->n) * m->stride];
}

static int16_t *holders(const struct matching *m, int b)
{
    return &m->holder[(b - m->n) * m->stride];
}

static struct link *link_of(const struct matching *m, int x, int y)
{
    return &m->link[x * m->stride + y];
}

static int64_t weight_of(const struct matching *m, struct link e)
{
    return m->w[e.from * m->most + e.to];
}

/* The slack of an edge between different outermost nodes, where no z counts. */
static int64_t slack(const struct matching *m, struct link e)
{
    return m->dual[e.from] + m->dual[e.to] - 2 * weight_of(m, e);
}

static bool is_top(const struct matching *m, int x)
{
    return m->top[x] == x;
}

static void note_near(struct matching *m, int u, int x, int64_t left)
{
    if (m->near[x] == NONE || left < m->distance[x]) {
        m->near[x] = u;
        m->distance[x] = left;
    }
}

static void find_near(struct matching *m, int x)
{
    m->near[x] = NONE;
    for (int u = 0; u < m->n; u++)
        if (weight_of(m, *link_of(m, u, x)) > 0 && m->top[u] != x &&
            m->label[m->top[u]] == OUTER)
            note_near(m, u, x, slack(m, *link_of(m, u, x)));
}

static void enqueue(struct matching *m, int x)
{
    if (x < m->n) {
        m->queue[m->tail++] = x;
        return;
    }
    for (int k = 0; k < m->nchild[x]; k++)
        enqueue(m, children(m, x)[k]);
}

static void set_top(struct matching *m, int x, int b)
{
    m->top[x] = b;
    for (int k = 0; x >= m->n && k < m->nchild[x]; k++)
        set_top(m, children(m, x)[k], b);
}

static void reverse(int16_t *list, int n)
{
    for (int a = 0, b = n - 1; a < b; a++, b--) {
        int16_t spare = list[a];
        list[a] = list[b];
        list[b] = spare;
    }
}

/* The place of child x in b, made even by turning the ring around. */
static int even_place(struct matching *m, int b, int x)
{
    int16_t *list = children(m, b);
    int at = 0;
    while (list[at] != x)
        at++;
    if (at % 2 == 0)
        return at;
    reverse(list + 1, m->nchild[b] - 1);
    return m->nchild[b] - at;
}

/* --- matching along links ------------------------------------------------ */

/* Node x is matched towards node y; within a blossom the ring is matched
 * anew around the child that now has the outward edge. */
static void match(struct matching *m, int x, int y)
{
    struct link e = *link_of(m, x, y);
    m->partner[x] = e.to;
    if (x < m->n)
        return;
    int base = holders(m, x)[e.from], at = even_place(m, x, base);
    int16_t *list = children(m, x);
    for (int k = 0; k < at; k++)
        match(m, list[k], list[k ^ 1]);
    match(m, base, y);
    reverse(list, at); /* rotates left by `at` */
    reverse(list + at, m->nchild[x] - at);
    reverse(list, m->nchild[x]);
}

/* Flips the path from outermost node x, now matched to y, up to its root. */
static void augment(struct matching *m, int x, int y)
{
    for (;;) {
        int next = m->partner[x] == NONE ? NONE : m->top[m->partner[x]];
        match(m, x, y);
        if (next == NONE)
            return;
        int up = m->top[m->parent[next]];
        match(m, next, up);
        x = up;
        y = next;
    }
}

/* The OUTER node below which both paths meet, or NONE. */
static int common_ancestor(struct matching *m, int x, int y)
{
    m->mark++;
    while (x != NONE || y != NONE) {
        if (x != NONE) {
            if (m->seen[x] == m->mark)
                return x;
            m->seen[x] = m->mark;
            x = m->partner[x] == NONE ? NONE : m->top[m->partner[x]];
            if (x != NONE)
                x = m->top[m->parent[x]];
        }
        int spare = x;
        x = y;
        y = spare;
    }
    return NONE;
}

/* --- blossoms ------------------------------------------------------------ */

/* The children of b from `x` up to below `base`, appended in path order. */
static void gather(struct matching *m, int b, int x, int base)
{
    while (x != base) {
        int inner = m->top[m->partner[x]];
        children(m, b)[m->nchild[b]++] = (int16_t)x;
        children(m, b)[m->nchild[b]++] = (int16_t)inner;
        enqueue(m, inner);
        x = m->top[m->parent[inner]];
    }
}

/* Links of b to all others: the tightest of its children's. */
static void make_links(struct matching *m, int b)
{
    for (int x = 0; x < m->size; x++)
        *link_of(m, b, x) = *link_of(m, x, b) = (struct link){0, 0};
    for (int v = 0; v < m->n; v++)
        holders(m, b)[v] = NONE;
    for (int k = 0; k < m->nchild[b]; k++) {
        int c = children(m, b)[k];
        for (int x = 0; x < m->size; x++) {
            struct link e = *link_of(m, c, x);
            struct link now = *link_of(m, b, x);
            if (weight_of(m, e) > 0 &&
                (weight_of(m, now) == 0 || slack(m, e) < slack(m, now))) {
                *link_of(m, b, x) = e;
                *link_of(m, x, b) = *link_of(m, x, c);
            }
        }
        for (int v = 0; v < m->n; v++)
            if (v == c || (c >= m->n && holders(m, c)[v] != NONE))
                holders(m, b)[v] = (int16_t)c;
    }
}

static void add_blossom(struct matching *m, int x, int base, int y)
{
    int b = m->n;
    while (b < m->size && m->top[b] != NONE)
        b++;
    if (b == m->size)
        m->size++;
    m->dual[b] = 0;
    m->label[b] = OUTER;
    m->partner[b] = m->partner[base];
    m->nchild[b] = 0;
    children(m, b)[m->nchild[b]++] = (int16_t)base;
    gather(m, b, x, base);
    reverse(children(m, b) + 1, m->nchild[b] - 1);
    gather(m, b, y, base);
    set_top(m, b, b);
    make_links(m, b);
    find_near(m, b);
}

/* Takes the INNER blossom b apart: the children on the even way from its base
 * to the entrance stay in the tree, the others leave it. */
static void expand_blossom(struct matching *m, int b)
{
    int16_t *list = children(m, b);
    for (int k = 0; k < m->nchild[b]; k++)
        set_top(m, list[k], list[k]);
    int entrance = holders(m, b)[link_of(m, b, m->parent[b])->from];
    int at = even_place(m, b, entrance);
    for (int k = 0; k < at; k += 2) {
        int inner = list[k], outer = list[k + 1];
        m->parent[inner] = link_of(m, outer, inner)->from;
        m->label[inner] = INNER;
        m->label[outer] = OUTER;
        m->near[inner] = NONE;
        find_near(m, outer);
        enqueue(m, outer);
    }
    m->label[entrance] = INNER;
    m->parent[entrance] = m->parent[b];
    for (int k = at + 1; k < m->nchild[b]; k++) {
        m->label[list[k]] = FREE;
        find_near(m, list[k]);
    }
    m->top[b] = NONE;
}

/* --- a stage ------------------------------------------------------------- */

/* A tight edge from an OUTER node. True when the matching has grown. */
static bool use_edge(struct matching *m, struct link e)
{
    int x = m->top[e.from], y = m->top[e.to];
    if (m->label[y] == FREE) {
        int next = m->top[m->partner[y]];
        m->parent[y] = e.from;
        m->label[y] = INNER;
        m->near[y] = m->near[next] = NONE;
        m->label[next] = OUTER;
        enqueue(m, next);
        return false;
    }
    if (m->label[y] == INNER)
        return false;
    int base = common_ancestor(m, x, y);
    if (base == NONE) {
        augment(m, x, y);
        augment(m, y, x);
        return true;
    }
    add_blossom(m, x, base, y);
    return false;
}

/* Looks at all edges of the OUTER vertices that wait. */
static bool scan(struct matching *m)
{
    while (m->head < m->tail) {
        int u = m->queue[m->head++];
        if (m->label[m->top[u]] == INNER)
            continue;
        const int64_t *w = &m->w[u * m->most];
        for (int v = 0; v < m->n; v++) {
            if (w[v] == 0 || m->top[u] == m->top[v])
                continue;
            int64_t left = m->dual[u] + m->dual[v] - 2 * w[v];
            if (left != 0)
                note_near(m, u, m->top[v], left);
            else if (use_edge(m, *link_of(m, u, v)))
                return true;
        }
    }
    return false;
}

/* The largest step of the duals that keeps all slacks, y and z at 0 or more.
 * Free vertices have the lowest y of all: it falls with every step. */
static int64_t largest_step(const struct matching *m)
{
    int64_t step = m->lowest;
    for (int x = 0; x < m->size; x++) {
        int64_t d = INT64_MAX;
        if (!is_top(m, x))
            continue;
        if (m->label[x] == INNER)
            d = x >= m->n ? m->dual[x] / 2 : d;
        else if (m->near[x] != NONE)
            d = m->label[x] == OUTER ? m->distance[x] / 2 : m->distance[x];
        step = d < step ? d : step;
    }
    return step;
}

/* False when the free vertices come to y = 0: no matching is heavier. */
static bool step_duals(struct matching *m)
{
    static const int64_t of_vertex[] = {[FREE] = 0, [OUTER] = -1, [INNER] = 1};
    static const int64_t of_slack[] = {[FREE] = 1, [OUTER] = 2, [INNER] = 0};
    int64_t step = largest_step(m);
    for (int u = 0; u < m->n; u++)
        m->dual[u] += step * of_vertex[m->label[m->top[u]]];
    for (int b = m->n; b < m->size; b++)
        if (is_top(m, b))
            m->dual[b] -= 2 * step * of_vertex[m->label[b]];
    for (int x = 0; x < m->size; x++)
        m->distance[x] -= step * of_slack[m->label[x]];
    m->lowest -= step;
    return m->lowest > 0;
}

/* Grows the matching by one edge; false when it is the heaviest. */
static bool stage(struct matching *m)
{
    m->head = m->tail = 0;
    for (int x = 0; x < m->size; x++) {
        m->label[x] = FREE;
        m->near[x] = NONE;
    }
    for (int x = 0; x < m->size; x++)
        if (is_top(m, x) && m->partner[x] == NONE) {
            m->label[x] = OUTER;
            enqueue(m, x);
        }
    if (m->tail == 0)
        return false;
    for (;;) {
        if (scan(m))
            return true;
        if (!step_duals(m))
            return false;
        m->head = m->tail = 0;
        for (int x = 0; x < m->size; x++) {
            int u = is_top(m, x) ? m->near[x] : NONE;
            if (u == NONE || m->top[u] == x || slack(m, *link_of(m, u, x)) != 0)
                continue;
            if (use_edge(m, *link_of(m, u, x)))
                return true;
        }
        for (int b = m->n; b < m->size; b++)
            if (is_top(m, b) && m->label[b] == INNER && m->dual[b] == 0)
                expand_blossom(m, b);
    }
}

/* --- in and out ---------------------------------------------------------- */

/* The power of two that takes the largest weight to WEIGHT_BITS bits. */
static int scale_of(size_t n, const double *weight)
{
    double largest = 0;
    int exponent = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            largest = fmax(largest, weight[i * n + j]);
    frexp(largest, &exponent);
    return WEIGHT_BITS - exponent;
}

static void load(struct matching *m, size_t n, const double *weight)
{
    int scale = scale_of(n, weight);
    int64_t largest = 0;
    m->n = m->size = (int)n;
    m->mark = 0;
    memset(m->seen, 0, (size_t)m->stride * sizeof *m->seen);
    for (int x = 0; x < m->stride; x++) {
        m->partner[x] = NONE;
        m->top[x] = x < m->n ? x : NONE;
    }
    for (int i = 0; i < m->n; i++) {
        m->w[i * m->most + i] = 0;
        *link_of(m, i, i) = (struct link){(int16_t)i, (int16_t)i};
        for (int j = i + 1; j < m->n; j++) {
            double w = weight[(size_t)i * n + (size_t)j];
            int64_t whole = w > 0 ? llround(ldexp(w, scale)) : 0;
            largest = whole > largest ? whole : largest;
            m->w[i * m->most + j] = m->w[j * m->most + i] = whole;
            *link_of(m, i, j) = (struct link){(int16_t)i, (int16_t)j};
            *link_of(m, j, i) = (struct link){(int16_t)j, (int16_t)i};
        }
    }
    for (int i = 0; i < m->n; i++)
        m->dual[i] = largest;
    m->lowest = largest;
}

double matching_solve(struct matching *m, size_t n, const double *weight,
                      int *partner)
{
    if (n > (size_t)m->most)
        FIRN_BUG("matching: %zu vertices, room for %d", n, m->most);
    double sum = 0;
    load(m, n, weight);
    while (m->lowest > 0 && stage(m))
        continue;
    for (int i = 0; i < m->n; i++) {
        partner[i] = m->partner[i];
        if (i < m->partner[i])
            sum += weight[(size_t)i * n + (size_t)m->partner[i]];
    }
    return sum;
}

/* Is blossom b in use, and vertex v in it? */
static bool is_within(const struct matching *m, int v, int b)
{
    return m->top[b] != NONE && holders(m, b)[v] != NONE;
}

/* All slacks at 0 or more, blossoms included. */
static bool is_feasible(const struct matching *m)
{
    for (int u = 0; u < m->n; u++)
        for (int v = u + 1; v < m->n; v++) {
            int64_t left = m->dual[u] + m->dual[v];
            for (int b = m->n; b < m->size; b++)
                if (is_within(m, u, b) && is_within(m, v, b))
                    left += m->dual[b];
            if (left < 2 * m->w[u * m->most + v] || m->dual[u] < 0)
                return false;
        }
    return true;
}

bool matching_is_proven(const struct matching *m)
{
    int64_t twice = 0, bound = 0;
    for (int u = 0; u < m->n; u++) {
        int v = m->partner[u];
        if (v != NONE && (m->partner[v] != u || m->w[u * m->most + v] == 0))
            return false;
        twice += v != NONE ? m->w[u * m->most + v] : 0;
        bound += m->dual[u];
    }
    for (int b = m->n; b < m->size; b++) {
        int64_t members = 0;
        for (int v = 0; v < m->n; v++)
            members += is_within(m, v, b);
        if (members > 0 && m->dual[b] < 0)
            return false;
        bound += members > 0 ? m->dual[b] * (members / 2) : 0;
    }
    return bound == twice && is_feasible(m);
}
