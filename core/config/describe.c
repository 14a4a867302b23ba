/* Reads trees into descriptions, and checks fields against each other. */
#include "core/base/device.h"
#include "core/config/internal.h"

#include <string.h>

static bool is_mapping(struct sw_config *c, const struct node *root, enum sw_config_kind kind)
{
    if (root->kind == NODE_MAPPING)
        return true;
    if (root->kind != NODE_BROKEN)
        sw_config_error_at(c, root,
                           sw_config_format(c, "the description of %s %s must be a mapping, not %s",
                                            kind == SW_CONFIG_ACCELERATOR ? "an" : "a",
                                            sw_config_kind_name(kind), sw_node_describe(c, root)),
                           "write 'key: value' lines");
    return false;
}

static void complain(struct sw_config *c, struct section *section, const char *key,
                     const char *message, const char *help)
{
    sw_config_error_at(c, sw_section_place(section, key), message, help);
    section->bad |= UINT64_C(1) << (sw_field_find(section->fields, key) - section->fields);
}

static void check_heads(struct sw_config *c, struct section *s, struct sw_model *model)
{
    int32_t heads = model->heads;
    if (sw_section_good(s, "num_attention_heads", "num_key_value_heads", NULL)) {
        if (model->kv_heads == 0)
            model->kv_heads = heads;
        if (heads % model->kv_heads != 0)
            complain(c, s, "num_key_value_heads",
                     sw_config_format(
                         c, "'num_key_value_heads' (%d) does not divide 'num_attention_heads' (%d)",
                         (int)model->kv_heads, (int)heads),
                     sw_config_format(c, "use a divisor of %d", (int)heads));
    }
    if (!sw_section_good(s, "head_dim", NULL))
        return;
    if (model->head_dim != 0) {
        if (model->head_dim % 2 != 0)
            complain(c, s, "head_dim",
                     sw_config_format(c, "'head_dim' must be even, not %d", (int)model->head_dim),
                     "rotary positions turn pairs of elements");
        return;
    }
    if (!sw_section_good(s, "hidden_size", "num_attention_heads", NULL))
        return;
    if (model->hidden_size % heads != 0) {
        complain(c, s, "num_attention_heads",
                 sw_config_format(c,
                                  "'num_attention_heads' (%d) does not divide 'hidden_size' (%lld)",
                                  (int)heads, (long long)model->hidden_size),
                 "give 'head_dim' where the heads are wider or narrower");
        return;
    }
    int64_t head_dim = model->hidden_size / heads;
    if (head_dim % 2 != 0 || head_dim > 65536) {
        complain(
            c, s, "num_attention_heads",
            sw_config_format(c,
                             "'hidden_size' / 'num_attention_heads' is %lld; a head must be even "
                             "and at most 65536 wide",
                             (long long)head_dim),
            "give 'head_dim' where the heads are wider or narrower");
        return;
    }
    model->head_dim = (int32_t)head_dim;
}

/* Warns if both keys are written: transformers from 4.56 on takes dtype, older versions the
 * other. */
static void warn_of_dtypes(struct sw_config *c, const struct node *root)
{
    static const char torch[] = "torch.";
    const struct node *new = sw_node_find(root, "dtype"), *old = sw_node_find(root, "torch_dtype");
    if (new == NULL || old == NULL || new->kind != NODE_SCALAR || old->kind != NODE_SCALAR ||
        sw_node_is_null(new) || sw_node_is_null(old))
        return;
    const char *a = new->text, *b = old->text;
    a += strncmp(a, torch, sizeof torch - 1) == 0 ? sizeof torch - 1 : 0;
    b += strncmp(b, torch, sizeof torch - 1) == 0 ? sizeof torch - 1 : 0;
    if (strcmp(a, b) != 0)
        sw_config_warn_at(c, new,
                          sw_config_format(c, "'dtype: %s' differs from 'torch_dtype: %s'",
                                           sw_config_shown(c, a), sw_config_shown(c, b)),
                          "dtype is taken, as transformers does from 4.56 on: write one of them");
}

