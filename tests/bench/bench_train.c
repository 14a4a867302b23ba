/* How much of a training step is matrix products: one rank, the quickstart model in fp32.
 *
 *   bench_train [steps] [threads]
 *
 * The ceiling is the time of the step's matrix products alone, each run by itself through oneDNN's
 * matmul primitive on the same shapes and threads, best of several. Two ratios in the same run:
 * with the linear layers and the head only, and with attention's two (backward five) products per
 * head as well, at the causal half. */
#include "core/base/clock.h"
#include "core/base/number.h"
#include "core/programs/compile.h"
#include "runner/collective/comm.h"
#include "runner/rank/batch.h"
#include "tests/bench/products.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

static int batch(void *context, const struct sw_ask *ask, void *to, struct sw_error *err)
{
    (void)context;
    (void)err;
    const int64_t first = ask->step->step + (sw_batch_wants_labels(ask) ? 1 : 0);
    for (int64_t i = 0; i < ask->rows * ask->row_elems; i++)
        ((int32_t *)to)[i] = (int32_t)((uint64_t)(i + first) * 2654435761u >> 16) & 0xff;
    return 0;
}

int main(int argc, char **argv)
{
    const int steps = argc > 1 ? atoi(argv[1]) : 20, threads = argc > 2 ? atoi(argv[2]) : 1;
    struct sw_program_options o;
    struct sw_program *p;
    struct sw_comm *comm;
    struct sw_executor *x;
    struct sw_program_set *set = NULL;
    struct sw_error err = {0};
    memset(&o, 0, sizeof o);
    o.model.vocab_size = 256;
    o.model.hidden_size = 256;
    o.model.intermediate_size = 704;
    o.model.layers = 4;
    o.model.heads = 8;
    o.model.kv_heads = 4;
    o.model.head_dim = 32;
    o.model.rope.theta = 10000;
    o.model.rms_norm_eps = 1e-5;
    o.sequence_length = 256;
    o.global_batch = o.micro_batch_per_rank = 8;
    o.mesh = sw_mesh_make(1, 1, 1, 1);
    sw_rules_default(&o.rules, SW_ATTENTION_RING);
#ifdef _OPENMP
    omp_set_num_threads(threads);
#endif
    struct sw_device *device = sw_cpu_device_create(threads, &err);
    if (steps < 1 || threads < 1 || device == NULL ||
        sw_program_compile(&o, SW_LAID_OUT, &p, &err) != 0 ||
        sw_program_set_single(p, SW_PROGRAM_TRAIN, &set, &err) != 0 ||
        sw_comm_single_create(&comm, &err) != 0 ||
        sw_executor_create(set, device, comm, NULL, &x, &err) != 0 ||
        sw_executor_init_state(x, 1, 0.02, &err) != 0) {
        fprintf(stderr, "error: %s\n", err.message);
        return 3;
    }
    double *seconds = calloc((size_t)steps + 1, sizeof *seconds);
    double loss;
    const struct sw_fetch fetch = {.name = "loss", .number = &loss};
    struct sw_feed feeds[SW_BATCH_FEEDS];
    const struct sw_batch reader = {batch, NULL, false};
    const int32_t fed = sw_batch_feeds(&reader, p, feeds);
    for (int i = 0; i <= steps; i++) {
        struct sw_step step = {.step = i + 1,
                               .learning_rate = 1e-4,
                               .beta1 = 0.9,
                               .beta2 = 0.95,
                               .eps = 1e-8,
                               .loss_scale = sw_batch_loss_scale(p->tokens_per_step)};
        const double begin = sw_clock_now();
        if (sw_executor_run(x, SW_PROGRAM_TRAIN, &step, feeds, fed, &fetch, 1, &err) != 0) {
            fprintf(stderr, "error: %s\n", err.message);
            return 3;
        }
        seconds[i] = sw_clock_now() - begin;
    }
    qsort(seconds + 1, (size_t)steps, sizeof *seconds,
          sw_compare_doubles); /* the first step creates the primitives */
    const double step_seconds = seconds[1 + (steps - 1) / 2], best = seconds[1];
    double linear_flops, all_flops;
    const double linear = sw_bench_products_seconds(p, false, SW_F32, sw_clock_now, &linear_flops),
                 all = sw_bench_products_seconds(p, true, SW_F32, sw_clock_now, &all_flops);
    printf("step: median %.1f ms, best %.1f ms, %d threads, loss %.4f\n", step_seconds * 1e3,
           best * 1e3, threads, loss);
    printf("matrix products alone: linear layers and head %.1f ms (%.0f GFLOP/s), with attention "
           "%.1f ms (%.0f GFLOP/s)\n",
           linear * 1e3, linear_flops / linear / 1e9, all * 1e3, all_flops / all / 1e9);
    printf(
        "ratio to the ceiling (best step): %.3f linear layers and head only, %.3f with attention\n",
        linear / best, all / best);
    printf("{\"bench\":\"train\",\"threads\":%d,\"step_ms\":%.2f,\"best_ms\":%.2f,\"ratio_linear\":"
           "%.4f,\"ratio\":%.4f}\n",
           threads, step_seconds * 1e3, best * 1e3, linear / best, all / best);
    free(seconds);
    sw_executor_free(x);
    comm->vtable->destroy(comm);
    device->vtable->destroy(device);
    sw_program_set_free(set);
    return 0;
}
