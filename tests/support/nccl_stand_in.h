/* Stands in for NCCL between threads of one process, each a rank with the CUDA emulator as its GPU:
 * real bytes, in the order and with the sizes that NCCL would insist on. It says how runner/
 * collective/nccl.c uses the library, nothing about speed. */
#ifndef SW_TEST_NCCL_STAND_IN_H
#define SW_TEST_NCCL_STAND_IN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Since the last reset, over all ranks. */
struct sw_nccl_counts {
    int64_t most_messages; /* of one group to one peer; a collective of a group counts as one */
    int64_t calls;         /* groups, and collectives outside of one */
    int64_t communicators; /* made, worlds and splits */
    int64_t unshared;      /* splits that do not share their parent's resources */
    int64_t late;          /* communicators made after the first memory for an arena */
    int64_t aborted;
    int64_t windows; /* registered */
    int64_t open;    /* of them, those that are still */
};
void sw_nccl_counts_reset(void);
struct sw_nccl_counts sw_nccl_counts_get(void);
/* Until the next reset every call fails, as after a peer's death. */
void sw_nccl_break(void);

#ifdef __cplusplus
}
#endif

#endif
