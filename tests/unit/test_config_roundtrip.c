/* core/config: what sw_run_config_write writes reads back as the same description. */
#include "config_random.h"
#include "tests/support/share.h"

static void same_text(const char *a, const char *b)
{
    if (a == NULL || b == NULL)
        assert_true(a == b);
    else
        assert_string_equal(a, b);
}

static void same_texts(const struct sw_texts *a, const struct sw_texts *b)
{
    assert_int_equal(a->count, b->count);
    for (int32_t i = 0; i < a->count; i++)
        assert_string_equal(a->item[i], b->item[i]);
}

static void same_paths(const struct sw_paths *a, const struct sw_paths *b)
{
    assert_int_equal(a->count, b->count);
    for (int32_t i = 0; i < a->count; i++)
        assert_string_equal(a->item[i].text, b->item[i].text);
}

static void same_values(const struct sw_values_config *a, const struct sw_values_config *b)
{
    assert_int_equal(a->all, b->all);
    assert_int_equal(a->count, b->count);
    for (int32_t i = 0; i < a->count; i++)
        assert_string_equal(a->of[i].name, b->of[i].name);
}

static void same_environment(const struct sw_environment *a, const struct sw_environment *b)
{
    assert_int_equal(a->count, b->count);
    for (int32_t i = 0; i < a->count; i++) {
        assert_string_equal(a->item[i].name, b->item[i].name);
        assert_string_equal(a->item[i].value, b->item[i].value);
    }
}

static void same_curve(const struct sw_curve *a, const struct sw_curve *b)
{
    assert_int_equal(a->count, b->count);
    for (int32_t i = 0; i < a->count; i++)
        assert_true(a->point[i].size == b->point[i].size &&
                    a->point[i].fraction == b->point[i].fraction);
}

static void same_collectives(const struct sw_collective_curves *a,
                             const struct sw_collective_curves *b)
{
    assert_true((a == NULL) == (b == NULL));
    for (int32_t i = 0; a != NULL && i < a->count; i++) {
        assert_int_equal(a->count, b->count);
        assert_int_equal(a->of[i].kind, b->of[i].kind);
        assert_int_equal(a->of[i].ranks, b->of[i].ranks);
        same_curve(&a->of[i].curve, &b->of[i].curve);
    }
}

static void same_products(const struct sw_products *a, const struct sw_products *b)
{
    assert_true((a == NULL) == (b == NULL));
    if (a == NULL)
        return;
    assert_memory_equal(a, b, offsetof(struct sw_products, asymptote));
}

#define SAME(member) assert_true(a->member == b->member)

static void same_slurm(const struct sw_slurm_config *a, const struct sw_slurm_config *b)
{
    same_text(a->partition, b->partition);
    same_text(a->account, b->account);
    same_text(a->qos, b->qos);
    same_text(a->time, b->time);
    same_text(a->gpus_per_node, b->gpus_per_node);
    same_text(a->constraint, b->constraint);
    same_text(a->reservation, b->reservation);
    same_text(a->mem, b->mem);
    same_text(a->mem_per_cpu, b->mem_per_cpu);
    same_text(a->mem_per_gpu, b->mem_per_gpu);
    SAME(cpus_per_task);
    SAME(exclusive);
    same_text(a->version, b->version);
    same_text(a->mail_type, b->mail_type);
    same_text(a->mail_user, b->mail_user);
    same_text(a->comment, b->comment);
    SAME(requeue);
    SAME(nice);
    SAME(segment);
    same_texts(&a->modules, &b->modules);
    same_texts(&a->setup, &b->setup);
    same_texts(&a->setup_node, &b->setup_node);
    same_environment(&a->environment, &b->environment);
    same_text(a->fabric.name, b->fabric.name);
    same_environment(&a->fabric.environment, &b->fabric.environment);
    same_text(a->container.image, b->container.image);
    same_text(a->container.runner, b->container.runner);
    SAME(container.kind);
}

