#include "runner/rank/gpu_kinds.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 800, MAX_KINDS = 4, MAX_RANGES = 4, MAX_HOSTS = 3 };

void sw_gpu_name(const struct sw_device_facts *facts, char kind[128])
{
    const double gib = (double)facts->memory_bytes / (1 << 30);
    snprintf(kind, 128, "%s, compute %d.%d, %.0f GiB", facts->name, (int)facts->major,
             (int)facts->minor, gib);
}

/* Appends as much as fits. */
static void append(char text[TEXT_BYTES], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append(char text[TEXT_BYTES], const char *format, ...)
{
    const size_t used = strlen(text);
    va_list list;
    va_start(list, format);
    vsnprintf(text + used, TEXT_BYTES - used, format, list);
    va_end(list);
}

/* Appends "ranks 0-3, 8": ranks with the kind of rank `first`. */
static void append_ranks(char text[TEXT_BYTES], const struct sw_rank_kind *ranks, int32_t count,
                         int32_t first)
{
    int32_t members = 0, ranges = 0;
    for (int32_t r = first; r < count; r++)
        members += strcmp(ranks[r].kind, ranks[first].kind) == 0;
    append(text, members == 1 ? "rank" : "ranks");
    for (int32_t r = first; r < count; r++) {
        int32_t end = r;
        while (end < count && strcmp(ranks[end].kind, ranks[first].kind) == 0)
            end++;
        if (end == r)
            continue;
        if (ranges++ == MAX_RANGES) {
            append(text, " and more");
            return;
        }
        append(text, end == r + 1 ? "%s %d" : "%s %d-%d", ranges == 1 ? "" : ",", (int)r,
               (int)end - 1);
        r = end;
    }
}

static bool host_before(const struct sw_rank_kind *ranks, int32_t first, int32_t r)
{
    for (int32_t i = first; i < r; i++)
        if (strcmp(ranks[i].kind, ranks[r].kind) == 0 && strcmp(ranks[i].host, ranks[r].host) == 0)
            return true;
    return false;
}

static void append_hosts(char text[TEXT_BYTES], const struct sw_rank_kind *ranks, int32_t count,
                         int32_t first)
{
    int32_t hosts = 0;
    for (int32_t r = first; r < count; r++) {
        if (strcmp(ranks[r].kind, ranks[first].kind) != 0 || host_before(ranks, first, r))
            continue;
        if (hosts++ == MAX_HOSTS) {
            append(text, " and more");
            return;
        }
        append(text, "%s%s", hosts == 1 ? " on " : ", ", ranks[r].host);
    }
}

static bool kind_before(const struct sw_rank_kind *ranks, int32_t r)
{
    for (int32_t i = 0; i < r; i++)
        if (strcmp(ranks[i].kind, ranks[r].kind) == 0)
            return true;
    return false;
}

int sw_gpus_compare(const struct sw_rank_kind *ranks, int32_t count, struct sw_error *err)
{
    char text[TEXT_BYTES] = "";
    int32_t kinds = 0;
    bool same = true;
    for (int32_t r = 0; r < count; r++) {
        if (ranks[r].kind[0] == '\0')
            return sw_fail(err, SW_ENVIRONMENT, "the GPU of rank %d on %s does not answer", (int)r,
                           ranks[r].host);
        same = same && strcmp(ranks[r].kind, ranks[0].kind) == 0;
    }
    if (same)
        return 0;
    for (int32_t r = 0; r < count; r++) {
        if (kind_before(ranks, r))
            continue;
        if (kinds++ == MAX_KINDS) {
            append(text, "; and more");
            break;
        }
        append(text, kinds == 1 ? "" : "; ");
        append_ranks(text, ranks, count, r);
        append_hosts(text, ranks, count, r);
        append(text, ": %s", ranks[r].kind);
    }
    return sw_fail(err, SW_ENVIRONMENT,
                   "the job's GPUs are not of one kind, which a plan is for: %s; start it on nodes "
                   "of one kind (Slurm: --constraint, --gres)",
                   text);
}

int sw_gpus_check_alike(const struct sw_launch *launch, struct sw_device *device,
                        struct sw_error *err)
{
    struct sw_device_facts facts;
    struct sw_rank_kind mine = {.kind = ""};
    if (device->vtable->facts == NULL)
        return 0; /* the same on every rank: the plan or an option chose the device */
    const int told = device->vtable->facts(device, &facts, err);
    if (told == 0)
        sw_gpu_name(&facts, mine.kind);
    snprintf(mine.host, sizeof mine.host, "%.*s", (int)sizeof mine.host - 1, launch->host);
    struct sw_rank_kind *all = calloc((size_t)launch->size, sizeof *all);
    if (all == NULL) { /* the others wait */
        (void)sw_fail(err, SW_ENVIRONMENT, "out of memory for the ranks' kinds of device");
        sw_launch_abort(launch, err, (int)err->status);
    }
    sw_launch_gather(launch, &mine, (int32_t)sizeof mine, all);
    const int status = told != 0 ? -1 : sw_gpus_compare(all, launch->size, err);
    free(all);
    return status;
}
