/* core/config: what sw_run_config_write writes reads back as the same description. */
#include "config_support.h"
#include "core/base/device.h"

#include <float.h>
#include <math.h>
#include <signal.h>

/* xorshift64*: the same descriptions on every machine. */
static uint64_t draw(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static int64_t between(uint64_t *state, int64_t low, int64_t high)
{
    return low + (int64_t)(draw(state) % (uint64_t)(high - low + 1));
}

/* A positive real with all its digits, over many powers of ten. */
static double real(uint64_t *state, double low, double high)
{
    double unit = (double)(draw(state) >> 11) * 0x1p-53;
    double value = low * pow(high / low, unit);
    return value < low ? low : value > high ? high : value;
}

/* Texts that YAML could misread: the list is what the writer must get right. */
static const char *some_path(uint64_t *state)
{
    static const char *const paths[] = {
        "data/text.txt",
        "/abs/olute",
        "null",
        "~",
        "true",
        "12",
        "1e5",
        " leading",
        "tab\tin",
        "quote'd",
        "\"double\"",
        "back\\slash",
        "- dash",
        "# hash",
        "a: b",
        "a #b",
        "{curly",
        "[square",
        "caf\xc3\xa9",
        "nel\xc2\x85",
        "ls\xe2\x80\xa8x",
        "bom\xef\xbb\xbfx",
        "\xf0\x9f\x98\x80",
        "new\nline",
        "bell\x07",
        "del\x7f",
        "nbsp\xc2\xa0",
        "!tag",
        "*alias",
        "&anchor",
        "%percent",
        "@at",
        "`tick",
        "|",
        "No",
    };
    return paths[draw(state) % (sizeof paths / sizeof paths[0])];
}

static void fill_curve(uint64_t *s, struct sw_curve *curve)
{
    curve->count = (int32_t)between(s, 0, SW_MAX_CURVE);
    double size = 1;
    for (int32_t i = 0; i < curve->count; i++) {
        size *= real(s, 1.001, 10);
        curve->point[i] = (struct sw_curve_point){.size = size, .fraction = real(s, 1e-4, 1)};
    }
}

static void fill_few_rows(uint64_t *s, struct sw_few_rows *few)
{
    few->count = (int32_t)between(s, 0, SW_MAX_FEW_ROWS);
    double rows = 1, bytes = 1;
    for (int32_t i = 0; i < few->count; i++) {
        if (draw(s) & 1) {
            rows *= real(s, 1.001, 3);
            bytes = real(s, 1, 1e9);
        } else {
            bytes *= real(s, 1.001, 10);
        }
        few->point[i] = (struct sw_few_rows_point){rows, bytes, real(s, 1, 1e12)};
    }
}

/* What each family can say, and nothing else. */
static void fill_family(uint64_t *s, struct sw_model_config *config)
{
    struct sw_model *m = &config->shape;
    m->family = (uint8_t)between(s, SW_FAMILY_LLAMA, SW_FAMILY_QWEN3);
    m->output_bias = (m->family == SW_FAMILY_LLAMA || m->family == SW_FAMILY_QWEN3) && draw(s) & 1;
    m->qkv_bias = m->output_bias || m->family == SW_FAMILY_QWEN2;
    m->mlp_bias = m->family == SW_FAMILY_LLAMA && draw(s) & 1;
    m->qk_norm = m->family == SW_FAMILY_QWEN3;
    if (m->family != SW_FAMILY_LLAMA && draw(s) & 1)
        m->sliding_window = between(s, 1 << 30, INT64_C(1) << 53);
    config->use_sliding_window = m->sliding_window != 0 && m->family != SW_FAMILY_MISTRAL;
    config->max_window_layers = config->use_sliding_window ? 0 : SW_MAX_WINDOW_LAYERS;
    m->rope.scaling = between(s, SW_ROPE_PLAIN, SW_ROPE_LLAMA3);
    m->rope.factor = m->rope.scaling == SW_ROPE_PLAIN ? 1 : real(s, 1, 1e6);
    if (m->rope.scaling == SW_ROPE_LLAMA3) {
        m->rope.low_freq_factor = real(s, 1e-9, 1);
        m->rope.high_freq_factor = real(s, 1.001, 1e6);
        m->rope.original_positions = between(s, 1, INT64_C(1) << 53);
    }
}

static void fill_model(uint64_t *s, struct sw_model *m)
{
    m->kv_heads = (int32_t)between(s, 1, 16);
    m->heads = m->kv_heads * (int32_t)between(s, 1, 16);
    m->head_dim = 2 * (int32_t)between(s, 1, 128);
    m->hidden_size = between(s, 1, 1 << 20);
    m->vocab_size = between(s, 2, 1 << 20);
    m->intermediate_size = between(s, 1, 1 << 20);
    m->layers = (int32_t)between(s, 1, 1000);
    m->max_position_embeddings = between(s, 1, INT64_C(1) << 53);
    m->rope.theta = real(s, 1e-9, 1e30);
    m->rms_norm_eps = real(s, 1e-300, 1);
    m->initializer_range = real(s, 1e-9, 10);
    m->tied = draw(s) & 1;
}

static const struct sw_products some_products = {
    .rows = 2,
    .columns = 3,
    .depths = 2,
    .row = {1, 8192},
    .column = {1024, 1100.5, 16384},
    .depth = {64, 1e9},
    .share = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1e-9, 0.47},
    .asymptote = 0.47 / 0.94};

