/* Internal to the CPU device: bf16 products in tiles of 16 rows of 64 bytes (Intel AMX, TDPBF16PS).
 * A header, so that the compiler can inline the instructions into loops.
 *
 * Tile operations have two bodies: compiler intrinsics and, with SW_AMX_EMULATED, plain C that
 * follows Intel's manual (Software Developer's Manual, volume 2, TDPBF16PS), for tests on
 * processors without AMX. amx.c detects AMX at run time; a thread configures its tiles before
 * sw_cpu_amx_product. */
#ifndef SW_DEVICE_CPU_AMX_H
#define SW_DEVICE_CPU_AMX_H

#include "runner/device/cpu/tables.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* True if AMX is usable: the build targets bf16 pairs, the processor has tiles, the kernel permits
 * their state, and a test product is right. wanted: true if oneDNN's instruction set, which users
 * may restrict, has AMX. */
bool sw_cpu_amx_is_usable(bool wanted);

/* Newest instruction set of our own kernels, named as in sw_onednn_isa. */
const char *sw_cpu_kernel_isa(bool wanted);

#if defined(SW_AMX_EMULATED) ||                                                                    \
    (defined(__AVX512BF16__) && (defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11))
#define HAS_AMX 1
#define AMX_INLINE static inline __attribute__((always_inline)) AMX_TARGET

enum { AMX_ROWS = 16, AMX_COLUMNS = 16, AMX_ROW_BYTES = 64, AMX_TILES = 8 };

/* ---- Operations ---- */

#ifdef SW_AMX_EMULATED
#include <stdlib.h>

#define AMX_TARGET

/* A thread's tile registers. Use before configuration aborts, as on the processor. */
static _Thread_local struct {
    bool configured;
    int rows[AMX_TILES];
    _Alignas(64) unsigned char tile[AMX_TILES][AMX_ROWS][AMX_ROW_BYTES];
} amx_registers;

static inline void amx_configure(const uint8_t rows[AMX_TILES])
{
    memset(&amx_registers, 0, sizeof amx_registers);
    amx_registers.configured = true;
    for (int i = 0; i < AMX_TILES; i++)
        amx_registers.rows[i] = rows[i];
}

static inline void sw_cpu_amx_release(void)
{
    amx_registers.configured = false;
}

static inline void amx_zero(int tile)
{
    if (!amx_registers.configured)
        abort();
    memset(amx_registers.tile[tile], 0, sizeof amx_registers.tile[tile]);
}

static inline void amx_load(int tile, const void *from, int64_t row_bytes)
{
    amx_zero(tile);
    for (int64_t i = 0; i < amx_registers.rows[tile]; i++)
        memcpy(amx_registers.tile[tile][i], (const char *)from + i * row_bytes, AMX_ROW_BYTES);
}

static inline void amx_store(int tile, void *to, int64_t row_bytes)
{
    if (!amx_registers.configured)
        abort();
    for (int64_t i = 0; i < amx_registers.rows[tile]; i++)
        memcpy((char *)to + i * row_bytes, amx_registers.tile[tile][i], AMX_ROW_BYTES);
}

/* Flushes subnormal operands and results to zero. */
static inline float amx_flush(float x)
{
    return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0, x) : x;
}

/* sum += a b, in pairs along the depth: sums of the pairs' first products and of their second
 * products start at zero, each addition rounded once; then the two are added, and their sum to
 * `sum`. */
