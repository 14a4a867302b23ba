/* The public side: from a path or a text to a struct sw_config. */
#include "core/config/internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum sw_config_kind guess_kind(const struct node *root)
{
    static const enum sw_config_kind kinds[] = {SW_CONFIG_MODEL,   SW_CONFIG_ACCELERATOR,
                                                SW_CONFIG_CLUSTER, SW_CONFIG_RUN,
                                                SW_CONFIG_PROFILE, SW_CONFIG_CURVE};
    const struct node *schema = sw_node_find(root, "schema");
    if (schema != NULL && schema->kind == NODE_SCALAR &&
        strncmp(schema->text, "shardwright.plan", 16) == 0)
        return SW_CONFIG_PLAN;
    enum sw_config_kind best = SW_CONFIG_UNKNOWN;
    int32_t most = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        int32_t hits = 0;
        for (const struct field *f = sw_config_fields(kinds[i]); f->key != NULL; f++)
            hits += strcmp(f->key, "name") != 0 && sw_node_find(root, f->key) != NULL;
        if (hits > most) {
            most = hits;
            best = kinds[i];
        }
    }
    return best;
}

static bool is_plan(struct sw_config *c, const struct node *root)
{
    const struct node *schema = sw_node_find(root, "schema");
    if (root->kind != NODE_MAPPING || (schema != NULL && schema->kind == NODE_SCALAR &&
                                       strcmp(schema->text, SW_PLAN_SCHEMA) == 0))
        return true; /* what is no mapping is reported as such */
    sw_config_error_at(c, schema != NULL ? schema : root,
                       "not a plan file: 'schema' must be '" SW_PLAN_SCHEMA "'",
                       "write one with 'plan emit RUN.yaml'");
    return false;
}

static bool is_written(const struct node *value)
{
    return value != NULL && !sw_node_is_null(value);
}

static bool is_absolute(const struct node *value)
{
    return value != NULL && value->kind == NODE_SCALAR && value->text[0] == '/';
}

/* Resolving a path forgets how it was written. */
static void note_absolute_paths(const struct node *root, struct sw_run_config *run)
{
    const struct node *checkpoint = sw_node_find(sw_node_find(root, "checkpoint"), "directory");
    run->data_path_is_absolute = is_absolute(sw_node_find(sw_node_find(root, "data"), "path"));
    run->init_from_is_absolute = is_absolute(sw_node_find(sw_node_find(root, "init"), "from"));
    run->directory_is_absolute = is_absolute(sw_node_find(root, "directory"));
    run->checkpoint_directory_is_absolute =
        is_written(checkpoint) ? is_absolute(checkpoint) : run->directory_is_absolute;
}

static void describe(struct sw_config *c, struct node *root, const struct sw_override *overrides,
                     int32_t override_count)
{
    if (c->kind == SW_CONFIG_UNKNOWN)
        c->kind = guess_kind(root);
    if (c->kind == SW_CONFIG_UNKNOWN) {
        sw_config_error_at(
            c, root, "neither a model, an accelerator, a profile, a cluster, a run nor a plan",
            "a model has 'hidden_size', an accelerator 'peak', a profile 'matmul', "
            "a cluster 'nodes', a run 'global_batch_size'");
        return;
    }
    const bool planned = c->kind == SW_CONFIG_PLAN;
    if (planned && !is_plan(c, root))
        return;
    struct node *changed = planned ? sw_node_find(root, "run") : root;
    const struct field *fields = sw_config_fields(planned ? SW_CONFIG_RUN : c->kind);
    for (int32_t i = 0; i < override_count && changed != NULL && changed->kind == NODE_MAPPING; i++)
        sw_config_apply_override(c, changed, fields, overrides[i].text, i);
    switch (c->kind) {
    case SW_CONFIG_MODEL:
        c->model = sw_config_alloc(c, sizeof *c->model);
        if (c->model != NULL)
            sw_config_describe_model(c, root, c->model);
        break;
    case SW_CONFIG_ACCELERATOR:
        c->accelerator = sw_config_alloc(c, sizeof *c->accelerator);
        if (c->accelerator != NULL)
            sw_config_describe_accelerator(c, root, c->accelerator);
        break;
    case SW_CONFIG_CLUSTER:
        c->cluster = sw_config_alloc(c, sizeof *c->cluster);
        if (c->cluster != NULL && sw_config_describe_cluster(c, root, c->cluster))
            sw_config_settle_profile(c, c->cluster);
        break;
    case SW_CONFIG_PROFILE:
        c->profile = sw_config_alloc(c, sizeof *c->profile);
        if (c->profile != NULL)
            sw_config_describe_profile(c, root, c->profile);
        break;
    case SW_CONFIG_CURVE:
        c->curve = sw_config_alloc(c, sizeof *c->curve);
        if (c->curve != NULL)
            sw_config_describe_curve(c, root, c->curve);
        break;
    case SW_CONFIG_PLAN:
        c->plan = sw_config_alloc(c, sizeof *c->plan);
        if (c->plan == NULL || !sw_config_describe_plan(c, root, c->plan))
            break;
        c->run = &c->plan->run;
        note_absolute_paths(sw_node_find(root, "run"), c->run);
        break;
    default:
        c->run = sw_config_alloc(c, sizeof *c->run);
        if (c->run != NULL && sw_config_describe_run(c, root, c->run))
            note_absolute_paths(root, c->run);
        break;
    }
}