/* Some: as many points as may be, of as many digits. */
static const struct sw_products *any_products(uint64_t *s)
{
    static struct sw_products p;
    if (draw(s) % 20 != 0)
        return draw(s) & 1 ? &some_products : NULL;
    p.rows = SW_MAX_PRODUCT_ROWS;
    p.columns = p.depths = SW_MAX_PRODUCT_SIDES;
    for (int32_t i = 0; i < p.rows; i++)
        p.row[i] = 333333.3744855297 * (i + 1);
    for (int32_t i = 0; i < p.columns; i++)
        p.column[i] = p.depth[i] = 1234567.8901234567 * (i + 1);
    for (int32_t i = 0; i < p.rows * p.columns * p.depths; i++)
        p.share[i] = 0.00012345678901234567 * (i % 7 + 1);
    return &p;
}

/* As it is when settled: every share told. */
static void fill_profile(uint64_t *s, struct sw_profile_config *p)
{
    struct sw_curve *const curves[] = {&p->matmul, &p->attention, &p->memory};
    p->name = draw(s) & 1 ? "no" : "1.5";
    for (int32_t i = 0; i < SW_FEW_KINDS * SW_FEW_DTYPES; i++)
        fill_few_rows(s, &p->few_rows[i / SW_FEW_DTYPES][i % SW_FEW_DTYPES]);
    const struct sw_products *list = any_products(s); /* of bf16, for every kind */
    for (int32_t i = 0; i < SW_PRODUCT_KINDS * SW_FEW_DTYPES; i++)
        (&p->products[0][0])[i] = list == NULL ? any_products(s) : i % 2 != 0 ? list : NULL;
    fill_curve(s, &p->products_scale);
    for (int32_t i = 0; i < p->products_scale.count; i++)
        p->products_scale.point[i].fraction *= 2;
    for (int32_t i = 0; i < SW_ATTENTION_PHASES * SW_FEW_DTYPES; i++)
        (&p->attention_by_size[0][0])[i] = any_products(s);
    fill_curve(s, &p->attention_scale);
    p->attention_error = draw(s) & 1 ? real(s, 1e-3, 1) : 0;
    p->angle_time_s = draw(s) & 1 ? real(s, 1e-9, 1) : 0;
    p->launch_latency_s = draw(s) & 1 ? real(s, 1e-9, 1) : 0;
    p->host_time_s = draw(s) & 1 ? real(s, 1e-9, 1) : 0;
    p->peak_bf16_flops = draw(s) & 1 ? real(s, 1, 1e20) : 0;
    p->peak_fp32_flops = draw(s) & 1 ? real(s, 1, 1e20) : 0;
    p->peak_int8_flops = draw(s) & 1 ? real(s, 1, 1e20) : 0;
    p->reduces_directly = draw(s) & 1;
    p->joins_products = draw(s) & 1;
    p->memory_bandwidth = draw(s) & 1 ? real(s, 1, 1e15) : 0;
    p->runs = (int32_t)between(s, 0, 1000);
    p->error = draw(s) & 1 ? real(s, 1e-9, 1) : 0;
    p->band_low = real(s, 0.1, 1);
    p->band_high = real(s, 1, 100);
    p->source = draw(s) & 1 ? "a: 'b', 2024" : NULL;
    for (size_t i = 0; i < 3; i++) {
        fill_curve(s, curves[i]);
        if (curves[i]->count == 0)
            *curves[i] = (struct sw_curve){1, {{1, real(s, 1e-3, 1)}}};
    }
}