static inline void amx_add_products(int sum, int a, int b)
{
    for (int m = 0; m < amx_registers.rows[sum]; m++) {
        uint32_t left[AMX_COLUMNS];
        float half[2][AMX_COLUMNS] = {{0}}, to[AMX_COLUMNS];
        memcpy(left, amx_registers.tile[a][m], sizeof left);
        memcpy(to, amx_registers.tile[sum][m], sizeof to);
        for (int k = 0; k < AMX_ROWS; k++) {
            uint32_t right[AMX_COLUMNS];
            memcpy(right, amx_registers.tile[b][k], sizeof right);
            for (int h = 0; h < 2; h++) {
                const uint32_t x_bits = h == 0 ? left[k] << 16 : left[k] & 0xffff0000u;
                float x;
                memcpy(&x, &x_bits, sizeof x);
                for (int n = 0; n < AMX_COLUMNS; n++) {
                    const uint32_t y_bits = h == 0 ? right[n] << 16 : right[n] & 0xffff0000u;
                    float y;
                    memcpy(&y, &y_bits, sizeof y);
                    half[h][n] = amx_flush(__builtin_fmaf(amx_flush(x), amx_flush(y), half[h][n]));
                }
            }
        }
        for (int n = 0; n < AMX_COLUMNS; n++)
            to[n] = amx_flush(amx_flush(to[n]) + amx_flush(half[0][n] + half[1][n]));
        memcpy(amx_registers.tile[sum][m], to, sizeof to);
    }
}
#else
#include <immintrin.h>

#define AMX_TARGET __attribute__((target("amx-tile,amx-bf16")))

AMX_TARGET static inline void amx_configure(const uint8_t rows[AMX_TILES])
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shape = {.palette = 1};
    _Static_assert(sizeof shape == 64, "what the processor reads");
    for (int i = 0; i < AMX_TILES; i++) {
        shape.row_bytes[i] = AMX_ROW_BYTES;
        shape.rows[i] = rows[i];
    }
    __asm__ volatile("" : : "r"(&shape) : "memory");
    _tile_loadconfig(&shape);
}

/* Releases the tiles: a thread without them is cheaper to switch to. */
AMX_TARGET static inline void sw_cpu_amx_release(void)
{
    _tile_release();
}

/* Tile numbers are immediates. gcc's intrinsics do not declare that they read memory, hence the
 * compiler barrier. */
#define amx_zero(tile) _tile_zero(tile)
#define amx_load(tile, from, row_bytes)                                                            \
    do {                                                                                           \
        __asm__ volatile("" : : : "memory");                                                       \
        _tile_loadd(tile, from, (size_t)(row_bytes));                                              \
    } while (0)
#define amx_store(tile, to, row_bytes) _tile_stored(tile, to, (size_t)(row_bytes))
#define amx_add_products(sum, a, b) _tile_dpbf16ps(sum, a, b)
#endif

/* Configures all tiles at full size. */
AMX_TARGET static inline void sw_cpu_amx_configure(void)
{
    const uint8_t rows[AMX_TILES] = {16, 16, 16, 16, 16, 16, 16, 16};
    amx_configure(rows);
}

/* Configures tiles for a product of m rows, at most 32, as amx_make_block uses them: tiles of a and
 * c get only those rows. */
AMX_TARGET static inline void sw_cpu_amx_configure_rows(int64_t m)
{
    const uint8_t first = (uint8_t)(m < AMX_ROWS ? m : AMX_ROWS);
    const uint8_t second = (uint8_t)(m > AMX_ROWS ? m - AMX_ROWS : AMX_ROWS);
    const uint8_t rows[AMX_TILES] = {first, first, second, second, first, second, 16, 16};
    amx_configure(rows);
}

/* ---- Products ---- */

/* Operands of a product: element pairs (i, k) of a at a + i * a_bytes + 4 k, (k, j) of b at b + k *
 * b_bytes + 4 j, numbers (i, j) of c at c + i * c_bytes + 4 j. */
struct sw_amx_operands {
    const char *a, *b;
    char *c;
    int64_t a_bytes, b_bytes, c_bytes;
    int64_t steps; /* steps of 16 pairs */
    bool exact;    /* true if the tiles have the product's rows (sw_cpu_amx_configure_rows) */
    int64_t ahead; /* prefetch distance of b in bytes; 0: none */
    bool accumulate;
    /* For sw_cpu_amx_widened_product: pairs of b in 8 or 4 bits, widened into b step by step; b has
     * room for `kept` steps and is then overwritten from its start */
    const char *narrow;
    int64_t kept;
};