bool sw_config_describe_model(struct sw_config *c, struct node *root, struct sw_model_config *out)
{
    if (!is_mapping(c, root, SW_CONFIG_MODEL))
        return false;
    out->path = root->source->file;
    root = sw_model_text_part(c, root);
    const enum family_fate family = sw_model_read_family(c, sw_model_fields, root, &out->shape);
    if (family == FAMILY_REFUSED)
        return false;
    sw_model_add_defaults(c, root, out->shape.family);
    struct section s = sw_config_read_section(c, root, sw_model_fields, out, UNKNOWN_ASKED);
    c->keys->knows_longest = sw_section_wrote(&s, "max_position_embeddings");
    warn_of_dtypes(c, root);
    c->keys->plain_tokens = sw_model_plain_tokens(root);
    const bool applied = family == FAMILY_KNOWN && sw_model_apply_family(c, &s, out);
    const bool agrees = s.bad != 0 || sw_model_check_rope(c, root, &out->shape);
    check_heads(c, &s, &out->shape);
    const bool turns = s.bad != 0 || sw_model_check_rotation(c, &s, &out->shape);
    return applied && agrees && turns && s.bad == 0;
}

/* Notes constants of older versions, which stay valid: measuring again takes minutes of a
 * machine. */
static void note_older_constants(struct sw_config *c, const struct node *root)
{
    static const char *const keys[] = {"efficiency", "launch_latency"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const struct node *value = sw_node_find(root, keys[i]);
        if (value != NULL && value->kind != NODE_BROKEN)
            sw_config_note_at(
                c, value->key,
                sw_config_format(
                    c,
                    "'%s' belongs in a profile, since it describes software; it is used only where "
                    "the cluster has no profile: %s",
                    keys[i],
                    i == 0 ? "move its keys to a file of their own and name that as the cluster's "
                             "'profile'"
                           : "move it there, or leave it out"));
    }
}

bool sw_config_describe_accelerator(struct sw_config *c, struct node *root,
                                    struct sw_accelerator_config *out)
{
    if (!is_mapping(c, root, SW_CONFIG_ACCELERATOR))
        return false;
    out->path = root->source->file;
    out->older.launch_latency_s = -1; /* not given */
    struct section s = sw_config_read_section(c, root, sw_accelerator_fields, out, UNKNOWN_ERROR);
    note_older_constants(c, root);
    if (out->peak_bf16_flops == 0) {
        out->peak_bf16_flops = out->peak_fp32_flops;
        out->at.peak_bf16 = out->at.peak_fp32;
    }
    if (sw_section_good(&s, "memory", "reserved_memory", NULL) &&
        out->reserved_memory_bytes >= out->memory_bytes)
        complain(c, &s, "reserved_memory", "'reserved_memory' leaves nothing of 'memory'",
                 "use less for reserved_memory; a number without a unit is bytes");
    return s.bad == 0;
}

bool sw_config_describe_cluster(struct sw_config *c, struct node *root,
                                struct sw_cluster_config *out)
{
    if (!is_mapping(c, root, SW_CONFIG_CLUSTER))
        return false;
    out->path = root->source->file;
    out->launchers = c->keys->launchers;
    struct section s =
        sw_config_read_section(c, root, c->keys->tables->cluster, out, sw_unknown_settings(c));
    if (!sw_section_good(&s, "nodes", "accelerators_per_node", "links", NULL))
        return false;
    int64_t count = (int64_t)out->nodes * out->accelerators_per_node;
    if (count > 1 && out->link_count == 0) {
        complain(c, &s, "links",
                 sw_config_format(c, "%lld accelerators need at least one entry in 'links'",
                                  (long long)count),
                 sw_config_example(c, sw_field_find(sw_cluster_fields, "links")));
    } else if (out->link_count > 0 && out->link[out->link_count - 1].spans < count) {
        const struct node *links = sw_section_place(&s, "links");
        const struct node *spans = sw_node_find(links->last, "spans");
        sw_config_error_at(
            c, spans != NULL ? spans : links,
            sw_config_format(c, "the outermost link spans %d of %lld accelerators (%d nodes of %d)",
                             (int)out->link[out->link_count - 1].spans, (long long)count,
                             (int)out->nodes, (int)out->accelerators_per_node),
            out->link[out->link_count - 1].spans <= out->accelerators_per_node && out->nodes > 1
                ? "add a link that joins the nodes, for example: {name: infiniband, spans: all, "
                  "bandwidth: 400 Gb/s, latency: 6 us}"
                : "write 'spans: all', which follows the size of the cluster");
        s.bad |= 1;
    }
    if (s.bad == 0)
        sw_config_warn_of_cluster(c, root, out);
    /* in a run, its own values count as well */
    bool good = s.bad == 0;
    for (int32_t i = 0; s.bad == 0 && c->keys->kind == SW_CONFIG_CLUSTER &&
                        c->keys->launchers != NULL && c->keys->launchers->row[i] != NULL;
         i++)
        if (c->keys->launchers->row[i]->check_cluster != NULL)
            good = c->keys->launchers->row[i]->check_cluster(c, root, out) && good;
    return good;
}

