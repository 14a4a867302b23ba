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
#include "runner/collective/comm.h"
#include "runner/execute.h"

#include <oneapi/dnnl/dnnl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

static int batch(void *context, int64_t step, int32_t micro_step, int64_t first_row, int64_t rows,
                 int32_t *tokens, int32_t *labels, struct sw_error *err)
{
    (void)micro_step;
    (void)first_row;
    (void)err;
    const struct sw_program *p = context;
    for (int64_t i = 0; i < rows * p->sequence_length; i++) {
        tokens[i] = (int32_t)((uint64_t)(i + step) * 2654435761u >> 16) & 0xff;
        labels[i] = (int32_t)((uint64_t)(i + step + 1) * 2654435761u >> 16) & 0xff;
    }
    return 0;
}

static void check(dnnl_status_t status)
{
    if (status != dnnl_success) {
        fprintf(stderr, "oneDNN failed with status %d\n", (int)status);
        exit(1);
    }
}

struct product {
    int64_t m, n, k;
    bool a_transposed, b_transposed;
    double count; /* per step */
    double seconds;
};

/* Best time of one C[m,n] = A[m,k] B[k,n]. */
static double time_product(dnnl_engine_t engine, dnnl_stream_t stream, const struct product *p,
                           float *a, float *b, float *c)
{
    const dnnl_dims_t da = {p->m, p->k}, db = {p->k, p->n}, dc = {p->m, p->n};
    const dnnl_dims_t sa = {p->a_transposed ? 1 : p->k, p->a_transposed ? p->m : 1};
    const dnnl_dims_t sb = {p->b_transposed ? 1 : p->n, p->b_transposed ? p->k : 1};
    const dnnl_dims_t sc = {p->n, 1};
    dnnl_memory_desc_t ma, mb, mc;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t primitive;
    dnnl_memory_t xa, xb, xc;
    check(dnnl_memory_desc_init_by_strides(&ma, 2, da, dnnl_f32, sa));
    check(dnnl_memory_desc_init_by_strides(&mb, 2, db, dnnl_f32, sb));
    check(dnnl_memory_desc_init_by_strides(&mc, 2, dc, dnnl_f32, sc));
    check(dnnl_matmul_desc_init(&desc, &ma, &mb, NULL, &mc));
    check(dnnl_primitive_desc_create(&pd, &desc, NULL, engine, NULL));
    check(dnnl_primitive_create(&primitive, pd));
    check(dnnl_memory_create(&xa, &ma, engine, a));
    check(dnnl_memory_create(&xb, &mb, engine, b));
    check(dnnl_memory_create(&xc, &mc, engine, c));
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, xa}, {DNNL_ARG_WEIGHTS, xb}, {DNNL_ARG_DST, xc}};
    double best = 1e30;
    for (int repeat = 0; repeat < 30; repeat++) {
        const double begin = sw_clock_now();
        check(dnnl_primitive_execute(primitive, stream, 3, args));
        check(dnnl_stream_wait(stream));
        const double seconds = sw_clock_now() - begin;
        best = seconds < best ? seconds : best;
    }
    dnnl_memory_destroy(xa);
    dnnl_memory_destroy(xb);
    dnnl_memory_destroy(xc);
    dnnl_primitive_destroy(primitive);
    dnnl_primitive_desc_destroy(pd);
    return best;
}