/* Storage of b: bf16 pairs, int8, e4m3, or 4 bits. */
enum amx_form { AMX_READY, AMX_BYTES, AMX_CODES, AMX_NIBBLES };

/* Widens one step of b, two tiles of columns. */
AMX_INLINE void amx_widen(const enum amx_form form, const struct sw_amx_operands *o, int64_t step)
{
#if HAS_TABLES
    const int64_t bytes = AMX_ROWS * AMX_ROW_BYTES;
    const char *from = o->narrow + step * (form == AMX_NIBBLES ? bytes * 9 / 16 : bytes);
    char *to = (char *)(uintptr_t)o->b + step % o->kept * (2 * AMX_ROWS * AMX_ROW_BYTES);
    if (form == AMX_NIBBLES) {
        widen_int4_group(from, o->ahead, to);
        return;
    }
    for (int64_t i = 0; i < bytes; i += AMX_ROW_BYTES) {
        __builtin_prefetch(from + i + o->ahead, 0, 2);
        widen_64_bytes(form == AMX_CODES, false, from + i, to + 2 * i);
    }
#else /* never: such weights are not tiled here (sw_cpu_tiles) */
    (void)form, (void)o, (void)step;
#endif
}

/* c[16 rows, 16 columns], one or two tiles of each, kept in tile registers. Widens a step while the
 * previous one is multiplied. */
AMX_INLINE void amx_make_block(const int rows, const int columns, const enum amx_form form,
                               const struct sw_amx_operands *o)
{
    const int64_t below_a = AMX_ROWS * o->a_bytes, below_c = AMX_ROWS * o->c_bytes;
    const char *a = o->a, *b = o->b;
    if (o->accumulate) {
        amx_load(0, o->c, o->c_bytes);
        if (columns > 1)
            amx_load(1, o->c + AMX_ROW_BYTES, o->c_bytes);
        if (rows > 1)
            amx_load(2, o->c + below_c, o->c_bytes);
        if (rows > 1 && columns > 1)
            amx_load(3, o->c + below_c + AMX_ROW_BYTES, o->c_bytes);
    } else {
        amx_zero(0);
        amx_zero(1);
        amx_zero(2);
        amx_zero(3);
    }
    if (form != AMX_READY)
        amx_widen(form, o, 0);
    for (int64_t k = 0; k < o->steps; k++) {
        if (form != AMX_READY && k + 1 < o->steps)
            amx_widen(form, o, k + 1);
        if (form != AMX_READY)
            b = o->b + k % o->kept * (AMX_ROWS * o->b_bytes);
        for (int64_t i = 0; form == AMX_READY && o->ahead > 0 && i < AMX_ROWS; i++)
            for (int j = 0; j < columns; j++)
                __builtin_prefetch(b + i * o->b_bytes + j * AMX_ROW_BYTES + o->ahead, 0, 2);
        amx_load(4, a, o->a_bytes);
        amx_load(6, b, o->b_bytes);
        amx_add_products(0, 4, 6);
        if (columns > 1) {
            amx_load(7, b + AMX_ROW_BYTES, o->b_bytes);
            amx_add_products(1, 4, 7);
        }
        if (rows > 1) {
            amx_load(5, a + below_a, o->a_bytes);
            amx_add_products(2, 5, 6);
        }
        if (rows > 1 && columns > 1)
            amx_add_products(3, 5, 7);
        a += AMX_ROW_BYTES;
        b += AMX_ROWS * o->b_bytes;
    }
    amx_store(0, o->c, o->c_bytes);
    if (columns > 1)
        amx_store(1, o->c + AMX_ROW_BYTES, o->c_bytes);
    if (rows > 1)
        amx_store(2, o->c + below_c, o->c_bytes);
    if (rows > 1 && columns > 1)
        amx_store(3, o->c + below_c + AMX_ROW_BYTES, o->c_bytes);
}

