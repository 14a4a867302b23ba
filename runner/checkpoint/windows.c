#include "runner/checkpoint/windows.h"

#include "core/base/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Address of a window: a process's unnamed file. The sign, stored after the window, tells files
 * with equal numbers on different machines apart. */
struct address {
    int32_t process, file; /* file -1: none */
    uint64_t sign;
};

static size_t length_of(const struct sw_windows *w)
{
    return w->bytes + sizeof(uint64_t);
}

static char *map(const struct sw_windows *w, int file, int protection)
{
    void *memory = mmap(NULL, length_of(w), protection, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static int make_own(const struct sw_windows *w, char **own, struct address *address)
{
    const int file = memfd_create("shardwright", MFD_CLOEXEC);
    *address = (struct address){(int32_t)getpid(), file, 0};
    *own = file < 0 || ftruncate(file, (off_t)length_of(w)) != 0
               ? NULL
               : map(w, file, PROT_READ | PROT_WRITE);
    if (*own == NULL)
        return -1;
    address->sign = (uint64_t)(uintptr_t)*own ^ (uint64_t)address->process << 40 ^
                    (uint64_t)(sw_clock_now() * 1e9);
    memcpy(*own + w->bytes, &address->sign, sizeof address->sign);
    return 0;
}

static char *map_other(const struct sw_windows *w, const struct address *address)
{
    char path[64], *memory = NULL;
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)address->process, (int)address->file);
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_size == (off_t)length_of(w))
        memory = map(w, file, PROT_READ);
    if (file >= 0)
        (void)close(file);
    if (memory == NULL || memcmp(memory + w->bytes, &address->sign, sizeof address->sign) == 0)
        return memory;
    (void)munmap(memory, length_of(w));
    return NULL;
}

int sw_windows_open(const struct sw_launch *launch, size_t bytes, struct sw_windows *out,
                    struct sw_error *err)
{
    struct address own = {.file = -1};
    *out = (struct sw_windows){.ranks = launch->size, .bytes = bytes};
    struct address *all = calloc((size_t)launch->size, sizeof *all);
    out->of_rank = calloc((size_t)launch->size, sizeof *out->of_rank);
    const bool room = all != NULL && out->of_rank != NULL;
    if (sw_launch_max(launch, !room) > 0) {
        free(all);
        sw_windows_close(out);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for reading a checkpoint");
    }
    bool failed = make_own(out, &out->of_rank[launch->rank], &own) != 0;
    sw_launch_gather(launch, &own, sizeof own, all);
    for (int32_t r = 0; r < launch->size && !failed; r++) {
        if (r != launch->rank)
            out->of_rank[r] = map_other(out, &all[r]);
        failed = out->of_rank[r] == NULL;
    }
    /* others need the file until then */
    if (sw_launch_max(launch, failed) > 0)
        sw_windows_close(out);
    if (own.file >= 0)
        (void)close(own.file);
    free(all);
    return 0;
}

void sw_windows_close(struct sw_windows *w)
{
    for (int32_t r = 0; w->of_rank != NULL && r < w->ranks; r++)
        if (w->of_rank[r] != NULL)
            (void)munmap(w->of_rank[r], length_of(w));
    free(w->of_rank);
    *w = (struct sw_windows){0};
}
