/* Training on the CUDA device, all ranks on one GPU with staged collectives: the losses of every
 * mesh of 1, 2, 4 and 8 ranks are those of the CPU device on one rank. On a GPU where there is one;
 * test_cuda_meshes_emulated runs the same kernels on the CPU (cuda_emulator.h).
 *
 *   test_cuda_meshes [STEPS [EVERY [TYPE]]]
 *                                       EVERY: each n-th mesh only; TYPE: fp32 or bf16, else both
 *   test_cuda_meshes waits [EVERY]      (emulated, NCCL) three waits for events, or each n-th,
 *                                       are left out one at a time: other losses, or an error */
#include "core/ir/messages.h"
#include "core/programs/program_set.h"
#include "runner/collective/comm.h"
#include "runner/collective/staged.h"
#include "runner/device/cuda/device.h"
#include "runner/rank/batch.h"
#include "tests/support/harness.h"
#ifdef SW_EMULATED_NCCL
#include "tests/support/cuda_streams.h"
#include "tests/support/nccl_stand_in.h"
#include "tests/support/thread_job.h"
#endif

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* the last meshes split hidden_size and the batch unevenly */
enum { MAX_STEPS = 64, VOCAB = 24, LENGTH = 16, BATCH = 16, MESHES = SW_HARNESS_MESHES + 3 };

/* Of a training: it goes well; it may fail; the last rank has no memory for its arena. */
enum outcome { GOES_WELL, MAY_FAIL, LACKS_MEMORY };

struct training {
    const struct sw_program_set *set;
    const struct sw_program *program; /* the set's */
    int64_t steps;
    bool cuda;
    enum outcome outcome;
};

struct rank {
    const struct training *training;
    int32_t number;
#ifdef SW_EMULATED_NCCL
    struct sw_thread_rank job;
#endif
    struct sw_comm *comm;
    pthread_t thread;
    struct sw_error err;
    double loss[MAX_STEPS], norm[MAX_STEPS];
    int64_t arena_bytes, waits;
    bool failed;
};

static int batch(void *context, const struct sw_ask *ask, void *to, struct sw_error *err)
{
    (void)err;
    const struct training *t = context;
    const bool labels = sw_batch_wants_labels(ask);
    const int64_t first = (ask->step->step - 1) * BATCH +
                          ask->step->micro_step * t->program->micro_batch + ask->first_row;
    int32_t *token = to;
    for (int64_t r = 0; r < ask->rows; r++) {
        uint64_t x = (uint64_t)(first + r) * 977 + 5;
        for (int64_t i = 0; i < LENGTH; i++) {
            const uint64_t next = x * 6364136223846793005u + 1442695040888963407u;
            token[r * LENGTH + i] = (int32_t)(((labels ? next : x) >> 33) % VOCAB);
            if (labels && i % 7 == 3)
                token[r * LENGTH + i] = -1;
            x = next;
        }
    }
    return 0;
}

/* For this thread's GPU. */
static void leave_no_memory(void)
{
#ifdef SW_EMULATED_NCCL
    sw_emulated_largest(1);
#endif
}

static int train(struct rank *rank, struct sw_device *device, struct sw_executor **executor)
{
    const struct training *t = rank->training;
    const struct sw_executor_options options = {.poisons = t->cuda};
    if (t->outcome == LACKS_MEMORY && rank->number + 1 == sw_mesh_rank_count(&rank->comm->mesh))
        leave_no_memory();
    if (sw_executor_create(t->set, device, rank->comm, &options, executor, &rank->err) != 0 ||
        sw_executor_init_state(*executor, 9, 0.2, &rank->err) != 0)
        return -1;
    rank->arena_bytes = sw_executor_arena_bytes(*executor);
    for (int64_t s = 0; s < t->steps; s++) {
        struct sw_step step = {.step = s + 1,
                               .learning_rate = 1e-3 * (double)(s + 1),
                               .beta1 = 0.9,
                               .beta2 = 0.95,
                               .eps = 1e-8,
                               .weight_decay = 0.1,
                               .grad_clip = 1.0,
                               .loss_scale = sw_batch_loss_scale(t->program->tokens_per_step)};
        const struct sw_fetch fetches[] = {{.name = "loss", .number = &rank->loss[s]},
                                           {.name = "grad_norm", .number = &rank->norm[s]}};
        struct sw_feed feeds[SW_BATCH_FEEDS];
        const struct sw_batch reader = {batch, (void *)(uintptr_t)t, false};
        const int32_t fed = sw_batch_feeds(&reader, t->program, feeds);
        if (sw_executor_run(*executor, SW_PROGRAM_TRAIN, &step, feeds, fed, fetches, 2,
                            &rank->err) != 0)
            return -1;
    }
    return 0;
}