static void fill_cluster(uint64_t *s, struct sw_cluster_config *c)
{
    struct sw_accelerator_config *a = &c->accelerator;
    a->name = "0x1F";
    a->device = (enum sw_device_kind)between(s, 0, 1);
    a->memory_bytes = between(s, 1000, INT64_C(1) << 50);
    a->reserved_memory_bytes = between(s, 0, 999);
    a->peak_bf16_flops = real(s, 1, 1e20);
    a->peak_fp32_flops = real(s, 1, 1e20);
    a->memory_bandwidth = real(s, 1, 1e15);
    a->compute_units = (int32_t)between(s, 0, 200);
    a->peak_int8_flops = draw(s) & 1 ? real(s, 1, 1e20) : 0;
    a->products = any_products(s);
    a->prefill_attention = any_products(s);
    a->decode_attention = any_products(s);
    fill_profile(s, &c->profile);
    c->profile.accelerator = draw(s) & 1 ? a->name : NULL;
    c->name = "1e3";
    c->nodes = (int32_t)between(s, 1, 64);
    c->accelerators_per_node = (int32_t)between(s, 1, 16);
    c->launcher = (int32_t)between(s, 0, 1);
    c->host_memory_bytes = draw(s) & 1 ? between(s, 1, INT64_C(1) << 50) : 0;
    c->storage_bandwidth = draw(s) & 1 ? real(s, 1, 1e15) : 0;
    c->failures_per_1000_node_days = draw(s) & 1 ? real(s, 1e-9, 1e6) : 0;
    c->link_count = (int32_t)between(s, 1, SW_MAX_LINKS);
    for (int32_t i = 0; i < c->link_count; i++)
        c->link[i] = (struct sw_link_config){.name = i == 0 ? "null" : "net-1",
                                             .spans = 1024 + i,
                                             .bandwidth = real(s, 1, 1e13),
                                             .latency_s = real(s, 1e-9, 1),
                                             .oversubscription = real(s, 1, 100),
                                             .rails = draw(s) & 1,
                                             .direct = draw(s) & 1};
    for (int32_t i = 0; i < c->link_count; i++)
        fill_curve(s, &c->link[i].efficiency);
    c->launchers = &sw_launchers;
    struct sw_slurm_config *w = (struct sw_slurm_config *)(void *)c->settings.bytes;
    if (draw(s) & 1) {
        *w = (struct sw_slurm_config){.partition = "gpu,cpu",
                                      .account = "123",
                                      .qos = "null",
                                      .time = "1-2:03:04",
                                      .gpus_per_node = "a:16",
                                      .constraint = "a&b|[c*2]",
                                      .reservation = "x@y/z%1",
                                      .cpus_per_task = 3,
                                      .mem = "0",
                                      .exclusive = SW_EXCLUSIVE_MCS};
    }
    if (draw(s) & 1) {
        static const char *const texts[] = {"a", "b c: d", "it's [1, 2]", "--x=\"y\\z\"", "null"};
        static const struct sw_variable variables[] = {
            {"PLAIN", "x"}, {"EMPTY", ""}, {"_odd", "'\"\\$(x) # {}, é"}, {"n", "yes"}};
        w->version = "25.11";
        w->requeue = (enum sw_requeue)between(s, 0, 3);
        w->nice = (int32_t)between(s, -5, 5);
        w->segment = (int32_t)between(s, 0, 2);
        w->mail_type = "END,FAIL";
        w->comment = "two  words";
        w->modules = (struct sw_texts){texts, 1};
        w->setup = (struct sw_texts){texts, 2};
        w->environment = (struct sw_environment){variables, (int32_t)between(s, 0, 4)};
        w->fabric = (struct sw_fabric_config){"", "ib", {variables, (int32_t)between(s, 0, 2)}};
        w->container.image = "docker://a/b:1";
        w->container.kind = (enum sw_container_kind)between(s, 0, 3);
        w->container.runner = draw(s) & 1 ? "/opt/runner" : NULL;
    }
}

