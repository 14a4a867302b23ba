/* Saves and evaluations change no bit of a training: losses, gradient norms and, at the end, the
 * parameters are those of the same mesh without either, whatever the sizes of the model, the mesh
 * and the chunks of a save; on the arena as it lies between calls, and on one that is poisoned
 * (sw_executor_options). And an evaluation says of a batch what the next step's training does.
 *
 *   test_saves [DRAWS [SEED [FIRST]]]    draws FIRST .. FIRST + DRAWS - 1 of that seed
 *
 * A run that differs is printed with its draw: `test_saves 1 SEED DRAW` runs it again. With
 * SW_EMULATED the ranks' devices are CUDA's, emulated. */
#include "core/base/hash.h"
#include "core/programs/program_set.h"
#include "tests/support/harness.h"
#include "tests/support/recompute.h"
#ifdef SW_EMULATED
#include "runner/collective/staged.h"
#include "runner/device/cuda/device.h"
#endif

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef SW_EMULATED /* a kernel takes as long as a hundred on the CPU */
enum { MOST_RANKS = 4, MOST_HIDDEN = 16, MOST_LAYERS = 1, MOST_STEPS = 4 };
#else
enum { MOST_RANKS = 8, MOST_HIDDEN = 64, MOST_LAYERS = 3, MOST_STEPS = 7 };
#endif
enum { MOST_MESHES = 64, MOST_ROUNDS = 48 };

/* An evaluation makes the sums of a training's forward in another order: a few hundred terms of
 * fp32, of bf16. */
#define SINGLE_TOLERANCE 1e-5
#define HALF_TOLERANCE 2e-2

/* ---- Draws ---- */

struct draws {
    uint64_t seed, count;
};

/* Both ends are drawn. */
static int64_t between(struct draws *d, int64_t least, int64_t most)
{
    const uint64_t x = sw_hash_mix(d->seed + ++d->count * UINT64_C(0x9e3779b97f4a7c15));
    return least + (int64_t)((x >> 16) % (uint64_t)(most - least + 1));
}

struct meshes {
    int32_t count;
    struct sw_mesh at[MOST_MESHES];
};

static int add_mesh(const struct sw_mesh *mesh, void *context)
{
    struct meshes *meshes = context;
    meshes->at[meshes->count++] = *mesh;
    return 0;
}

static struct sw_mesh draw_mesh(struct draws *d)
{
    struct meshes meshes = {0};
    sw_mesh_enumerate((int32_t)between(d, 1, MOST_RANKS), add_mesh, &meshes);
    return meshes.at[between(d, 0, meshes.count - 1)];
}

/* Divisible wherever an axis splits it, but for what may be split unevenly. */
static struct sw_program_options draw_options(struct draws *d)
{
    const struct sw_mesh mesh = draw_mesh(d);
    const int64_t tp = mesh.size[SW_TP], sp = mesh.size[SW_SP];
    const int64_t ways = (int64_t)mesh.size[SW_DP] * mesh.size[SW_FSDP];
    const int64_t kv_heads = between(d, 0, 1) ? 1 : tp * sp;
    const int64_t per_rank = between(d, 1, 3);
    struct sw_program_options o = {
        .model.vocab_size = tp * sp * between(d, 5, 40),
        .model.hidden_size = 2 * between(d, 4, MOST_HIDDEN / 2),
        .model.intermediate_size = tp * sp * between(d, 1, 12),
        .model.layers = (int32_t)between(d, 1, MOST_LAYERS),
        .model.heads = tp * sp * between(d, 1, 2),
        .model.kv_heads = kv_heads,
        .model.head_dim = 2 * between(d, 1, 5),
        .model.rope.theta = 100.0,
        .model.rms_norm_eps = 1e-5,
        .model.tied = between(d, 0, 1),
        .model.qkv_bias = between(d, 0, 3) == 0,
        .model.qk_norm = between(d, 0, 3) == 0,
        .sequence_length = 2 * sp * between(d, 1, 8),
        .global_batch = ways * per_rank - between(d, 0, 1) * (ways > 1),
        .micro_batch_per_rank = between(d, 1, per_rank),
        .compute = between(d, 0, 2) == 0 ? SW_BF16_T : SW_F32,
        .params = between(d, 0, 3) == 0 ? SW_BF16_T : SW_F32,
        .reduce = SW_F32,
        .mesh = mesh,
        .layout = between(d, 0, 1) ? SW_ZIGZAG : SW_CONTIGUOUS,
    };
    o.recompute = sw_test_recompute((uint32_t)between(d, 0, 9), &o.model, 1);
    sw_rules_default(&o.rules, (enum sw_attention_strategy)between(d, 0, 2));
    return o;
}