#ifdef SW_EMULATED_NCCL
/* The communicator of the ranks' own threads is not wanted then. */
static int connect(struct rank *rank, struct sw_device *device)
{
    const struct sw_nccl_job job = sw_thread_job_of(&rank->job);
    const struct sw_mesh mesh = rank->comm->mesh;
    struct sw_axes axes[SW_MESH_GROUPS];
    const int32_t count = sw_program_set_axes(rank->training->set, axes);
    rank->comm->vtable->destroy(rank->comm);
    return sw_comm_nccl_create(&mesh, &job, axes, count, sw_cuda_device_stream(device), 60,
                               &rank->comm, &rank->err);
}
#else
static int connect(struct rank *rank, struct sw_device *device)
{
    return sw_comm_staged_create(rank->comm, device, &rank->comm, &rank->err);
}
#endif

/* Of this thread, for events. */
static int64_t waits_called(void)
{
#ifdef SW_EMULATED_NCCL
    return sw_emulated_waits();
#else
    return 0;
#endif
}

static void *rank_main(void *argument)
{
    struct rank *rank = argument;
    struct sw_executor *executor = NULL;
    struct sw_device *device = rank->training->cuda ? sw_cuda_device_create(0, &rank->err)
                                                    : sw_cpu_device_create(1, &rank->err);
    if (device == NULL || (rank->training->cuda && connect(rank, device) != 0) ||
        train(rank, device, &executor) != 0) {
        rank->failed = true;
        if (rank->training->outcome != GOES_WELL)
            return NULL; /* so do the others, at the same call: what they hold stays */
        fprintf(stderr, "rank %d: %s\n", (int)rank->number, rank->err.message);
        _Exit(1); /* the others would wait for this rank */
    }
    rank->waits = waits_called();
    sw_executor_free(executor);
    rank->comm->vtable->destroy(rank->comm);
    device->vtable->destroy(device);
    return NULL;
}

#ifdef SW_EMULATED_NCCL
/* Communicators come before the arena and share their buffers, the arena is a window of theirs, and
 * no call is many messages. */
static int check_calls(const struct sw_mesh *mesh)
{
    const struct sw_nccl_counts counts = sw_nccl_counts_get();
    char text[64];
    const bool many = counts.most_messages > SW_MESSAGES_MOST;
    const bool windows = counts.open == 0 && (counts.windows > 0) == (sw_mesh_rank_count(mesh) > 1);
    if (many || counts.late > 0 || counts.unshared > 0 || counts.aborted > 0 || !windows)
        printf("%s: %lld messages of one call to one rank, %lld communicators after the arena, "
               "%lld with buffers of their own, %lld aborted, %lld windows of which %lld stay\n",
               sw_mesh_format(mesh, text, sizeof text), (long long)counts.most_messages,
               (long long)counts.late, (long long)counts.unshared, (long long)counts.aborted,
               (long long)counts.windows, (long long)counts.open);
    return many + (counts.late > 0) + (counts.unshared > 0) + (counts.aborted > 0) + !windows;
}
#else
static int check_calls(const struct sw_mesh *mesh)
{
    (void)mesh;
    return 0;
}
#endif

