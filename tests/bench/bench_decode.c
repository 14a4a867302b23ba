/* Decoding and prefill of a model that exceeds the caches, on one rank of the CPU device.
 *
 *   bench_decode [bf16|fp32|int8|e4m3|int8-fp32|e4m3-fp32|int4|all] [threads] [texts]
 *                [tokens in the cache] [rounds] [layers] [prefill rounds] [wall] [small]
 *
 * Decode: the bytes of weights and cache that a token reads, by the time that it takes, against a
 * read-only sweep over as much memory by the same threads. Prefill: the time of its matrix products
 * alone, each through oneDNN's matmul primitive in fp32 on the same shapes and threads, against the
 * time of a chunk. int8: weights of layers in int8, the rest in bf16 (int8-fp32: in fp32); e4m3
 * likewise; int4: in 4 bits, the head in int8. `all`: a token of each of them in turns, and how
 * they compare. Sweeps, products and tokens alternate, so that a busy neighbour meets all of them;
 * one thread is timed by its processor's time, unless `wall` is said. `small`: the shape of GPT-2
 * of 124M, 12 layers, in place of one of 1B. Parameters are random, tokens too. */
#include "core/base/clock.h"
#include "core/base/number.h"
#include "core/base/quantize.h"
#include "core/ir/sampling.h"
#include "runner/collective/comm.h"
#include "runner/rank/execute.h"
#include "tests/bench/products.h"
#include "tests/bench/sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

enum { CHUNK = 512, TOKENS_EACH = 3, MAX_ROUNDS = 1000 };

/* What weights of layers, and all else, are in. */
static const struct format {
    const char *name;
    enum sw_dtype compute, weights;
} formats[] = {{"bf16", SW_BF16_T, SW_BF16_T}, {"fp32", SW_F32, SW_F32},
               {"int8", SW_BF16_T, SW_I8},     {"e4m3", SW_BF16_T, SW_E4M3},
               {"int8-fp32", SW_F32, SW_I8},   {"e4m3-fp32", SW_F32, SW_E4M3},
               {"int4", SW_BF16_T, SW_I4}};
enum { FORMATS = sizeof formats / sizeof formats[0] };

struct bench {
    struct sw_program_options options;
    struct sw_serving serving;
    struct sw_program_set *set;
    struct sw_device *device;
    struct sw_comm *comm;
    struct sw_executor *executor;
    int32_t threads;
    double (*clock)(void);
    int64_t texts, cached;
    bool is_small; /* GPT-2's shape in place of one of 1B */
    int32_t *tokens, *slots;
    float *settings, *sampled;
};

static _Noreturn void leave(const char *what)
{
    fprintf(stderr, "error: %s\n", what);
    exit(3);
}

static void set_model(struct sw_model *m, int64_t layers, bool is_small)
{
    if (is_small) { /* configs/models/gpt2-size.yaml */
        *m = (struct sw_model){.vocab_size = 50304,
                               .hidden_size = 768,
                               .intermediate_size = 2048,
                               .layers = (int32_t)layers,
                               .heads = 12,
                               .kv_heads = 12,
                               .head_dim = 64,
                               .tied = true,
                               .rope.theta = 10000,
                               .rms_norm_eps = 1e-5};
        return;
    }
    *m = (struct sw_model){.vocab_size = 32000,
                           .hidden_size = 2048,
                           .intermediate_size = 8192,
                           .layers = (int32_t)layers,
                           .heads = 32,
                           .kv_heads = 8,
                           .head_dim = 64,
                           .tied = true,
                           .rope.theta = 500000,
                           .rms_norm_eps = 1e-5};
}

