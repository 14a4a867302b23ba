#include "planner/command.h"
#include "planner/explain/data.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>

/* cJSON's adders return NULL when memory runs out; this notes it once for a whole document. */
static void number(cJSON *object, const char *key, double value, bool *ok)
{
    *ok = cJSON_AddNumberToObject(object, key, value) != NULL && *ok;
}

static void string(cJSON *object, const char *key, const char *value, bool *ok)
{
    *ok = cJSON_AddStringToObject(object, key, value) != NULL && *ok;
}

static void item(cJSON *object, const char *key, cJSON *value, bool *ok)
{
    if (value == NULL || !cJSON_AddItemToObject(object, key, value)) {
        cJSON_Delete(value);
        *ok = false;
    }
}

static void element(cJSON *array, cJSON *value, bool *ok)
{
    if (value == NULL || !cJSON_AddItemToArray(array, value)) {
        cJSON_Delete(value);
        *ok = false;
    }
}

static cJSON *by_axis(const double value[SW_AXIS_COUNT], bool whole, bool *ok)
{
    cJSON *object = cJSON_CreateObject();
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        number(object, sw_axis_name(a), whole ? round(value[a]) : value[a], ok);
    return object;
}

static cJSON *memory_object(const struct sw_memory *m, bool *ok)
{
    cJSON *object = cJSON_CreateObject();
    number(object, "limit", (double)m->limit, ok);
    number(object, "total", (double)m->total, ok);
    number(object, "arena", (double)m->arena, ok);
    number(object, "parameters", (double)m->parameters, ok);
    number(object, "gradients", (double)m->gradients, ok);
    number(object, "optimizer", (double)m->optimizer, ok);
    number(object, "activations", (double)m->activations, ok);
    number(object, "workspace", (double)m->workspace, ok);
    number(object, "reserved", (double)m->reserved, ok);
    return object;
}

static cJSON *candidate_object(const struct sw_candidate *c, bool *ok)
{
    char mesh[64], order[64], warning[192];
    cJSON *object = cJSON_CreateObject();
    string(object, "mesh_dim", sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh), ok);
    string(object, "axis_order", sw_mesh_format_order(&c->decision.mesh, order, sizeof order), ok);
    number(object, "micro_batch_size", (double)c->decision.micro_batch_size, ok);
    number(object, "accumulation_steps", (double)c->decision.accumulation_steps, ok);
    string(object, "recompute", sw_word(sw_words_recompute, c->decision.recompute), ok);
    string(object, "strategy", sw_word(sw_words_strategy, c->decision.strategy), ok);
    string(object, "layout", sw_word(sw_words_layout, c->decision.layout), ok);
    string(object, "residual_seq", c->decision.residual_seq_tp ? "sp,tp" : "sp", ok);
    item(object, "memory", memory_object(&c->memory, ok), ok);
    number(object, "step_seconds", c->cost.step_seconds, ok);
    number(object, "compute_seconds", c->cost.compute_seconds, ok);
    number(object, "band_low_seconds", c->cost.band_low_seconds, ok);
    number(object, "band_high_seconds", c->cost.band_high_seconds, ok);
    string(object, "calibration", c->cost.calibration != NULL ? c->cost.calibration : "", ok);
    string(object, "warning", sw_cost_warning(&c->cost, warning, sizeof warning), ok);
    item(object, "exposed_communication_seconds", by_axis(c->cost.exposed_seconds, false, ok), ok);
    item(object, "communication_bytes", by_axis(c->cost.communication_bytes, true, ok), ok);
    number(object, "tokens_per_second", c->tokens_per_second, ok);
    number(object, "tokens_per_second_per_accelerator",
           c->tokens_per_second / sw_mesh_rank_count(&c->decision.mesh), ok);
    number(object, "mfu", c->mfu, ok);
    return object;
}

/* {"change": setting, "to": value}; further changes that must go with it follow as "and". */
static cJSON *suggestion_object(const struct sw_suggestion *s, bool *ok)
{
    cJSON *first = cJSON_CreateNull(), *last = NULL;
    for (int32_t i = 0; i < s->count; i++) {
        cJSON *object = cJSON_CreateObject();
        char *end = NULL;
        const char *to = s->change[i].to;
        const double value = strtod(to, &end);
        string(object, "change", s->change[i].setting, ok);
        if (end != to && *end == '\0')
            number(object, "to", value, ok);
        else
            string(object, "to", to, ok);
        if (last == NULL) {
            cJSON_Delete(first);
            first = object;
        } else {
            item(last, "and", object, ok);
        }
        last = object;
    }
    return first;
}

