#include "tests/bench/products.h"

#include "runner/device/cpu/onednn.h"

#include <stdio.h>
#include <stdlib.h>

static void check(dnnl_status_t status)
{
    if (status == dnnl_unimplemented) {
        fprintf(stderr, "oneDNN has no products of this precision on this processor, or within "
                        "ONEDNN_MAX_CPU_ISA: there is nothing to compare with\n");
        exit(1);
    }
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
    bool wide; /* its result is in fp32, whatever its operands are in */
};

/* Best time of one C[m,n] = A[m,k] B[k,n], of operands in that type. */
static double time_product(dnnl_engine_t engine, dnnl_stream_t stream, const struct product *p,
                           dnnl_data_type_t type, float *a, float *b, float *c,
                           double (*clock)(void))
{
    dnnl_memory_desc_t ma = {0}, mb = {0}, mc = {0};
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t primitive;
    dnnl_memory_t xa, xb, xc;
    check(sw_onednn_matrix(&ma, p->m, p->k, p->a_transposed ? 1 : p->k, p->a_transposed ? p->m : 1,
                           type));
    check(sw_onednn_matrix(&mb, p->k, p->n, p->b_transposed ? 1 : p->n, p->b_transposed ? p->k : 1,
                           type));
    check(sw_onednn_matrix(&mc, p->m, p->n, p->n, 1, p->wide ? dnnl_f32 : type));
    check(sw_onednn_product(&pd, engine, &ma, &mb, &mc, NULL));
    check(dnnl_primitive_create(&primitive, pd));
    check(sw_onednn_memory(&xa, &ma, engine, a));
    check(sw_onednn_memory(&xb, &mb, engine, b));
    check(sw_onednn_memory(&xc, &mc, engine, c));
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, xa}, {DNNL_ARG_WEIGHTS, xb}, {DNNL_ARG_DST, xc}};
    double best = 1e30, spent = 0;
    for (int repeat = 0; repeat < 30 && (repeat < 3 || spent < 1); repeat++) {
        const double begin = clock();
        check(dnnl_primitive_execute(primitive, stream, 3, args));
        check(dnnl_stream_wait(stream));
        const double seconds = clock() - begin;
        best = seconds < best ? seconds : best;
        spent += seconds;
    }
    sw_onednn_matrix_free(&ma);
    sw_onednn_matrix_free(&mb);
    sw_onednn_matrix_free(&mc);
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
                products[count++] = (struct product){tokens, w->local[1], w->local[0], false,
                                                     false,  times,       0,           false};
                break;
            case SW_OP_LINEAR_T:
                products[count++] = (struct product){tokens, w->local[0], w->local[1], false,
                                                     true,   times,       0,           false};
                break;
            case SW_OP_LINEAR_DW:
                products[count++] =
                    (struct product){x->local[2], w->local[2], tokens, true, false, times, 0, true};
                break;
            case SW_OP_LM_HEAD_STATS:
                products[count++] =
                    (struct product){tokens, w->local[0], w->local[1], false, true, times, 0, true};
                break;
            case SW_OP_LM_HEAD_GRAD: /* logits again, dx, dW unless frozen */
            case SW_OP_LM_HEAD_DX:
                products[count++] =
                    (struct product){tokens, w->local[0], w->local[1], false, true, times, 0, true};
                products[count++] = (struct product){tokens, w->local[1], w->local[0], false,
                                                     false,  times,       0,           false};
                if (op->kind == SW_OP_LM_HEAD_GRAD)
                    products[count++] = (struct product){w->local[0], w->local[1], tokens, true,
                                                         false,       times,       0,      true};
                break;
            case SW_OP_ATTENTION:
            case SW_OP_ATTENTION_GRAD:
                if (attention) { /* half of the square is masked */
                    const double each = times * (double)x->local[0] *
                                        (double)(x->local[2] / op->as.attention.head_dim) / 2;
                    const double square = op->kind == SW_OP_ATTENTION ? 1 : 2,
                                 tall = op->kind == SW_OP_ATTENTION ? 1 : 3;
                    products[count++] =
                        (struct product){x->local[1], x->local[1], op->as.attention.head_dim,
                                         false,       true,        each * square,
                                         0,           false};
                    products[count++] = (struct product){x->local[1], op->as.attention.head_dim,
                                                         x->local[1], false,
                                                         false,       each * tall,
                                                         0,           false};
                }
                break;
            default:
                break;
            }
        }
    return count;
}

/* Numbers of a width whose bits are anything but infinite: of bf16 two lie in each. */
static float *operand(int64_t elems)
{
    float *at = aligned_alloc(64, (size_t)(elems + 16) / 16 * 64);
    for (int64_t i = 0; at != NULL && i < elems; i++)
        at[i] = (float)(i % 127) / 127;
    if (at == NULL)
        exit(3);
    return at;
}

double sw_bench_products_seconds(const struct sw_program *p, bool attention, enum sw_dtype operands,
                                 double (*clock)(void), double *flops)
{
    static struct product products[256];
    const int32_t count = list_products(p, attention, products);
    int64_t elems = 0;
    for (int32_t i = 0; i < count; i++) {
        const struct product *q = &products[i];
        const int64_t sizes[3] = {q->m * q->k, q->k * q->n, q->m * q->n};
        for (int j = 0; j < 3; j++)
            elems = sizes[j] > elems ? sizes[j] : elems;
    }
    float *a = operand(elems), *b = operand(elems), *c = operand(elems);
    const dnnl_data_type_t type = operands == SW_BF16_T ? dnnl_bf16 : dnnl_f32;
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
                products[j].b_transposed == products[i].b_transposed &&
                products[j].wide == products[i].wide)
                products[i].seconds = products[j].seconds;
        if (products[i].seconds < 0)
            products[i].seconds = time_product(engine, stream, &products[i], type, a, b, c, clock);
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