static void same_cluster(const struct sw_cluster_config *a, const struct sw_cluster_config *b)
{
    same_text(a->name, b->name);
    same_text(a->accelerator.name, b->accelerator.name);
    SAME(accelerator.device);
    SAME(accelerator.memory_bytes);
    SAME(accelerator.reserved_memory_bytes);
    SAME(accelerator.peak_bf16_flops);
    SAME(accelerator.peak_fp32_flops);
    SAME(accelerator.memory_bandwidth);
    SAME(accelerator.compute_units);
    same_text(a->profile.name, b->profile.name);
    same_text(a->profile.accelerator, b->profile.accelerator);
    same_text(a->profile.source, b->profile.source);
    SAME(profile.launch_latency_s);
    SAME(profile.host_time_s);
    SAME(profile.peak_bf16_flops);
    SAME(profile.peak_fp32_flops);
    SAME(profile.memory_bandwidth);
    SAME(profile.runs);
    SAME(profile.error);
    SAME(profile.band_low);
    SAME(profile.band_high);
    same_curve(&a->profile.matmul, &b->profile.matmul);
    same_curve(&a->profile.attention, &b->profile.attention);
    same_curve(&a->profile.memory, &b->profile.memory);
    same_curve(&a->profile.products_scale, &b->profile.products_scale);
    for (int32_t i = 0; i < SW_PRODUCT_KINDS * SW_RATE_DTYPES; i++)
        same_products((&a->profile.products[0][0])[i], (&b->profile.products[0][0])[i]);
    for (int32_t i = 0; i < SW_ATTENTION_PHASES * SW_RATE_DTYPES; i++)
        same_products((&a->profile.attention_by_size[0][0])[i],
                      (&b->profile.attention_by_size[0][0])[i]);
    same_curve(&a->profile.attention_scale, &b->profile.attention_scale);
    SAME(profile.attention_error);
    SAME(profile.attention_signed_error.mean);
    SAME(profile.products_signed_error.mean);
    assert_true((a->profile.products_signed_error.at.file == NULL) ==
                (b->profile.products_signed_error.at.file == NULL));
    SAME(profile.angle_time_s);
    same_products(a->accelerator.products, b->accelerator.products);
    same_products(a->accelerator.prefill_attention, b->accelerator.prefill_attention);
    same_products(a->accelerator.decode_attention, b->accelerator.decode_attention);
    SAME(accelerator.products_error);
    SAME(accelerator.prefill_error);
    SAME(accelerator.decode_error);
    SAME(accelerator.peak_int8_flops);
    SAME(profile.peak_int8_flops);
    SAME(profile.reduces_directly);
    SAME(profile.joins_products);
    SAME(profile.gradient_copies);
    SAME(nodes);
    SAME(accelerators_per_node);
    SAME(host_memory_bytes);
    SAME(storage_bandwidth);
    SAME(failures_per_1000_node_days);
    SAME(link_count);
    for (int32_t i = 0; i < a->link_count; i++) {
        same_text(a->link[i].name, b->link[i].name);
        SAME(link[i].spans);
        SAME(link[i].bandwidth);
        SAME(link[i].launch_s);
        SAME(link[i].latency_s);
        SAME(link[i].oversubscription);
        SAME(link[i].rails);
        SAME(link[i].direct);
        same_curve(&a->link[i].efficiency, &b->link[i].efficiency);
        same_collectives(a->link[i].collectives, b->link[i].collectives);
    }
    SAME(launcher);
    same_slurm(sw_slurm_settings(a), sw_slurm_settings(b));
}

static void same_run(const struct sw_run_config *a, const struct sw_run_config *b)
{
    same_text(a->name, b->name);
    assert_memory_equal(&a->model.shape, &b->model.shape, sizeof a->model.shape);
    same_cluster(&a->cluster, &b->cluster);
    SAME(sequence_length);
    SAME(global_batch_size);
    same_text(a->mesh_dim, b->mesh_dim);
    SAME(prefer);
    SAME(prefer_within);
    SAME(memory_headroom);
    SAME(micro_batch_size);
    SAME(recompute_auto);
    same_values(&a->recompute.values, &b->recompute.values);
    SAME(recompute.layers);
    same_values(&a->recompute.rest, &b->recompute.rest);
    SAME(compute);
    SAME(params);
    SAME(reduce);
    SAME(ring);
    SAME(serve_cache);
    SAME(serve_weights);
    SAME(lora.rank);
    SAME(lora.alpha);
    SAME(lora.rslora);
    SAME(lora.base);
    same_text(a->lora.targets, b->lora.targets);
    for (int32_t i = 0; i < SW_LORA_TARGETS; i++) {
        SAME(lora.rank_of[i]);
        SAME(lora.alpha_of[i]);
    }
    SAME(strategy);
    SAME(layout);
    SAME(rule_count);
    for (int32_t i = 0; i < a->rule_count; i++) {
        same_text(a->rule[i].logical, b->rule[i].logical);
        SAME(rule[i].count);
        for (int32_t j = 0; j < a->rule[i].count; j++)
            same_text(a->rule[i].axis[j], b->rule[i].axis[j]);
    }
    SAME(optimizer.learning_rate);
    SAME(optimizer.beta1);
    SAME(optimizer.beta2);
    SAME(optimizer.eps);
    SAME(optimizer.weight_decay);
    SAME(optimizer.grad_clip);
    SAME(optimizer.schedule);
    SAME(optimizer.warmup_steps);
    SAME(optimizer.total_steps);
    SAME(optimizer.decay_steps);
    SAME(optimizer.moments);
    SAME(optimizer.on_spike);
    SAME(optimizer.spike_threshold);
    SAME(optimizer.spike_window);
    SAME(optimizer.max_skips);
    SAME(optimizer.max_rewinds);
    same_text(a->optimizer.no_decay, b->optimizer.no_decay);
    SAME(optimizer.min_learning_rate);
    same_text(a->data_path, b->data_path);
    same_paths(&a->data_paths, &b->data_paths);
    same_paths(&a->data_validation, &b->data_validation);
    SAME(data_weights.count);
    for (int32_t i = 0; i < a->data_weights.count; i++)
        SAME(data_weights.item[i]);
    SAME(data_pack);
    SAME(data_format);
    SAME(data_seed);
    SAME(data_holdout);
    same_text(a->directory, b->directory);
    same_text(a->checkpoint_directory, b->checkpoint_directory);
    SAME(checkpoint_every_steps);
    SAME(evaluate_every_steps);
    SAME(checkpoint_keep);
    SAME(checkpoint_keep_every);
    SAME(checkpoint_bandwidth);
    SAME(checkpoint_signal);
    same_text(a->init_from, b->init_from);
    same_text(a->init_adapter, b->init_adapter);
}

