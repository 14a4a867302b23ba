/* Differences between oneDNN 2 and 3: descriptions of matrices are structs in 2 and handles in 3,
 * and only 2 has a separate product descriptor. Functions return oneDNN's statuses. */
#ifndef SW_DEVICE_CPU_ONEDNN_H
#define SW_DEVICE_CPU_ONEDNN_H

#include <dnnl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Describes a matrix with element (i, j) at i * row_stride + j * column_stride. *out: {0} before
 * the call; freed with sw_onednn_matrix_free, also after a failure. */
static inline dnnl_status_t sw_onednn_matrix(dnnl_memory_desc_t *out, int64_t rows, int64_t columns,
                                             int64_t row_stride, int64_t column_stride,
                                             dnnl_data_type_t type)
{
    const dnnl_dims_t dims = {rows, columns}, strides = {row_stride, column_stride};
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_memory_desc_create_with_strides(out, 2, dims, type, strides);
#else
    return dnnl_memory_desc_init_by_strides(out, 2, dims, type, strides);
#endif
}

/* Describes tiled bf16 weights (core/base/device.h): tiles of 32 columns, in pairs of lines. */
static inline dnnl_status_t sw_onednn_tiles(dnnl_memory_desc_t *out, int64_t rows, int64_t columns)
{
    const dnnl_dims_t dims = {rows, columns};
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_memory_desc_create_with_tag(out, 2, dims, dnnl_bf16, dnnl_BA16a32b2a);
#else
    return dnnl_memory_desc_init_by_tag(out, 2, dims, dnnl_bf16, dnnl_BA16a32b2a);
#endif
}

static inline void sw_onednn_matrix_free(dnnl_memory_desc_t *matrix)
{
#if DNNL_VERSION_MAJOR >= 3
    if (*matrix != NULL)
        dnnl_memory_desc_destroy(*matrix);
    *matrix = NULL;
#else
    (void)matrix; /* owns nothing */
#endif
}

/* c = a b; attributes may be NULL. Freed with dnnl_primitive_desc_destroy. */
static inline dnnl_status_t sw_onednn_product(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                              const dnnl_memory_desc_t *a,
                                              const dnnl_memory_desc_t *b,
                                              const dnnl_memory_desc_t *c,
                                              const_dnnl_primitive_attr_t attributes)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_matmul_primitive_desc_create(out, engine, *a, *b, NULL, *c, attributes);
#else
    dnnl_matmul_desc_t product;
    const dnnl_status_t status = dnnl_matmul_desc_init(&product, a, b, NULL, c);
    return status != dnnl_success
               ? status
               : dnnl_primitive_desc_create(out, &product, attributes, engine, NULL);
#endif
}

/* True if the library makes both products with one implementation. */
static inline bool sw_onednn_same_kernel(const_dnnl_primitive_desc_t one,
                                         const_dnnl_primitive_desc_t other)
{
    const char *names[2] = {"", ""};
    return dnnl_primitive_desc_query(one, dnnl_query_impl_info_str, 0, (void *)&names[0]) ==
               dnnl_success &&
           dnnl_primitive_desc_query(other, dnnl_query_impl_info_str, 0, (void *)&names[1]) ==
               dnnl_success &&
           strcmp(names[0], names[1]) == 0;
}

/* *out: true if oneDNN, free to choose, would pack the weights [rows, columns] in blocks and use
 * the same kernel. Only blocked kernels ask for that. */
static inline dnnl_status_t sw_onednn_blocks_weights(bool *out, dnnl_engine_t engine,
                                                     const_dnnl_primitive_desc_t given,
                                                     const dnnl_memory_desc_t *a, int64_t rows,
                                                     int64_t columns, dnnl_data_type_t type,
                                                     const dnnl_memory_desc_t *c,
                                                     const_dnnl_primitive_attr_t attributes)
{
    const dnnl_dims_t dims = {rows, columns};
    dnnl_memory_desc_t b = {0};
    dnnl_primitive_desc_t product = NULL;
    dnnl_status_t status;
    int blocks = 0;
    *out = false;
#if DNNL_VERSION_MAJOR >= 3
    status = dnnl_memory_desc_create_with_tag(&b, 2, dims, type, dnnl_format_tag_any);
#else
    status = dnnl_memory_desc_init_by_tag(&b, 2, dims, type, dnnl_format_tag_any);
#endif
    if (status == dnnl_success)
        status = sw_onednn_product(&product, engine, a, &b, c, attributes);
    if (status == dnnl_success) {
#if DNNL_VERSION_MAJOR >= 3
        status =
            dnnl_memory_desc_query(dnnl_primitive_desc_query_md(product, dnnl_query_weights_md, 0),
                                   dnnl_query_inner_nblks_s32, &blocks);
#else
        const dnnl_memory_desc_t *laid_out =
            dnnl_primitive_desc_query_md(product, dnnl_query_weights_md, 0);
        if (laid_out->format_kind == dnnl_blocked)
            blocks = laid_out->format_desc.blocking.inner_nblks;
#endif
    }
    *out = blocks > 0 && sw_onednn_same_kernel(given, product);
    status = status == dnnl_unimplemented ? dnnl_success : status; /* no such kernel */
    if (product != NULL)
        dnnl_primitive_desc_destroy(product);
    sw_onednn_matrix_free(&b);
    return status;
}

/* Adds the result's old contents to the product. */
static inline dnnl_status_t sw_onednn_append_sum(dnnl_post_ops_t operations)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_post_ops_append_sum(operations, 1.0f, 0, dnnl_data_type_undef);
#else
    return dnnl_post_ops_append_sum(operations, 1.0f);
#endif
}

/* Memory object of a matrix; `data` may be DNNL_MEMORY_NONE. Freed with dnnl_memory_destroy. */
static inline dnnl_status_t sw_onednn_memory(dnnl_memory_t *out, const dnnl_memory_desc_t *matrix,
                                             dnnl_engine_t engine, void *data)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_memory_create(out, *matrix, engine, data);
#else
    return dnnl_memory_create(out, matrix, engine, data);
#endif
}

/* Newest instruction set oneDNN uses here: the processor's, limited by the environment
 * (ONEDNN_MAX_CPU_ISA). */
static inline const char *sw_onednn_isa(void)
{
    static const struct {
        unsigned bits; /* bits of dnnl_cpu_isa_t that it consists of */
        const char *name;
    } sets[] = {
#if DNNL_VERSION_MAJOR >= 3
        {0xfef, "AMX"},
        {0x1ef, "AVX-512 fp16"},
#else
        {0x3e7, "AMX"},
#endif
        {0xe7, "AVX-512 bf16"},
        {0x67, "AVX-512 VNNI"},
        {0x27, "AVX-512"},
#if DNNL_VERSION_MAJOR >= 3
        {0xf, "AVX2 VNNI"},
#else
        {0x407, "AVX2 VNNI"},
#endif
        {0x7, "AVX2"},
        {0x3, "AVX"},
        {0x1, "SSE4.1"},
    };
    const unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if ((isa & sets[i].bits) == sets[i].bits)
            return sets[i].name;
    return "no vectors";
}

static inline bool sw_onednn_has_amx(void)
{
    return strcmp(sw_onednn_isa(), "AMX") == 0;
}

/* True if oneDNN's fastest bf16 product is by pairs; below, true if it multiplies fp16. */
static inline bool sw_onednn_has_pairs(void)
{
    const char *isa = sw_onednn_isa();
    return strcmp(isa, "AVX-512 bf16") == 0 || strcmp(isa, "AVX-512 fp16") == 0;
}

#endif
