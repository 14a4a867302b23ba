/* An op on the CUDA device and on the CPU device, with operands that are described once: what
 * test_cuda_ops.c, test_cuda_serving.c, test_cuda_cached.c and test_cuda_quantized.c share. */
#ifndef SW_TEST_CUDA_OPS_SUPPORT_H
#define SW_TEST_CUDA_OPS_SUPPORT_H

#include "core/base/number.h"
#include "core/ir/serving.h"
#include "runner/device/cuda/serving.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct sw_device *cpu, *cuda;
static bool compared[SW_OP_COUNT];

/* test_cuda_serving compares it, and other forms of rope and attention. */
static inline bool is_of_serving(int kind)
{
    return kind == SW_OP_CACHE_APPEND || kind == SW_OP_CACHE_ROWS || kind == SW_OP_SOFTMAX_MERGE ||
           kind == SW_OP_PICK_TOKEN || kind == SW_OP_SAMPLE || kind == SW_OP_TOP_TOKENS ||
           kind == SW_OP_LM_HEAD_LOGPROBS;
}
static uint64_t state = 1;
static int64_t rounds = 2;

static inline double uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 9007199254740992.0;
}

static inline int64_t between(int64_t low, int64_t high)
{
    return low + (int64_t)(uniform() * (double)(high - low + 1));
}

static inline double get(enum sw_dtype dtype, const void *data, int64_t i)
{
    if (dtype == SW_I32)
        return ((const int32_t *)data)[i];
    if (dtype == SW_I8)
        return ((const int8_t *)data)[i];
    return dtype == SW_F32 ? (double)((const float *)data)[i]
                           : (double)sw_bf16_to_float(((const uint16_t *)data)[i]);
}

/* Sets a number of a tensor in fp32 or bf16; codes stay. */
static inline void put(const struct sw_tensor *t, int64_t i, float value)
{
    if (t->dtype == SW_F32)
        ((float *)t->data)[i] = value;
    else if (t->dtype != SW_CODES)
        ((uint16_t *)t->data)[i] = sw_bf16_from_float(value);
}

/* ---- A call on both devices ---- */

/* Operands are described once; each device has its own copy, `skew` elements behind an aligned
 * address so that vectors are not always aligned. */
enum { OPERANDS = 2 * SW_CUDA_NORM_PARTS + 3 };

struct both {
    struct sw_op op;
    struct sw_tensor in[OPERANDS], out[OPERANDS]; /* data: host memory of the CPU device */
    struct sw_call call;                          /* but for its operands */
    void *device[2 * OPERANDS];
    void *block[2 * OPERANDS], *host_block[2 * OPERANDS];
    void *workspace;
    int64_t skew;
};

static inline struct sw_tensor *operand(struct both *b, int i)
{
    return i < b->op.n_in ? &b->in[i] : &b->out[i - b->op.n_in];
}

static inline size_t bytes_of(const struct sw_tensor *t)
{
    return (size_t)t->elems * sw_dtype_bytes(t->dtype);
}

static inline struct both begin(enum sw_op_kind kind, int64_t skew)
{
    struct both b;
    memset(&b, 0, sizeof b);
    b.op.kind = (uint8_t)kind;
    b.skew = skew;
    return b;
}

static inline struct sw_tensor shaped(enum sw_dtype dtype, int ndim, const int64_t *size)
{
    struct sw_tensor t;
    memset(&t, 0, sizeof t);
    t.dtype = dtype;
    t.ndim = (uint8_t)ndim;
    t.elems = 1;
    for (int d = 0; d < ndim; d++) {
        t.size[d] = t.global[d] = size[d];
        t.elems *= size[d];
    }
    return t;
}

static inline void *host_memory(struct both *b, int i, const struct sw_tensor *t)
{
    const size_t skew = (size_t)b->skew * sw_dtype_bytes(t->dtype);
    b->host_block[i] = calloc(1, bytes_of(t) + skew + 64);
    assert_non_null(b->host_block[i]);
    return (char *)b->host_block[i] + skew;
}

/* Normal-ish numbers; operands are added in order: all inputs, then all outputs. */
static inline struct sw_tensor *add_in(struct both *b, enum sw_dtype dtype, int ndim,
                                       const int64_t *size, double scale)
{
    struct sw_tensor *t = &b->in[b->op.n_in];
    *t = shaped(dtype, ndim, size);
    t->data = host_memory(b, b->op.n_in++, t);
    for (int64_t i = 0; i < t->elems; i++)
        put(t, i, sw_bf16_to_float(sw_bf16_from_float((float)((2 * uniform() - 1) * scale))));
    return t;
}

/* Scales of integers: `least` and what is drawn above it. */
static inline struct sw_tensor *add_scales(struct both *b, int ndim, const int64_t *size,
                                           float least, double scale)
{
    struct sw_tensor *t = add_in(b, SW_F32, ndim, size, scale);
    float *scales = t->data;
    for (int64_t i = 0; i < t->elems; i++)
        scales[i] = least + fabsf(scales[i]);
    return t;
}

