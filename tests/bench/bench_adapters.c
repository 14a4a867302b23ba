/* Time of a step with adapters beside one that trains every weight: layers of Llama 3.2 1B's
 * shape, rank 16 on all projections, nothing made again, the update with it; one rank.
 *
 *   bench_adapters [STEPS [THREADS [TOKENS [LAYERS [VOCABULARY [bf16|fp32]]]]]]
 *
 * Steps of both take turns. By matrix products alone two thirds are left: forward, and the half of
 * backward that leads to the layer before. Both arenas are compared with what the programs say. */
#include "core/base/clock.h"
#include "core/base/number.h"
#include "core/programs/compile.h"
#include "runner/collective/comm.h"
#include "runner/rank/batch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

enum { MOST_STEPS = 1000 };

struct side {
    const char *name;
    struct sw_device *device;
    struct sw_comm *comm;
    struct sw_program_set *set;
    struct sw_executor *executor;
    double seconds[MOST_STEPS + 1], busy[MOST_STEPS + 1], loss;
};

static int batch(void *context, const struct sw_ask *ask, void *to, struct sw_error *err)
{
    (void)context;
    (void)err;
    const int64_t first = ask->step->step + (sw_batch_wants_labels(ask) ? 1 : 0);
    for (int64_t i = 0; i < ask->rows * ask->row_elems; i++)
        ((int32_t *)to)[i] = (int32_t)((uint64_t)(i + first) * 2654435761u >> 16) & 0xff;
    return 0;
}

static int open_side(struct side *side, const struct sw_program_options *o, int threads,
                     struct sw_error *err)
{
    struct sw_program *p = NULL;
    side->device = sw_cpu_device_create(threads, err);
    return side->device == NULL || sw_program_compile(o, SW_LAID_OUT, &p, err) != 0 ||
                   sw_program_set_single(p, SW_PROGRAM_TRAIN, &side->set, err) != 0 ||
                   sw_comm_single_create(&side->comm, err) != 0 ||
                   sw_executor_create(side->set, side->device, side->comm, NULL, &side->executor,
                                      err) != 0 ||
                   sw_executor_init_state(side->executor, 1, 0.02, err) != 0
               ? -1
               : 0;
}

static int run_step(struct side *side, int number, struct sw_error *err)
{
    const struct sw_program *p = side->set->program[SW_PROGRAM_TRAIN];
    const struct sw_fetch fetch = {.name = "loss", .number = &side->loss};
    const struct sw_batch reader = {batch, NULL, -1};
    struct sw_feed feeds[SW_BATCH_FEEDS];
    const int32_t fed = sw_batch_feeds(&reader, p, feeds);
    const struct sw_step step = {.step = number + 1,
                                 .learning_rate = 1e-4,
                                 .beta1 = 0.9,
                                 .beta2 = 0.95,
                                 .eps = 1e-8,
                                 .loss_scale = sw_batch_loss_scale(p->tokens_per_step)};
    const double begin = sw_clock_now(), busy = sw_clock_busy();
    const int status =
        sw_executor_run(side->executor, SW_PROGRAM_TRAIN, &step, feeds, fed, &fetch, 1, err);
    side->seconds[number] = sw_clock_now() - begin;
    side->busy[number] = sw_clock_busy() - busy;
    return status;
}

static double median(double *of, int steps) /* behind the first, which creates the primitives */
{
    qsort(of + 1, (size_t)steps, sizeof *of, sw_compare_doubles);
    return of[1 + (steps - 1) / 2];
}

int main(int argc, char **argv)
{
    const int64_t given[] = {7, 1, 1024, 4, 32000};
    int64_t a[5];
    for (int i = 0; i < 5; i++)
        a[i] = argc > i + 1 ? strtoll(argv[i + 1], NULL, 10) : given[i];
    const int steps = (int)a[0], threads = (int)a[1];
    struct sw_program_options o = {.model.vocab_size = a[4],
                                   .model.hidden_size = 2048,
                                   .model.intermediate_size = 8192,
                                   .model.layers = (int32_t)a[3],
                                   .model.heads = 32,
                                   .model.kv_heads = 8,
                                   .model.head_dim = 64,
                                   .model.rope.theta = 500000,
                                   .model.rms_norm_eps = 1e-5,
                                   .model.tied = true,
                                   .sequence_length = a[2],
                                   .global_batch = 1,
                                   .micro_batch_per_rank = 1,
                                   .compute = SW_BF16_T,
                                   .mesh = sw_mesh_make(1, 1, 1, 1)};
    struct side side[2] = {{.name = "every weight"}, {.name = "adapters"}};
    struct sw_error err = {0};
    if (argc > 6 && strcmp(argv[6], "fp32") == 0)
        o.compute = SW_F32;
    sw_rules_default(&o.rules, SW_ATTENTION_RING);
#ifdef _OPENMP
    omp_set_num_threads(threads);
#endif
    int status = steps < 1 || steps > MOST_STEPS || threads < 1 ? -1 : 0;
    for (int i = 0; i < 2 && status == 0; i++) {
        for (int t = 0; t < SW_LORA_TARGETS && i == 1; t++) {
            o.lora.rank[t] = 16;
            o.lora.scale[t] = 2;
            o.lora.base = (int32_t)o.compute;
        }
        status = open_side(&side[i], &o, threads, &err);
    }
    for (int n = 0; n <= steps && status == 0; n++)
        status = run_step(&side[0], n, &err) != 0 || run_step(&side[1], n, &err) != 0 ? -1 : 0;
    if (status != 0) {
        fprintf(stderr, "error: %s\n", err.message);
        return 3;
    }
    double seconds[2], busy[2];
    for (int i = 0; i < 2; i++) {
        seconds[i] = median(side[i].seconds, steps);
        busy[i] = median(side[i].busy, steps);
        printf("%s: step %.3f s, %.3f s of processors, loss %.4f, arena %" PRId64 " bytes%s\n",
               side[i].name, seconds[i], busy[i], side[i].loss,
               sw_executor_arena_bytes(side[i].executor),
               sw_executor_arena_bytes(side[i].executor) == side[i].set->arena_bytes
                   ? ", as planned"
                   : ", not as planned");
        sw_executor_free(side[i].executor);
        side[i].comm->vtable->destroy(side[i].comm);
        side[i].device->vtable->destroy(side[i].device);
        sw_program_set_free(side[i].set);
    }
    printf("ratio: %.3f by time, %.3f by processors\n", seconds[1] / seconds[0], busy[1] / busy[0]);
    return 0;
}