/* variant 0: plain; 1: tied, few kv heads, residual split over tp, two micro-steps, recomputation;
 * 2: gather, contiguous; 3: ulysses, zigzag; 4: biases, q and k normalized by head, llama3's
 * rotation; BF16_HOPS: what travels round the ring is bf16; RINGS: it is made of two
 * rings of two; BF16_RINGS: and that. */
enum { BF16_HOPS = 5, RINGS, BF16_RINGS, HOPS_RANKS = 4 };
static int run(struct sw_mesh mesh, int variant, enum sw_dtype compute, int64_t steps, bool cuda,
               enum outcome outcome, struct rank *result) /* LACKS_MEMORY: of each rank */
{
    struct sw_program_options o = {
        .model.vocab_size = VOCAB,
        .model.hidden_size = 16,
        .model.intermediate_size = 24,
        .model.layers = 2,
        .model.heads = 8,
        .model.kv_heads = variant == 1 ? 2 : 8,
        .model.head_dim = 2,
        .model.rope.theta = 100.0,
        .model.rms_norm_eps = 1e-5,
        .model.tied = variant == 1,
        .model.qkv_bias = variant == 4,
        .model.output_bias = variant == 4,
        .model.mlp_bias = variant == 4,
        .model.qk_norm = variant == 4,
        .sequence_length = LENGTH,
        .global_batch = BATCH,
        .micro_batch_per_rank =
            BATCH / (mesh.size[SW_DP] * mesh.size[SW_FSDP]) / (variant == 1 ? 2 : 1),
        .compute = compute,
        .params = SW_F32,
        .reduce = SW_F32,
        .ring = variant == BF16_HOPS || variant == BF16_RINGS ? SW_BF16_T : SW_F32,
        .inner_ring = variant == RINGS || variant == BF16_RINGS ? 2 : 0,
        .mesh = mesh,
        .layout = variant == 2 ? SW_CONTIGUOUS : SW_ZIGZAG,
        .recompute = variant == 1 ? sw_recompute_full() : sw_recompute_none(),
    };
    if (variant == 4)
        o.model.rope = (struct sw_rope){.theta = 100.0,
                                        .factor = 8,
                                        .low_freq_factor = 1,
                                        .high_freq_factor = 4,
                                        .original_positions = 16,
                                        .scaling = SW_ROPE_LLAMA3};
    const struct sw_axes residual = {2, {SW_SP, SW_TP}};
    struct sw_error err = {0};
    struct sw_program *program = NULL;
    struct sw_program_set *set = NULL;
    struct sw_comm *comms[8];
    struct rank *ranks = calloc(8, sizeof *ranks);
    const int32_t count = sw_mesh_rank_count(&mesh);
    sw_rules_default(&o.rules, variant == 2   ? SW_ATTENTION_GATHER
                               : variant == 3 ? SW_ATTENTION_ULYSSES
                                              : SW_ATTENTION_RING);
    if (ranks == NULL ||
        (variant == 1 && sw_rules_set(&o.rules, "residual_seq", residual, &err) != 0) ||
        sw_program_compile(&o, SW_LAID_OUT, &program, &err) != 0 ||
        sw_program_set_single(program, SW_PROGRAM_TRAIN, &set, &err) != 0 ||
        sw_comm_threads_create(&mesh, comms, &err) != 0) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    const struct training training = {set, program, steps, cuda, outcome};
    int wrong = 0;
#ifdef SW_EMULATED_NCCL
    struct sw_thread_job job;
    sw_thread_job_init(&job, count);
    sw_nccl_counts_reset();
#endif
    for (int32_t r = 0; r < count; r++) {
        ranks[r].training = &training;
        ranks[r].number = r;
#ifdef SW_EMULATED_NCCL
        ranks[r].job = (struct sw_thread_rank){&job, r};
#endif
        ranks[r].comm = comms[r];
        if (pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]) != 0)
            exit(1);
    }
    for (int32_t r = 0; r < count; r++)
        pthread_join(ranks[r].thread, NULL);
    for (int32_t r = 0; r < count; r++) {
        wrong += memcmp(ranks[r].loss, ranks[0].loss, sizeof ranks[r].loss) != 0;
        wrong += ranks[r].arena_bytes != program->arena_bytes;
    }
    memcpy(result, ranks, (size_t)(outcome == LACKS_MEMORY ? count : 1) * sizeof *ranks);
    wrong += cuda ? check_calls(&mesh) : 0;
