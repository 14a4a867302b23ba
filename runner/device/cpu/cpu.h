/* Internal to the CPU device: its state, matrix products, and the kernels of both arithmetics.
 *
 * Kernels are written once (kernels.inc, head.inc, attention.inc) in a type REAL and compiled for
 * float and double. They compute in REAL whatever the storage: operands of another dtype (bf16)
 * pass through small tiles. A device is used by one thread; its scratch is split among its OpenMP
 * threads. */
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
    SW_CPU_SCRATCH_BYTES = 12 << 20, /* per thread; pages that are never used cost nothing */
    SW_CPU_MAX_HEAD_DIM = 1024,
    SW_CPU_AMX_SLOTS = 4
};

struct matmul_cache;

struct sw_cpu_device {
    struct sw_device base;
    int32_t threads;
    int64_t alone_elems; /* so many one thread is through with before others have begun */
    bool amx;            /* bf16 is multiplied in the processor's tiles (amx.h) */
    bool pairs;          /* the library multiplies bf16 in pairs, and has nothing faster */
    char *scratch;       /* [threads, SW_CPU_SCRATCH_BYTES] */
    struct sw_blockwise_table tables[2]; /* of moments in codes: with a sign, without */
    struct matmul_cache *matmuls;
    struct matmul_cache **of_thread; /* [threads], for products whose rows are alike */
};

static inline void *sw_cpu_scratch(const struct sw_cpu_device *device, int32_t thread)
{
    return device->scratch + (size_t)thread * SW_CPU_SCRATCH_BYTES;
}

/* Threads for an op of so many elements: of one token each op is over sooner than a second thread
 * takes part, and a token has ten such ops a layer. */
static inline int32_t sw_cpu_threads_for(const struct sw_cpu_device *device, int64_t elems)
{
    return elems > device->alone_elems ? device->threads : 1;
}

/* Whether few rows in bf16 meet weights in the processor's tiles: where it has some, and in plans
 * of so many texts that arithmetic would take as long as reading the weights. Of fewer pairs are as
 * fast. By the plan alone: what a row comes to is the same to the bit with every number of rows. */
static inline bool sw_cpu_takes_amx(const struct sw_cpu_device *device, const struct sw_call *call)
{
    return device->amx && call->planned_slots >= SW_CPU_AMX_SLOTS;
}

/* Zeroed memory that begins at a page, at a huge one where it is as large, and that nobody touched
 * yet. NULL: there is none. Whoever writes past its last page is stopped. */
void *sw_cpu_memory_allocate(size_t bytes);
void sw_cpu_memory_release(void *memory);
/* Whole huge pages that nobody touched yet, with whatever they hold; the caller's, free(). NULL:
 * there is none. */
void *sw_cpu_memory_untouched(size_t bytes);

/* c[m,n] (+)= a[m,k] b[k,n]. Element (i,j) of a is at a[i * a_row + j * a_column], one of the two
 * being 1; likewise b, but of SW_I4 where it is number i % 32 of block b[i / 32 * b_row + j *
 * b_column]; c is row-major with leading dimension c_row. */
struct sw_cpu_matmul {
    int64_t m, n, k;
    const void *a, *b;
    void *c;
    int64_t a_row, a_column, b_row, b_column, c_row;
    enum sw_dtype a_dtype, b_dtype, c_dtype;
    const float *scales; /* [n], of a b of 8 bits, which has them: c = (a b) scales, rounded once */
    bool accumulate;     /* c is added to; not for a bf16 c, nor with scales */
    /* Rows are alike: what a row of c is does not depend on its place among the others, to the bit.
     * Where the library does not see to that they are made in panels of so many rows
     * (sw_cpu_panel_rows), the last one filled up with zeros; a is row-major, nothing is
     * accumulated. 0: it may depend. */
    int64_t panel;
    /* Uses the kernels of few rows, whatever the number of rows: each row has the same bits. */
    bool always_skinny;
    bool tiled;  /* b, of bf16, 8 or 4 bits, lies in tiles (core/base/device.h): its strides say
                    nothing */
    bool in_amx; /* and few rows meet it in the processor's (sw_cpu_takes_amx), which the device
                    has; other bits than without */
};
int sw_cpu_matmul(struct sw_cpu_device *device, const struct sw_cpu_matmul *matmul,
                  struct sw_error *err);
/* Rows of a panel for products of m rows, perhaps more than m: so many that oneDNN makes all of
 * them by the same instructions. */
