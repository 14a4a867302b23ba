/* The emulation of AMX tiles (runner/device/cpu/amx.h), for comparison with the instructions. */
#ifndef SW_TESTS_AMX_EMULATED_H
#define SW_TESTS_AMX_EMULATED_H

#include <stdbool.h>
#include <stdint.h>

/* Operands of a product: the members of struct sw_amx_operands. */
struct emulated_operands {
    const void *a, *b;
    float *c;
    int64_t a_bytes, b_bytes, c_bytes, steps;
    bool accumulate;
};

/* sw_cpu_amx_product in plain C. */
void emulated_product(int64_t m, int64_t n, const struct emulated_operands *operands);

#endif