static struct sw_place place_of(const struct section *section, const char *key)
{
    const struct node *value = sw_node_find(section->map, key);
    if (value == NULL)
        return (struct sw_place){.file = section->map->source->file};
    return (struct sw_place){
        .file = value->source->file, .line = value->line, .column = value->column};
}

static void check_schedule(struct sw_config *c, struct section *run,
                           const struct sw_run_config *out)
{
    if (!sw_section_good(run, "optimizer", NULL))
        return;
    const struct sw_optimizer_config *o = &out->optimizer;
    struct node *map = sw_node_find(run->map, "optimizer");
    if (map == NULL || map->kind != NODE_MAPPING)
        return;
    struct section s = {.map = map, .fields = sw_field_find(sw_run_fields, "optimizer")->fields};
    char rate[32], least[32], most[32];
    if (o->warmup_steps > o->total_steps)
        complain(c, &s, "warmup_steps",
                 sw_config_format(c, "'warmup_steps' (%lld) is more than 'total_steps' (%lld)",
                                  (long long)o->warmup_steps, (long long)o->total_steps),
                 sw_config_format(c, "use warmup_steps <= %lld", (long long)o->total_steps));
    if (o->decay_steps > o->total_steps - o->warmup_steps && o->warmup_steps <= o->total_steps)
        complain(c, &s, "decay_steps",
                 sw_config_format(
                     c,
                     "'decay_steps' (%lld) is more than 'total_steps' less 'warmup_steps' (%lld)",
                     (long long)o->decay_steps, (long long)(o->total_steps - o->warmup_steps)),
                 sw_config_format(c, "use decay_steps <= %lld",
                                  (long long)(o->total_steps - o->warmup_steps)));
    if (o->schedule == SW_SCHEDULE_INVERSE_SQRT && o->warmup_steps == 0)
        complain(c, &s, "schedule",
                 "schedule 'inverse_sqrt' needs a warm-up, and 'warmup_steps' is 0",
                 "use warmup_steps >= 1, or another schedule");
    if (o->min_learning_rate > o->learning_rate)
        complain(c, &s, "min_learning_rate",
                 sw_config_format(c, "'min_learning_rate' (%s) is more than 'learning_rate' (%s)",
                                  sw_real_format(o->min_learning_rate, least),
                                  sw_real_format(o->learning_rate, rate)),
                 sw_config_format(c, "use min_learning_rate <= %s",
                                  sw_real_format(o->learning_rate, most)));
    const struct node *spike = sw_node_find(map, "on_spike");
    if (o->on_spike == SW_SPIKE_REWIND && out->checkpoint_every_steps == 0)
        sw_config_note_at(c, spike,
                          "'on_spike: rewind' has no checkpoint to go back to during the run; set "
                          "checkpoint.every_steps");
    const struct node *decay = sw_node_find(map, "decay_steps");
    if (decay != NULL && o->decay_steps > 0 && o->schedule != SW_SCHEDULE_WSD)
        sw_config_note_at(c, decay,
                          "'decay_steps' has no effect here: it is for schedule: wsd; remove it, "
                          "or use that schedule");
    run->bad |= s.bad;
}

/* Warns of weights in bf16: with 8 bits of significand, half of a unit in the last place is at
 * least 2^-9 of a weight, and smaller updates are rounded away. Only wider weights have a copy. */
