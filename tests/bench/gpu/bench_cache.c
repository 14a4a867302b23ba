/* Attention of one token of each text over a cache in bf16, as decoding has it: the bytes of the
 * cache by the time, beside those that a copy within the GPU's memory reads and writes.
 *
 *   bench_cache [TEXTS CACHED [GROUP]]    default: several; GROUP query heads share a kv head
 *
 * Medians of single runs after a warm-up, taken with marks of the device's clock. Markdown; exit
 * code 77 without a GPU. */
#include "core/base/clock.h"
#include "core/ir/serving.h"
#include "core/ir/workspace.h"
#include "runner/device/cuda/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 15, KV_HEADS = 8, HEAD_DIM = 128, OPERANDS = 6 };

struct shape {
    int64_t texts, cached, group;
};

struct bench {
    struct sw_device *device;
    struct sw_op op;
    struct sw_tensor in[4], out[2];
    void *workspace;
    size_t cache_bytes; /* of keys; as many of values */
};

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int attend(struct bench *b, struct sw_error *err)
{
    const struct sw_call call = {
        .op = &b->op, .in = b->in, .out = b->out, .workspace = b->workspace};
    return b->device->vtable->run[SW_OP_ATTENTION](b->device, &call, err);
}

/* Keys over values: as many bytes are moved as attention reads. */
static int copy(struct bench *b, struct sw_error *err)
{
    return b->device->vtable->copy_box(b->device, b->in[2].data, b->cache_bytes, b->in[1].data,
                                       b->cache_bytes, b->cache_bytes, 1) == 0
               ? 0
               : sw_fail(err, SW_ENVIRONMENT, "cannot copy within the GPU");
}

/* Seconds of one run, or -1. */
static double seconds(struct bench *b, int (*run)(struct bench *, struct sw_error *),
                      struct sw_error *err)
{
    const struct sw_device_vtable *v = b->device->vtable;
    double times[RUNS];
    const double begun = sw_clock_now();
    do {
        if (run(b, err) != 0 || v->synchronize(b->device, err) != 0)
            return -1;
    } while (sw_clock_now() - begun < 0.2);
    for (int32_t i = 0; i < RUNS; i++) {
        if (v->mark(b->device, 0, err) != 0 || run(b, err) != 0 ||
            v->mark(b->device, 1, err) != 0 || v->synchronize(b->device, err) != 0)
            return -1;
        times[i] = v->mark_seconds(b->device, 0, 1);
    }
    qsort(times, RUNS, sizeof *times, compare);
    return times[RUNS / 2];
}

static struct sw_tensor tensor(struct bench *b, enum sw_dtype dtype, int ndim, const int64_t *size)
{
    struct sw_tensor t = {.dtype = dtype, .ndim = (uint8_t)ndim, .elems = 1};
    for (int d = 0; d < ndim; d++) {
        t.size[d] = t.global[d] = size[d];
        t.elems *= size[d];
    }
    t.data = b->device->vtable->allocate(b->device, (size_t)t.elems * sw_dtype_bytes(dtype));
    return t;
}

/* Numbers in (-2, -0.5) or (0.5, 2): zeros would draw less power. */
static int fill(const struct bench *b, const struct sw_tensor *t)
{
    enum { BLOCK = 1 << 20 };
    uint16_t *block = malloc(BLOCK * sizeof *block);
    uint64_t state = 7;
    int status = block != NULL ? 0 : -1;
    for (int64_t i = 0; i < BLOCK && status == 0; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        block[i] = (uint16_t)(0x3f00u | (state >> 33 & 0x80ffu));
    }
    for (int64_t at = 0; at < t->elems && status == 0; at += BLOCK)
        status = b->device->vtable->copy_in(
            b->device, (uint16_t *)t->data + at, block,
            (size_t)(t->elems - at < BLOCK ? t->elems - at : BLOCK) * sizeof *block);
    free(block);
    return status;
}

