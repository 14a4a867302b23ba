/* The kernels in fp32 arithmetic: f32 and bf16 operands. */
#include "runner/device/cpu/cpu.h"

#define REAL float
#define INTEGER int32_t
#define REAL_DTYPE SW_F32
#define KERNEL(name) sw_cpu_##name##_f32
#define REAL_MAX 3.4028234e38f
#define REAL_SQRT sqrtf
#define EXP_LOWEST (-87.33654f)
#define EXP_HIGHEST 88.3f
#define EXP_SHIFT 12582912.0f
#define EXP_LN2_HIGH 0.693145751953125f
#define EXP_LN2_LOW 1.42860682030941723212e-6f
#define EXP_MANTISSA_BITS 23
#define EXP_TERMS 1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f

#include "runner/device/cpu/simd.inc"
#include "runner/device/cpu/kernels.inc"
#include "runner/device/cpu/attention.inc"
