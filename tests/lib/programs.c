/* programs.c - problems of the solvers as mixed-integer programs for cbc. */
#include "lib/programs.h"
#include "base/arena.h"
#include <math.h>

struct milp program_of_menus(const struct menus *menus, struct arena *arena)
{
    size_t n = menus->n, t = menus->start[n];
    struct milp_col *cols = arena_alloc(arena, (t + 1) * sizeof *cols);
    struct milp_row *rows = arena_alloc(arena, (2 * n + 1) * sizeof *rows);
    struct milp_term *terms = arena_alloc(arena, (3 * t + n) * sizeof *terms);
    double most = 0;
    rows[2 * n] = (struct milp_row){-INFINITY, menus->capacity, terms, (int)t};
    for (size_t e = 0; e < t; e++) {
        cols[e] = (struct milp_col){0, 0, 1, true};
        *terms++ = (struct milp_term){(int)e, menus->cost[e]};
        most = fmax(most, menus->value[e]);
    }
    cols[t] = (struct milp_col){-1, 0, most, false};
    for (size_t i = 0; i < n; i++) {
        int length = (int)(menus->start[i + 1] - menus->start[i]);
        rows[2 * i] = (struct milp_row){1, 1, terms, length};
        for (size_t e = menus->start[i]; e < menus->start[i + 1]; e++)
            *terms++ = (struct milp_term){(int)e, 1};
        rows[2 * i + 1] = (struct milp_row){0, INFINITY, terms, length + 1};
        for (size_t e = menus->start[i]; e < menus->start[i + 1]; e++)
            *terms++ = (struct milp_term){(int)e, menus->value[e]};
        *terms++ = (struct milp_term){(int)t, -1};
    }
    return (struct milp){cols, (int)t + 1, rows, (int)(2 * n + 1)};
}

struct milp program_of_pairs(const struct pairs_problem *p, struct arena *arena)
{
    size_t n = p->alone.n, nalone = p->alone.start[n];
    size_t ncols = nalone + p->together.start[p->together.n], at = 0;
    struct milp_col *cols = arena_alloc(arena, ncols * sizeof *cols);
    struct milp_row *rows = arena_alloc(arena, (n + 1) * sizeof *rows);
    struct milp_term *terms = arena_alloc(arena, 4 * ncols * sizeof *terms);
    for (size_t c = 0; c < ncols; c++) {
        bool is_alone = c < nalone;
        double value =
            is_alone ? p->alone.value[c] : p->together.value[c - nalone];
        int cost = is_alone ? p->alone.cost[c] : p->together.cost[c - nalone];
        cols[c] = (struct milp_col){-value, 0, 1, true};
        terms[at++] = (struct milp_term){(int)c, cost};
    }
    rows[n] = (struct milp_row){-INFINITY, p->capacity, terms, (int)ncols};
    for (size_t i = 0; i < n; i++) {
        size_t from = at;
        for (size_t e = p->alone.start[i]; e < p->alone.start[i + 1]; e++)
            terms[at++] = (struct milp_term){(int)e, 1};
        for (size_t k = 0; k < p->together.n; k++)
            for (size_t e = p->together.start[k];
                 (p->first[k] == (int)i || p->second[k] == (int)i) &&
                 e < p->together.start[k + 1];
                 e++)
                terms[at++] = (struct milp_term){(int)(nalone + e), 1};
        rows[i] =
            (struct milp_row){-INFINITY, 1, terms + from, (int)(at - from)};
    }
    return (struct milp){cols, (int)ncols, rows, (int)n + 1};
}
