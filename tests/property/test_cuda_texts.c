/* Making and scoring texts on the CUDA device, all ranks on one GPU: in fp32 the tokens are those
 * of the CPU device on one rank, on every mesh of 1, 2, 4 and 8 ranks; in bf16 the
 * log-probabilities of given texts are, as far as bf16 goes. On a GPU where there is one;
 * test_cuda_texts_emulated runs the same kernels on the CPU (cuda_emulator.h).
 *
 *   test_cuda_texts [EVERY]    EVERY: each n-th mesh only */
#include "core/base/hash.h"
#include "core/base/quantize.h"
#include "runner/collective/staged.h"
#include "runner/device/cuda/device.h"
#include "tests/support/harness.h"
#include "tests/support/texts.h"
#ifdef SW_EMULATED_NCCL
#include "tests/support/thread_job.h"
#endif

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXTS = 9, NEW_TOKENS = 6, MAX_TOKENS = 48, VOCAB = 48 };

/* Just below and above a chunk of 8, of several, and one with room for three new tokens alone. */
static const int32_t lengths[TEXTS] = {1, 8, 9, 16, 46, 3, 23, 30, 12};

/* What differs in the programs; kv heads fewer than some tp, head sizes that are no vectors. */
static const struct variant {
    const char *name;
    bool biases, head_norms, few_kv_heads, stream, int8;
    enum sw_dtype weights; /* with scales; else the compute precision */
    int32_t head_dim;
    int64_t chunk, slots, rows; /* rows: of a chunk */
    struct sw_sampling sampling;
} variants[] = {
    {.name = "greedy",
     .head_dim = 8,
     .chunk = 8,
     .slots = 8,
     .rows = 4,
     .sampling = {.top_p = 1, .penalty = 1}},
    {.name = "few kv heads, drawn",
     .few_kv_heads = true,
     .head_norms = true,
     .head_dim = 16,
     .chunk = 16,
     .slots = 3,
     .sampling = {.temperature = 1.2,
                  .top_k = 20,
                  .top_p = 0.9,
                  .min_p = 0.01,
                  .penalty = 1.2,
                  .presence = 0.25,
                  .frequency = -0.5}},
    {.name = "biases, one chunk, streamed",
     .biases = true,
     .few_kv_heads = true,
     .stream = true,
     .head_dim = 6,
     .chunk = MAX_TOKENS,
     .slots = 16,
     .sampling = {.top_p = 1, .penalty = 1, .frequency = 0.75}},
    {.name = "cache in int8",
     .few_kv_heads = true,
     .int8 = true,
     .head_dim = 8,
     .chunk = 8,
     .slots = 8,
     .rows = 4,
     .sampling = {.top_p = 1, .penalty = 1}},
    {.name = "weights in int8",
     .biases = true,
     .weights = SW_I8,
     .head_dim = 8,
     .chunk = 8,
     .slots = 8,
     .rows = 4,
     .sampling = {.top_p = 1, .penalty = 1}},
    {.name = "weights in e4m3, streamed",
     .few_kv_heads = true,
     .stream = true,
     .weights = SW_E4M3,
     .head_dim = 8,
     .chunk = 16,
     .slots = 8,
     .sampling = {.top_p = 1, .penalty = 1}},
    {.name = "weights in int4, tied",
     .weights = SW_I4,
     .head_dim = 32,
     .chunk = 8,
     .slots = 8,
     .rows = 4,
     .sampling = {.top_p = 1, .penalty = 1}},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static struct sw_device *gpu(struct sw_error *err)
{
    return sw_cuda_device_create(0, err);
}

#ifdef SW_EMULATED_NCCL
struct job {
    struct sw_thread_job job;
    struct sw_thread_rank rank[8];
};

static int connect(void *context, const struct sw_program_set *set, struct sw_device *device,
                   struct sw_comm **comm, struct sw_error *err)
{
    struct job *job = context;
    const struct sw_mesh mesh = (*comm)->mesh;
    const int32_t number = (*comm)->rank;
    job->rank[number] = (struct sw_thread_rank){&job->job, number};
    const struct sw_nccl_job of_rank = sw_thread_job_of(&job->rank[number]);
    struct sw_axes axes[SW_MESH_GROUPS];
    const int32_t count = sw_program_set_axes(set, axes);
    (*comm)->vtable->destroy(*comm);
    return sw_comm_nccl_create(&mesh, &of_rank, axes, count, sw_cuda_device_stream(device), 60,
                               comm, err);
}
#else
static int connect(void *context, const struct sw_program_set *set, struct sw_device *device,
                   struct sw_comm **comm, struct sw_error *err)
{
    (void)context;
    (void)set;
    return sw_comm_staged_create(*comm, device, comm, err);
}
#endif

static int32_t prompt_token(int64_t text, int64_t i)
{
    return (int32_t)(sw_hash_mix((uint64_t)(text * 100 + i) + 1) % VOCAB);
}

static struct sw_program_options make_options(struct sw_mesh mesh, const struct variant *v,
                                              enum sw_dtype compute)
{
    struct sw_program_options o = {
        .model.vocab_size = VOCAB,
        .model.hidden_size = v->weights == SW_I4 ? 32 : 16,
        .model.intermediate_size = v->weights == SW_I4 ? 256 : 40, /* a group of each rank's */
        .model.tied = v->weights == SW_I4,
        .model.layers = 2,
        .model.heads = 8,
        .model.kv_heads = v->few_kv_heads ? 2 : 8,
        .model.head_dim = v->head_dim,
        .model.rope.theta = 100.0,
        .model.rms_norm_eps = 1e-5,
        .model.qkv_bias = v->biases,
        .model.qk_norm = v->head_norms,
        .sequence_length = MAX_TOKENS,
        .global_batch = 16,
        .micro_batch_per_rank = 16 / (mesh.size[SW_DP] * mesh.size[SW_FSDP]),
        .compute = compute,
        .params = SW_F32,
        .reduce = SW_F32,
        .mesh = mesh,
        .layout = SW_CONTIGUOUS,
        .target = {.cudnn_attention = true,
                   .cache_ranges = true,
                   .quantized_panels = true,
                   .lacks_whole_cache = true},
    };
    sw_rules_default(&o.rules, SW_ATTENTION_RING);
    return o;
}

/* What texts whose sampling has a frequency ask for besides. */
static const struct sw_biases biases = {.count = 3,
                                        .banned_count = 2,
                                        .token = {7, 47, 30},
                                        .bias = {1.25f, -3, 0.5f},
                                        .banned = {7, 11}};

/* Free with sw_test_texts_free. */
static struct sw_test_texts make(struct sw_mesh mesh, const struct variant *v,
                                 enum sw_dtype compute, enum sw_dtype cache, bool scores, bool cuda)
{
    static int32_t prompt[TEXTS][MAX_TOKENS];
    static struct sw_sequence texts[TEXTS];
    struct sw_error err = {0};
    const enum sw_dtype weights = sw_has_scales(v->weights) ? v->weights : compute;
    const struct sw_program_options options = make_options(mesh, v, compute);
    for (int64_t t = 0; t < TEXTS; t++) {
        for (int64_t i = 0; i < lengths[t]; i++)
            prompt[t][i] = prompt_token(t, i);
        texts[t] = (struct sw_sequence){.tokens = prompt[t],
                                        .token_count = lengths[t],
                                        .max_new_tokens = NEW_TOKENS,
                                        .sampling = v->sampling,
                                        .biases = v->sampling.frequency != 0 ? &biases : NULL,
                                        .min_tokens = v->sampling.frequency != 0 ? 3 : 0,
                                        .seed = (uint64_t)t + 5};
    }
    struct sw_test_texts run = {.options = &options,
                                .serving = {.max_batch = v->slots,
                                            .max_tokens = MAX_TOKENS,
                                            .chunk = v->chunk,
                                            .token_budget = v->rows * v->chunk,
                                            .cache = cache,
                                            .weights = weights,
                                            .stream_weights = v->stream},
                                .seed = 11,
                                .stddev = 0.3,
                                .texts = texts,
                                .count = TEXTS,
                                .scores = scores,
                                .unpoisoned = !cuda,
                                .device = cuda ? gpu : NULL,
                                .connect = cuda ? connect : NULL};
#ifdef SW_EMULATED_NCCL
    struct job job;
    sw_thread_job_init(&job.job, sw_mesh_rank_count(&mesh));
    run.context = &job;
#endif
    if (sw_test_texts_run(&run, &err) != 0) {
        fprintf(stderr, "%s: %s\n", v->name, err.message);
        exit(1);
    }
#ifdef SW_EMULATED_NCCL
    sw_thread_job_free(&job.job);
#endif
    return run;
}

/* Log-probabilities are sums over 48 tokens of logits of a few: in fp32 in another order 1e-4 is
 * far above what they differ by; bf16 rounds every activation to 8 bits. An integer of a cache in
 * int8 falls to the other side of a half where sums in another order do: a step of 1 / 127. */
static int compare(const struct sw_test_texts *run, const struct sw_test_texts *wanted, bool scores,
                   double tolerance)
{
    int wrong = run->other_ranks + (run->arena_bytes != run->planned_arena_bytes);
    for (int64_t t = 0; t < TEXTS; t++) {
        const struct sw_made_text *a = &run->made[t], *b = &wanted->made[t];
        const int64_t n = scores ? lengths[t] - 1 : b->made;
        wrong += !scores && (a->made != b->made || a->full != b->full || b->made == 0);
        for (int64_t i = 0; i < n; i++)
            wrong += (!scores && a->tokens[i] != b->tokens[i]) ||
                     !(fabs(a->logprobs[i] - b->logprobs[i]) <= tolerance);
    }
    return wrong;
}

int main(int argc, char **argv)
{
    const int32_t every = argc > 1 ? (int32_t)strtol(argv[1], NULL, 10) : 1;
    struct sw_mesh meshes[SW_HARNESS_MESHES];
    struct sw_error err = {0};
    int wrong = 0, tested = 0;
    if (every < 1) {
        fprintf(stderr, "usage: test_cuda_texts [EVERY]\n");
        return 2;
    }
    if (sw_cuda_device_count(&err) < 1) {
        printf("SKIP: no GPU: %s\n", err.message);
        return 77;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    sw_harness_meshes(meshes);
    for (int32_t i = 0; i < VARIANTS; i++)
        for (int narrow = 0; narrow < 2; narrow++) {
            const struct variant *v = &variants[i];
            const enum sw_dtype compute = narrow ? SW_BF16_T : SW_F32;
            /* of bf16 the cache is wide once */
            const enum sw_dtype wide = narrow && i != 1 ? SW_BF16_T : SW_F32;
            const enum sw_dtype cache = v->int8 ? SW_I8 : wide;
            struct sw_test_texts cpu =
                make(sw_mesh_make(1, 1, 1, 1), v, compute, cache, narrow, false);
            /* with gaps: other meshes for each variant; one rank, which replays recordings, always
             */
            const int32_t first = (5 * i + 3 * narrow) % every;
            for (int32_t m = 0; m < SW_HARNESS_MESHES; m++) {
                if (m != 0 && (m < first || (m - first) % every != 0))
                    continue;
                char text[64];
                struct sw_test_texts cuda = make(meshes[m], v, compute, cache, narrow, true);
                const int differ = compare(&cuda, &cpu, narrow,
                                           narrow    ? 0.15
                                           : v->int8 ? 0.03
                                                     : 1e-4);
                tested++;
                wrong += differ;
                if (differ != 0)
                    printf("%s %s %s: %d tokens or log-probabilities differ (%d other ranks; %lld "
                           "bytes, %lld planned)\n",
                           v->name, sw_dtype_name(compute),
                           sw_mesh_format(&meshes[m], text, sizeof text), differ, cuda.other_ranks,
                           (long long)cuda.arena_bytes, (long long)cuda.planned_arena_bytes);
                sw_test_texts_free(&cuda);
            }
            sw_test_texts_free(&cpu);
        }
    printf("test_cuda_texts: %d runs, %d differences\n", tested, wrong);
    return wrong == 0 ? 0 : 1;
}
