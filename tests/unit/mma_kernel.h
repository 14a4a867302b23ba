/* What each lane of a warp has of matrices, and what codes of e4m3 stand for (mma_kernel.cu). */
#ifndef SW_TEST_MMA_KERNEL_H
#define SW_TEST_MMA_KERNEL_H

#include <cuda_runtime_api.h>
#include <stdint.h>

struct mma_lane {
    uint32_t a[4];         /* of a [16, 16] as it lies */
    uint32_t b[4];         /* of b [16, 16] transposed: two matrices [16, 8], side by side */
    uint32_t b_columns[4]; /* of b whose columns lie behind each other */
    float c[2][4];         /* 1000 lane + i, and a times each of the two matrices */
    uint32_t piece[6];     /* 6 of 16 bytes of a; 4 of 4; 0 of 4 */
};

/* A code of e4m3: alone, as the first and the second of two, and by NVIDIA's own conversion. */
struct e4m3_code {
    float own, first, second, nvidia;
};

#ifdef __cplusplus
extern "C" {
#endif
/* a, b, b_columns: bf16 [16, 16], lanes [32], of device memory. Queues. */
cudaError_t mma_lanes(const uint16_t *a, const uint16_t *b, const uint16_t *b_columns,
                      struct mma_lane *lanes, cudaStream_t stream);
/* codes [256], of device memory. Queues. */
cudaError_t e4m3_codes(struct e4m3_code *codes, cudaStream_t stream);
#ifdef __cplusplus
}
#endif

#endif