static cJSON *rejected_object(const struct sw_candidate *c, bool *ok)
{
    char mesh[64];
    cJSON *object = cJSON_CreateObject();
    string(object, "mesh_dim", sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh), ok);
    string(object, "reason", sw_reject_name(c->reason), ok);
    string(object, "detail", c->detail, ok);
    string(object, "help", c->help, ok);
    item(object, "suggestion", suggestion_object(&c->suggestion, ok), ok);
    return object;
}

static int print(FILE *out, cJSON *root, bool ok, struct sw_error *err)
{
    char *text = ok && root != NULL ? cJSON_Print(root) : NULL;
    cJSON_Delete(root);
    if (text == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while writing JSON");
    fprintf(out, "%s\n", text);
    cJSON_free(text);
    return 0;
}

int sw_json_search(FILE *out, const struct sw_run_config *run, const struct sw_search *s,
                   const struct sw_options *options, struct sw_error *err)
{
    bool ok = true;
    cJSON *root = cJSON_CreateObject();
    string(root, "schema", "shardwright.search/1", &ok);
    string(root, "run", run->name, &ok);
    number(root, "accelerators", s->accelerators, &ok);
    number(root, "evaluated", s->count, &ok);
    number(root, "feasible", s->feasible, &ok);
    number(root, "search_seconds", s->seconds, &ok);
    const bool any = s->feasible > 0;
    item(root, "chosen", any ? candidate_object(&s->mesh[0], &ok) : cJSON_CreateNull(), &ok);
    item(root, "fastest", any ? candidate_object(&s->mesh[s->fastest], &ok) : cJSON_CreateNull(),
         &ok);
    cJSON *candidates = cJSON_AddArrayToObject(root, "candidates");
    for (int32_t i = 0; i < s->feasible && (options->top < 0 || i < options->top); i++)
        element(candidates, candidate_object(&s->mesh[i], &ok), &ok);
    if (options->rejected) {
        cJSON *rejected = cJSON_AddArrayToObject(root, "rejected");
        for (int32_t i = s->feasible; i < s->count; i++)
            element(rejected, rejected_object(&s->mesh[i], &ok), &ok);
    }
    return print(out, root, ok, err);
}

int sw_json_explain(FILE *out, const struct sw_explain *x, bool rejected, struct sw_error *err)
{
    const struct sw_candidate *c = &x->c;
    bool ok = true;
    cJSON *root = cJSON_CreateObject();
    string(root, "schema", "shardwright.explain/1", &ok);
    string(root, "run", x->run->name, &ok);
    number(root, "accelerators", sw_mesh_rank_count(&c->decision.mesh), &ok);
    item(root, "mesh", candidate_object(c, &ok), &ok);
    cJSON *regions = cJSON_AddArrayToObject(root, "regions");
    for (int32_t r = 0; r < c->cost.region_count; r++) {
        cJSON *region = cJSON_CreateObject();
        string(region, "name", c->cost.region[r].name, &ok);
        number(region, "seconds", c->cost.region[r].seconds, &ok);
        number(region, "compute_seconds", c->cost.region[r].compute_seconds, &ok);
        number(region, "exposed_seconds", c->cost.region[r].exposed_seconds, &ok);
        element(regions, region, &ok);
    }
    cJSON *collectives = cJSON_AddArrayToObject(root, "collectives");
    for (int32_t i = 0; i < x->traffic_count; i++) {
        char axes[64];
        cJSON *one = cJSON_CreateObject();
        string(one, "kind", sw_op_info(x->traffic[i].kind)->name, &ok);
        string(one, "axes", sw_axes_format(x->traffic[i].axes, axes, sizeof axes), &ok);
        number(one, "calls", x->traffic[i].calls, &ok);
        number(one, "bytes", round(x->traffic[i].bytes), &ok);
        number(one, "seconds", x->traffic[i].seconds, &ok);
        element(collectives, one, &ok);
    }
    sw_explain_json(root, x, rejected, &ok);
    return print(out, root, ok, err);
}