/* Values of about 1/50, which is all that matters of them; norms are ones. */
static void fill_state(struct bench *b)
{
    const struct sw_state *state = &b->set->state;
    for (int32_t r = 0; r < state->count; r++)
        for (int32_t l = 0; l < state->row[r].stack; l++) {
            const struct sw_state_row *row = &state->row[r];
            const enum sw_dtype narrow = b->serving.weights;
            char *to = sw_executor_state(b->executor, row, l);
            const int64_t n = row->instance_bytes / (int64_t)sw_dtype_bytes(row->dtype);
            if (row->dtype == SW_I4) { /* the same scale and integers everywhere, in any order */
                memset(to, 0x38, (size_t)row->instance_bytes);
                continue;
            }
#ifdef _OPENMP
#pragma omp parallel for
#endif
            for (int64_t i = 0; i < n; i++) {
                const uint32_t draw = (uint32_t)((uint64_t)(i + 7 * l) * 0x9e3779b97f4a7c15u >> 32);
                const float value = row->scales ? 0.03f / (narrow == SW_E4M3 ? SW_E4M3_MOST : 127)
                                    : row->ndim == 1
                                        ? 1
                                        : ((float)(draw >> 8) * 0x1p-24f - 0.5f) * 0.06f;
                if (row->dtype == SW_I8)
                    ((int8_t *)to)[i] = (int8_t)((int32_t)(draw >> 24) % 255 - 127);
                else if (row->dtype == SW_E4M3)
                    ((uint8_t *)to)[i] = sw_e4m3_of((double)value, 0.03f / SW_E4M3_MOST);
                else if (row->dtype == SW_BF16_T)
                    ((uint16_t *)(void *)to)[i] = sw_bf16_from_float(value);
                else
                    ((float *)(void *)to)[i] = value;
            }
        }
}

static void create(struct bench *b, const struct format *format, int64_t layers)
{
    const enum sw_dtype compute = format->compute;
    struct sw_error err = {0};
    set_model(&b->options.model, layers, b->is_small);
    b->options.sequence_length = CHUNK;
    b->options.global_batch = b->options.micro_batch_per_rank = b->texts;
    b->options.compute = compute;
    b->options.params = b->options.reduce = SW_F32;
    b->options.mesh = sw_mesh_make(1, 1, 1, 1);
    b->options.target = sw_device_row(SW_DEVICE_CPU)->target;
    sw_rules_default(&b->options.rules, SW_ATTENTION_RING);
    b->serving = (struct sw_serving){.max_batch = b->texts,
                                     .max_tokens = (b->cached + CHUNK) / CHUNK * CHUNK + CHUNK,
                                     .chunk = CHUNK,
                                     .token_budget = b->texts * CHUNK,
                                     .cache = compute,
                                     .weights = format->weights};
    b->device = sw_cpu_device_create(b->threads, &err);
    if (b->device == NULL ||
        sw_program_set_compile_serving(&b->options, &b->serving,
                                       1u << SW_PROGRAM_PREFILL | 1u << SW_PROGRAM_DECODE, &b->set,
                                       &err) != 0 ||
        sw_comm_single_create(&b->comm, &err) != 0 ||
        sw_executor_create(b->set, b->device, b->comm, NULL, &b->executor, &err) != 0)
        leave(err.message);
    b->tokens = calloc((size_t)(b->texts * CHUNK), sizeof *b->tokens);
    b->slots = calloc((size_t)b->texts * SW_SLOT_FIELDS, sizeof *b->slots);
    b->settings = calloc((size_t)b->texts * SW_SAMPLING_SETTINGS, sizeof *b->settings);
    b->sampled = calloc((size_t)b->texts * SW_SAMPLED_NUMBERS, sizeof *b->sampled);
    if (b->tokens == NULL || b->slots == NULL || b->settings == NULL || b->sampled == NULL)
        leave("out of memory");
    fill_state(b);
    if (sw_executor_settle_state(b->executor, 0, &err) != 0)
        leave(err.message);
}

/* One run with `length` tokens of every text behind `first`; seconds. */
static double call(struct bench *b, enum sw_program_kind kind, int64_t first, int64_t length)
{
    struct sw_error err = {0};
    const size_t texts = (size_t)b->texts;
    for (int64_t i = 0; i < b->texts; i++) {
        b->slots[i * SW_SLOT_FIELDS + SW_SLOT_FIRST] = (int32_t)first;
        b->slots[i * SW_SLOT_FIELDS + SW_SLOT_TOKENS] = (int32_t)length;
        b->slots[i * SW_SLOT_FIELDS + SW_SLOT_NUMBER] = (int32_t)i;
        b->settings[i * SW_SAMPLING_SETTINGS + SW_SAMPLING_TOP_P] = 1;
        b->settings[i * SW_SAMPLING_SETTINGS + SW_SAMPLING_PENALTY] = 1;
    }
    for (int64_t i = 0; i < b->texts * length; i++)
        b->tokens[i] = (int32_t)((uint64_t)(i + first) * 2654435761u >> 8 & 0x3fff);
    const struct sw_feed feeds[5] = {
        {.name = "tokens", .data = b->tokens, .bytes = texts * (size_t)length * sizeof *b->tokens},
        {.name = "slots", .data = b->slots, .bytes = texts * SW_SLOT_FIELDS * sizeof *b->slots},
        {.name = "settings",
         .data = b->settings,
         .bytes = texts * SW_SAMPLING_SETTINGS * sizeof *b->settings},
        {.name = "seen"}, /* no penalties */
        {.name = "adjustments"}};
    const struct sw_fetch fetch = {.name = "sampled",
                                   .data = b->sampled,
                                   .bytes = texts * SW_SAMPLED_NUMBERS * sizeof *b->sampled};
    const double begin = b->clock();
    if (sw_executor_run(b->executor, kind, NULL, feeds, 5, &fetch, 1, &err) != 0)
        leave(err.message);
    return b->clock() - begin;
}

