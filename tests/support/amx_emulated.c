#include "tests/support/amx_emulated.h"

#define SW_AMX_EMULATED
#include "runner/device/cpu/amx.h"

void emulated_product(int64_t m, int64_t n, const struct emulated_operands *operands)
{
    sw_cpu_amx_configure();
    sw_cpu_amx_product(m, n,
                       (struct sw_amx_operands){.a = operands->a,
                                                .b = operands->b,
                                                .c = (char *)operands->c,
                                                .a_bytes = operands->a_bytes,
                                                .b_bytes = operands->b_bytes,
                                                .c_bytes = operands->c_bytes,
                                                .steps = operands->steps,
                                                .accumulate = operands->accumulate});
    sw_cpu_amx_release();
}
