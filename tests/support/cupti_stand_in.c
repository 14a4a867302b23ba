/* Replaces CUPTI for tests/bench/gpu/kernel_times.c: a program whose GPU copied for two seconds
 * (weights), ran a kernel for 0.9 seconds of each of four, and copied for eight more (a
 * checkpoint). */
#include <cupti.h>

#include <string.h>

enum { RECORDS = 6, SECOND = 1000000000 };

int InitializeInjection(void);

static CUpti_BuffersCallbackRequestFunc give;
static CUpti_BuffersCallbackCompleteFunc take;
static int next;

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete)
{
    give = request;
    take = complete;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
    (void)kind;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
    static CUpti_ActivityMemcpy6 copy;
    static CUpti_ActivityKernel10 kernel;
    const uint64_t begin = (uint64_t)(next + 1) * SECOND;
    (void)buffer;
    (void)valid;
    if (next == RECORDS)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    const int i = next++;
    if (i == 0 || i == RECORDS - 1) {
        copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
        copy.start = i == 0 ? 0 : begin;
        copy.end = i == 0 ? 2ull * SECOND : begin + 8ull * SECOND;
        *record = (CUpti_Activity *)&copy;
        return CUPTI_SUCCESS;
    }
    kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    kernel.name = "swiglu_kernel";
    kernel.start = begin;
    kernel.end = begin + SECOND / 10 * 9;
    *record = (CUpti_Activity *)&kernel;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
    uint8_t *buffer = NULL;
    size_t bytes = 0, most = 0;
    (void)flag;
    give(&buffer, &bytes, &most);
    take(NULL, 0, buffer, bytes, bytes);
    return CUPTI_SUCCESS;
}

int main(void)
{
    return InitializeInjection() == 1 ? 0 : 1;
}
