/* jobfile.c - what the keys of a job file mean together.
 *
 * jobfile_tree.c makes a tree of the text, jobfile_take.c takes the keys, and
 * jobfile_value.c reads single texts; here is what depends on several keys:
 * defaults, a model's shape, and contradictions, found by the lines of the
 * keys. (1) The ask is filled in a copy and given out when all of it is good.
 * (2) Every sentence has file and line.
 *
 * JSON is YAML: who writes a job file by program writes JSON, and nothing of
 * it needs quoting rules of its own.
 */
#include "daemon/jobfile.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/jobfile_work.h"
#include <stdio.h>
#include <string.h>

static const double grace_default_s = 60;
static const double nominal_duration_s = 3600;

static enum firn_status contradiction(const struct reading *r, long line,
                                      const char *why)
{
    return firn_fail(r->err, FIRN_EINVAL, "%s: line %ld: %s", r->where, line,
                     why);
}

/* --- what it means together ---------------------------------------------- */

/* A language model is known by its application's name: that of its shape, or
 * the shape in numbers. */
static enum firn_status name_app(struct reading *r,
                                 const struct firn_llm_shape *named)
{
    const struct firn_llm_shape *s = &r->shape;
    struct firn_llm_shape found;
    char text[80];
    bool is_named = s->hidden == named->hidden && s->layers == named->layers &&
                    s->heads == named->heads && s->vocab == named->vocab;
    if (r->ask.app == NULL) {
        snprintf(text, sizeof text, FIRN_LLM_PREFIX "%dx%dx%dx%d", s->hidden,
                 s->layers, s->heads, s->vocab);
        r->ask.app = mem_strdup(is_named ? r->model_name : text);
    } else if (r->gpus_line == 0 &&
               firn_llm_find(&found, r->ask.app, NULL) != FIRN_OK) {
        return contradiction(r, r->model_line,
                             "a model without 'gpus' is its own 'app': leave "
                             "that away");
    }
    return FIRN_OK;
}

static enum firn_status finish_model(struct reading *r)
{
    struct firn_llm_shape *s = &r->shape;
    if (r->model_line == 0)
        return FIRN_OK;
    char why[FIRN_ERROR_TEXT];
    struct firn_error inner = {0};
    struct firn_llm_shape named = {0};
    if (r->model_name != NULL &&
        firn_llm_find(&named, r->model_name, &inner) == FIRN_OK) {
        s->hidden = s->hidden > 0 ? s->hidden : named.hidden;
        s->layers = s->layers > 0 ? s->layers : named.layers;
        s->heads = s->heads > 0 ? s->heads : named.heads;
        s->vocab = s->vocab > 0 ? s->vocab : named.vocab;
    } else if (r->model_name != NULL && s->hidden == 0) {
        str_copy(why, sizeof why, inner.text);
        return contradiction(r, r->model_line, why);
    }
    struct firn_llm_shape whole = *s;
    if (firn_llm_complete(&whole, &inner) != FIRN_OK) {
        str_copy(why, sizeof why, inner.text);
        return contradiction(r, r->model_line, why);
    }
    if (r->seq_line == 0)
        return contradiction(r, r->model_line, "a model needs 'seq'");
    struct firn_buf json = {0};
    buf_puts(&json, "{\"kind\":\"llm\"");
    if (r->model_name != NULL) {
        buf_puts(&json, ",\"name\":");
        buf_json_string(&json, r->model_name);
    }
    buf_printf(&json,
               ",\"hidden\":%d,\"layers\":%d,\"heads\":%d,\"vocab\":%d,"
               "\"seq\":%d}",
               s->hidden, s->layers, s->heads, s->vocab, r->ask.seq);
    mem_free(r->ask.model);
    r->ask.model = json.at;
    return name_app(r, &named);
}

static void set_default(char **at, const char *text)
{
    if (*at == NULL)
        *at = mem_strdup(text);
}