static char *written(const struct sw_run_config *run, const char *head, int32_t indent)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    fputs(head, out);
    sw_run_config_write(out, run, indent);
    fclose(out);
    return text;
}

#define PLAN_HEAD                                                                                  \
    "schema: shardwright.plan/1\ndigest: 'fedcba9876543210'\n"                                     \
    "programs: {train: '0000000000000010', evaluate: '0000000000000011', save: "                   \
    "'0000000000000012'}\n"                                                                        \
    "prediction: {step_seconds: 1.5, memory_total: 2, arena_bytes: 1}\ninputs: []\n"               \
    "decision: {mesh_dim: '1,1,1,1', axis_order: 'dp,fsdp,sp,tp', micro_batch_size: 1, "           \
    "accumulation_steps: 1, recompute: none, strategy: ring, layout: zigzag, residual_seq: sp}\n"

static void random_runs_read_back_equal(void **state)
{
    (void)state;
    uint64_t seed = 20240607;
    for (int i = 0; i < 400 / sw_test_share(); i++) {
        struct sw_run_config run = {0};
        fill_run(&seed, &run);
        bool as_plan = i % 2 == 0;
        char *text = written(&run, as_plan ? PLAN_HEAD "run:\n" : "", as_plan ? 2 : 0);
        struct sw_config *c = read_named("p", text, as_plan ? SW_CONFIG_PLAN : SW_CONFIG_RUN, NULL);
        char *got = report(c);
        /* the one thing to say about a good run; random figures are warned of, but in a plan */
        const bool noted = run.params == SW_BF16_T;
        int32_t notes = 0, warnings = 0;
        for (int32_t d = 0; d < sw_config_diagnostic_count(c); d++)
            *(sw_config_diagnostic(c, d)->is_warning ? &warnings : &notes) += 1;
        if (notes != noted || sw_config_error_count(c) != 0 || (as_plan && warnings > 0))
            print_error("%s%s", got, text);
        assert_int_equal(sw_config_error_count(c), 0);
        assert_int_equal(notes, noted);
        assert_true(warnings == 0 || !as_plan);
        same_run(&run, sw_config_run(c));
        char *again = written(sw_config_run(c), as_plan ? PLAN_HEAD "run:\n" : "", as_plan ? 2 : 0);
        assert_string_equal(again, text);
        free(again);
        free(got);
        free(text);
        sw_config_free(c);
    }
}