#ifdef SW_EMULATED_NCCL
    sw_thread_job_free(&job);
#endif
    sw_program_set_free(set);
    free(ranks);
    return wrong;
}

#ifdef SW_EMULATED_NCCL
enum { WAIT_STEPS = 3, WAITS_TRIED = 3, WAIT_ORDERS = 4 };

/* Activations are summed over tp: what a call takes was just made, and is wanted at once. */
static struct sw_mesh wait_mesh(void)
{
    return sw_mesh_make(1, 1, 2, 1);
}

/* Whether a training with its n-th wait left out shows it in one of a few orders. */
static bool is_seen(int64_t n, const struct rank *right)
{
    bool seen = false;
    for (uint64_t order = 1; order <= WAIT_ORDERS && !seen; order++) {
        struct rank gpu;
        sw_emulated_order(order);
        sw_emulated_drop_wait(n);
        (void)run(wait_mesh(), 0, SW_F32, WAIT_STEPS, true, MAY_FAIL, &gpu);
        seen = gpu.failed || memcmp(gpu.loss, right->loss, sizeof gpu.loss) != 0 ||
               memcmp(gpu.norm, right->norm, sizeof gpu.norm) != 0;
        if (seen)
            printf("wait %d left out: order %d, %s\n", (int)n, (int)order,
                   gpu.failed ? gpu.err.message : "another loss or norm");
    }
    sw_emulated_drop_wait(0);
    return seen;
}

/* One rank has no memory for its arena: all come back, and blame it. */
static int check_memory(void)
{
    static const char *const begins[2] = {"rank 0: rank 1 has no arena", "the arena of "};
    struct rank ranks[2];
    int wrong = 0;
    (void)run(wait_mesh(), 0, SW_F32, 1, true, LACKS_MEMORY, ranks);
    wrong += sw_nccl_counts_get().windows != 0 || ranks[0].err.culprit != 2;
    for (int r = 0; r < 2; r++)
        if (strncmp(ranks[r].err.message, begins[r], strlen(begins[r])) != 0 && ++wrong)
            printf("rank %d fails with '%s'\n", r, ranks[r].err.message);
    return wrong;
}

/* every: each n-th wait; 0: three of them. */
static int check_waits(int64_t every)
{
    struct rank right, again;
    int64_t tried = 0, found = 0;
    int wrong = check_memory() + run(wait_mesh(), 0, SW_F32, WAIT_STEPS, true, GOES_WELL, &right);
    for (uint64_t order = 1; order <= WAIT_ORDERS; order++) { /* nothing hangs on the order */
        sw_emulated_order(order);
        wrong += run(wait_mesh(), 0, SW_F32, WAIT_STEPS, true, GOES_WELL, &again);
        wrong += memcmp(again.loss, right.loss, sizeof again.loss) != 0 ||
                 memcmp(again.norm, right.norm, sizeof again.norm) != 0;
    }
    const int64_t step = every > 0 ? every : right.waits / (WAITS_TRIED + 1);
    for (int64_t n = step; n <= right.waits && (every > 0 || tried < WAITS_TRIED); n += step) {
        const bool seen = is_seen(n, &right);
        tried++;
        found += seen;
        if (!seen)
            printf("wait %d of %d left out: nothing shows\n", (int)n, (int)right.waits);
    }
    printf("test_cuda_meshes: %d of %d waits left out, one at a time: %d show, %d differences "
           "without\n",
           (int)tried, (int)right.waits, (int)found, wrong);
    return wrong == 0 && tried >= WAITS_TRIED && found == tried ? 0 : 1;
}
#endif

