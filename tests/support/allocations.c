#include "tests/support/allocations.h"

#include <stdatomic.h>
#include <stddef.h>

static atomic_bool counting;
static atomic_long allocations;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
int __real_posix_memalign(void **out, size_t alignment, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);

static void note(void)
{
    if (atomic_load(&counting))
        atomic_fetch_add(&allocations, 1);
}

void *__wrap_malloc(size_t bytes)
{
    note();
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    note();
    return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    note();
    return __real_realloc(memory, bytes);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes)
{
    note();
    return __real_posix_memalign(out, alignment, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    note();
    return __real_aligned_alloc(alignment, bytes);
}

void sw_test_count_allocations(bool counts)
{
    atomic_store(&counting, counts);
}

long sw_test_take_allocations(void)
{
    return atomic_exchange(&allocations, 0);
}
