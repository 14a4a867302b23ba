#include "planner/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

char *sw_format_bytes(double bytes, char buffer[SW_FORMAT_BYTES])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    int32_t unit = 0;
    while (bytes >= 999.5 && unit < 6) {
        bytes /= 1000;
        unit++;
    }
    snprintf(buffer, SW_FORMAT_BYTES, "%.*f %s",
             unit == 0       ? 0
             : bytes < 99.95 ? 1
                             : 0,
             bytes, units[unit]);
    return buffer;
}

char *sw_format_seconds(double seconds, char buffer[SW_FORMAT_BYTES])
{
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}};
    int32_t i = 0;
    while (i < 2 && seconds < units[i].unit * 0.9995)
        i++;
    const double value = seconds / units[i].unit;
    snprintf(buffer, SW_FORMAT_BYTES, "%.*f %s",
             value < 9.995   ? 2
             : value < 99.95 ? 1
                             : 0,
             value, units[i].name);
    return buffer;
}

char *sw_format_duration(double seconds, char buffer[SW_FORMAT_BYTES])
{
    static const struct {
        double unit, most;
        const char *name;
    } units[] = {{60, 59.95, "min"}, {3600, 47.95, "h"}, {86400, 1e300, "days"}};
    char digits[SW_FORMAT_BYTES];
    size_t i = 0;
    if (seconds < 59.95)
        return sw_format_seconds(seconds, buffer);
    while (seconds / units[i].unit >= units[i].most)
        i++;
    const double value = seconds / units[i].unit;
    if (value < 99.95)
        snprintf(buffer, SW_FORMAT_BYTES, "%.1f %s", value, units[i].name);
    else
        snprintf(buffer, SW_FORMAT_BYTES, "%.24s %s", sw_format_count(value, digits),
                 units[i].name);
    return buffer;
}

char *sw_format_count(double count, char buffer[SW_FORMAT_BYTES])
{
    char digits[SW_FORMAT_BYTES];
    const int length = snprintf(digits, sizeof digits, "%.0f", count < 1e15 ? count : 1e15);
    int used = 0;
    for (int i = 0; i < length && used < SW_FORMAT_BYTES - 2; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            buffer[used++] = ',';
        buffer[used++] = digits[i];
    }
    buffer[used] = '\0';
    return buffer;
}

char *sw_format_number(double number, char buffer[SW_FORMAT_BYTES])
{
    char digits[SW_FORMAT_BYTES];
    const double size = number < 0 ? -number : number;
    if (size < 999.5)
        snprintf(buffer, SW_FORMAT_BYTES, "%.4g", number);
    else
        snprintf(buffer, SW_FORMAT_BYTES, "%s%.30s", number < 0 ? "-" : "",
                 sw_format_count(size, digits));
    return buffer;
}