/* What is run, and how: a pure function of seed and number. */
struct draw {
    struct sw_program_options options;
    int64_t steps, save_every, evaluate_every, chunk_bytes; /* 0: never, the set's */
    bool unpoisoned;
};

/* The set's own, one of those that take fewer rounds than there is patience for, or one that puts
 * the second message where a step's inputs are, just behind its gradients. */
static int64_t draw_chunk_bytes(struct draws *d, const struct sw_program_set *set)
{
    const int64_t gradients = set->program[SW_PROGRAM_TRAIN]->gradient_bytes;
    const int64_t most = set->save.chunk_bytes;
    const int64_t least = sw_placement_most_bytes(&set->placement) / MOST_ROUNDS + 256;
    const int64_t kind = between(d, 0, 2);
    if (kind == 0 || least >= most)
        return 0;
    if (kind == 1 || gradients < least || gradients > most)
        return between(d, least, most);
    return gradients - between(d, 0, (gradients - least) / 8);
}

static int make_draw(uint64_t seed, int64_t number, struct draw *out, struct sw_error *err)
{
    struct draws d = {.seed = sw_hash_mix(sw_hash_mix(seed + 1) + (uint64_t)number)};
    struct sw_program_set *set = NULL;
    char detail[256], help[256];
    do
        out->options = draw_options(&d);
    while (sw_program_admits(&out->options, detail, help) != SW_FITS);
    out->steps = between(&d, 4, MOST_STEPS);
    out->save_every = between(&d, 1, 3);
    out->evaluate_every = between(&d, 0, 1) ? 0 : between(&d, 2, 4);
    out->unpoisoned = between(&d, 0, 1);
    if (sw_program_set_compile(&out->options, &set, err) != 0)
        return -1;
    out->chunk_bytes = draw_chunk_bytes(&d, set);
    sw_program_set_free(set);
    return 0;
}

static const char *describe(const struct draw *d, char text[400])
{
    const struct sw_program_options *o = &d->options;
    char mesh[64];
    snprintf(text, 400,
             "mesh %s, hidden %lld, layers %d, vocabulary %lld, %lld sequences of %lld, %s, "
             "parameters %s; %lld steps, a save every %lld in chunks of %lld, an evaluation every "
             "%lld%s",
             sw_mesh_format(&o->mesh, mesh, sizeof mesh), (long long)o->model.hidden_size,
             (int)o->model.layers, (long long)o->model.vocab_size, (long long)o->global_batch,
             (long long)o->sequence_length, sw_dtype_name(o->compute), sw_dtype_name(o->params),
             (long long)d->steps, (long long)d->save_every, (long long)d->chunk_bytes,
             (long long)d->evaluate_every, d->unpoisoned ? "" : ", poisoned");
    return text;
}

/* ---- One draw ---- */

#ifdef SW_EMULATED
static struct sw_device *device(struct sw_error *err)
{
    return sw_cuda_device_create(0, err);
}

static int connect(struct sw_device *gpu, struct sw_comm **comm, struct sw_error *err)
{
    return sw_comm_staged_create(*comm, gpu, comm, err);
}
#endif