static void every_default_is_spelled_out(void **state)
{
    (void)state;
    struct sw_config *c = read_named("t", RUN_HEAD, SW_CONFIG_RUN, NULL);
    char *text = written(sw_config_run(c), "", 0);
    assert_string_equal(text, "name: r\n"
                              "model:\n"
                              "  architectures: [LlamaForCausalLM]\n"
                              "  vocab_size: 256\n"
                              "  hidden_size: 64\n"
                              "  intermediate_size: 128\n"
                              "  num_hidden_layers: 2\n"
                              "  num_attention_heads: 4\n"
                              "  num_key_value_heads: 4\n"
                              "  head_dim: 16\n"
                              "  max_position_embeddings: 2048\n"
                              "  rope_theta: 10000.0\n"
                              "  rms_norm_eps: 1.0e-5\n"
                              "  initializer_range: 0.02\n"
                              "  tie_word_embeddings: false\n"
                              "cluster:\n"
                              "  name: c\n"
                              "  nodes: 1\n"
                              "  accelerators_per_node: 1\n"
                              "  accelerator:\n"
                              "    name: a\n"
                              "    device: cpu\n"
                              "    memory: 2000000000\n"
                              "    reserved_memory: 0\n"
                              "    peak:\n"
                              "      bf16: 1000000000000.0\n"
                              "      fp32: 1000000000000.0\n"
                              "    memory_bandwidth: 10000000000.0\n"
                              "  links: []\n"
                              "  profile:\n"
                              "    name: default\n"
                              "    matmul: 0.7\n"
                              "    attention: 0.3\n"
                              "    memory: 0.6\n"
                              "    launch_latency: 0.0\n"
                              "    host_time: 0.0\n"
                              "    peak:\n"
                              "      bf16: 0.0\n"
                              "      fp32: 0.0\n"
                              "    memory_bandwidth: 0.0\n"
                              "    runs: 0\n"
                              "    error: 0.0\n"
                              "    band_low: 0.7\n"
                              "    band_high: 1.3\n"
                              "  reliability:\n"
                              "    failures_per_1000_node_days: 3.8\n"
                              "  launcher: slurm\n"
                              "sequence_length: 128\n"
                              "global_batch_size: 8\n"
                              "mesh_dim: auto\n"
                              "prefer: fsdp\n"
                              "prefer_within: 0.05\n"
                              "memory_headroom: 0.05\n"
                              "micro_batch_size: auto\n"
                              "recompute: auto\n"
                              "precision:\n"
                              "  compute: bf16\n"
                              "  params: fp32\n"
                              "  reduce: fp32\n"
                              "attention:\n"
                              "  strategy: ring\n"
                              "  layout: zigzag\n"
                              "rules: {}\n"
                              "optimizer:\n"
                              "  learning_rate: 0.0003\n"
                              "  betas: [0.9, 0.95]\n"
                              "  eps: 1.0e-8\n"
                              "  weight_decay: 0.1\n"
                              "  grad_clip: 1.0\n"
                              "  schedule: cosine\n"
                              "  warmup_steps: 0\n"
                              "  total_steps: 1000\n"
                              "  min_learning_rate: 0.0\n"
                              "data:\n"
                              "  seed: 1\n"
                              "  holdout: 0.0\n"
                              "directory: runs/r\n"
                              "checkpoint:\n"
                              "  directory: runs/r/checkpoints\n"
                              "  every_steps: auto\n"
                              "  keep: 3\n"
                              "  keep_every: 0\n"
                              "  bandwidth: 0.0\n"
                              "  signal: USR1\n"
                              "evaluate:\n"
                              "  every_steps: 0\n");
    free(text);
    sw_config_free(c);
}

/* What is not told has no default that could be spelled out. */
static void what_is_told_is_written(void **state)
{
    (void)state;
    static const char *const sets[] = {
        "cluster.host_memory=2 TB", "cluster.storage.bandwidth=1 kB/s", "init.from=/m",
        "checkpoint.signal=USR2",   "checkpoint.bandwidth=2 GB/s",      NULL};
    struct sw_config *c = read_named("t", RUN_HEAD, SW_CONFIG_RUN, sets);
    char *text = written(sw_config_run(c), "", 0);
    assert_non_null(strstr(text, "  host_memory: 2000000000000\n  links: []\n  profile:\n"));
    assert_non_null(strstr(text, "  storage:\n    bandwidth: 1000.0\n  reliability:\n"));
    assert_non_null(strstr(text, "  keep_every: 0\n  bandwidth: 2000000000.0\n  signal: USR2\n"
                                 "init:\n  from: '/m'\nevaluate:\n"));
    free(text);
    sw_config_free(c);
}

static void paths_become_absolute(void **state)
{
    (void)state;
    struct sw_config *c =
        read_named("a/t", RUN_HEAD "data: {path: ../x}\ninit: {from: ../y}\n", SW_CONFIG_RUN, NULL);
    struct sw_error err = {0};
    assert_int_equal(sw_config_make_paths_absolute(c, &err), 0);
    const struct sw_run_config *run = sw_config_run(c);
    assert_int_equal(run->data_path[0], '/');
    assert_int_equal(run->directory[0], '/');
    assert_int_equal(run->init_from[0], '/');
    assert_false(run->init_from_is_absolute);
    assert_non_null(strstr(run->checkpoint_directory, "/a/runs/r/checkpoints"));
    sw_config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_runs_read_back_equal),
        cmocka_unit_test(every_default_is_spelled_out),
        cmocka_unit_test(what_is_told_is_written),
        cmocka_unit_test(paths_become_absolute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
