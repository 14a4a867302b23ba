/* Replaces NCCL between threads of one process, each a rank with the CUDA emulator as GPU: real
 * bytes, with the order and sizes that NCCL requires. Tests how runner/collective/nccl.c uses the
 * library, not its speed. */
#ifndef SW_TEST_NCCL_STAND_IN_H
#define SW_TEST_NCCL_STAND_IN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counts since the last reset, over all ranks. */
struct sw_nccl_counts {
    int64_t most_messages; /* messages in a group to one peer; a group's collective counts as one */
    int64_t calls;         /* groups, and collectives outside groups */
    int64_t communicators; /* created, worlds and splits */
    int64_t unshared;      /* splits without shared resources */
    int64_t late;          /* communicators created after the first arena memory */
    int64_t aborted;
    int64_t windows; /* registered */
    int64_t open;    /* windows still registered */
};
void sw_nccl_counts_reset(void);
struct sw_nccl_counts sw_nccl_counts_get(void);
/* Makes every call fail until the next reset, as after a peer's death. */
void sw_nccl_break(void);

#ifdef __cplusplus
}
#endif

#endif
