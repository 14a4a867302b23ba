#include "core/base/self.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int64_t sw_self_resident_bytes(const char *which)
{
    char line[128];
    long long kib = -1;
    FILE *status = fopen("/proc/self/status", "re");
    if (status == NULL)
        return -1;
    while (kib < 0 && fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, which, strlen(which)) == 0)
            kib = strtoll(line + strlen(which), NULL, 10);
    fclose(status);
    return kib < 0 ? -1 : (int64_t)kib * 1024;
}

double sw_self_age_s(void)
{
    enum { STARTTIME = 22, NAME = 2 };
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    const size_t got = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file != NULL)
        fclose(file);
    text[got] = '\0';
    /* the name stands in parentheses, and may contain any characters */
    const char *at = strrchr(text, ')');
    for (int32_t field = NAME; at != NULL && field < STARTTIME; field++)
        at = strchr(at + 1, ' ');
    const long ticks = sysconf(_SC_CLK_TCK);
    struct timespec now;
    if (at == NULL || ticks <= 0 || clock_gettime(CLOCK_BOOTTIME, &now) != 0)
        return 0;
    const double age = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec -
                       (double)strtoull(at + 1, NULL, 10) / (double)ticks;
    return age > 0 ? age : 0;
}
