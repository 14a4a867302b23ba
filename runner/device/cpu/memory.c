/* Memory of the CPU device. The kernel zeroes a page when a thread first touches it and places it
 * on that thread's memory node. Allocation touches no page: the thread that loads a weight does,
 * and finds the zeros still in its cache. */
#include "core/base/number.h"
#include "runner/device/cpu/cpu.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE_BYTES = 2 << 20 };

/* Header right before the returned memory. A guard page lies behind the memory. */
struct mapping {
    void *begin;
    size_t bytes;
};

void *sw_cpu_memory_allocate(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > INT64_MAX - 4 * HUGE_PAGE_BYTES)
        return NULL;
    const size_t size = (size_t)sw_align((int64_t)(bytes > 0 ? bytes : 1), (int64_t)page);
    const size_t alignment = size < HUGE_PAGE_BYTES ? page : HUGE_PAGE_BYTES;
    const size_t length = size + alignment + page;
    char *begin = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (begin == MAP_FAILED)
        return NULL;
    const size_t off =
        (size_t)(uintptr_t)begin % alignment; /* pages are aligned: off + page fits */
    char *memory = begin + (alignment - off);
    ((struct mapping *)(void *)memory)[-1] = (struct mapping){begin, length};
    (void)mprotect(memory + size, (size_t)(begin + length - (memory + size)), PROT_NONE);
    /* Weights are read from end to end for every token: with small pages a core waits for page
     * tables. A kernel without huge pages refuses, harmlessly. */
    if (alignment == HUGE_PAGE_BYTES)
        (void)madvise(memory, size, MADV_HUGEPAGE);
    return memory;
}

void *sw_cpu_memory_untouched(size_t bytes)
{
    const size_t size = (size_t)sw_align((int64_t)bytes, HUGE_PAGE_BYTES);
    void *memory = aligned_alloc(HUGE_PAGE_BYTES, size);
    /* operands packed for a product are read panel by panel: small pages cost 5 to 10 % */
    if (memory != NULL)
        (void)madvise(memory, size, MADV_HUGEPAGE);
    return memory;
}

void sw_cpu_memory_release(void *memory)
{
    if (memory == NULL)
        return;
    const struct mapping mapping = ((struct mapping *)memory)[-1];
    (void)munmap(mapping.begin, mapping.bytes);
}
