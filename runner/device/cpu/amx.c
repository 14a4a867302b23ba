/* Tests if this process can use AMX (amx.h). */
#include "runner/device/cpu/amx.h"

#if HAS_AMX && defined(__linux__)
#include "core/base/number.h"

#ifndef SW_AMX_EMULATED
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    REQUEST_STATE = 0x1023, /* arch_prctl's ARCH_REQ_XCOMP_PERM, Linux 5.16 and newer */
    TILE_DATA = 18,         /* state number of tile data */
    TILE_STATES = 3 << 17   /* XCR0 bits of tile data and tile configuration */
};

/* True if the processor has AMX and the kernel saves this process's tiles. */
static bool has_tiles(bool wanted)
{
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, OSXSAVE = 1 << 27 };
    unsigned a, b, c, d, low, high;
    if (!wanted || __get_cpuid(1, &a, &b, &c, &d) == 0 || (c & OSXSAVE) == 0)
        return false;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & TILE_STATES) != TILE_STATES || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 ||
        (d & AMX_BF16) == 0 || (d & AMX_TILE) == 0)
        return false;
    return syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
}
#else
static bool has_tiles(bool wanted)
{
    (void)wanted;
    return true;
}
#endif

/* True if a product of small integers, 17 rows by two steps, is right; every order of sums is
 * exact. */
static bool multiplies_rightly(void)
{
    enum { M = 17, N = 32, K = 64 };
    uint16_t a[2 * AMX_ROWS * K], b[K * N];
    float c[M * N];
    for (int i = 0; i < 2 * AMX_ROWS * K; i++)
        a[i] = sw_bf16_from_float((float)(i * 7 % 31 - 15));
    for (int i = 0; i < K * N; i++) /* [K / 2, N, 2] */
        b[i] = sw_bf16_from_float((float)(i * 5 % 29 - 14));
    for (int i = 0; i < M * N; i++)
        c[i] = (float)i;
    sw_cpu_amx_configure();
    sw_cpu_amx_product(M, N,
                       (struct sw_amx_operands){.a = (const char *)a,
                                                .b = (const char *)b,
                                                .c = (char *)c,
                                                .a_bytes = 2 * K,
                                                .b_bytes = 4 * N,
                                                .c_bytes = 4 * N,
                                                .steps = K / (2 * AMX_ROWS),
                                                .accumulate = true});
    sw_cpu_amx_release();
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float sum = (float)(i * N + j);
            for (int k = 0; k < K; k++)
                sum += sw_bf16_to_float(a[i * K + k]) *
                       sw_bf16_to_float(b[(k / 2 * N + j) * 2 + k % 2]);
            if (c[i * N + j] != sum)
                return false;
        }
    return true;
}

bool sw_cpu_amx_is_usable(bool wanted)
{
    return has_tiles(wanted) && multiplies_rightly();
}
#else
bool sw_cpu_amx_is_usable(bool wanted)
{
    (void)wanted;
    return false;
}
#endif

const char *sw_cpu_kernel_isa(bool wanted)
{
    if (sw_cpu_amx_is_usable(wanted))
        return "AMX";
#if defined(__AVX512BF16__)
    return "AVX-512 bf16";
#elif defined(__AVX512F__)
    return "AVX-512";
#elif defined(__AVX2__) && defined(__FMA__)
    return "AVX2";
#else
    return "any processor";
#endif
}
