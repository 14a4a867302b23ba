/* Internal to the CPU device: its state, matrix products, and the kernels of both arithmetics.
 *
 * Kernels are written once (kernels.inc, head.inc, attention.inc) in a type REAL and compiled for
 * float and double. Operands of another dtype (bf16) pass through small tiles in REAL. A device is
 * used by one thread; its OpenMP threads share the scratch. */
#ifndef SW_CPU_CPU_H
#define SW_CPU_CPU_H

#include "core/base/int4.h"
#include "core/base/blockwise.h"
#include "core/ir/workspace.h"
#include "runner/device/device.h"

#include <float.h>

#ifdef _OPENMP
#include <omp.h>
#define SW_PRAGMA(text) _Pragma(#text)
#define SW_PARALLEL_FOR(threads)                                                                   \
    SW_PRAGMA(omp parallel for schedule(static) num_threads(threads) if (threads > 1))
#define SW_PARALLEL_FOR_UNEVEN(threads)                                                            \
    SW_PRAGMA(omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1))
#define SW_THREAD_INDEX omp_get_thread_num()
#else
#define SW_PARALLEL_FOR(threads)
#define SW_PARALLEL_FOR_UNEVEN(threads)
#define SW_THREAD_INDEX 0
#endif

enum {
    SW_CPU_SCRATCH_BYTES = 12 << 20, /* per thread; untouched pages cost nothing */
    SW_CPU_MAX_HEAD_DIM = 1024,
    SW_CPU_AMX_SLOTS = 4
};

struct matmul_cache;

struct sw_cpu_device {
    struct sw_device base;
    int32_t threads;
    int64_t alone_elems;                 /* ops of at most this size run on one thread */
    bool amx;                            /* true if bf16 products use AMX (amx.h) */
    bool pairs;                          /* true if oneDNN's fastest bf16 product is by pairs */
    char *scratch;                       /* [threads, SW_CPU_SCRATCH_BYTES] */
    struct sw_blockwise_table tables[2]; /* for coded moments: signed, unsigned */
    struct matmul_cache *matmuls;
    struct matmul_cache **of_thread; /* [threads], for batch-invariant products */
};

static inline void *sw_cpu_scratch(const struct sw_cpu_device *device, int32_t thread)
{
    return device->scratch + (size_t)thread * SW_CPU_SCRATCH_BYTES;
}

/* Threads for an op of `elems` elements. One token's op ends before a second thread joins, and a
 * layer has ten such ops per token. */
static inline int32_t sw_cpu_threads_for(const struct sw_cpu_device *device, int64_t elems)
{
    return elems > device->alone_elems ? device->threads : 1;
}

/* True if skinny bf16 products use AMX: the processor has it, and the plan has so many slots that
 * arithmetic takes as long as reading the weights; with fewer, pairs are as fast. Depends on the
 * plan alone, so that a row's bits do not depend on the number of rows. */
static inline bool sw_cpu_takes_amx(const struct sw_cpu_device *device, const struct sw_call *call)
{
    return device->amx && call->planned_slots >= SW_CPU_AMX_SLOTS;
}

/* Zeroed, untouched memory aligned to a page, or to a huge page if that large; NULL if there is
 * none. A guard page catches writes past the end. */
void *sw_cpu_memory_allocate(size_t bytes);
void sw_cpu_memory_release(void *memory);
/* Whole untouched huge pages with undefined contents; freed with free(). NULL if there is none. */
void *sw_cpu_memory_untouched(size_t bytes);

/* c[m,n] (+)= a[m,k] b[k,n]. Element (i,j) of a is at a[i * a_row + j * a_column], one stride being
 * 1; likewise b. A b of SW_I4 has it as number i % 32 of block b[i / 32 * b_row + j * b_column]. c
 * is row-major with leading dimension c_row. */
struct sw_cpu_matmul {
    int64_t m, n, k;
    const void *a, *b;
    void *c;
    int64_t a_row, a_column, b_row, b_column, c_row;
    enum sw_dtype a_dtype, b_dtype, c_dtype;
    const float *scales; /* [n], if b has 8 bits: c = (a b) scales, rounded once */
    bool accumulate;     /* true if the product is added to c; not for a bf16 c, nor with scales */
    /* Rows per panel of a batch-invariant product, 0 if it need not be one. Used where oneDNN is
     * not batch invariant itself (sw_cpu_panel_rows); zeros fill the last panel. Needs a row-major
     * a and no accumulation. */
    int64_t panel;
    /* True if skinny kernels are used for any number of rows: each row has the same bits. */
    bool always_skinny;
    bool tiled;  /* true if b (bf16, 8 or 4 bits) is tiled; b's strides are unused */
    bool in_amx; /* true if skinny products use AMX (sw_cpu_takes_amx); changes bits */
};
int sw_cpu_matmul(struct sw_cpu_device *device, const struct sw_cpu_matmul *matmul,
                  struct sw_error *err);