int main(int argc, char **argv)
{
#ifdef SW_EMULATED_NCCL
    if (argc > 1 && strcmp(argv[1], "waits") == 0)
        return check_waits(argc > 2 ? strtoll(argv[2], NULL, 10) : 0);
#endif
    static const char *const names[] = {[0] = "ring",      "tied",
                                        "gather",          "ulysses",
                                        "biases",          [BF16_HOPS] = "bf16 hops",
                                        [RINGS] = "rings", [BF16_RINGS] = "rings, bf16 hops"};
    const int64_t steps = argc > 1 ? strtoll(argv[1], NULL, 10) : 20;
    const int32_t every = argc > 2 ? (int32_t)strtol(argv[2], NULL, 10) : 1;
    const char *const type = argc > 3 ? argv[3] : NULL;
    struct sw_mesh meshes[MESHES];
    struct sw_error err = {0};
    int wrong = 0, tested = 0;
    if (steps < 1 || steps > MAX_STEPS || every < 1 ||
        (type != NULL && strcmp(type, "fp32") != 0 && strcmp(type, "bf16") != 0)) {
        fprintf(stderr, "usage: test_cuda_meshes [STEPS [EVERY [fp32|bf16]]]\n");
        return 2;
    }
    if (sw_cuda_device_count(&err) < 1) {
        printf("SKIP: no GPU: %s\n", err.message);
        return 77;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    sw_harness_meshes(meshes);
    meshes[SW_HARNESS_MESHES] = sw_mesh_make(1, 3, 1, 1);
    meshes[SW_HARNESS_MESHES + 1] = sw_mesh_make(1, 6, 1, 1);
    meshes[SW_HARNESS_MESHES + 2] = sw_mesh_make(1, 3, 2, 1);
    for (int variant = 0; variant < (int)(sizeof names / sizeof *names); variant++)
        for (int narrow = 0; narrow < 2; narrow++) {
            /* f32: docs/architecture.md, How we know. bf16: activations have 8 bits; means of
             * hundreds of tokens near log 24 */
            const enum sw_dtype compute = narrow ? SW_BF16_T : SW_F32;
            if (type != NULL && strcmp(type, narrow ? "bf16" : "fp32") != 0)
                continue;
            const double tolerance = narrow ? 5e-3 : 1e-4;
            struct rank cpu, gpu;
            /* one rank would round nothing */
            const int32_t ring = variant >= BF16_HOPS ? HOPS_RANKS : 1;
            wrong +=
                run(sw_mesh_make(1, 1, 1, ring), variant, compute, steps, false, GOES_WELL, &cpu);
            /* with gaps: other meshes for each variant; one rank, which replays recordings, once;
             * an uneven mesh twice */
            const int32_t first = (7 * variant + 5 * narrow + 3) % every;
            for (int32_t m = 0; m < MESHES; m++) {
                if (ring > 1
                        ? meshes[m].size[SW_SP] != ring || sw_mesh_rank_count(&meshes[m]) > ring
                        : (m < first || (m - first) % every != 0) && !(m == 0 && variant == 0) &&
                              !(m == SW_HARNESS_MESHES && variant == 1))
                    continue;
                tested++;
                char text[64];
                const int differ = run(meshes[m], variant, compute, steps, true, GOES_WELL, &gpu);
                sw_mesh_format(&meshes[m], text, sizeof text);
                if (differ != 0 && ++wrong)
                    printf("%s %s %s: ranks differ, or the arena is not as planned\n",
                           names[variant], sw_dtype_name(compute), text);
                for (int64_t s = 0; s < steps; s++)
                    if (!(fabs(gpu.loss[s] / cpu.loss[s] - 1) <= tolerance) && ++wrong)
                        printf("%s %s %s: loss of step %d is %.7g, on the cpu %.7g\n",
                               names[variant], sw_dtype_name(compute), text, (int)s + 1,
                               gpu.loss[s], cpu.loss[s]);
            }
        }
    printf("test_cuda_meshes: %d runs of %d steps, %d differences\n", tested, (int)steps, wrong);
    return wrong == 0 ? 0 : 1;
}
