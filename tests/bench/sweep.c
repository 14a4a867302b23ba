#include "tests/bench/sweep.h"

enum { SHARES = 64, AHEAD_BYTES = 1024 };

double sw_bench_sweep_seconds(const char *memory, size_t bytes, int32_t threads,
                              double (*clock)(void), uint64_t *sum)
{
    typedef uint64_t words __attribute__((vector_size(32)));
    const size_t share = bytes / SHARES / 256 * 256;
    uint64_t total = 0;
    const double begin = clock();
#ifdef _OPENMP
#pragma omp parallel for schedule(static) num_threads(threads) reduction(+ : total)
#endif
    for (int s = 0; s < SHARES; s++) {
        const words *from = (const words *)(const void *)(memory + (size_t)s * share);
        words at[8] = {{0}};
        for (size_t i = 0; i < share / 256; i++) {
            _Pragma("GCC unroll 4") for (size_t line = 0; line < 4; line++)
                __builtin_prefetch(memory + (size_t)s * share + i * 256 + line * 64 + AHEAD_BYTES);
            _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) at[j] += from[8 * i + (size_t)j];
        }
        for (int j = 0; j < 8; j++)
            for (int k = 0; k < 4; k++)
                total += at[j][k];
    }
    *sum += total;
    (void)threads;
    return (clock() - begin) * (double)bytes / (double)(share * SHARES);
}