/* Last rows of a product, fewer than `tiles` tiles hold: the missing rows are computed too, into a
 * buffer. */
AMX_INLINE void amx_make_rest(int64_t rows, const int tiles, const int columns,
                              const enum amx_form form, struct sw_amx_operands o)
{
    _Alignas(64) char rest[2 * AMX_ROWS][2 * AMX_ROW_BYTES];
    char *c = o.c;
    const int64_t c_bytes = o.c_bytes;
    const size_t bytes = (size_t)columns * AMX_ROW_BYTES;
    for (int64_t i = 0; o.accumulate && i < rows; i++)
        memcpy(rest[i], c + i * c_bytes, bytes);
    for (int64_t i = rows; o.accumulate && i < tiles * AMX_ROWS; i++)
        memset(rest[i], 0, bytes);
    o.c = rest[0];
    o.c_bytes = sizeof rest[0];
    amx_make_block(tiles, columns, form, &o);
    for (int64_t i = 0; i < rows; i++)
        memcpy(c + i * c_bytes, rest[i], bytes);
}

/* Computes up to two tiles of rows by one or two tiles of columns; returns the rows. */
AMX_INLINE int64_t amx_make_some(int64_t m, const int columns, const enum amx_form form,
                                 const struct sw_amx_operands *o)
{
    const int64_t rows = m < 2 * AMX_ROWS ? m : 2 * AMX_ROWS;
    if (rows == 2 * AMX_ROWS || (o->exact && rows > AMX_ROWS))
        amx_make_block(2, columns, form, o);
    else if (rows == AMX_ROWS || o->exact)
        amx_make_block(1, columns, form, o);
    else if (rows > AMX_ROWS)
        amx_make_rest(rows, 2, columns, form, *o);
    else
        amx_make_rest(rows, 1, columns, form, *o);
    return rows;
}

/* Computes all rows of one or two tiles of columns; the first ones prefetch b. */
AMX_INLINE void amx_make_columns(int64_t m, const int columns, const enum amx_form form,
                                 struct sw_amx_operands o)
{
    int64_t made = m > 0 ? amx_make_some(m, columns, form, &o) : 0;
    while (m > made) {
        m -= made;
        o.a += made * o.a_bytes;
        o.c += made * o.c_bytes;
        o.ahead = 0;
        made = amx_make_some(m, columns, AMX_READY, &o);
    }
}

/* c[m, n] (+)= a b, n a multiple of 16. a has rows up to a multiple of 16, with any contents behind
 * m; both operands are padded with zeros to whole steps. An element of c depends on its own row and
 * column alone. */
AMX_TARGET static inline void sw_cpu_amx_product(int64_t m, int64_t n, struct sw_amx_operands o)
{
    for (; n >= 2 * AMX_COLUMNS; n -= 2 * AMX_COLUMNS) {
        amx_make_columns(m, 2, AMX_READY, o);
        o.b += 2 * AMX_ROW_BYTES;
        o.c += 2 * AMX_ROW_BYTES;
    }
    if (n > 0)
        amx_make_columns(m, 1, AMX_READY, o);
}

/* c[m, n] (+)= a b with b widened on the way, n = 32 and b_bytes = 128. b has room for all steps if
 * m > 32, else for two or more. With 8 bits the columns of c are in the order of PAIRS (tables.h).
 */
AMX_TARGET static inline void sw_cpu_amx_widened_product(int64_t m, enum amx_form form,
                                                         struct sw_amx_operands o)
{
    if (form == AMX_NIBBLES)
        amx_make_columns(m, 2, AMX_NIBBLES, o);
    else if (form == AMX_CODES)
        amx_make_columns(m, 2, AMX_CODES, o);
    else
        amx_make_columns(m, 2, AMX_BYTES, o);
}
#else
#define HAS_AMX 0
#endif

#endif