static void finish_defaults(struct reading *r)
{
    struct live_ask *ask = &r->ask;
    if (r->gpus_line == 0 && r->model_line == 0)
        ask->gpus_min = ask->gpus_max = 1;
    ask->is_elastic = ask->gpus_min < ask->gpus_max || r->elastic_line != 0;
    ask->can_checkpoint = r->elastic_line != 0 || r->checkpoint_line != 0;
    if (r->freeze_line != 0)
        set_default(&ask->freeze, "penalty");
    if (r->elastic_line != 0)
        set_default(&ask->consistency, "D1");
    if (r->retry_line != 0 && r->on_line == 0)
        ask->retry_on_failure = ask->retry_on_lost = true;
    if (r->retry_line != 0 && r->retries_line == 0)
        ask->retries_max = 1;
    set_default(&ask->queue, "default");
    if (ask->env == NULL)
        ask->env = mem_new(1, sizeof *ask->env);
    char **texts[] = {&ask->name,        &ask->user,      &ask->app,
                      &ask->workdir,     &ask->types,     &ask->model,
                      &ask->freeze,      &ask->base,      &ask->dataset,
                      &ask->consistency, &ask->objective, &ask->ckpt_dir,
                      &ask->inbox};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        set_default(texts[i], "");
}

static enum firn_status finish(struct reading *r)
{
    const struct live_ask *ask = &r->ask;
    if (ask->argv == NULL)
        return contradiction(r, 1, "there is no 'run': what shall be run?");
    FIRN_TRY(finish_model(r));
    if (r->model_line != 0 && r->gpus_line == 0 && r->batch_line == 0)
        return contradiction(r, r->model_line,
                             "a model without 'gpus' needs 'batch'");
    finish_defaults(r);
    if (r->threads_line != 0 && ask->threads < ask->gpus_max)
        return contradiction(r, r->threads_line,
                             "fewer 'threads' than the most 'gpus': some would "
                             "have nothing to do");
    if (r->max_line != 0 && strcmp(ask->freeze, "off") == 0)
        return contradiction(r, r->max_line,
                             "'max' says how much may be frozen, and 'rule: "
                             "off' that nothing is");
    if (r->finetune_line != 0 && ask->base[0] == '\0')
        return contradiction(r, r->finetune_line, "'finetune' needs 'base'");
    return FIRN_OK;
}

enum firn_status jobfile_read(struct live_ask *out, struct firn_bytes text,
                              const char *where, struct firn_error *err)
{
    struct arena arena = {0};
    struct tree *tree = NULL;
    struct reading r = {.where = where, .err = err};
    r.ask.grace_s = grace_default_s;
    enum firn_status status = tree_read(&arena, text, where, &tree, err);
    if (status == FIRN_OK)
        status = jobfile_take(&r, tree);
    if (status == FIRN_OK)
        status = finish(&r);
    if (status == FIRN_OK)
        *out = r.ask;
    else
        live_ask_release(&r.ask);
    mem_free(r.model_name);
    mem_free(r.model_kind);
    arena_release(&arena);
    return status;
}

/* The same bits on one type of GPUs only. */
static bool is_of_one_type(const struct live_ask *ask)
{
    return strcmp(ask->consistency, "D0") == 0 ||
           strcmp(ask->consistency, "D1") == 0;
}

/* Beside another job only if it could leave it again. */
static bool may_share(const struct live_ask *ask)
{
    return ask->may_share && (ask->can_checkpoint || ask->may_restart);
}

/* Apart again, each goes on from a checkpoint of its own. */
static bool may_merge(const struct live_ask *ask)
{
    return ask->may_merge && ask->can_checkpoint && ask->base[0] != '\0' &&
           ask->dataset[0] != '\0';
}

void jobfile_spec(const struct live_ask *ask, double submit_s,
                  struct firn_job_spec *out)
{
    *out = (struct firn_job_spec){.name = ask->name,
                                  .app = ask->app,
                                  .group = ask->queue,
                                  .submit_s = submit_s,
                                  .gpus = ask->gpus_max,
                                  .gpus_min = ask->gpus_min,
                                  .gpus_max = ask->gpus_max,
                                  .duration_s = ask->duration_s > 0
                                                    ? ask->duration_s
                                                    : nominal_duration_s,
                                  .is_nominal = !(ask->duration_s > 0),
                                  .restart_s = -1,
                                  .mem_gib = ask->mem_gib,
                                  .batch = ask->batch,
                                  .priority = ask->priority,
                                  .types = ask->types,
                                  .threads = ask->threads,
                                  .seq = ask->seq,
                                  .frozen_max = ask->freeze_max,
                                  .may_share = may_share(ask),
                                  .may_merge = may_merge(ask),
                                  .one_type = is_of_one_type(ask)};
}
