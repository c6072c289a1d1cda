/* profile_show.c - firn profile list and show.
 *
 * Reads the built-in profiles, or those of a directory. Profiles that were
 * built from models instead of measurements are marked `synthetic`.
 */
#include "cli/profile_show.h"
#include "base/buf.h"
#include "base/table.h"
#include "cli/flags.h"
#include "cli/output.h"
#include <firn/profile.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct args {
    const char *dir;
    bool is_json;
};

#define DIR_FLAG                                                             \
    {                                                                        \
        "profiles", 'p', "DIR", "directory of profiles (default: built in)", \
            flag_text, offsetof(struct args, dir)                            \
    }

static enum firn_status read_all(const struct args *args,
                                 struct firn_profiles *out,
                                 struct firn_error *err)
{
    return args->dir != NULL ? firn_profiles_load(out, args->dir, err)
                             : firn_profiles_builtin(out, err);
}

static int failed(const struct firn_error *err)
{
    fprintf(stderr, "firn profile: %s\n", err->text);
    return 1;
}

static void print_table(const struct firn_profiles *all, struct firn_buf *out)
{
    struct firn_buf types = {0};
    struct table t;
    table_init(&t, "lllrr");
    table_cell(&t, "profile");
    table_cell(&t, "kind");
    table_cell(&t, "GPU types");
    table_cell(&t, "stages");
    table_cell(&t, "fit error %");
    for (size_t i = 0; i < all->n; i++) {
        const struct firn_profile *p = &all->at[i];
        double worst = (double)NAN; /* largest mean error of the fits */
        buf_clear(&types);
        for (size_t g = 0; g < p->ngpus; g++) {
            buf_printf(&types, "%s%s", g > 0 ? "," : "", p->gpus[g].type);
            worst = fmax(worst, p->gpus[g].fit_mean);
        }
        table_cellf(&t, "%s/%s", p->source, p->app);
        table_cell(&t, p->is_synthetic ? "synthetic" : "measured");
        table_cell(&t, types.n > 0 ? types.at : "");
        table_cellf(&t, "%zu", p->stats.nstages);
        if (isnan(worst))
            table_cell(&t, "-");
        else
            table_cellf(&t, "%.1f", 100 * worst);
    }
    table_print(&t, out);
    table_release(&t);
    buf_release(&types);
}

static void print_json(const struct firn_profiles *all, struct firn_buf *out)
{
    buf_puts(out, "{\"profiles\":[");
    for (size_t i = 0; i < all->n; i++) {
        const struct firn_profile *p = &all->at[i];
        buf_puts(out, i > 0 ? ",{\"source\":" : "{\"source\":");
        buf_json_string(out, p->source);
        buf_puts(out, ",\"app\":");
        buf_json_string(out, p->app);
        buf_printf(out, ",\"synthetic\":%s,\"origin\":",
                   p->is_synthetic ? "true" : "false");
        buf_json_string(out, p->origin);
        buf_puts(out, ",\"hardware\":");
        buf_json_string(out, p->hardware);
        buf_puts(out, ",\"method\":");
        buf_json_string(out, p->method);
        buf_puts(out, ",\"gpus\":[");
        for (size_t g = 0; g < p->ngpus; g++) {
            buf_puts(out, g > 0 ? ",{\"type\":" : "{\"type\":");
            buf_json_string(out, p->gpus[g].type);
            buf_puts(out, ",\"fit_mean_ape_pct\":");
            buf_json_double(out, 100 * p->gpus[g].fit_mean);
            buf_puts(out, ",\"fit_max_ape_pct\":");
            buf_json_double(out, 100 * p->gpus[g].fit_max);
            buf_printf(out, ",\"fit_rows\":%ld}", p->gpus[g].fit_rows);
        }
        buf_puts(out, "]}");
    }
    buf_puts(out, "]}\n");
}

static const struct flag list_flags[] = {
    DIR_FLAG,
    FORMAT_FLAG(offsetof(struct args, is_json)),
    {0},
};

static const struct flags_page list_page = {
    .command = "profile list",
    .usage = "[options]",
    .about = "Lists the profiles: measured or modelled step times of an "
             "application on each GPU type. Synthetic profiles were built from "
             "models, not measured. The fit error is the largest mean error "
             "over the GPU types.",
    .table = list_flags,
};

int profile_list(int argc, char **argv)
{
    struct args args = {0};
    struct firn_profiles all = {0};
    struct firn_error err = {0};
    struct firn_buf out = {0};
    int rc = flags_parse(&list_page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&list_page, argc, argv, 0, 0, "");
    if (rc >= 0)
        return rc;
    if (read_all(&args, &all, &err) != FIRN_OK)
        return failed(&err);
    (args.is_json ? print_json : print_table)(&all, &out);
    rc = output_write("profile", &out);
    buf_release(&out);
    firn_profiles_release(&all);
    return rc;
}

static const struct flag show_flags[] = {DIR_FLAG, {0}};

static const struct flags_page show_page = {
    .command = "profile show",
    .usage = "[options] APP",
    .about = "Prints the profile of an application (APP or SOURCE/APP) in its "
             "file format.",
    .table = show_flags,
};

int profile_show(int argc, char **argv)
{
    struct args args = {0};
    struct firn_profiles all = {0};
    struct firn_error err = {0};
    struct firn_buf out = {0};
    int rc = flags_parse(&show_page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&show_page, argc, argv, 1, 1, "application");
    if (rc >= 0)
        return rc;
    if (read_all(&args, &all, &err) != FIRN_OK)
        return failed(&err);
    const struct firn_profile *p =
        firn_profiles_find(&all, argv[1], NULL, &err);
    if (p == NULL)
        rc = failed(&err);
    else {
        firn_profile_write(p, &out);
        rc = output_write("profile", &out);
    }
    buf_release(&out);
    firn_profiles_release(&all);
    return rc;
}
