/* Counts allocations where a program must make none: the linker routes our libraries' malloc and
 * the like through here (sw_test_counts_allocations in CMakeLists.txt). */
#ifndef SW_TEST_ALLOCATIONS_H
#define SW_TEST_ALLOCATIONS_H

#include <stdbool.h>

/* Starts or stops counting allocations of all threads. */
void sw_test_count_allocations(bool counts);
/* Number of allocations since the last call. */
long sw_test_take_allocations(void);

#endif
