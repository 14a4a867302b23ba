/* Public calls: from a path or a text to a struct sw_config. */
#include "core/config/internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Counts the mapping's keys that belong to each kind but plans. */
static void count_keys(const struct sw_config *c, const struct node *root,
                       int32_t hits[SW_CONFIG_UNKNOWN])
{
    for (int32_t kind = 0; kind < SW_CONFIG_UNKNOWN; kind++) {
        hits[kind] = 0;
        if (kind == SW_CONFIG_PLAN)
            continue;
        for (const struct field *f = sw_tables_of(c->keys->tables, (enum sw_config_kind)kind);
             f->key != NULL; f++)
            hits[kind] += strcmp(f->key, "name") != 0 && sw_node_find(root, f->key) != NULL;
    }
}

static enum sw_config_kind guess_kind(const struct sw_config *c, const struct node *root)
{
    int32_t hits[SW_CONFIG_UNKNOWN], most = 0;
    const struct node *schema = sw_node_find(root, "schema");
    if (schema != NULL && schema->kind == NODE_SCALAR &&
        strncmp(schema->text, "shardwright.plan", 16) == 0)
        return SW_CONFIG_PLAN;
    /* record written by a program, such as stages.json */
    if (schema != NULL && schema->kind == NODE_SCALAR &&
        strncmp(schema->text, "shardwright.", 12) == 0)
        return SW_CONFIG_UNKNOWN;
    enum sw_config_kind best = SW_CONFIG_UNKNOWN;
    count_keys(c, root, hits);
    for (int32_t kind = 0; kind < SW_CONFIG_UNKNOWN; kind++)
        if (hits[kind] > most) {
            most = hits[kind];
            best = (enum sw_config_kind)kind;
        }
    return best;
}

static void set_kind(struct sw_config *c, enum sw_config_kind kind)
{
    c->keys->kind = kind;
    c->generated = kind == SW_CONFIG_PLAN;
}

/* Kind of a mapping that is plainly not of the given kind. */
static enum sw_config_kind plain_kind(const struct sw_config *c, const struct node *root,
                                      enum sw_config_kind kind)
{
    int32_t hits[SW_CONFIG_UNKNOWN];
    const enum sw_config_kind guess = guess_kind(c, root);
    if (root->kind != NODE_MAPPING || guess == SW_CONFIG_UNKNOWN || guess == kind ||
        guess == SW_CONFIG_PLAN)
        return guess == SW_CONFIG_PLAN && root->kind == NODE_MAPPING ? guess : kind;
    count_keys(c, root, hits);
    const int32_t mine = kind != SW_CONFIG_PLAN ? hits[kind]
                                                : sw_node_find(root, "run") != NULL ||
                                                      sw_node_find(root, "schema") != NULL;
    return hits[guess] >= 2 && hits[guess] > 2 * mine ? guess : kind;
}

/* Help for a file of `found` where one of `kind` is wanted. */
static const char *other_kind_help(struct sw_config *c, const struct node *root,
                                   enum sw_config_kind found, enum sw_config_kind kind)
{
    static const char *const keys[] = {
        [SW_CONFIG_MODEL] = "a model has 'hidden_size' and the other keys of a config.json",
        [SW_CONFIG_ACCELERATOR] = "an accelerator has 'peak', 'memory' and 'memory_bandwidth'",
        [SW_CONFIG_CLUSTER] = "a cluster has 'nodes', 'accelerators_per_node' and 'accelerator'",
        [SW_CONFIG_PROFILE] = "a profile has 'matmul', 'attention' and 'memory'",
        [SW_CONFIG_CURVE] = "a curve has 'points'",
        [SW_CONFIG_FABRIC] = "a fabric has 'environment'",
    };
    const char *file = sw_config_shown_path(c, root->source->file);
    if (kind == SW_CONFIG_PLAN && found == SW_CONFIG_RUN)
        return sw_config_format(c, "write its plan with 'plan emit %s'", file);
    if (kind == SW_CONFIG_PLAN)
        return "write one with 'plan emit RUN.yaml'";
    if (kind != SW_CONFIG_RUN)
        return keys[kind];
    if (found == SW_CONFIG_PROFILE)
        return sw_config_format(c, "a cluster or a run names it, 'profile: %s'", file);
    if (found == SW_CONFIG_CURVE)
        return sw_config_format(c, "a link of a cluster names it, 'efficiency: %s'", file);
    if (found == SW_CONFIG_FABRIC)
        return sw_config_format(c, "a cluster or a run names it, '%s: {fabric: %s}'",
                                sw_launcher_key_with(c->keys->launchers, &sw_type_fabric), file);
    if (found == SW_CONFIG_ACCELERATOR)
        return sw_config_format(c, "a cluster names it, 'accelerator: %s'; a run names the cluster",
                                file);
    if (found != SW_CONFIG_PLAN)
        return sw_config_format(c,
                                "name it in a run, '%s: %s', beside %s, sequence_length and "
                                "global_batch_size, and give that",
                                sw_config_kind_name(found), file,
                                found == SW_CONFIG_MODEL ? "cluster" : "model");
    const struct node *inputs = sw_node_find(root, "inputs");
    const bool list = inputs != NULL && inputs->kind == NODE_SEQUENCE;
    const struct node *path = sw_node_find(list ? inputs->first : NULL, "path");
    const bool known = path != NULL && path->kind == NODE_SCALAR && strchr(path->text, '%') == NULL;
    const char *run =
        !known ? "" : sw_config_join(c, sw_config_directory_of(c, root->source->file), path->text);
    return sw_config_format(c,
                            "give the run file that it was written from%s%s%s; 'plan check', 'plan "
                            "diff' and 'runner train' read plans",
                            known ? ", '" : "", sw_config_shown_path(c, run), known ? "'" : "");
}

