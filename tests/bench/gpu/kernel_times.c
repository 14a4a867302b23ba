/* What a CUDA program's GPU did: busy share of the last seconds before its last kernel's end, and
 * the kernels that took longest. For programs as they are: the CUDA driver loads it when it starts,
 *
 *   CUDA_INJECTION64_PATH=kernel_times.so SW_KERNEL_WINDOW=1.5 SW_KERNEL_REPORT=FILE program
 *
 * and it reads the times of kernels, copies and fills through CUPTI, also inside CUDA graphs.
 * Tracing itself costs time between kernels: the busy time is what to compare with a step that was
 * not traced. Writes Markdown. The window is in seconds (default 1). */
#include <cupti.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 8 << 20, ALIGNMENT = 8, NAMES = 512, SHOWN = 15, NAME_BYTES = 200 };

struct interval {
    uint64_t begin, end; /* ns */
    int32_t name;        /* -1: a copy, -2: a fill */
};

struct name {
    char text[NAME_BYTES];
    double seconds;
    int64_t count;
};

static struct {
    pthread_mutex_t lock;
    struct interval *at;
    size_t count, capacity, lost;
    struct name names[NAMES];
    int32_t name_count;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int32_t name_index(const char *text)
{
    for (int32_t i = 0; i < seen.name_count; i++)
        if (strncmp(seen.names[i].text, text, NAME_BYTES - 1) == 0)
            return i;
    if (seen.name_count == NAMES)
        return NAMES - 1;
    snprintf(seen.names[seen.name_count].text, NAME_BYTES, "%s", text);
    return seen.name_count++;
}

static void add(uint64_t begin, uint64_t end, int32_t name)
{
    if (seen.count == seen.capacity) {
        const size_t wanted = seen.capacity > 0 ? 2 * seen.capacity : 1 << 16;
        struct interval *grown = realloc(seen.at, wanted * sizeof *grown);
        if (grown == NULL) {
            seen.lost++;
            return;
        }
        seen.at = grown;
        seen.capacity = wanted;
    }
    seen.at[seen.count++] = (struct interval){begin, end, name};
}

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *bytes, size_t *most)
{
    *buffer = aligned_alloc(ALIGNMENT, BUFFER_BYTES);
    *bytes = *buffer == NULL ? 0 : BUFFER_BYTES;
    *most = 0;
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes,
                                 size_t valid)
{
    CUpti_Activity *record = NULL;
    (void)context;
    (void)stream;
    (void)bytes;
    pthread_mutex_lock(&seen.lock);
    while (valid > 0 && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
            const CUpti_ActivityKernel10 *kernel = (const CUpti_ActivityKernel10 *)record;
            add(kernel->start, kernel->end, name_index(kernel->name));
        } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
            const CUpti_ActivityMemcpy6 *copy = (const CUpti_ActivityMemcpy6 *)record;
            add(copy->start, copy->end, -1);
        } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
            const CUpti_ActivityMemset4 *fill = (const CUpti_ActivityMemset4 *)record;
            add(fill->start, fill->end, -2);
        }
    }
    pthread_mutex_unlock(&seen.lock);
    free(buffer);
}

static int by_begin(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static int by_seconds(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

/* Copies come behind it: of the state that is saved at a run's end. They are no step's. */
static uint64_t end_of_kernels(void)
{
    uint64_t last = 0, of_all = 0;
    for (size_t i = 0; i < seen.count; i++) {
        const struct interval *x = &seen.at[i];
        of_all = x->end > of_all ? x->end : of_all;
        last = x->name >= 0 && x->end > last ? x->end : last;
    }
    return last > 0 ? last : of_all;
}

/* Seconds in which at least one interval was running of those that begin at `first` ns or later,
 * and before `end`; also adds up names, copies and fills. */
static double busy_seconds(uint64_t first, uint64_t end, double *copies, double *fills)
{
    uint64_t until = first;
    double busy = 0;
    for (size_t i = 0; i < seen.count; i++) {
        const struct interval *x = &seen.at[i];
        if (x->begin < first || x->begin >= end)
            continue;
        const double seconds = 1e-9 * (double)(x->end - x->begin);
        if (x->name >= 0) {
            seen.names[x->name].seconds += seconds;
            seen.names[x->name].count++;
        } else {
            *(x->name == -1 ? copies : fills) += seconds;
        }
        const uint64_t from = x->begin > until ? x->begin : until;
        if (x->end > from) {
            busy += 1e-9 * (double)(x->end - from);
            until = x->end;
        }
    }
    return busy;
}

static void report(void)
{
    const char *path = getenv("SW_KERNEL_REPORT"), *text = getenv("SW_KERNEL_WINDOW");
    const double window = text != NULL && atof(text) > 0 ? atof(text) : 1;
    (void)cuptiActivityFlushAll(1);
    FILE *out = path != NULL ? fopen(path, "w") : stderr;
    if (out == NULL)
        return;
    pthread_mutex_lock(&seen.lock);
    if (seen.count == 0) {
        fprintf(out, "no GPU activity was seen\n");
    } else {
        double copies = 0, fills = 0;
        qsort(seen.at, seen.count, sizeof *seen.at, by_begin);
        const uint64_t length = (uint64_t)(window * 1e9), last = end_of_kernels();
        const double busy = busy_seconds(last > length ? last - length : 0, last, &copies, &fills);
        fprintf(out, "window_s %.6f busy_s %.6f busy_share %.4f records %zu lost %zu\n\n", window,
                busy, busy / window, seen.count, seen.lost);
        fprintf(out,
                "| share of the window | calls | mean, us | kernel |\n| --- | --- | --- | --- |\n");
        qsort(seen.names, (size_t)seen.name_count, sizeof *seen.names, by_seconds);
        for (int32_t i = 0; i < seen.name_count && i < SHOWN && seen.names[i].count > 0; i++)
            fprintf(out, "| %.4f | %lld | %.1f | `%.90s` |\n", seen.names[i].seconds / window,
                    (long long)seen.names[i].count,
                    1e6 * seen.names[i].seconds / (double)seen.names[i].count, seen.names[i].text);
        fprintf(out, "| %.4f | | | copies |\n| %.4f | | | fills |\n", copies / window,
                fills / window);
    }
    pthread_mutex_unlock(&seen.lock);
    if (path != NULL)
        fclose(out);
}

/* The driver calls this. */
int InitializeInjection(void);
int InitializeInjection(void)
{
    if (cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS ||
        cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS ||
        cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY) != CUPTI_SUCCESS ||
        cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET) != CUPTI_SUCCESS) {
        fprintf(stderr, "kernel_times: CUPTI cannot trace here\n");
        return 1;
    }
    atexit(report);
    return 1;
}
