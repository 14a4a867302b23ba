/* Descriptions of runs drawn at random: all that a run's file can say, with texts that YAML could
 * misread. */
#ifndef CONFIG_RANDOM_H
#define CONFIG_RANDOM_H

#include "config_support.h"

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
        "data/~",
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

/* None, one, or three. */
static void some_paths(uint64_t *state, struct sw_paths *out)
{
    static struct sw_path room[8][3];
    static int32_t next;
    struct sw_path *item = room[next++ % 8];
    *out = (struct sw_paths){item, (int32_t[]){0, 1, 1, 3}[draw(state) % 4]};
    for (int32_t i = 0; i < out->count; i++)
        item[i] = (struct sw_path){.text = some_path(state)};
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

/* One, until the next call. */
static const struct sw_collective_curves *any_collectives(uint64_t *s)
{
    static struct sw_collective_curves all;
    all.count = 0;
    for (int32_t kind = SW_ALL_GATHER; kind <= SW_ALL_TO_ALL; kind++)
        for (int32_t ranks = 2; ranks < 64 && all.count < SW_MAX_COLLECTIVE_CURVES;
             ranks += (int32_t)between(s, 1, 64)) {
            struct sw_collective_curve *one = &all.of[all.count];
            *one = (struct sw_collective_curve){.kind = (enum sw_collective)kind, .ranks = ranks};
            fill_curve(s, &one->curve);
            all.count += one->curve.count > 0;
        }
    return all.count > 0 && draw(s) & 1 ? &all : NULL;
}

static void fill_skinny_gemm(uint64_t *s, struct sw_skinny_gemm *skinny)
{
    skinny->count = (int32_t)between(s, 0, SW_MAX_SKINNY_GEMM);
    double rows = 1, bytes = 1;
    for (int32_t i = 0; i < skinny->count; i++) {
        if (draw(s) & 1) {
            rows *= real(s, 1.001, 3);
            bytes = real(s, 1, 1e9);
        } else {
            bytes *= real(s, 1.001, 10);
        }
        skinny->point[i] = (struct sw_skinny_gemm_point){rows, bytes, real(s, 1, 1e12)};
    }
}

static void fill_rope(uint64_t *s, struct sw_model *m)
{
    const bool phi = m->family == SW_FAMILY_PHI3; /* whose yarn is longrope */
    m->rope.scaling = (int32_t)between(s, SW_ROPE_PLAIN, SW_ROPE_LONGROPE);
    if (phi && m->rope.scaling == SW_ROPE_YARN)
        m->rope.scaling = SW_ROPE_LINEAR;
    if (phi && m->head_dim % 4 == 0 && draw(s) & 1)
        m->partial_rotary_factor = 0.5;
    m->rope.factor = m->rope.scaling == SW_ROPE_PLAIN ? 1 : real(s, 1, 1e6);
    if (m->rope.scaling == SW_ROPE_LLAMA3) {
        m->rope.low_freq_factor = real(s, 1e-9, 1);
        m->rope.high_freq_factor = real(s, 1.001, 1e6);
        m->rope.original_positions = between(s, 1, INT64_C(1) << 53);
    }
    if (m->rope.scaling == SW_ROPE_YARN || m->rope.scaling == SW_ROPE_LONGROPE) {
        m->rope.original_positions = between(s, 2, INT64_C(1) << 53);
        m->rope.attention_factor = real(s, 1e-3, 1e3);
    }
    if (m->rope.scaling == SW_ROPE_YARN) {
        m->rope.theta += 1; /* at most 1 has no logarithm to divide by */
        m->rope.low_freq_factor = real(s, 1e-3, 1e6);
        m->rope.high_freq_factor = real(s, 1e-3, 1e6);
        m->rope.truncate = draw(s) & 1;
    }
    for (int32_t j = 0; m->rope.scaling == SW_ROPE_LONGROPE && j < sw_model_rotated(m) / 2; j++) {
        m->short_divisors[j] = (float)real(s, 1.001e-6, 0.999e6);
        m->long_divisors[j] = (float)real(s, 1.001e-6, 0.999e6);
    }
}

/* What each family can say, and nothing else. */
static void fill_family(uint64_t *s, struct sw_model_config *config)
{
    struct sw_model *m = &config->shape;
    m->family = (uint8_t)between(s, SW_FAMILY_LLAMA, SW_FAMILY_PHI3);
    m->output_bias = sw_family_reads(m->family, SW_READS_ATTENTION_BIAS) && draw(s) & 1;
    m->qkv_bias = m->output_bias || m->family == SW_FAMILY_QWEN2;
    m->mlp_bias = sw_family_reads(m->family, SW_READS_MLP_BIAS) && draw(s) & 1;
    m->fused = m->family == SW_FAMILY_PHI3;
    m->qk_norm = m->family == SW_FAMILY_QWEN3;
    m->qk_norm_whole = m->post_norm = m->family == SW_FAMILY_OLMO2 || m->family == SW_FAMILY_OLMO3;
    if (m->family == SW_FAMILY_GRANITE) {
        m->attention_multiplier = real(s, 1e-3, 2);
        m->embedding_multiplier = draw(s) & 1 ? real(s, 1.001, 100) : 0;
        m->residual_multiplier = draw(s) & 1 ? real(s, 1e-3, 0.999) : 0;
        m->logits_scaling = draw(s) & 1 ? real(s, 1.001, 100) : 0;
    }
    if (sw_family_reads(m->family, SW_READS_QUERY_SCALAR)) {
        m->qk_norm = m->family == SW_FAMILY_GEMMA3;
        m->post_norm = m->both_norms = true;
        m->norms_plus_one = m->gelu = m->embedding_root = true;
        m->query_pre_attn_scalar = real(s, 1, 1000);
        m->attention_softcap = draw(s) & 1 ? real(s, 1, 100) : 0;
        m->final_softcap = draw(s) & 1 ? real(s, 1, 100) : 0;
        config->hidden_activation = 1;
    }
    if (sw_family_reads(m->family, SW_READS_LOCAL_LAYERS)) {
        const int32_t each = (int32_t)between(s, 2, 6);
        m->period = m->layers < each ? 0 : (uint8_t)each;
        m->local = m->layers < each ? 1 : (UINT64_C(1) << (each - 1)) - 1;
        if (sw_family_reads(m->family, SW_READS_LOCAL_ROPE))
            m->local_rope = (struct sw_rope){.theta = real(s, 1, 1e6), .factor = 1};
        m->sliding_window = between(s, 1 << 30, INT64_C(1) << 53);
        config->layer_types = SW_LAYERS_WINDOWED;
        config->max_window_layers = SW_MAX_WINDOW_LAYERS;
        fill_rope(s, m);
        if (draw(s) % 4 == 0) { /* no layer has a window */
            config->layer_types = SW_LAYERS_FULL;
            m->sliding_window = m->period = 0;
            m->local = 0;
            m->local_rope = (struct sw_rope){0};
        }
        return;
    }
    if (sw_family_reads(m->family, SW_READS_WINDOW) && draw(s) & 1)
        m->sliding_window = between(s, 1 << 30, INT64_C(1) << 53);
    if (m->sliding_window != 0 && sw_family_reads(m->family, SW_READS_WINDOW_SWITCH) &&
        draw(s) & 1 && m->layers > 1) {
        m->period = 2;
        m->local = 2;
        config->layer_types = SW_LAYERS_WINDOWED;
    }
    config->use_sliding_window =
        m->sliding_window != 0 && sw_family_reads(m->family, SW_READS_WINDOW_SWITCH);
    config->max_window_layers = config->use_sliding_window ? 0 : SW_MAX_WINDOW_LAYERS;
    fill_rope(s, m);
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

/* Told or not; what is told may be 0. */
static struct sw_signed_error any_sign(uint64_t *s)
{
    const bool told = draw(s) & 1, off = draw(s) & 1;
    return (struct sw_signed_error){told && off ? real(s, 1e-3, 1) : 0,
                                    {.file = told ? "profile.yaml" : NULL}};
}

/* As it is when settled: every share told. */
static void fill_profile(uint64_t *s, struct sw_profile_config *p)
{
    struct sw_curve *const curves[] = {&p->matmul, &p->attention, &p->memory};
    p->name = draw(s) & 1 ? "no" : "1.5";
    for (int32_t i = 0; i < SW_SKINNY_KINDS * SW_RATE_DTYPES; i++)
        fill_skinny_gemm(s, &p->skinny_gemm[i / SW_RATE_DTYPES][i % SW_RATE_DTYPES]);
    const struct sw_products *list = any_products(s); /* of bf16, for every kind */
    for (int32_t i = 0; i < SW_PRODUCT_KINDS * SW_RATE_DTYPES; i++)
        (&p->products[0][0])[i] = list == NULL ? any_products(s) : i % 2 != 0 ? list : NULL;
    fill_curve(s, &p->products_scale);
    for (int32_t i = 0; i < p->products_scale.count; i++)
        p->products_scale.point[i].fraction *= 2;
    for (int32_t i = 0; i < SW_ATTENTION_PHASES * SW_RATE_DTYPES; i++)
        (&p->attention_by_size[0][0])[i] = any_products(s);
    fill_curve(s, &p->attention_scale);
    p->attention_error = draw(s) & 1 ? real(s, 1e-3, 1) : 0;
    p->attention_signed_error = any_sign(s);
    p->products_signed_error = any_sign(s);
    p->angle_time_s = draw(s) & 1 ? real(s, 1e-9, 1) : 0;
    p->launch_latency_s = draw(s) & 1 ? real(s, 1e-9, 1) : 0;
    p->host_time_s = draw(s) & 1 ? real(s, 1e-9, 1) : 0;
    p->peak_bf16_flops = draw(s) & 1 ? real(s, 1, 1e20) : 0;
    p->peak_fp32_flops = draw(s) & 1 ? real(s, 1, 1e20) : 0;
    p->peak_int8_flops = draw(s) & 1 ? real(s, 1, 1e20) : 0;
    p->reduces_directly = draw(s) & 1;
    p->joins_products = draw(s) & 1;
    p->gradient_copies = draw(s) & 1 ? (int32_t)between(s, 0, 8) : 0;
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
    a->products_error = draw(s) & 1 ? real(s, 1e-3, 1) : 0;
    a->prefill_error = draw(s) & 1 ? real(s, 1e-3, 1) : 0;
    a->decode_error = draw(s) & 1 ? real(s, 1e-3, 1) : 0;
    fill_profile(s, &c->profile);
    c->profile.accelerator = draw(s) & 1 ? a->name : NULL;
    c->name = "1e3";
    c->nodes = (int32_t)between(s, 1, 64);
    c->accelerators_per_node = (int32_t)between(s, 1, 16);
    c->launcher = (int32_t)between(s, 0, 1);
    c->host_memory_bytes = draw(s) & 1 ? between(s, 1, INT64_C(1) << 50) : 0;
    c->storage_bandwidth = draw(s) & 1 ? real(s, 1, 1e15) : 0;
    c->failures_per_1000_node_days = draw(s) & 1 ? real(s, 1e-9, 1e6) : 0;
    static const char *const names[SW_MAX_LINKS] = {"null",  "net-1", "net-2", "net-3",
                                                    "net-4", "net-5", "net-6", "net-7"};
    c->link_count = (int32_t)between(s, 1, SW_MAX_LINKS);
    for (int32_t i = 0; i < c->link_count; i++)
        c->link[i] = (struct sw_link_config){.name = names[i],
                                             .spans = 1024 + i,
                                             .bandwidth = real(s, 1, 1e13),
                                             .latency_s = real(s, 1e-9, 1),
                                             .oversubscription = real(s, 1, 100),
                                             .rails = draw(s) & 1,
                                             .direct = draw(s) & 1};
    for (int32_t i = 0; i < c->link_count; i++)
        fill_curve(s, &c->link[i].efficiency);
    c->link[0].collectives = any_collectives(s);
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
            {"PLAIN", "x"}, {"EMPTY", ""}, {"_odd", "'\"\\(x) # {}, é"}, {"n", "yes"}};
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

static inline void fill_run(uint64_t *s, struct sw_run_config *r)
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
    r->prefer = (enum sw_prefer)between(s, 0, 3);
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
    r->zero = (enum sw_zero)between(s, 0, 3);
    r->reshard_after_forward = r->zero != SW_ZERO_3 || between(s, 0, 1) == 0;
    const enum sw_dtype caches[] = {SW_DTYPE_COUNT, SW_F32, SW_BF16_T, SW_I8};
    r->serve_cache = caches[between(s, 0, r->cluster.accelerator.device == SW_DEVICE_CUDA ? 2 : 3)];
    const enum sw_dtype weights[] = {SW_DTYPE_COUNT, SW_I8, SW_E4M3};
    r->serve_weights = weights[between(s, 0, 2)];
    const enum sw_dtype bases[] = {SW_DTYPE_COUNT, SW_F32, SW_BF16_T, SW_I8, SW_E4M3};
    r->lora = (struct sw_lora_config){.rank = (int32_t)between(s, 0, 64),
                                      .alpha = real(s, 1e-3, 100),
                                      .rslora = between(s, 0, 1) == 0,
                                      .targets = draw(s) & 1 ? NULL : "k_proj,o_proj",
                                      .base = bases[between(s, 0, 4)]};
    r->lora.rank_of[between(s, 0, SW_LORA_TARGETS - 1)] = (int32_t)between(s, 0, 9);
    r->lora.alpha_of[between(s, 0, SW_LORA_TARGETS - 1)] = real(s, 1e-3, 100);
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
                                                .schedule = (enum sw_lr_schedule)between(s, 0, 4),
                                                .warmup_steps = between(s, 1, 50),
                                                .total_steps = between(s, 100, 1000000),
                                                .min_learning_rate = real(s, 1e-9, 1e-2),
                                                .no_decay = draw(s) & 1 ? "lm_head,a.*.b" : NULL,
                                                .moments = draw(s) & 1 ? SW_CODES : SW_BF16_T,
                                                .on_spike = (enum sw_on_spike)between(s, 0, 2),
                                                .spike_threshold = real(s, 1e-3, 1e6),
                                                .spike_window = between(s, 2, 1000),
                                                .max_skips = between(s, 1, 1000),
                                                .max_rewinds = between(s, 1, 1000)};
    if (r->optimizer.schedule == SW_SCHEDULE_WSD)
        r->optimizer.decay_steps = between(s, 0, 50);
    some_paths(s, &r->data_paths);
    r->data_path = r->data_paths.count > 0 ? r->data_paths.item[0].text : NULL;
    some_paths(s, &r->data_validation);
    static const double shares[] = {0.7, 1e-9, 3, 1.25e8};
    if (r->data_paths.count > 0 && draw(s) & 1)
        r->data_weights = (struct sw_numbers){shares, r->data_paths.count};
    r->data_format = (enum sw_data_format)between(s, 0, 1);
    r->data_seed = draw(s);
    r->memory_headroom = draw(s) & 1 ? 0 : real(s, 1e-6, 0.9);
    r->data_holdout = r->data_validation.count > 0 ? 0 : real(s, 1e-9, 0.5);
    r->data_pack = r->data_format == SW_DATA_AUTO && draw(s) & 1;
    do /* Slurm takes a backslash out of the log's path, so that is refused */
        r->directory = some_path(s);
    while (strchr(r->directory, '\\') != NULL);
    r->checkpoint_directory = some_path(s);
    r->checkpoint_every_steps = between(s, -1, 1000);
    r->evaluate_every_steps = between(s, 0, 1000);
    r->checkpoint_keep = between(s, 1, 9);
    r->checkpoint_keep_every = between(s, 0, 1000);
    r->checkpoint_bandwidth = draw(s) & 1 ? real(s, 1, 1e15) : 0;
    r->checkpoint_signal = draw(s) & 1 ? SIGUSR1 : SIGUSR2;
    r->init_from = draw(s) & 1 ? some_path(s) : NULL;
    r->init_adapter = draw(s) & 1 ? some_path(s) : NULL;
}

#endif
