/* Products that this thread requested from the emulator's cuBLASLt since the last call. */
#ifndef SW_TEST_EMULATED_PRODUCTS_H
#define SW_TEST_EMULATED_PRODUCTS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sw_emulated_products {
    int64_t count, second;         /* count; those by the heuristic's second choice */
    int64_t least_rows, most_rows; /* in a result */
};
struct sw_emulated_products sw_emulated_products_take(void);

#ifdef __cplusplus
}
#endif

#endif
