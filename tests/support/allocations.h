/* Counts what a program allocates while it must not: the linker routes malloc and the like of our
 * libraries through here (sw_test_counts_allocations in CMakeLists.txt). */
#ifndef SW_TEST_ALLOCATIONS_H
#define SW_TEST_ALLOCATIONS_H

#include <stdbool.h>

/* From now on allocations, of all threads, count; or no more do. */
void sw_test_count_allocations(bool counts);
/* How many there were since the last call. */
long sw_test_take_allocations(void);

#endif
