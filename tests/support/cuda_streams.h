/* What tests ask of the emulator (cuda_emulator.h): of its streams, its memory.
 *
 * Orders are drawn from SW_EMULATED_SEED, 1 where it is not set; the seed in use is printed by the
 * first draw. The same seed gives every thread the same orders, whatever the others do. */
#ifndef SW_TEST_CUDA_STREAMS_H
#define SW_TEST_CUDA_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The n-th cudaStreamWaitEvent() of every thread that begins after this call does nothing; 0: each
 * does what it should. */
void sw_emulated_drop_wait(int64_t n);
/* How many of them this thread has called. */
int64_t sw_emulated_waits(void);
/* The seed from now on, instead of SW_EMULATED_SEED's. */
void sw_emulated_order(uint64_t seed);
/* This thread is that rank: ranks draw different orders. */
void sw_emulated_rank(int32_t rank);
/* How large one piece of memory may be that this thread asks for; 0: as large as it likes. */
void sw_emulated_largest(size_t bytes);
/* How much shared memory a block of this thread's GPUs may have, of those made from now on; 0: 227
 * KiB. */
void sw_emulated_shared_limit(size_t bytes);
/* This thread's streams do not go on: queries say so, and the host may not wait for them. */
void sw_emulated_stall(bool on);

#ifdef __cplusplus
}
#endif

#endif
