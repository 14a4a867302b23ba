#include "runner/preflight/facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int64_t free_memory(void)
{
    char line[256];
    long long kib = -1;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file != NULL && kib < 0 && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %lld kB", &kib) != 1)
            kib = -1;
    if (file != NULL)
        (void)fclose(file);
    return kib < 0 ? -1 : kib * 1024;
}

static int64_t free_disk(const char *folder)
{
    struct statvfs info;
    if (access(folder, W_OK) != 0)
        return 0;
    if (statvfs(folder, &info) != 0)
        return -1;
    return (int64_t)info.f_bavail * (int64_t)info.f_frsize;
}

void sw_node_facts_parse(const char *text, struct sw_node_facts *out)
{
    for (const char *p = text; *p != '\0'; p += strcspn(p, "\n"), p += *p == '\n') {
        long long mib = -1;
        double mhz = 0;
        char driver[32] = "";
        if (sscanf(p, " %lld , %lf , %31[0-9.]", &mib, &mhz, driver) < 1)
            continue;
        out->gpus = out->gpus < 0 ? 1 : out->gpus + 1;
        if (out->gpu_memory_bytes < 0 || mib * 1048576 < out->gpu_memory_bytes)
            out->gpu_memory_bytes = mib * 1048576;
        if (mhz > 0 && (out->gpu_clock_hz <= 0 || mhz * 1e6 < out->gpu_clock_hz))
            out->gpu_clock_hz = mhz * 1e6;
        snprintf(out->driver, sizeof out->driver, "%s", driver);
    }
}

void sw_node_facts_find(const char *folder, struct sw_node_facts *out)
{
    static const char command[] =
        "timeout 10 nvidia-smi --query-gpu=memory.free,clocks.max.sm,driver_version "
        "--format=csv,noheader,nounits 2>/dev/null";
    char text[8192];
    *out = (struct sw_node_facts){.memory_bytes = free_memory(),
                                  .disk_bytes = free_disk(folder),
                                  .gpus = -1,
                                  .gpu_memory_bytes = -1};
    FILE *tool = popen(command, "re");
    if (tool == NULL)
        return;
    const size_t bytes = fread(text, 1, sizeof text - 1, tool);
    text[bytes] = '\0';
    sw_node_facts_parse(text, out);
    if (pclose(tool) == 0 && out->gpus < 0)
        out->gpus = 0;
}
