/* Matrix products through oneDNN primitives, created once per (shape, strides, dtypes) and
 * cached. */
#include "core/base/number.h"
#include "core/base/quantize.h"
#include "runner/device/cpu/cpu.h"
#include "runner/device/cpu/onednn.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Everything that a primitive depends on. Zero the struct before filling: it is compared as
 * bytes. */
struct matmul_key {
    int64_t m, n, k, a_row, a_column, b_row, b_column, c_row;
    int32_t a_dtype, b_dtype, c_dtype, accumulate, tiled;
};

struct matmul_entry {
    struct matmul_key key;
    dnnl_primitive_t primitive; /* NULL: oneDNN has none, operands are widened */
    bool is_batch_invariant;    /* true if every row is made alike */
    dnnl_memory_t a, b, c;
};

struct matmul_cache {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct matmul_entry *entries;
    int32_t count, capacity;
};

struct matmul_cache *sw_cpu_matmul_cache_create(struct sw_error *err)
{
    struct matmul_cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while creating the cpu device");
        return NULL;
    }
    if (dnnl_engine_create(&cache->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&cache->stream, cache->engine, dnnl_stream_default_flags) !=
            dnnl_success) {
        sw_fail(err, SW_ENVIRONMENT, "oneDNN cannot create a cpu engine");
        sw_cpu_matmul_cache_free(cache);
        return NULL;
    }
    return cache;
}

static void entry_free(struct matmul_entry *entry)
{
    if (entry->primitive != NULL)
        dnnl_primitive_destroy(entry->primitive);
    if (entry->a != NULL)
        dnnl_memory_destroy(entry->a);
    if (entry->b != NULL)
        dnnl_memory_destroy(entry->b);
    if (entry->c != NULL)
        dnnl_memory_destroy(entry->c);
}

void sw_cpu_matmul_cache_free(struct matmul_cache *cache)
{
    if (cache == NULL)
        return;
    for (int32_t i = 0; i < cache->count; i++)
        entry_free(&cache->entries[i]);
    free(cache->entries);
    if (cache->stream != NULL)
        dnnl_stream_destroy(cache->stream);
    if (cache->engine != NULL)
        dnnl_engine_destroy(cache->engine);
    free(cache);
}

static dnnl_data_type_t data_type(int32_t dtype)
{
    return dtype == SW_F32 ? dnnl_f32 : dtype == SW_BF16_T ? dnnl_bf16 : dnnl_data_type_undef;
}

/* True if lines are adjacent; those of a padded shard are not. */
static bool has_dense_weights(const struct matmul_key *key)
{
    return key->b_column == 1 ? key->b_row == key->n : key->b_column == key->k;
}

/* True if the process's memory limit (ulimit -v) leaves room for generated code. oneDNN 2.6 crashes
 * without it. */