static struct sw_config *finish(struct sw_config *c, struct sw_error *err)
{
    sw_config_finish_diagnostics(c);
    if (!c->failed)
        return c;
    sw_config_free(c);
    sw_fail(err, SW_ENVIRONMENT, "out of memory while reading a description");
    return NULL;
}

struct sw_config *sw_config_read(const char *path, enum sw_config_kind kind,
                                 const struct sw_override *overrides, int32_t override_count,
                                 struct sw_error *err)
{
    struct sw_config *c = calloc(1, sizeof *c);
    if (c == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while reading a description");
        return NULL;
    }
    c->kind = kind;
    struct node *root = sw_config_load(c, path, NULL);
    if (root != NULL)
        describe(c, root, overrides, override_count);
    return finish(c, err);
}

struct sw_config *sw_config_read_text(const char *name, const char *text, size_t text_bytes,
                                      enum sw_config_kind kind, const struct sw_override *overrides,
                                      int32_t override_count, struct sw_error *err)
{
    struct sw_config *c = calloc(1, sizeof *c);
    if (c == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while reading a description");
        return NULL;
    }
    c->kind = kind;
    struct source *source =
        sw_config_new_source(c, name, sw_config_copy(c, text, text_bytes), text_bytes);
    struct node *root = source != NULL && !c->failed ? sw_config_parse(c, source) : NULL;
    if (root != NULL)
        describe(c, root, overrides, override_count);
    return finish(c, err);
}

void sw_config_free(struct sw_config *config)
{
    if (config == NULL)
        return;
    sw_config_release(config);
    free(config);
}

int sw_config_make_paths_absolute(struct sw_config *config, struct sw_error *err)
{
    struct sw_run_config *run = config->run;
    if (run == NULL || config->error_count > 0)
        return 0;
    char *here = getcwd(NULL, 0);
    if (here == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "the working directory has no name");
    if (run->data_path != NULL)
        run->data_path = sw_config_join(config, here, run->data_path);
    if (run->init_from != NULL)
        run->init_from = sw_config_join(config, here, run->init_from);
    run->directory = sw_config_join(config, here, run->directory);
    run->checkpoint_directory = sw_config_join(config, here, run->checkpoint_directory);
    free(here);
    return config->failed ? sw_fail(err, SW_ENVIRONMENT, "out of memory") : 0;
}

enum sw_config_kind sw_config_get_kind(const struct sw_config *config)
{
    return config->kind;
}

int32_t sw_config_error_count(const struct sw_config *config)
{
    return config->error_count;
}

int32_t sw_config_diagnostic_count(const struct sw_config *config)
{
    return config->diagnostic_count;
}

const struct sw_diagnostic *sw_config_diagnostic(const struct sw_config *config, int32_t i)
{
    return i >= 0 && i < config->diagnostic_count ? &config->diagnostics[i] : NULL;
}

const struct sw_model_config *sw_config_model(const struct sw_config *config)
{
    return config->error_count == 0 ? config->model : NULL;
}

const struct sw_accelerator_config *sw_config_accelerator(const struct sw_config *config)
{
    return config->error_count == 0 ? config->accelerator : NULL;
}

const struct sw_cluster_config *sw_config_cluster(const struct sw_config *config)
{
    return config->error_count == 0 ? config->cluster : NULL;
}

const struct sw_profile_config *sw_config_profile(const struct sw_config *config)
{
    return config->error_count == 0 ? config->profile : NULL;
}

const struct sw_curve *sw_config_curve(const struct sw_config *config)
{
    return config->error_count == 0 ? config->curve : NULL;
}

const struct sw_run_config *sw_config_run(const struct sw_config *config)
{
    return config->error_count == 0 ? config->run : NULL;
}

const struct sw_plan_config *sw_config_plan(const struct sw_config *config)
{
    return config->error_count == 0 ? config->plan : NULL;
}

struct sw_place sw_config_digest_place(const struct sw_config *config)
{
    return config->digest_place;
}