static int prepare(struct bench *b, const struct shape *s, struct sw_error *err)
{
    const int64_t heads = KV_HEADS * s->group;
    const int64_t q[3] = {s->texts, 1, heads * HEAD_DIM};
    const int64_t k[3] = {s->texts, s->cached, KV_HEADS * HEAD_DIM};
    const int64_t slots[2] = {s->texts, SW_SLOT_FIELDS};
    const int64_t out[4] = {s->texts, 1, q[2], 1}, stats[4] = {s->texts, 1, 2 * heads, 1};
    struct sw_decode_ranges ranges;
    sw_decode_ranges_of(s->texts, heads, KV_HEADS, s->cached, HEAD_DIM, &ranges);
    b->op = (struct sw_op){.kind = SW_OP_ATTENTION,
                           .n_in = 4,
                           .n_out = 2,
                           .workspace_bytes = ranges.bytes,
                           .as.attention = {.scale = 1 / sqrt(HEAD_DIM),
                                            .head_dim = HEAD_DIM,
                                            .group = (int32_t)s->group,
                                            .keys = SW_KEYS_CACHE_PART,
                                            .sequence_layout = -1,
                                            .chunk = (int32_t)s->cached}};
    b->in[0] = tensor(b, SW_BF16_T, 3, q);
    b->in[1] = tensor(b, SW_BF16_T, 3, k);
    b->in[2] = tensor(b, SW_BF16_T, 3, k);
    b->in[3] = tensor(b, SW_I32, 2, slots);
    b->out[0] = tensor(b, SW_F32, 4, out);
    b->out[1] = tensor(b, SW_F32, 4, stats);
    b->workspace = b->device->vtable->allocate(b->device, (size_t)ranges.bytes + 256);
    b->cache_bytes = (size_t)b->in[1].elems * 2;
    int32_t *where = calloc((size_t)s->texts, SW_SLOT_FIELDS * sizeof *where);
    bool complete = b->workspace != NULL && where != NULL;
    for (int i = 0; i < OPERANDS; i++)
        complete = complete && (i < 4 ? b->in[i].data : b->out[i - 4].data) != NULL;
    for (int64_t i = 0; i < s->texts && where != NULL; i++) {
        where[i * SW_SLOT_FIELDS + SW_SLOT_FIRST] = (int32_t)s->cached - 1;
        where[i * SW_SLOT_FIELDS + SW_SLOT_TOKENS] = 1;
        where[i * SW_SLOT_FIELDS + SW_SLOT_NUMBER] = (int32_t)i;
    }
    for (int i = 0; i < 3 && complete; i++)
        complete = fill(b, &b->in[i]) == 0;
    complete = complete && b->device->vtable->copy_in(b->device, b->in[3].data, where,
                                                      (size_t)b->in[3].elems * sizeof *where) == 0;
    free(where);
    return complete ? 0 : sw_fail(err, SW_ENVIRONMENT, "out of memory");
}

static void forget(struct bench *b)
{
    for (int i = 0; i < OPERANDS; i++) {
        void *data = i < 4 ? b->in[i].data : b->out[i - 4].data;
        if (data != NULL)
            b->device->vtable->release(b->device, data);
    }
    if (b->workspace != NULL)
        b->device->vtable->release(b->device, b->workspace);
}

static int measure(struct sw_device *device, const struct shape *s, struct sw_error *err)
{
    struct bench b = {.device = device};
    const double once = prepare(&b, s, err) == 0 ? seconds(&b, attend, err) : -1;
    const double copied = once < 0 ? -1 : seconds(&b, copy, err);
    if (copied >= 0) {
        const double bytes = 2.0 * (double)b.cache_bytes;
        printf("| %lld | %lld | %lld | %.0f | %.3f | %.0f | %.0f | %.2f |\n", (long long)s->texts,
               (long long)s->cached, (long long)s->group, bytes * 0x1p-20, 1e3 * once,
               bytes / once * 1e-9, bytes / copied * 1e-9, copied / once);
    }
    forget(&b);
    return copied < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    static const struct shape usual[] = {{1, 131072, 4}, {32, 4096, 1}, {32, 4096, 4},
                                         {32, 4096, 8},  {8, 32768, 8}, {256, 1024, 4}};
    struct sw_error err = {0};
    struct shape own = {0, 0, 4};
    if (argc > 2) {
        own.texts = strtoll(argv[1], NULL, 10);
        own.cached = strtoll(argv[2], NULL, 10);
        own.group = argc > 3 ? strtoll(argv[3], NULL, 10) : 4;
    }
    if (argc == 2 || argc > 4 ||
        (argc > 2 && (own.texts < 1 || own.texts > SW_MAX_SLOTS || own.cached < 1 ||
                      own.cached > 1 << 24 || own.group < 1 || own.group > 1024))) {
        fprintf(stderr, "usage: bench_cache [TEXTS CACHED [GROUP]]\n");
        return 2;
    }
    struct sw_device *device = sw_cuda_device_create(0, &err);
    if (device == NULL) {
        printf("SKIP: no GPU: %s\n", err.message);
        return 77;
    }
    printf("| texts | cached | heads that share | cache, MiB | ms | GB/s | a copy's | share |\n"
           "| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    int status = 0;
    const size_t count = argc > 2 ? 1 : sizeof usual / sizeof *usual;
    for (size_t i = 0; i < count && status == 0; i++)
        status = measure(device, argc > 2 ? &own : &usual[i], &err);
    if (status != 0)
        fprintf(stderr, "bench_cache: %s\n", err.message);
    device->vtable->destroy(device);
    return status != 0;
}