/* Rows of a panel for products of m rows, maybe more than m: oneDNN makes that many with one
 * kernel. */
int64_t sw_cpu_panel_rows(int64_t m);
/* The product by oneDNN, fastest for many rows; not for F64. */
int sw_cpu_matmul_onednn(struct sw_cpu_device *device, const struct sw_cpu_matmul *matmul,
                         struct sw_error *err);
/* *out: true if oneDNN makes all rows of that product alike, so that no panels are needed. */
int sw_cpu_matmul_is_batch_invariant(struct sw_cpu_device *device,
                                     const struct sw_cpu_matmul *matmul, bool *out,
                                     struct sw_error *err);
/* The product of bf16 operands, or of a b of 8 bits, by fp32 products of blocks in the first
 * thread's scratch: sums are fp32, a bf16 result is rounded once. sw_cpu_matmul_onednn calls it
 * where the library lacks bf16 products (x86 without AVX-512). */
int sw_cpu_matmul_widened(struct sw_cpu_device *device, const struct sw_cpu_matmul *matmul,
                          struct sw_error *err);
/* Skinny product that reads every element of b once; uses scratch. Rows do not depend on each
 * other: sums are fp32 in one order. Its condition: a row-major, fp32 or bf16; b as well, or
 * quantized; at most 32 rows that scratch holds, or always_skinny; no accumulation. More rows run
 * in blocks that fit the second-level cache, with weights packed for each. */
bool sw_cpu_matmul_is_streamed(const struct sw_cpu_matmul *matmul);
void sw_cpu_matmul_streamed(const struct sw_cpu_device *device, const struct sw_cpu_matmul *matmul);
/* Product a^T b of bf16 to fp32, if oneDNN would multiply by pairs too, but slower; bits as in
 * blocks.inc. Its condition: no size is small, and scratch holds some columns of depth k. */
bool sw_cpu_matmul_is_blocked(const struct sw_cpu_device *device,
                              const struct sw_cpu_matmul *matmul);
void sw_cpu_matmul_blocked(const struct sw_cpu_device *device, const struct sw_cpu_matmul *matmul);
/* Tiles weights [k, n] (`turned`: stored [n, k]) of bf16 or 8 bits (core/base/device.h). A line of
 * SW_I4 is a line of blocks. */
bool sw_cpu_tiles(enum sw_dtype dtype); /* see struct sw_device_vtable */
void sw_cpu_tile(const struct sw_cpu_device *device, enum sw_dtype dtype, void *tiles,
                 const void *weights, int64_t k, int64_t n, bool turned);
void sw_cpu_tile_box(enum sw_dtype dtype, void *tiles, int64_t k, const struct sw_tile_box *box);
/* Index of element (line, column) of tiled weights of k lines. */
static inline int64_t sw_cpu_tile_index(int64_t k, int64_t line, int64_t column)
{
    return column / SW_TILE_COLUMNS * k * SW_TILE_COLUMNS + line / 2 * 2 * SW_TILE_COLUMNS +
           column % SW_TILE_COLUMNS * 2 + line % 2;
}
/* Block of a b of SW_I4: column `column` of group `group` of lines. */
void sw_cpu_int4_block(const struct sw_cpu_matmul *g, int64_t group, int64_t column,
                       struct sw_int4_block *out);
/* The product in plain loops, for F64; uses scratch. */
void sw_cpu_gemm_f64(const struct sw_cpu_device *device, const struct sw_cpu_matmul *matmul);

/* Zeroes the padding rows and columns of a matrix. */
void sw_cpu_zero_padding(const struct sw_tensor *matrix);

struct matmul_cache *sw_cpu_matmul_cache_create(struct sw_error *err);
void sw_cpu_matmul_cache_free(struct matmul_cache *cache); /* may be NULL */

/* The product of an op, in any precision. */
int sw_cpu_product(struct sw_cpu_device *device, const struct sw_call *call, struct sw_error *err);
int sw_cpu_slice(const struct sw_call *call, struct sw_error *err);

/* Kernel of each op kind (core/ir/ops.def), per arithmetic. */
#define SW_KERNEL(KIND, name)                                                                      \
    int sw_cpu_##name##_f32(struct sw_cpu_device *device, const struct sw_call *call,              \
                            struct sw_error *err);                                                 \
    int sw_cpu_##name##_f64(struct sw_cpu_device *device, const struct sw_call *call,              \
                            struct sw_error *err);
#include "core/ir/ops.def"

#endif
