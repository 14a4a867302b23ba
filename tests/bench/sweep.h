/* What reading memory once takes: the ceiling that products of a few rows are held against. */
#ifndef SW_BENCH_SWEEP_H
#define SW_BENCH_SWEEP_H

#include <stddef.h>
#include <stdint.h>

/* Seconds to read so many bytes once, by that clock (core/base/clock.h), each of the threads its
 * shares, in eight sums of 32 bytes, asking ahead as the products do. *sum: something is added. */
double sw_bench_sweep_seconds(const char *memory, size_t bytes, int32_t threads,
                              double (*clock)(void), uint64_t *sum);

#endif