/* The products of every op of a step; returns how many different ones. */
static int32_t list_products(const struct sw_program *p, bool attention, struct product *products)
{
    int32_t count = 0;
    for (int32_t r = 0; r < p->region_count; r++)
        for (int32_t i = 0; i < p->regions[r].op_count; i++) {
            const struct sw_op *op = &p->ops[p->regions[r].first_op + i];
            const double times = (double)p->regions[r].repeat * p->accumulation_steps;
            const struct sw_value *x = &p->values[op->in[0].value],
                                  *w = &p->values[op->in[1].value];
            const int64_t tokens = x->local[0] * x->local[1];
            switch (op->kind) {
            case SW_OP_LINEAR:
                products[count++] =
                    (struct product){tokens, w->local[1], w->local[0], false, false, times, 0};
                break;
            case SW_OP_LINEAR_T:
                products[count++] =
                    (struct product){tokens, w->local[0], w->local[1], false, true, times, 0};
                break;
            case SW_OP_LINEAR_DW:
                products[count++] =
                    (struct product){x->local[2], w->local[2], tokens, true, false, times, 0};
                break;
            case SW_OP_LM_HEAD_STATS:
                products[count++] =
                    (struct product){tokens, w->local[0], w->local[1], false, true, times, 0};
                break;
            case SW_OP_LM_HEAD_GRAD: /* logits again, dx, dW */
                products[count++] =
                    (struct product){tokens, w->local[0], w->local[1], false, true, times, 0};
                products[count++] =
                    (struct product){tokens, w->local[1], w->local[0], false, false, times, 0};
                products[count++] =
                    (struct product){w->local[0], w->local[1], tokens, true, false, times, 0};
                break;
            case SW_OP_RING_ATTENTION:
            case SW_OP_RING_ATTENTION_GRAD:
                if (attention) { /* half of the square is masked */
                    const double each = times * (double)x->local[0] *
                                        (double)(x->local[2] / op->as.attention.head_dim) / 2;
                    const double square = op->kind == SW_OP_RING_ATTENTION ? 1 : 2,
                                 tall = op->kind == SW_OP_RING_ATTENTION ? 1 : 3;
                    products[count++] = (struct product){x->local[1],
                                                         x->local[1],
                                                         op->as.attention.head_dim,
                                                         false,
                                                         true,
                                                         each * square,
                                                         0};
                    products[count++] = (struct product){x->local[1],
                                                         op->as.attention.head_dim,
                                                         x->local[1],
                                                         false,
                                                         false,
                                                         each * tall,
                                                         0};
                }
                break;
            default:
                break;
            }
        }
    return count;
}

static double time_products(const struct sw_program *p, bool attention, double *flops)
{
    static struct product products[256];
    const int32_t count = list_products(p, attention, products);
    const size_t elems = (size_t)8 << 20;
    float *a = calloc(elems, sizeof *a), *b = calloc(elems, sizeof *b),
          *c = calloc(elems, sizeof *c);
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    check(dnnl_engine_create(&engine, dnnl_cpu, 0));
    check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    double total = 0;
    *flops = 0;
    for (int32_t i = 0; i < count; i++) {
        products[i].seconds = -1;
        for (int32_t j = 0; j < i && products[i].seconds < 0; j++)
            if (products[j].m == products[i].m && products[j].n == products[i].n &&
                products[j].k == products[i].k &&
                products[j].a_transposed == products[i].a_transposed &&
                products[j].b_transposed == products[i].b_transposed)
                products[i].seconds = products[j].seconds;
        if (products[i].seconds < 0)
            products[i].seconds = time_product(engine, stream, &products[i], a, b, c);
        total += products[i].seconds * products[i].count;
        *flops += 2.0 * (double)products[i].m * (double)products[i].n * (double)products[i].k *
                  products[i].count;
    }
    dnnl_stream_destroy(stream);
    dnnl_engine_destroy(engine);
    free(a);
    free(b);
    free(c);
    return total;
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
        sw_executor_create(set, device, comm, &x, &err) != 0 ||
        sw_executor_init_state(x, 1, 0.02, &err) != 0) {
        fprintf(stderr, "error: %s\n", err.message);
        return 3;
    }
    double *seconds = calloc((size_t)steps + 1, sizeof *seconds);
    const struct sw_batches inputs = {.read = batch, .context = p};
    struct sw_output out = {.name = "loss"};
    for (int i = 0; i <= steps; i++) {
        struct sw_step step = {
            .step = i + 1, .learning_rate = 1e-4, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
        const double begin = sw_clock_now();
        if (sw_executor_run(x, SW_PROGRAM_TRAIN, &step, &inputs, &out, 1, &err) != 0) {
            fprintf(stderr, "error: %s\n", err.message);
            return 3;
        }
        seconds[i] = sw_clock_now() - begin;
    }
    qsort(seconds + 1, (size_t)steps, sizeof *seconds,
          sw_compare_doubles); /* the first step creates the primitives */
    const double step_seconds = seconds[1 + (steps - 1) / 2], best = seconds[1];
    double linear_flops, all_flops;
    const double linear = time_products(p, false, &linear_flops),
                 all = time_products(p, true, &all_flops);
    printf("step: median %.1f ms, best %.1f ms, %d threads, loss %.4f\n", step_seconds * 1e3,
           best * 1e3, threads, out.value);
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