static int train(const struct draw *d, bool disturbed, struct sw_harness_result *out,
                 struct sw_error *err)
{
    static const char *const values[] = {"embedding", "wq",         "wk", "w_gate",
                                         "w_down",    "final_norm", NULL};
    const struct sw_harness harness = {
        .options = &d->options,
        .seed = 3,
        .stddev = 0.2,
        .steps = d->steps,
        .step = {.learning_rate = 1e-2,
                 .beta1 = 0.9,
                 .beta2 = 0.95,
                 .eps = 1e-8,
                 .weight_decay = 0.1,
                 .grad_clip = 1.0},
        .values = values,
        .unpoisoned = !disturbed || d->unpoisoned,
        .save_every = disturbed ? d->save_every : 0,
        .evaluate_every = disturbed ? d->evaluate_every : 0,
        .save_chunk_bytes = d->chunk_bytes,
#ifdef SW_EMULATED
        .device = device,
        .connect = connect,
#endif
    };
    return sw_harness_run(&harness, out, err);
}

/* Prints the first step that is wrong. Returns whether any is. */
static bool compare(const struct draw *d, const struct sw_harness_result *a,
                    const struct sw_harness_result *b)
{
    const double tolerance = d->options.compute == SW_F32 ? SINGLE_TOLERANCE : HALF_TOLERANCE;
    for (int64_t s = 0; s < d->steps; s++) {
        const bool evaluated = s > 0 && d->evaluate_every > 0 && s % d->evaluate_every == 0;
        if (!isfinite(a->loss[s]) || a->loss[s] != b->loss[s] ||
            a->grad_norm[s] != b->grad_norm[s]) {
            printf("loss of step %d is %.9g, gradient norm %.9g; without %.9g, %.9g\n", (int)s + 1,
                   a->loss[s], a->grad_norm[s], b->loss[s], b->grad_norm[s]);
            return true;
        }
        if (evaluated && !(fabs(a->evaluated[s] / a->loss[s] - 1) <= tolerance)) {
            printf("step %d is evaluated as %.9g, its loss is %.9g\n", (int)s + 1, a->evaluated[s],
                   a->loss[s]);
            return true;
        }
    }
    for (int32_t i = 0; i < b->value_count; i++)
        if (memcmp(a->value[i].data, b->value[i].data,
                   (size_t)b->value[i].elems * sizeof *b->value[i].data) != 0) {
            printf("'%s' differs after the last step\n", b->value[i].name);
            return true;
        }
    if (a->rank_differences != 0 || b->rank_differences != 0 ||
        a->arena_bytes != a->planned_arena_bytes || a->saved_bytes <= 0) {
        printf("ranks differ, the arena is not as planned or nothing was saved\n");
        return true;
    }
    return false;
}

static int check(uint64_t seed, int64_t number, bool *wrong, struct sw_error *err)
{
    struct draw d = {0};
    struct sw_harness_result with, without;
    char text[400];
    if (make_draw(seed, number, &d, err) != 0)
        return -1;
    if (train(&d, false, &without, err) != 0)
        return sw_fail_context(err, "draw %lld: %s", (long long)number, describe(&d, text));
    const int status = train(&d, true, &with, err);
    if (status == 0) {
        *wrong = compare(&d, &with, &without);
        if (*wrong)
            printf("FAIL draw %lld: %s\n", (long long)number, describe(&d, text));
        sw_harness_result_free(&with);
    }
    sw_harness_result_free(&without);
    return status;
}

int main(int argc, char **argv)
{
    const int64_t draws = argc > 1 ? strtoll(argv[1], NULL, 10) : 30;
    const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const int64_t first = argc > 3 ? strtoll(argv[3], NULL, 10) : 1;
    struct sw_error err = {0};
    int64_t differ = 0;
    if (draws < 1 || first < 1) {
        fprintf(stderr, "usage: test_saves [DRAWS [SEED [FIRST]]]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int64_t i = first; i < first + draws; i++) {
        bool wrong = false;
        if (check(seed, i, &wrong, &err) != 0) {
            printf("FAIL draw %lld: %s\n", (long long)i, err.message);
            return 1;
        }
        differ += wrong;
    }
    printf("seed %llu, draws %lld to %lld: saves and evaluations changed %lld\n",
           (unsigned long long)seed, (long long)first, (long long)(first + draws - 1),
           (long long)differ);
    return differ == 0 ? 0 : 1;
}