static bool is_kind(struct sw_config *c, const struct node *root, const struct node *place,
                    int32_t wanted)
{
    const enum sw_config_kind kind = (enum sw_config_kind)wanted;
    const enum sw_config_kind found = plain_kind(c, root, kind);
    if (found == kind)
        return true;
    sw_config_error_at(
        c, place,
        sw_config_format(c, "this is %s %s, not a%s %s",
                         found == SW_CONFIG_ACCELERATOR ? "an" : "a", sw_config_kind_name(found),
                         kind == SW_CONFIG_ACCELERATOR ? "n" : "", sw_config_kind_name(kind)),
        other_kind_help(c, root, found, kind));
    return false;
}

static bool is_plan(struct sw_config *c, const struct node *root)
{
    const struct node *schema = sw_node_find(root, "schema");
    if (root->kind != NODE_MAPPING || (schema != NULL && schema->kind == NODE_SCALAR &&
                                       strcmp(schema->text, SW_PLAN_SCHEMA) == 0))
        return true; /* a value that is no mapping is reported elsewhere */
    static const char any[] = "shardwright.plan/";
    if (schema != NULL && schema->kind == NODE_SCALAR &&
        strncmp(schema->text, any, sizeof any - 1) == 0) {
        sw_config_error_at(c, schema,
                           sw_config_format(c,
                                            "this plan has the version %s, and this program reads "
                                            "'" SW_PLAN_SCHEMA "'",
                                            sw_config_quote(c, schema->text)),
                           "write it again with 'plan emit RUN.yaml', or use the program that "
                           "wrote it");
        return false;
    }
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

static struct sw_place place_of(const struct node *root, const char *section, const char *key)
{
    const struct node *value = sw_node_find(sw_node_find(root, section), key);
    const struct node *at = is_written(value) ? value : root;
    return (struct sw_place){at->source->file, at->line, at->column};
}

/* Notes how paths were written, which resolving forgets. */
static void note_paths(const struct node *root, struct sw_run_config *run)
{
    const struct node *checkpoint = sw_node_find(sw_node_find(root, "checkpoint"), "directory");
    run->init_from_is_absolute = is_absolute(sw_node_find(sw_node_find(root, "init"), "from"));
    run->init_adapter_is_absolute =
        is_absolute(sw_node_find(sw_node_find(root, "init"), "adapter"));
    run->directory_is_absolute = is_absolute(sw_node_find(root, "directory"));
    run->checkpoint_directory_is_absolute =
        is_written(checkpoint) ? is_absolute(checkpoint) : run->directory_is_absolute;
    run->stage.from_is_absolute =
        run->stage.count > 0 ? run->checkpoint_directory_is_absolute
                             : is_absolute(sw_node_find(sw_node_find(root, "stage"), "from"));
    run->data_place = place_of(root, "data", "path");
    run->init_place = place_of(root, "init", "from");
    run->adapter_place = place_of(root, "init", "adapter");
    run->optimizer.no_decay_place = place_of(root, "optimizer", "no_decay");
    run->job.checkpoint_place = place_of(root, "job", "checkpoint");
    run->job.input_place = place_of(root, "job", "input");
    run->job.token_place = place_of(root, "job", "token_file");
}

static void describe_kind(struct sw_config *c, struct node *root)
{
    switch (c->keys->kind) {
    case SW_CONFIG_MODEL:
        c->keys->model = sw_config_alloc(c, sizeof *c->keys->model);
        if (c->keys->model != NULL)
            sw_config_describe_model(c, root, c->keys->model);
        break;
    case SW_CONFIG_ACCELERATOR:
        c->keys->accelerator = sw_config_alloc(c, sizeof *c->keys->accelerator);
        if (c->keys->accelerator != NULL)
            sw_config_describe_accelerator(c, root, c->keys->accelerator);
        break;
    case SW_CONFIG_CLUSTER:
        c->keys->cluster = sw_config_alloc(c, sizeof *c->keys->cluster);
        if (c->keys->cluster != NULL && sw_config_describe_cluster(c, root, c->keys->cluster))
            sw_config_settle_profile(c, c->keys->cluster);
        break;
    case SW_CONFIG_PROFILE:
        c->keys->profile = sw_config_alloc(c, sizeof *c->keys->profile);
        if (c->keys->profile != NULL)
            sw_config_describe_profile(c, root, c->keys->profile);
        break;
    case SW_CONFIG_CURVE:
        c->keys->curve = sw_config_alloc(c, sizeof *c->keys->curve);
        if (c->keys->curve != NULL)
            sw_config_describe_curve(c, root, c->keys->curve);
        break;
    case SW_CONFIG_FABRIC:
        c->keys->fabric = sw_config_alloc(c, sizeof *c->keys->fabric);
        if (c->keys->fabric != NULL)
            sw_config_describe_fabric(c, root, c->keys->fabric);
        break;
    case SW_CONFIG_PLAN:
        c->keys->plan = sw_config_alloc(c, sizeof *c->keys->plan);
        if (c->keys->plan == NULL || !sw_config_describe_plan(c, root, c->keys->plan))
            break;
        c->keys->run = &c->keys->plan->run;
        note_paths(sw_node_find(root, "run"), c->keys->run);
        break;
    default:
        c->keys->run = sw_config_alloc(c, sizeof *c->keys->run);
        if (c->keys->run != NULL && sw_config_describe_run(c, root, c->keys->run))
            note_paths(root, c->keys->run);
        break;
    }
}

/* earlier: the stage before the current one, in a run with stages. */
static void describe(struct sw_config *c, struct node *root, const struct sw_override *overrides,
                     int32_t override_count, int32_t stage, const struct sw_run_config *earlier)
{
    if (c->keys->kind == SW_CONFIG_UNKNOWN)
        set_kind(c, guess_kind(c, root));
    if (c->keys->kind == SW_CONFIG_UNKNOWN) {
        sw_config_error_at(
            c, root, "neither a model, an accelerator, a profile, a cluster, a run nor a plan",
            "a model has 'hidden_size', an accelerator 'peak', a profile 'matmul', "
            "a cluster 'nodes', a run 'global_batch_size'");
        return;
    }
    if (!is_kind(c, root, root, (int32_t)c->keys->kind))
        return;
    const bool planned = c->keys->kind == SW_CONFIG_PLAN;
    if (planned && !is_plan(c, root))
        return;
    struct node *changed = planned ? sw_node_find(root, "run") : root;
    const struct field *fields =
        sw_tables_of(c->keys->tables, planned ? SW_CONFIG_RUN : c->keys->kind);
    const bool staged = c->keys->kind == SW_CONFIG_RUN;
    if (staged)
        sw_stages_name(c, root);
    for (int32_t i = 0; i < override_count && changed != NULL && changed->kind == NODE_MAPPING; i++)
        sw_config_apply_override(c, changed, fields, c->keys->tables->run, overrides[i].text, i);
    if (staged) {
        sw_stages_name(c, root);
        (void)sw_stages_take(c, root, stage, earlier);
    }
    describe_kind(c, root);
}

struct sw_config *sw_config_end(struct sw_config *c, struct sw_error *err)
{
    sw_config_finish_diagnostics(c);
    if (!c->failed)
        return c;
    sw_config_free(c);
    sw_fail(err, SW_ENVIRONMENT, "out of memory while reading a description");
    return NULL;
}

/* Hooks of the engine. */
static enum key_fate fate(struct sw_config *c, const struct node *value)
{
    const enum key_fate found = sw_model_key_fate(c, value);
    /* keys known to have no effect are noted for the model's own file, not for every run that names
     * it; unknown keys always */
    return found == KEY_NOTED && c->keys->kind != SW_CONFIG_MODEL ? KEY_IGNORED : found;
}

static void forget(struct sw_config *c, const struct field *fields, const struct field *field,
                   void *base)
{
    sw_launcher_clear(c->keys->launchers, fields, field, base);
}

static bool describe_reference(struct sw_config *c, int32_t kind, struct node *root, void *out)
{
    switch (kind) {
    case SW_CONFIG_MODEL:
        return sw_config_describe_model(c, root, out);
    case SW_CONFIG_ACCELERATOR:
        return sw_config_describe_accelerator(c, root, out);
    case SW_CONFIG_CURVE:
        return sw_config_describe_curve(c, root, out);
    case SW_CONFIG_RUN:
        return sw_config_describe_run(c, root, out);
    default:
        return sw_config_describe_cluster(c, root, out);
    }
}

static const struct sw_key_hooks hooks = {
    .fate = fate,
    .is_foreign = sw_model_is_hugging_face,
    .no_file = sw_model_no_file,
    .own_name = sw_key_elsewhere,
    .forget = forget,
    .is_kind = is_kind,
    .describe = describe_reference,
};

struct sw_config *sw_config_begin(enum sw_config_kind kind, const struct sw_launchers *launchers,
                                  struct sw_error *err)
{
    struct sw_config *c = calloc(1, sizeof *c);
    if (c != NULL) {
        c->hooks = &hooks;
        c->keys = sw_config_alloc(c, sizeof *c->keys);
        struct tables *tables = sw_config_alloc(c, sizeof *tables);
        if (c->keys != NULL && tables != NULL) {
            set_kind(c, kind);
            c->keys->launchers = launchers;
            c->keys->tables = tables;
            sw_tables_make(c->keys->tables, launchers);
            return c;
        }
        sw_config_free(c);
    }
    sw_fail(err, SW_ENVIRONMENT, "out of memory while reading a description");
    return NULL;
}

/* Reads the stages behind the first, each from the same text again, since reading changes the
 * tree. */
static void read_later(struct sw_config *c, const struct source *text,
                       const struct sw_override *overrides, int32_t override_count)
{
    const int32_t count = c->keys->stage != NULL ? c->keys->stage->count - 1 : 0;
    const struct sw_run_config *earlier = c->keys->run;
    c->keys->later =
        count > 0 ? sw_config_alloc(c, (size_t)count * sizeof(struct sw_config *)) : NULL;
    for (int32_t i = 0; i < count && c->keys->later != NULL && !c->failed; i++) {
        struct sw_config *later = sw_config_begin(SW_CONFIG_RUN, c->keys->launchers, NULL);
        if (later == NULL) {
            c->failed = true;
            return;
        }
        c->keys->later[c->keys->later_count++] = later;
        struct source *source = sw_config_new_source(later, text->file, text->text, text->bytes);
        if (source == NULL)
            return;
        source->has_identity = text->has_identity;
        source->device = text->device;
        source->inode = text->inode;
        struct node *root = sw_config_parse(later, source);
        if (root != NULL)
            describe(later, root, overrides, override_count, i + 1, earlier);
        earlier = later->keys->run;
        sw_stages_take_messages(c, later);
        c->failed = c->failed || later->failed;
    }
}

static struct sw_config *read_tree(struct sw_config *c, struct node *root,
                                   const struct sw_override *overrides, int32_t override_count,
                                   struct sw_error *err)
{
    c->keys->is_yaml = root != NULL;
    if (c->keys->is_yaml) {
        describe(c, root, overrides, override_count, 0, NULL);
        read_later(c, root->source, overrides, override_count);
        if (c->stored_count == 0)
            sw_stages_check_override(c, overrides, override_count);
    }
    return sw_config_end(c, err);
}

struct sw_config *sw_config_read(const char *path, enum sw_config_kind kind,
                                 const struct sw_launchers *launchers,
                                 const struct sw_override *overrides, int32_t override_count,
                                 struct sw_error *err)
{
    struct sw_config *c = sw_config_begin(kind, launchers, err);
    if (c == NULL)
        return NULL;
    return read_tree(c, sw_config_load(c, path, NULL), overrides, override_count, err);
}

struct sw_config *sw_config_read_text(const char *name, const char *text, size_t text_bytes,
                                      enum sw_config_kind kind,
                                      const struct sw_launchers *launchers,
                                      const struct sw_override *overrides, int32_t override_count,
                                      struct sw_error *err)
{
    struct sw_config *c = sw_config_begin(kind, launchers, err);
    if (c == NULL)
        return NULL;
    struct source *source =
        sw_config_new_source(c, name, sw_config_copy(c, text, text_bytes), text_bytes);
    struct node *root = source != NULL && !c->failed ? sw_config_parse(c, source) : NULL;
    return read_tree(c, root, overrides, override_count, err);
}

void sw_config_free(struct sw_config *config)
{
    if (config == NULL)
        return;
    for (int32_t i = 0; config->keys != NULL && i < config->keys->later_count; i++)
        sw_config_free(config->keys->later[i]);
    sw_config_release(config);
    free(config);
}

static void join_paths(struct sw_config *config, const char *here, struct sw_paths *paths)
{
    struct sw_path *item =
        paths->count > 0 ? sw_config_alloc(config, sizeof *item * (size_t)paths->count) : NULL;
    for (int32_t i = 0; item != NULL && i < paths->count; i++) {
        item[i] = paths->item[i];
        item[i].text = sw_config_join(config, here, item[i].text);
    }
    if (item != NULL)
        paths->item = item;
}

int sw_config_make_paths_absolute(struct sw_config *config, struct sw_error *err)
{
    struct sw_run_config *run = config->keys->run;
    if (run == NULL || config->error_count > 0)
        return 0;
    char *here = getcwd(NULL, 0);
    if (here == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "the working directory was deleted");
    join_paths(config, here, &run->data_paths);
    join_paths(config, here, &run->data_validation);
    run->data_path = run->data_paths.count > 0 ? run->data_paths.item[0].text : NULL;
    if (run->init_from != NULL)
        run->init_from = sw_config_join(config, here, run->init_from);
    if (run->init_adapter != NULL)
        run->init_adapter = sw_config_join(config, here, run->init_adapter);
    if (run->stage.from != NULL)
        run->stage.from = sw_config_join(config, here, run->stage.from);
    const char **job[] = {&run->job.checkpoint, &run->job.input, &run->job.output,
                          &run->job.token_file};
    for (size_t i = 0; i < sizeof job / sizeof job[0]; i++)
        if (*job[i] != NULL)
            *job[i] = sw_config_join(config, here, *job[i]);
    run->directory = sw_config_join(config, here, run->directory);
    run->checkpoint_directory = sw_config_join(config, here, run->checkpoint_directory);
    free(here);
    for (int32_t i = 0; i < config->keys->later_count; i++)
        if (sw_config_make_paths_absolute(config->keys->later[i], err) != 0)
            return -1;
    return config->failed ? sw_fail(err, SW_ENVIRONMENT, "out of memory") : 0;
}

enum sw_config_kind sw_config_get_kind(const struct sw_config *config)
{
    return config->keys->kind;
}

bool sw_config_is_yaml(const struct sw_config *config)
{
    return config->keys->is_yaml;
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
    return config->error_count == 0 ? config->keys->model : NULL;
}

const struct sw_accelerator_config *sw_config_accelerator(const struct sw_config *config)
{
    return config->error_count == 0 ? config->keys->accelerator : NULL;
}

const struct sw_cluster_config *sw_config_cluster(const struct sw_config *config)
{
    return config->error_count == 0 ? config->keys->cluster : NULL;
}

const struct sw_profile_config *sw_config_profile(const struct sw_config *config)
{
    return config->error_count == 0 ? config->keys->profile : NULL;
}

const struct sw_curve *sw_config_curve(const struct sw_config *config)
{
    return config->error_count == 0 && config->keys->curve != NULL ? &config->keys->curve->curve
                                                                   : NULL;
}

const struct sw_fabric_config *sw_config_fabric(const struct sw_config *config)
{
    return config->error_count == 0 ? config->keys->fabric : NULL;
}

const struct sw_run_config *sw_config_run(const struct sw_config *config)
{
    return config->error_count == 0 ? config->keys->run : NULL;
}

int32_t sw_config_stage_count(const struct sw_config *config)
{
    return config->keys->stage != NULL ? config->keys->stage->count : 0;
}

const struct sw_run_config *sw_config_stage(const struct sw_config *config, int32_t i)
{
    if (config->error_count > 0 || i < 0 || i > config->keys->later_count)
        return NULL;
    return i == 0 ? config->keys->run : config->keys->later[i - 1]->keys->run;
}

const struct sw_plan_config *sw_config_plan(const struct sw_config *config)
{
    return config->error_count == 0 ? config->keys->plan : NULL;
}

struct sw_place sw_config_digest_place(const struct sw_config *config)
{
    return config->keys->digest_place;
}