static void warn_of_precision(struct sw_config *c, const struct node *root,
                              const struct sw_run_config *out)
{
    const struct node *at = sw_node_find(sw_node_find(root, "precision"), "params");
    if (at != NULL && out->params == SW_BF16_T)
        sw_config_note_at(c, at,
                          "'params: bf16' keeps no fp32 weights: updates below 2^-9 of a weight "
                          "vanish; use params: fp32");
    const struct node *copy = sw_node_find(sw_node_find(root, "precision"), "keep_copy");
    if (copy != NULL && out->keep_copy && (out->compute != SW_BF16_T || out->params != SW_F32))
        sw_config_note_at(c, copy,
                          "'keep_copy' has no effect here: it keeps a bf16 copy of fp32 weights; "
                          "remove it, or use compute: bf16 and params: fp32");
    else if (copy != NULL && out->keep_copy &&
             (out->zero == SW_ZERO_1 || out->zero == SW_ZERO_2 || !out->reshard_after_forward))
        sw_config_note_at(c, copy,
                          "'keep_copy' has no effect with zero: 1 or 2 or reshard_after_forward: "
                          "false, which keep weights in 'compute' already; remove it");
}

/* Refuses to keep gathered weights that ZeRO 1 and 2 keep whole from step to step anyway. */
static void check_sharding(struct sw_config *c, const struct node *root, struct section *s,
                           const struct sw_run_config *out)
{
    const struct node *at = sw_node_find(root, "reshard_after_forward");
    if (at == NULL || !sw_section_good(s, "zero", "reshard_after_forward", NULL) ||
        out->reshard_after_forward || out->zero == SW_ZERO_3)
        return;
    complain(
        c, s, "reshard_after_forward",
        "'reshard_after_forward: false' needs zero: 3, where weights are gathered layer by layer",
        "leave it out, or use zero: 3");
}

/* Refuses a token that the model does not have. */
static void check_document_end(struct sw_config *c, const struct node *root, struct section *s,
                               const struct sw_run_config *out)
{
    const struct node *at = sw_node_find(sw_node_find(root, "data"), "document_end");
    if (at == NULL || !sw_section_good(s, "model", "data", NULL) ||
        out->data_document_end < out->model.shape.vocab_size)
        return;
    sw_config_error_at(
        c, at,
        sw_config_format(c,
                         "'document_end: %lld' is not a token of the model, which has %lld tokens",
                         (long long)out->data_document_end, (long long)out->model.shape.vocab_size),
        "use the eos_token_id of the model that the data was tokenized for");
    s->bad |= UINT64_C(1) << (sw_field_find(s->fields, "data") - s->fields);
}

/* Checks that a prompt, whose time is predicted, fits into a slot. */
static void check_prompt(struct sw_config *c, const struct node *at, struct section *s,
                         const struct sw_run_config *run)
{
    const int64_t most = run->serve_max_tokens > 0 ? run->serve_max_tokens : run->sequence_length;
    if (at == NULL || !sw_section_good(s, "serve", "sequence_length", NULL) ||
        run->serve_prompt_tokens <= most)
        return;
    sw_config_error_at(c, at,
                       sw_config_format(c,
                                        "'prompt_tokens: %lld' is more than a sequence has room "
                                        "for, %lld tokens",
                                        (long long)run->serve_prompt_tokens, (long long)most),
                       run->serve_max_tokens > 0 ? "use a larger max_tokens, or fewer prompt_tokens"
                                                 : "write max_tokens, or fewer prompt_tokens");
    s->bad |= UINT64_C(1) << (sw_field_find(s->fields, "serve") - s->fields);
}

/* Takes the run's nodes, which may be fewer than the cluster's. */
static void take_nodes(struct sw_config *c, struct section *s, struct sw_run_config *run)
{
    struct sw_cluster_config *cluster = &run->cluster;
    if (!sw_section_good(s, "nodes", "cluster", NULL))
        return;
    run->nodes_least = run->nodes_most = run->cluster_nodes = cluster->nodes;
    if (run->nodes == NULL || sw_node_range_parse(run->nodes, &run->nodes_least, &run->nodes_most))
        return;
    if (run->nodes_most > cluster->nodes) {
        complain(c, s, "nodes",
                 sw_config_format(c, "'nodes: %s' is more than the cluster has, %d", run->nodes,
                                  (int)cluster->nodes),
                 sw_config_format(c, "use nodes: %d", (int)cluster->nodes));
        return;
    }
    sw_cluster_resize(cluster, run->nodes_most);
}