static bool has_room_for_code(void)
{
    enum { MOST_CODE_BYTES = 4 << 20 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return true;
    void *trial =
        mmap(NULL, MOST_CODE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (trial == MAP_FAILED)
        return false;
    (void)munmap(trial, MOST_CODE_BYTES);
    return true;
}

#define MORE_MEMORY                                                                                \
    "allow the process more (ulimit -v, or the job's memory), or start fewer ranks on a node"

static const char *reason_of(dnnl_status_t status)
{
    return status == dnnl_out_of_memory   ? "out of memory; " MORE_MEMORY
           : status == dnnl_unimplemented ? "unimplemented"
           : status == dnnl_runtime_error ? "it failed, as where memory runs out; " MORE_MEMORY
                                          : "refused";
}

static dnnl_status_t entry_create(struct matmul_cache *cache, struct matmul_entry *entry)
{
    const struct matmul_key *key = &entry->key;
    dnnl_memory_desc_t a = {0}, b = {0}, c = {0};
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t sum = NULL;
    dnnl_primitive_desc_t primitive = NULL;
    dnnl_status_t status;
    if ((status = sw_onednn_matrix(&a, key->m, key->k, key->a_row, key->a_column,
                                   data_type(key->a_dtype))) ||
        (status = key->tiled ? sw_onednn_tiles(&b, key->k, key->n)
                             : sw_onednn_matrix(&b, key->k, key->n, key->b_row, key->b_column,
                                                data_type(key->b_dtype))) ||
        (status = sw_onednn_matrix(&c, key->m, key->n, key->c_row, 1, data_type(key->c_dtype))) ||
        (status = dnnl_primitive_attr_create(&attr)))
        goto out;
    if (key->accumulate &&
        ((status = dnnl_post_ops_create(&sum)) || (status = sw_onednn_append_sum(sum)) ||
         (status = dnnl_primitive_attr_set_post_ops(attr, sum))))
        goto out;
    if ((status = sw_onednn_product(&primitive, cache->engine, &a, &b, &c, attr)))
        goto out;
    /* oneDNN's blocked products (AVX-512 and newer) sum each row in the same order. Its older ones
     * do not: with AVX2 the last rows depend on the remainder of 6 and on a thread's rows.
     * tests/unit/test_rows.c checks that for the installed library. The query is for weights
     * without padding; it says nothing about others. */
    if ((key->tiled || has_dense_weights(key)) &&
        (status = sw_onednn_blocks_weights(&entry->is_batch_invariant, cache->engine, primitive, &a,
                                           key->k, key->n, data_type(key->b_dtype), &c, attr)))
        goto out;
    if (key->tiled && !entry->is_batch_invariant)
        status = dnnl_unimplemented; /* oneDNN would use loops over single elements */
    else if ((status = dnnl_primitive_create(&entry->primitive, primitive)) == dnnl_success &&
             (status = sw_onednn_memory(&entry->a, &a, cache->engine, DNNL_MEMORY_NONE)) ==
                 dnnl_success &&
             (status = sw_onednn_memory(&entry->b, &b, cache->engine, DNNL_MEMORY_NONE)) ==
                 dnnl_success)
        status = sw_onednn_memory(&entry->c, &c, cache->engine, DNNL_MEMORY_NONE);
out:
    sw_onednn_matrix_free(&a);
    sw_onednn_matrix_free(&b);
    sw_onednn_matrix_free(&c);
    if (primitive != NULL)
        dnnl_primitive_desc_destroy(primitive);
    if (sum != NULL)
        dnnl_post_ops_destroy(sum);
    if (attr != NULL)
        dnnl_primitive_attr_destroy(attr);
    return status;
}

static struct matmul_entry *entry_find(struct matmul_cache *cache, const struct matmul_key *key,
                                       struct sw_error *err)
{
    for (int32_t i = 0; i < cache->count; i++)
        if (memcmp(&cache->entries[i].key, key, sizeof *key) == 0)
            return &cache->entries[i];
    if (cache->count == cache->capacity) {
        const int32_t wanted = cache->capacity ? 2 * cache->capacity : 32;
        struct matmul_entry *grown = realloc(cache->entries, (size_t)wanted * sizeof *grown);
        if (grown == NULL) {
            sw_fail(err, SW_ENVIRONMENT, "out of memory for a matrix product");
            return NULL;
        }
        cache->entries = grown;
        cache->capacity = wanted;
    }
    struct matmul_entry *entry = &cache->entries[cache->count];
    memset(entry, 0, sizeof *entry);
    entry->key = *key;
    const dnnl_status_t status =
        has_room_for_code() ? entry_create(cache, entry) : dnnl_out_of_memory;
    const bool bf16 =
        key->a_dtype == SW_BF16_T || key->b_dtype == SW_BF16_T || key->c_dtype == SW_BF16_T;
    if (status == dnnl_unimplemented && bf16) {
        entry_free(entry);
        *entry = (struct matmul_entry){.key = *key};
    } else if (status != dnnl_success) {
        entry_free(entry);
        sw_fail(err, SW_ENVIRONMENT,
                "oneDNN makes no matrix product %lld x %lld x %lld of %s and %s to %s here: %s",
                (long long)key->m, (long long)key->k, (long long)key->n,
                sw_dtype_name((enum sw_dtype)key->a_dtype),
                sw_dtype_name((enum sw_dtype)key->b_dtype),
                sw_dtype_name((enum sw_dtype)key->c_dtype), reason_of(status));
        return NULL;
    }
    cache->count++;
    return entry;
}

static int execute(struct matmul_cache *cache, struct matmul_entry *entry,
                   const struct sw_cpu_matmul *matmul)
{
    const dnnl_exec_arg_t arguments[3] = {
        {DNNL_ARG_SRC, entry->a}, {DNNL_ARG_WEIGHTS, entry->b}, {DNNL_ARG_DST, entry->c}};
    /* oneDNN's parameters lack const; it only reads them */
    return dnnl_memory_set_data_handle(entry->a, (void *)(uintptr_t)matmul->a) != dnnl_success ||
                   dnnl_memory_set_data_handle(entry->b, (void *)(uintptr_t)matmul->b) !=
                       dnnl_success ||
                   dnnl_memory_set_data_handle(entry->c, matmul->c) != dnnl_success ||
                   dnnl_primitive_execute(entry->primitive, cache->stream, 3, arguments) !=
                       dnnl_success ||
                   dnnl_stream_wait(cache->stream) != dnnl_success
               ? -1
               : 0;
}

int sw_cpu_matmul(struct sw_cpu_device *device, const struct sw_cpu_matmul *matmul,
                  struct sw_error *err)
{
    if (matmul->a_dtype == SW_F64)
        sw_cpu_gemm_f64(device, matmul);
    else if (sw_cpu_matmul_is_streamed(matmul))
        sw_cpu_matmul_streamed(device, matmul);
    else if (sw_cpu_matmul_is_blocked(device, matmul))
        sw_cpu_matmul_blocked(device, matmul);
    else if (sw_is_quantized(matmul->b_dtype))
        return sw_cpu_matmul_widened(device, matmul, err);
    else
        return sw_cpu_matmul_onednn(device, matmul, err);
    return 0;
}

static struct matmul_key key_of(const struct sw_cpu_matmul *matmul)
{
    struct matmul_key key;
    memset(&key, 0, sizeof key);
    key.m = matmul->m;
    key.n = matmul->n;
    key.k = matmul->k;
    key.a_row = matmul->a_row;
    key.a_column = matmul->a_column;
    key.b_row = matmul->b_row;
    key.b_column = matmul->b_column;
    key.c_row = matmul->c_row;
    key.a_dtype = (int32_t)matmul->a_dtype;
    key.b_dtype = (int32_t)matmul->b_dtype;
    key.c_dtype = (int32_t)matmul->c_dtype;
    key.accumulate = matmul->accumulate;
    key.tiled = matmul->tiled;
    return key;
}

/* ---- Products whose rows are alike ---- */

/* AVX2's products have equal rows in multiples of 6 up to 72, and of 12 up to 828, by one thread;
 * also for fewer than 6. */
enum { PANEL_UNIT = 6, PANEL_SMALL = 72, PANEL_MOST = 828, SLAB_COLUMNS = 64 };

int64_t sw_cpu_panel_rows(int64_t m)
{
    const int64_t panels = (m + PANEL_MOST - 1) / PANEL_MOST;
    if (m < PANEL_UNIT)
        return m;
    return sw_align((m + panels - 1) / panels, m <= PANEL_SMALL ? PANEL_UNIT : 2 * PANEL_UNIT);
}

/* Columns of one thread, in a panel of rows that begins at `row`. */
static struct sw_cpu_matmul part_of(const struct sw_cpu_matmul *whole, int64_t row, int64_t column,
                                    int64_t width)
{
    const int64_t a = row * whole->a_row * (int64_t)sw_dtype_bytes(whole->a_dtype);
    const int64_t b = column * whole->b_column * (int64_t)sw_dtype_bytes(whole->b_dtype);
    const int64_t c = (row * whole->c_row + column) * (int64_t)sw_dtype_bytes(whole->c_dtype);
    struct sw_cpu_matmul part = *whole;
    part.m = whole->panel;
    part.n = width;
    part.a = (const char *)whole->a + a;
    part.b = (const char *)whole->b + b;
    part.c = (char *)whole->c + c;
    return part;
}

/* Each thread computes its own columns, panel by panel, with one-thread primitives: all panels have
 * one shape, in which all rows are made alike. */
static int multiply_panels(struct sw_cpu_device *device, const struct sw_cpu_matmul *matmul,
                           struct sw_error *err)
{
    const int32_t threads = device->threads;
    const int64_t even = sw_align((matmul->n + threads - 1) / threads, SLAB_COLUMNS);
    atomic_int failed = 0;
    for (int64_t t = 0; t < threads && t * even < matmul->n; t++) {
        const int64_t left = matmul->n - t * even;
        const struct sw_cpu_matmul part = part_of(matmul, 0, t * even, left < even ? left : even);
        const struct matmul_key key = key_of(&part);
        if (entry_find(device->of_thread[t], &key, err) == NULL)
            return -1;
    }
    SW_PARALLEL_FOR(threads)
    for (int64_t t = 0; t < threads; t++) {
        const int64_t left = matmul->n - t * even;
        for (int64_t row = 0; left > 0 && row < matmul->m; row += matmul->panel) {
            const struct sw_cpu_matmul part =
                part_of(matmul, row, t * even, left < even ? left : even);
            const struct matmul_key key = key_of(&part);
            /* exists: created above */
            struct matmul_entry *entry = entry_find(device->of_thread[t], &key, NULL);
            if (entry == NULL || execute(device->of_thread[t], entry, &part) != 0)
                failed = 1;
        }
    }
    return failed ? sw_fail(err, SW_ENVIRONMENT, "oneDNN failed to run a matrix product") : 0;
}

int sw_cpu_matmul_onednn(struct sw_cpu_device *device, const struct sw_cpu_matmul *matmul,
                         struct sw_error *err)
{
    const struct matmul_key key = key_of(matmul);
#ifdef _OPENMP
    /* oneDNN reads the calling thread's OpenMP limit when a primitive is created and when it
     * runs */
    const int limit = omp_get_max_threads(), dynamic = omp_get_dynamic();
    omp_set_num_threads(device->threads);
    omp_set_dynamic(0); /* oneDNN divides a product by that number: with fewer threads parts would
                         * be missing */
#endif
    struct matmul_entry *entry = entry_find(device->matmuls, &key, err);
    int status = entry == NULL ? -1 : 0;
    const bool in_panels = entry != NULL && matmul->panel > 0 && !entry->is_batch_invariant;
    if (entry != NULL &&
        (entry->primitive == NULL || (in_panels && matmul->m % matmul->panel != 0))) {
        status = sw_cpu_matmul_widened(device, matmul, err);
    } else if (in_panels) {
#ifdef _OPENMP
        omp_set_num_threads(1); /* one per thread */
#endif
        status = multiply_panels(device, matmul, err);
    } else if (entry != NULL && execute(device->matmuls, entry, matmul) != 0) {
        status = sw_fail(err, SW_ENVIRONMENT, "oneDNN failed to run a matrix product");
    }
#ifdef _OPENMP
    omp_set_num_threads(limit);
    omp_set_dynamic(dynamic);
#endif
    return status;
}

int sw_cpu_matmul_is_batch_invariant(struct sw_cpu_device *device,
                                     const struct sw_cpu_matmul *matmul, bool *out,
                                     struct sw_error *err)
{
    const struct matmul_key key = key_of(matmul);
    const struct matmul_entry *entry = entry_find(device->matmuls, &key, err);
    *out = entry != NULL && entry->is_batch_invariant;
    return entry == NULL ? -1 : 0;
}

/* The last dimension, and the product of the others, without padding; only matrices are padded. */
static void as_matrix(const struct sw_tensor *tensor, int64_t *rows, int64_t *columns)
{
    *columns = tensor->size[tensor->ndim - 1] - tensor->padding[tensor->ndim - 1];
    *rows = 1;
    for (int d = 0; d + 1 < tensor->ndim; d++)
        *rows *= tensor->size[d] - tensor->padding[d];
}

void sw_cpu_zero_padding(const struct sw_tensor *matrix)
{
    const size_t element = sw_dtype_bytes(matrix->dtype), row = (size_t)matrix->size[1] * element;
    const size_t right = (size_t)matrix->padding[1] * element;
    const int64_t rows = matrix->size[0] - matrix->padding[0];
    char *data = matrix->data;
    for (int64_t i = 0; right > 0 && i < rows; i++)
        memset(data + (size_t)(i + 1) * row - right, 0, right);
    memset(data + (size_t)rows * row, 0, (size_t)matrix->padding[0] * row);
}

/* y = addend + y. oneDNN's sum post-op needs the addend in the result: copying it there would move
 * as many bytes. */
static int add_to_result(struct sw_cpu_device *device, const struct sw_call *call,
                         struct sw_error *err)
{
    const struct sw_op add = {.kind = SW_OP_ADD, .n_in = 2, .n_out = 1};
    const struct sw_tensor operands[2] = {call->in[call->op->n_in - 1], call->out[0]};
    struct sw_call sum = *call;
    sum.op = &add;
    sum.in = operands;
    if (operands[0].dtype != operands[1].dtype || operands[0].elems != operands[1].elems)
        return sw_fail(err, SW_ENVIRONMENT, "%s got an addend of another shape than its result",
                       sw_op_info(call->op->kind)->name);
    return device->base.vtable->run[SW_OP_ADD](&device->base, &sum, err);
}

/* [outputs], the operand after 8-bit weights. */
static const float *scales_of(const struct sw_call *call, int64_t outputs, struct sw_error *err)
{
    const struct sw_tensor *scales = &call->in[2];
    if (call->op->n_in >= 3 && scales->dtype == SW_F32 && scales->ndim == 1 &&
        scales->size[0] - scales->padding[0] == outputs)
        return scales->data;
    sw_fail(err, SW_ENVIRONMENT, "%s takes %s with a scale for each of its outputs",
            sw_op_info(call->op->kind)->name, sw_dtype_name(call->in[1].dtype));
    return NULL;
}

int sw_cpu_product(struct sw_cpu_device *device, const struct sw_call *call, struct sw_error *err)
{
    const struct sw_tensor *x = &call->in[0], *w = &call->in[1], *y = &call->out[0];
    int64_t tokens, x_columns, w_rows, w_columns, y_rows, y_columns;
    as_matrix(x, &tokens, &x_columns);
    as_matrix(w, &w_rows, &w_columns);
    *(call->op->kind == SW_OP_LINEAR_T ? &w_columns : &w_rows) *= sw_dtype_group(w->dtype);
    as_matrix(y, &y_rows, &y_columns);
    const int64_t w_stride = w->size[w->ndim - 1];
    struct sw_cpu_matmul matmul = {.a = x->data,
                                   .b = w->data,
                                   .c = y->data,
                                   .a_dtype = x->dtype,
                                   .b_dtype = w->dtype,
                                   .c_dtype = y->dtype,
                                   .n = y_columns,
                                   .tiled = w->tiled,
                                   .in_amx = sw_cpu_takes_amx(device, call),
                                   .c_row = y->size[y->ndim - 1],
                                   .always_skinny = call->always_skinny};
    const uint16_t own = sw_has_scales(w->dtype) ? 3 : 2; /* an addend follows the operands */
    bool fits;
    if (sw_has_scales(w->dtype) && (matmul.scales = scales_of(call, y_columns, err)) == NULL)
        return -1;
    switch (call->op->kind) {
    case SW_OP_LINEAR: /* [tokens, e] [e, f] */
        fits = x_columns == w_rows && y_rows == tokens && y_columns == w_columns;
        matmul.m = tokens;
        matmul.k = x_columns;
        matmul.a_row = x_columns, matmul.a_column = 1;
        matmul.b_row = w_stride, matmul.b_column = 1;
        break;
    case SW_OP_LINEAR_T: /* [tokens, f] [e, f]^T */
        fits = x_columns == w_columns && y_rows == tokens && y_columns == w_rows;
        matmul.m = tokens;
        matmul.k = x_columns;
        matmul.a_row = x_columns, matmul.a_column = 1;
        matmul.b_row = 1, matmul.b_column = w_stride;
        break;
    default: /* linear_dw: [tokens, e]^T [tokens, f] */
        fits = tokens == w_rows && y_rows == x_columns && y_columns == w_columns;
        matmul.m = x_columns;
        matmul.k = tokens;
        matmul.a_row = 1, matmul.a_column = x_columns;
        matmul.b_row = w_stride, matmul.b_column = 1;
        matmul.accumulate = sw_call_adds_now(call);
        break;
    }
    matmul.panel = call->batch_invariant ? sw_cpu_panel_rows(matmul.m) : 0;
    if (!fits)
        return sw_fail(
            err, SW_ENVIRONMENT, "%s got [%lld, %lld] and [%lld, %lld] for a result [%lld, %lld]",
            sw_op_info(call->op->kind)->name, (long long)tokens, (long long)x_columns,
            (long long)w_rows, (long long)w_columns, (long long)y_rows, (long long)y_columns);
    if (sw_cpu_matmul(device, &matmul, err) != 0)
        return -1;
    const bool adds = call->op->kind != SW_OP_LINEAR_DW && call->op->n_in > own;
    if (call->op->kind == SW_OP_LINEAR_DW)
        sw_cpu_zero_padding(y);
    return adds ? add_to_result(device, call, err) : 0;
}
