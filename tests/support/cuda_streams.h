/* Controls of the emulator (cuda_emulator.h) for tests: streams and memory.
 *
 * SW_EMULATED_SEED, 1 by default, determines the random orders; the first draw prints the seed. A
 * seed gives every thread the same orders, whatever the others do. */
#ifndef SW_TEST_CUDA_STREAMS_H
#define SW_TEST_CUDA_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the n-th cudaStreamWaitEvent() of every thread started later do nothing; 0: none. */
void sw_emulated_drop_wait(int64_t n);
/* Number of these calls on this thread. */
int64_t sw_emulated_waits(void);
/* Sets the seed, instead of SW_EMULATED_SEED. */
void sw_emulated_order(uint64_t seed);
/* Sets this thread's rank: ranks draw different orders. */
void sw_emulated_rank(int32_t rank);
/* Largest allocation allowed on this thread; 0: no limit. */
void sw_emulated_largest(size_t bytes);
/* Shared memory per block of GPUs that this thread creates later; 0: 227 KiB. */
void sw_emulated_shared_limit(size_t bytes);
/* Stalls this thread's streams: queries report unfinished, and the host may not wait for them. */
void sw_emulated_stall(bool on);

#ifdef __cplusplus
}
#endif

#endif