/* Checks the keys that a job needs, and those that only training has. */
static void check_job(struct sw_config *c, struct section *s, struct sw_run_config *run)
{
    struct sw_job_config *job = &run->job;
    const char *missing = NULL;
    if (!sw_section_good(s, "job", "cluster", NULL))
        return;
    job->place = place_of(s, "job");
    if (job->type == SW_JOB_TRAIN)
        return;
    if (job->type == SW_JOB_SERVE)
        missing = job->token_file == NULL ? "token_file" : NULL;
    else
        missing = job->input == NULL ? "input" : NULL;
    if (missing != NULL)
        complain(c, s, "job",
                 sw_config_format(c, "'job' of type %s needs '%s'", sw_job_type_name(job->type),
                                  missing),
                 job->type == SW_JOB_SERVE
                     ? "others on the cluster's network can reach it: name a file with a token"
                     : "name a file of lines of JSON");
    if (job->input != NULL && job->output != NULL && strcmp(job->input, job->output) == 0)
        complain(c, s, "job", "'output' is the file that 'input' reads, and would replace it",
                 "name another file as output");
    if (job->type == SW_JOB_SERVE && job->shards > 1)
        complain(c, s, "job", "'shards' applies only to generate and score",
                 "start one job for each server");
    if (run->nodes_least < run->nodes_most)
        complain(c, s, "job", "'nodes' must be one number for a job that does not train",
                 sw_config_format(c, "use nodes: %d", (int)run->nodes_most));
    for (int32_t i = 0; c->keys->launchers != NULL && c->keys->launchers->row[i] != NULL; i++) {
        const struct sw_launcher *row = c->keys->launchers->row[i];
        if (row->check_job != NULL && !row->check_job(c, sw_section_place(s, "job"), run))
            s->bad |= UINT64_C(1) << (sw_field_find(s->fields, "job") - s->fields);
    }
}

static bool check_settings(struct sw_config *c, const struct node *root,
                           const struct sw_run_config *run)
{
    bool good = true;
    for (int32_t i = 0; c->keys->launchers != NULL && c->keys->launchers->row[i] != NULL; i++)
        if (c->keys->launchers->row[i]->check_run != NULL)
            good = c->keys->launchers->row[i]->check_run(c, root, run) && good;
    return good;
}

/* Finds requests for placement. None for an elastic run: its numbers of nodes follow each other,
 * and no segment divides them all. */
static void find_placement(struct sw_run_config *run)
{
    struct sw_cluster_config *cluster = &run->cluster;
    const struct sw_launcher *row =
        cluster->launchers != NULL ? cluster->launchers->row[cluster->launcher] : NULL;
    cluster->placement = (struct sw_placement_config){0};
    if (row != NULL && row->placement != NULL)
        row->placement(cluster, &cluster->placement);
    if (run->nodes_least < run->nodes_most)
        cluster->placement.segments = false;
}

bool sw_run_config_prefers_time(const struct sw_run_config *run)
{
    return run->prefer == SW_PREFER_TIME || run->prefer == SW_PREFER_COST;
}

void sw_run_config_resize(struct sw_run_config *run, int32_t nodes)
{
    sw_cluster_resize(&run->cluster, nodes);
    run->nodes = NULL;
    run->nodes_least = run->nodes_most = nodes;
    find_placement(run);
}