int64_t sw_cpu_panel_rows(int64_t m);
/* The same by oneDNN, whose products of many rows are the fastest; not for F64. */
int sw_cpu_matmul_onednn(struct sw_cpu_device *device, const struct sw_cpu_matmul *matmul,
                         struct sw_error *err);
/* Whether oneDNN makes all rows of that product in the same way, so that no panels are needed. */
int sw_cpu_matmul_is_batch_invariant(struct sw_cpu_device *device,
                                     const struct sw_cpu_matmul *matmul, bool *out,
                                     struct sw_error *err);
/* The same for bf16 operands and a b of 8 bits through fp32 products of blocks in the first
 * thread's scratch: sums are fp32, a bf16 result is rounded once. sw_cpu_matmul_onednn takes it
 * where the library has no product of bf16 (x86 without AVX-512). */
int sw_cpu_matmul_widened(struct sw_cpu_device *device, const struct sw_cpu_matmul *matmul,
                          struct sw_error *err);
/* The same for a few rows of a, every element of b read once; scratch is used. Rows do not depend
 * on each other: sums are fp32 in one order. Whether it is for this product: a row-major, fp32 or
 * bf16, b these or of 8 bits, at most 32 rows that scratch holds or always_skinny, no accumulation.
 * More rows are gone over in blocks that the second cache holds, weights packed for each. */
bool sw_cpu_matmul_is_streamed(const struct sw_cpu_matmul *matmul);
void sw_cpu_matmul_streamed(const struct sw_cpu_device *device, const struct sw_cpu_matmul *matmul);
/* The same of a^T b in bf16, to fp32, where the library would multiply pairs, too, and sooner; to
 * its bits, where blocks.inc says so. Whether it is for this product: none of its sizes small, k
 * such that scratch holds some columns. */
bool sw_cpu_matmul_is_blocked(const struct sw_cpu_device *device,
                              const struct sw_cpu_matmul *matmul);
void sw_cpu_matmul_blocked(const struct sw_cpu_device *device, const struct sw_cpu_matmul *matmul);
/* Weights [k, n] of bf16 or 8 bits, `turned` [n, k], into tiles of [k, n] (core/base/device.h). Of
 * SW_I4 a line is one of blocks. */
bool sw_cpu_tiles(enum sw_dtype dtype); /* those of struct sw_device_vtable */
void sw_cpu_tile(const struct sw_cpu_device *device, enum sw_dtype dtype, void *tiles,
                 const void *weights, int64_t k, int64_t n, bool turned);
void sw_cpu_tile_box(enum sw_dtype dtype, void *tiles, int64_t k, const struct sw_tile_box *box);
/* Where element (line, column) of weights in tiles is, of so many lines. */
static inline int64_t sw_cpu_tile_index(int64_t k, int64_t line, int64_t column)
{
    return column / SW_TILE_COLUMNS * k * SW_TILE_COLUMNS + line / 2 * 2 * SW_TILE_COLUMNS +
           column % SW_TILE_COLUMNS * 2 + line % 2;
}
/* The block of a b of SW_I4 that has column `column` of the lines of a group. */
void sw_cpu_int4_block(const struct sw_cpu_matmul *g, int64_t group, int64_t column,
                       struct sw_int4_block *out);
/* The same in plain loops, for F64; scratch is used. */
void sw_cpu_gemm_f64(const struct sw_cpu_device *device, const struct sw_cpu_matmul *matmul);

/* Of a matrix that was made: zeros behind its rows and columns. */
void sw_cpu_zero_padding(const struct sw_tensor *matrix);

struct matmul_cache *sw_cpu_matmul_cache_create(struct sw_error *err);
void sw_cpu_matmul_cache_free(struct matmul_cache *cache); /* may be NULL */

/* The same in any precision. */
int sw_cpu_product(struct sw_cpu_device *device, const struct sw_call *call, struct sw_error *err);
int sw_cpu_slice(const struct sw_call *call, struct sw_error *err);

/* What runs each kind (core/ir/ops.def), per arithmetic. */
#define SW_KERNEL(KIND, name)                                                                      \
    int sw_cpu_##name##_f32(struct sw_cpu_device *device, const struct sw_call *call,              \
                            struct sw_error *err);                                                 \
    int sw_cpu_##name##_f64(struct sw_cpu_device *device, const struct sw_call *call,              \
                            struct sw_error *err);
#include "core/ir/ops.def"

#endif