/* Bytes that a decoded token reads: the weights once, and what the cache has of every text. A tied
 * embedding is the head as well. */
static double bytes_read(const struct bench *b)
{
    const struct sw_state *state = &b->set->state;
    const double share = (double)b->cached / (double)sw_state_find(state, "key cache")->size[1];
    return (double)state->parameter_bytes + share * (double)state->cache_bytes;
}

static double median(double *values, int32_t count)
{
    qsort(values, (size_t)count, sizeof *values, sw_compare_doubles);
    return values[count / 2];
}

static void measure_decode(struct bench *b, int32_t rounds)
{
    static double swept[MAX_ROUNDS], decoded[MAX_ROUNDS], ratio[MAX_ROUNDS];
    const struct sw_state *state = &b->set->state;
    const double bytes = bytes_read(b);
    const char *weights = sw_executor_state(b->executor, &state->row[0], 0);
    uint64_t sum = 0;
    (void)call(b, SW_PROGRAM_DECODE, b->cached, 1);
    for (int32_t r = 0; r < rounds; r++) {
        swept[r] = sw_bench_sweep_seconds(weights, (size_t)state->parameter_bytes, b->threads,
                                          b->clock, &sum) /
                   (double)state->parameter_bytes;
        decoded[r] = 1e30;
        for (int i = 0; i < TOKENS_EACH; i++) {
            const double s = call(b, SW_PROGRAM_DECODE, b->cached, 1);
            decoded[r] = s < decoded[r] ? s : decoded[r];
        }
        ratio[r] = bytes * swept[r] / decoded[r];
    }
    const double share = median(ratio, rounds);
    (void)median(swept, rounds);
    (void)median(decoded, rounds);
    printf("decode: %.2f GB a token, best %.1f ms (%.1f GB/s), median %.1f ms; sweep best %.1f, "
           "median %.1f GB/s (sum %llx)\n",
           bytes / 1e9, decoded[0] * 1e3, bytes / decoded[0] / 1e9, decoded[rounds / 2] * 1e3,
           1 / swept[0] / 1e9, 1 / swept[rounds / 2] / 1e9, (unsigned long long)sum);
    printf("decode, share of the sweep: %.3f best by best, %.3f median of the rounds\n",
           bytes * swept[0] / decoded[0], share);
}

static void measure_prefill(struct bench *b, int32_t rounds)
{
    static double whole[MAX_ROUNDS], ratio[MAX_ROUNDS];
    double flops, least = 1e30;
    (void)call(b, SW_PROGRAM_PREFILL, 0, CHUNK);
    for (int32_t r = 0; r < rounds; r++) {
        const double products = sw_bench_products_seconds(b->set->program[SW_PROGRAM_PREFILL],
                                                          false, SW_F32, b->clock, &flops);
        least = products < least ? products : least;
        whole[r] = call(b, SW_PROGRAM_PREFILL, 0, CHUNK);
        ratio[r] = products / whole[r];
    }
    const double share = median(ratio, rounds);
    (void)median(whole, rounds);
    printf("prefill: a chunk of %d tokens best %.1f ms (%.0f GFLOP/s); products alone, fp32, %.1f "
           "ms (%.0f GFLOP/s)\n",
           CHUNK, whole[0] * 1e3, flops / whole[0] / 1e9, least * 1e3, flops / least / 1e9);
    printf("prefill, share of the products' rate: %.3f best by best, %.3f median of the rounds\n",
           least / whole[0], share);
}

static void destroy(struct bench *b)
{
    sw_executor_free(b->executor);
    b->comm->vtable->destroy(b->comm);
    b->device->vtable->destroy(b->device);
    sw_program_set_free(b->set);
    free(b->tokens);
    free(b->slots);
    free(b->settings);
    free(b->sampled);
}