bool sw_config_describe_run(struct sw_config *c, struct node *root, struct sw_run_config *out)
{
    if (!is_mapping(c, root, SW_CONFIG_RUN))
        return false;
    out->path = root->source->file;
    out->optimizer.beta1 = 0.9;
    out->optimizer.beta2 = 0.95;
    out->recompute_auto = true;
    struct section s =
        sw_config_read_section(c, root, c->keys->tables->run, out, sw_unknown_settings(c));
    out->mesh_dim_place = place_of(&s, "mesh_dim");
    out->batch_place = place_of(&s, "global_batch_size");
    out->sequence_place = place_of(&s, "sequence_length");
    out->freeze_place = place_of(&s, "freeze");
    out->lora_place = place_of(&s, "lora");
    check_schedule(c, &s, out);
    warn_of_precision(c, root, out);
    check_document_end(c, root, &s, out);
    check_sharding(c, root, &s, out);
    if (sw_section_good(&s, "data", NULL) && !sw_config_check_data(c, root, out))
        s.bad |= UINT64_C(1) << (sw_field_find(s.fields, "data") - s.fields);
    out->data_path = out->data_paths.count > 0 ? out->data_paths.item[0].text : NULL;
    take_nodes(c, &s, out);
    check_job(c, &s, out);
    check_prompt(c, sw_node_find(sw_node_find(root, "serve"), "prompt_tokens"), &s, out);
    if (s.bad != 0 || !sw_config_settle_profile(c, &out->cluster))
        return false;
    sw_config_warn_of_run(c, root, out);
    const struct node *steps = sw_node_find(sw_node_find(root, "optimizer"), "total_steps");
    const struct node *time = sw_launcher_time(&out->cluster, root);
    out->says_steps = steps != NULL && !sw_node_is_null(steps);
    out->time_is_ceiling = time == NULL || sw_node_is_null(time);
    if (out->time_is_ceiling)
        time = sw_launcher_time(&out->cluster, c->keys->cluster_root);
    if (time != NULL)
        out->time_place = (struct sw_place){time->source->file, time->line, time->column};
    if (out->directory == NULL)
        out->directory =
            sw_config_resolve(c, root->source, sw_config_format(c, "runs/%s", out->name));
    if (!check_settings(c, root, out) || !sw_stages_settle(c, out))
        return false;
    find_placement(out);
    if (out->checkpoint_directory == NULL)
        out->checkpoint_directory = sw_config_join(c, out->directory, "checkpoints");
    return true;
}

static struct sw_place key_place_of(const struct node *map, const char *key)
{
    const struct node *at = sw_node_find(map, key);
    if (at == NULL)
        return (struct sw_place){.file = NULL};
    return (struct sw_place){at->source->file, at->key->line, at->key->column};
}

bool sw_config_describe_plan(struct sw_config *c, struct node *root, struct sw_plan_config *out)
{
    if (!is_mapping(c, root, SW_CONFIG_PLAN))
        return false;
    const struct node *digest = sw_node_find(root, "digest"), *old = sw_node_find(root, "program");
    if (digest != NULL)
        c->keys->digest_place =
            (struct sw_place){digest->source->file, digest->line, digest->column};
    if (old != NULL) {
        sw_config_error_at(
            c, old->key,
            "this plan was written by an older version: it has 'program' in place of 'programs'",
            "write it again with 'plan emit'");
        return false;
    }
    const struct node *programs = sw_node_find(root, "programs");
    if (programs != NULL && programs->kind == NODE_MAPPING && programs->count == 2 &&
        sw_node_find(programs, "train") != NULL && sw_node_find(programs, "evaluate") != NULL) {
        sw_config_error_at(
            c, programs->key,
            "this plan was written by an older version: 'programs' has no digest of 'save'",
            "write it again with 'plan emit'");
        return false;
    }
    const struct node *cluster = sw_node_find(sw_node_find(root, "run"), "cluster");
    if (cluster != NULL && cluster->kind == NODE_MAPPING &&
        sw_node_find(cluster, "profile") == NULL) {
        sw_config_error_at(
            c, cluster->key,
            "this plan was written by an older version: its 'cluster' has no 'profile'",
            "write it again with 'plan emit'");
        return false;
    }
    const struct node *decision = sw_node_find(root, "decision");
    out->decision_place = key_place_of(root, "decision");
    const struct field *kind = sw_field_find(sw_plan_fields, "programs")->fields;
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++)
        out->program_place[k] = key_place_of(programs, kind[k].key);
    out->mesh_place = key_place_of(decision, "mesh_dim");
    out->order_place = key_place_of(decision, "axis_order");
    return sw_config_read_section(c, root, c->keys->tables->plan, out, UNKNOWN_ERROR).bad == 0;
}

bool sw_config_describe_curve(struct sw_config *c, struct node *root, struct sw_curve_file *out)
{
    if (root->kind != NODE_MAPPING) {
        if (root->kind != NODE_BROKEN)
            sw_config_error_at(
                c, root,
                sw_config_format(c, "the description of a curve must be a mapping, not %s",
                                 sw_node_describe(c, root)),
                "write 'points: [[1e6, 0.2], [1e9, 0.8]]'");
        return false;
    }
    return sw_config_read_section(c, root, sw_curve_fields, out, UNKNOWN_ERROR).bad == 0;
}