/* Any integers of a cache. */
static inline struct sw_tensor *add_int8(struct both *b, int ndim, const int64_t *size)
{
    struct sw_tensor *t = &b->in[b->op.n_in];
    *t = shaped(SW_I8, ndim, size);
    t->data = host_memory(b, b->op.n_in++, t);
    for (int64_t i = 0; i < t->elems; i++)
        ((int8_t *)t->data)[i] = (int8_t)between(-127, 127);
    return t;
}

static inline struct sw_tensor *add_integers(struct both *b, int ndim, const int64_t *size,
                                             int64_t low, int64_t high)
{
    struct sw_tensor *t = &b->in[b->op.n_in];
    *t = shaped(SW_I32, ndim, size);
    t->data = host_memory(b, b->op.n_in++, t);
    for (int64_t i = 0; i < t->elems; i++)
        ((int32_t *)t->data)[i] = (int32_t)between(low, high);
    return t;
}

static inline struct sw_tensor *add_out(struct both *b, enum sw_dtype dtype, int ndim,
                                        const int64_t *size)
{
    struct sw_tensor *t = &b->out[b->op.n_out];
    *t = shaped(dtype, ndim, size);
    t->data = host_memory(b, b->op.n_in + b->op.n_out, t);
    b->op.n_out++;
    for (int64_t i = 0; i < t->elems; i++) /* poison: what is not written shows */
        put(t, i, NAN);
    return t;
}

/* out[k] is in[i], as the executor passes it for ops in place. */
static inline void add_in_place(struct both *b, int k, int i)
{
    b->out[k] = b->in[i];
    b->op.n_out++;
}

static inline void to_device(struct both *b)
{
    const int count = b->op.n_in + b->op.n_out;
    for (int i = 0; i < count; i++) {
        const struct sw_tensor *t = operand(b, i);
        const size_t skew = (size_t)b->skew * sw_dtype_bytes(t->dtype);
        for (int k = 0; k < i; k++)
            if (operand(b, k)->data == t->data)
                b->device[i] = b->device[k];
        if (b->device[i] != NULL)
            continue;
        b->block[i] = cuda->vtable->allocate(cuda, bytes_of(t) + skew + 64);
        assert_non_null(b->block[i]);
        b->device[i] = (char *)b->block[i] + skew;
        assert_int_equal(cuda->vtable->copy_in(cuda, b->device[i], t->data, bytes_of(t)), 0);
    }
}

/* On the device alone. */
static inline void run_on_cuda(struct both *b, size_t workspace_bytes, const struct sw_step *step)
{
    struct sw_error err = {0};
    const enum sw_op_kind kind = (enum sw_op_kind)b->op.kind;
    to_device(b);
    b->op.workspace_bytes = (int64_t)workspace_bytes;
    b->workspace = cuda->vtable->allocate(cuda, workspace_bytes + 256);
    struct sw_call call = b->call;
    struct sw_tensor in[OPERANDS], out[OPERANDS];
    memcpy(in, b->in, sizeof in);
    memcpy(out, b->out, sizeof out);
    for (int i = 0; i < b->op.n_in; i++)
        in[i].data = b->device[i];
    for (int i = 0; i < b->op.n_out; i++)
        out[i].data = b->device[b->op.n_in + i];
    call.in = in;
    call.out = out;
    call.op = &b->op;
    call.step = step;
    call.workspace = b->workspace;
    if (step != NULL)
        assert_int_equal(cuda->vtable->set_step(cuda, step, &err), 0);
    if (cuda->vtable->run[kind](cuda, &call, &err) != 0 ||
        cuda->vtable->synchronize(cuda, &err) != 0)
        fail_msg("%s: %s", sw_op_info(kind)->name, err.message);
}

/* Runs on the device first (the CPU's memory is still untouched), then on the CPU. */
static inline void run_both(struct both *b, size_t workspace_bytes, const struct sw_step *step)
{
    struct sw_error err = {0};
    const enum sw_op_kind kind = (enum sw_op_kind)b->op.kind;
    run_on_cuda(b, workspace_bytes, step);
    void *workspace = aligned_alloc(256, (workspace_bytes / 256 + 1) * 256);
    assert_non_null(workspace);
    struct sw_call call = b->call;
    call.in = b->in;
    call.out = b->out;
    call.op = &b->op;
    call.step = step;
    call.workspace = workspace;
    if (cpu->vtable->run[kind](cpu, &call, &err) != 0)
        fail_msg("%s: %s", sw_op_info(kind)->name, err.message);
    free(workspace);
}