static void fill_run(uint64_t *s, struct sw_run_config *r)
{
    static const char *const axes[] = {"dp", "fsdp", "tp", "sp"};
    static const char *const logical[] = {"seq", "residual_seq", "true", "mlp"};
    fill_model(s, &r->model.shape);
    fill_family(s, &r->model);
    fill_cluster(s, &r->cluster);
    r->name = draw(s) & 1 ? "run-1" : "1.5";
    r->sequence_length = between(s, 1, 1 << 30);
    r->global_batch_size = between(s, 1, 1 << 30);
    r->mesh_dim = draw(s) & 1 ? "!1,-1,4,1" : "sp:2,tp:8,fsdp:-1,dp:1";
    r->prefer = (enum sw_prefer)between(s, 0, 2);
    r->prefer_within = (double)between(s, 0, 1000) / 1000;
    r->micro_batch_size = between(s, 0, 3);
    r->recompute_auto = between(s, 0, 1) == 0;
    r->recompute = (struct sw_recompute_config){0};
    if (!r->recompute_auto && between(s, 0, 3) > 0) {
        static const struct sw_name_config names[] = {
            {.name = "n1"}, {.name = "q0+b"}, {.name = "y"}, {.name = "it's: [odd]"}};
        r->recompute.layers = (int32_t)between(s, 1, r->model.shape.layers);
        r->recompute.values.of = r->recompute.rest.of = names;
        r->recompute.values.count = (int32_t)between(s, 0, 4);
        r->recompute.values.all = r->recompute.values.count == 0;
        r->recompute.rest.count = (int32_t)between(s, 0, r->recompute.values.count);
    }
    r->compute = (enum sw_dtype)between(s, 0, 1);
    r->params = (enum sw_dtype)between(s, 0, 1);
    r->reduce = (enum sw_dtype)between(s, 0, 1);
    r->ring = (enum sw_dtype)between(s, 0, 1);
    const enum sw_dtype caches[] = {SW_DTYPE_COUNT, SW_F32, SW_BF16_T, SW_I8};
    r->serve_cache = caches[between(s, 0, r->cluster.accelerator.device == SW_DEVICE_CUDA ? 2 : 3)];
    r->serve_weights = between(s, 0, 1) ? SW_I8 : SW_DTYPE_COUNT;
    r->strategy = (enum sw_attention_strategy)between(s, 0, 3);
    r->layout = (enum sw_sequence_layout)between(s, 0, 1);
    r->rule_count = (int32_t)between(s, 0, 4);
    for (int32_t i = 0; i < r->rule_count; i++) {
        r->rule[i].logical = logical[i];
        r->rule[i].count = (int32_t)between(s, 0, 4);
        int64_t first = between(s, 0, 3);
        for (int32_t j = 0; j < r->rule[i].count; j++)
            r->rule[i].axis[j] = axes[(first + j) % 4];
    }
    r->optimizer = (struct sw_optimizer_config){.learning_rate = real(s, 1e-2, 1),
                                                .beta1 = 1 - real(s, 1e-12, 1),
                                                .beta2 = 1 - real(s, 1e-12, 1),
                                                .eps = real(s, 1e-300, 1),
                                                .weight_decay = real(s, 1e-9, 1),
                                                .grad_clip = draw(s) & 1 ? 0 : real(s, 1e-3, 1e9),
                                                .schedule = (enum sw_lr_schedule)between(s, 0, 2),
                                                .warmup_steps = between(s, 0, 100),
                                                .total_steps = between(s, 100, 1000000),
                                                .min_learning_rate = real(s, 1e-9, 1e-2)};
    r->data_path = draw(s) & 1 ? some_path(s) : NULL;
    r->data_format = (enum sw_data_format)between(s, 0, 1);
    r->data_seed = draw(s);
    r->memory_headroom = draw(s) & 1 ? 0 : real(s, 1e-6, 0.9);
    r->data_holdout = real(s, 1e-9, 0.5);
    do /* Slurm takes a backslash out of the log's path, so that is refused */
        r->directory = some_path(s);
    while (strchr(r->directory, '\\') != NULL);
    r->checkpoint_directory = some_path(s);
    r->checkpoint_every_steps = between(s, 0, 1000);
    r->evaluate_every_steps = between(s, 0, 1000);
    r->checkpoint_keep = between(s, 1, 9);
    r->checkpoint_keep_every = between(s, 0, 1000);
    r->checkpoint_bandwidth = draw(s) & 1 ? real(s, 1, 1e15) : 0;
    r->checkpoint_signal = draw(s) & 1 ? SIGUSR1 : SIGUSR2;
    r->init_from = draw(s) & 1 ? some_path(s) : NULL;
}

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
    for (int32_t i = 0; i < SW_PRODUCT_KINDS * SW_FEW_DTYPES; i++)
        same_products((&a->profile.products[0][0])[i], (&b->profile.products[0][0])[i]);
    for (int32_t i = 0; i < SW_ATTENTION_PHASES * SW_FEW_DTYPES; i++)
        same_products((&a->profile.attention_by_size[0][0])[i],
                      (&b->profile.attention_by_size[0][0])[i]);
    same_curve(&a->profile.attention_scale, &b->profile.attention_scale);
    SAME(profile.attention_error);
    SAME(profile.angle_time_s);
    same_products(a->accelerator.products, b->accelerator.products);
    same_products(a->accelerator.prefill_attention, b->accelerator.prefill_attention);
    same_products(a->accelerator.decode_attention, b->accelerator.decode_attention);
    SAME(accelerator.peak_int8_flops);
    SAME(profile.peak_int8_flops);
    SAME(profile.reduces_directly);
    SAME(profile.joins_products);
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
    SAME(optimizer.min_learning_rate);
    same_text(a->data_path, b->data_path);
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
    for (int i = 0; i < 400; i++) {
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
                              "  every_steps: 0\n"
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