/* The same texts in every format, a token and a chunk of each in turns. */
static void compare_formats(const struct bench *like, int64_t layers, int32_t rounds,
                            int32_t prefills)
{
    static double token[FORMATS][MAX_ROUNDS], chunk[FORMATS][MAX_ROUNDS];
    struct bench b[FORMATS];
    for (int32_t f = 0; f < FORMATS; f++) {
        b[f] = *like;
        create(&b[f], &formats[f], layers);
        (void)call(&b[f], SW_PROGRAM_DECODE, like->cached, 1);
        if (prefills > 0)
            (void)call(&b[f], SW_PROGRAM_PREFILL, 0, CHUNK);
    }
    for (int32_t r = 0; r < rounds; r++)
        for (int32_t f = 0; f < FORMATS; f++) {
            token[f][r] = 1e30;
            for (int i = 0; i < TOKENS_EACH; i++)
                token[f][r] = fmin(token[f][r], call(&b[f], SW_PROGRAM_DECODE, like->cached, 1));
        }
    for (int32_t r = 0; r < prefills; r++)
        for (int32_t f = 0; f < FORMATS; f++)
            chunk[f][r] = call(&b[f], SW_PROGRAM_PREFILL, 0, CHUNK);
    double half[FORMATS];
    for (int32_t f = 0; f < FORMATS; f++)
        half[f] = median(token[f], rounds);
    for (int32_t f = 0; f < FORMATS; f++) {
        const double s = half[f], p = prefills > 0 ? median(chunk[f], prefills) : 0;
        printf("%-9s  %.2f GB of weights; a token %.2f ms (best %.2f), %.1f tokens/s, %.1f GB/s, "
               "%.2f x fp32's, %.2f x bf16's; a chunk %.1f ms\n",
               formats[f].name, (double)b[f].set->state.parameter_bytes / 1e9, s * 1e3,
               token[f][0] * 1e3, (double)like->texts / s, bytes_read(&b[f]) / s / 1e9, half[1] / s,
               half[0] / s, p * 1e3);
    }
    for (int32_t f = 0; f < FORMATS; f++)
        destroy(&b[f]);
}

static const struct format *format_of(const char *name)
{
    for (int32_t f = 0; f < FORMATS; f++)
        if (strcmp(formats[f].name, name) == 0)
            return &formats[f];
    return strcmp(name, "all") == 0 ? NULL : &formats[1];
}

int main(int argc, char **argv)
{
    const struct format *format = format_of(argc < 2 ? "bf16" : argv[1]);
    long number[6] = {1, 1, 64, 5, 16, 3};
    for (int i = 2; i < argc && i < 8; i++)
        number[i - 2] = strtol(argv[i], NULL, 10);
    struct bench b = {.threads = (int32_t)number[0], .texts = number[1], .cached = number[2]};
    const int32_t rounds = (int32_t)number[3];
    bool by_wall = false;
    for (int i = 8; i < argc; i++) {
        by_wall = by_wall || strcmp(argv[i], "wall") == 0;
        b.is_small = b.is_small || strcmp(argv[i], "small") == 0;
    }
    b.clock = b.threads == 1 && !by_wall ? sw_clock_busy : sw_clock_now;
    if (number[0] < 1 || number[1] < 1 || number[2] < 1 || rounds < 1 || rounds > MAX_ROUNDS ||
        number[4] < 1 || number[5] < 0 || number[5] > MAX_ROUNDS) {
        fprintf(stderr, "usage: bench_decode [bf16|fp32|int8|e4m3|int8-fp32|e4m3-fp32|int4|all] "
                        "[threads] [texts] "
                        "[tokens in the cache] [rounds] "
                        "[layers] [prefill rounds] [wall] [small]\n");
        return 2;
    }
#ifdef _OPENMP
    omp_set_num_threads(b.threads);
#endif
    if (format == NULL) {
        compare_formats(&b, number[4], rounds, (int32_t)number[5]);
        return 0;
    }
    create(&b, format, number[4]);
    printf("%s, %d thread%s, %lld text%s of %lld tokens in the cache, %ld layers, %.2f GB of "
           "weights\n",
           format->name, b.threads, b.threads == 1 ? "" : "s", (long long)b.texts,
           b.texts == 1 ? "" : "s", (long long)b.cached, number[4],
           (double)b.set->state.parameter_bytes / 1e9);
    measure_decode(&b, rounds);
    if (number[5] > 0)
        measure_prefill(&b, (int32_t)number[5]);
    destroy(&b);
    return 0;
}