/* Result i as the CUDA device has it; the caller frees. */
static inline void *fetched(const struct both *b, int i)
{
    const struct sw_tensor *t = &b->out[i];
    void *got = malloc(bytes_of(t) + 1);
    assert_non_null(got);
    assert_int_equal(cuda->vtable->copy_out(cuda, got, b->device[b->op.n_in + i], bytes_of(t)), 0);
    return got;
}

/* Elements differ by at most `tolerance` of the largest; NaN never passes. */
static inline void compare(struct both *b, double tolerance)
{
    compared[b->op.kind] = true;
    for (int i = 0; i < b->op.n_out; i++) {
        const struct sw_tensor *t = &b->out[i];
        void *got = fetched(b, i);
        double most = 0, largest = 1e-30;
        int64_t where = -1;
        for (int64_t e = 0; e < t->elems; e++)
            largest = fmax(largest, fabs(get(t->dtype, t->data, e)));
        for (int64_t e = 0; e < t->elems; e++) {
            const double d = fabs(get(t->dtype, got, e) - get(t->dtype, t->data, e)) / largest;
            if (!(d <= most)) {
                most = d;
                where = e;
            }
            if (isnan(d))
                break;
        }
        if (!(most <= tolerance))
            fail_msg("%s: result %d of %lld elements differs by %g at %lld: %g, cpu %g",
                     sw_op_info((enum sw_op_kind)b->op.kind)->name, i, (long long)t->elems, most,
                     (long long)where, get(t->dtype, got, where), get(t->dtype, t->data, where));
        free(got);
    }
}

static inline void end(struct both *b)
{
    for (int i = 0; i < 2 * OPERANDS; i++) {
        if (b->block[i] != NULL)
            cuda->vtable->release(cuda, b->block[i]);
        free(b->host_block[i]);
    }
    if (b->workspace != NULL)
        cuda->vtable->release(cuda, b->workspace);
}

/* f32: both sum in f32 in another order. bf16: one rounding of the result (2^-8), which may fall to
 * the other side, and for products of sums that were rounded on the way twice that. */
static inline double tolerance_of(enum sw_dtype dtype)
{
    return dtype == SW_F32 ? 2e-5 : 1.6e-2;
}

#define FOR_EACH_CASE(dtype)                                                                       \
    for (int64_t round_ = 0; round_ < rounds; round_++)                                            \
        for (int narrow_ = 0; narrow_ < 2; narrow_++)                                              \
            for (enum sw_dtype dtype = narrow_ ? SW_BF16_T : SW_F32, once_ = SW_F32;               \
                 once_ == SW_F32; once_ = SW_DTYPE_COUNT)

static inline int64_t any_skew(void)
{
    return between(0, 2) == 0 ? between(1, 3) : 0;
}

/* ---- Serving ---- */

/* Of each row its first position, number of tokens and slot. */
static inline struct sw_tensor *add_slots(struct both *b, int64_t batch,
                                          const int32_t (*slots)[SW_SLOT_FIELDS])
{
    const int64_t size[2] = {batch, SW_SLOT_FIELDS};
    struct sw_tensor *t = add_integers(b, 2, size, 0, 0);
    memcpy(t->data, slots, bytes_of(t));
    return t;
}

/* Rank `rank` of `ranks` has its part of the positions; `all` of them. */
static inline void in_parts(struct sw_tensor *cache, int64_t rank, int64_t ranks)
{
    cache->global[1] = cache->size[1] * ranks;
    cache->start[1] = cache->size[1] * rank;
}

/* ---- The program of a test ---- */

/* Both devices; ROUNDS and SEED from the command line. Returns what the process ends with where
 * there is nothing to test on: 77 without a GPU; 0: go on. */
static inline int open_devices(int argc, char **argv)
{
    struct sw_error err = {0};
    if (argc > 1)
        rounds = strtoll(argv[1], NULL, 10);
    if (argc > 2)
        state = strtoull(argv[2], NULL, 10) * 2 + 1;
    if (sw_cuda_device_count(&err) < 1) {
        printf("SKIP: no GPU: %s\n", err.message);
        return 77;
    }
    cpu = sw_cpu_device_create(1, &err);
    cuda = sw_cuda_device_create(0, &err);
    if (cpu != NULL && cuda != NULL)
        return 0;
    fprintf(stderr, "%s: %s\n", argv[0], err.message);
    return 1;
}

static inline void close_devices(void)
{
    cuda->vtable->destroy(cuda);
    cpu->vtable->destroy(cpu);
}

/* What main returns. */
#define RUN_ON_BOTH_DEVICES(argc, argv, tests)                                                     \
    do {                                                                                           \
        const int skipped_ = open_devices(argc, argv);                                             \
        if (skipped_ != 0)                                                                         \
            return skipped_;                                                                       \
        const int failed_ = cmocka_run_group_tests(tests, NULL, NULL);                             \
        close_devices();                                                                           \
        return failed_;                                                                            \
    } while (0)

#endif
