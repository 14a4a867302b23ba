#include "planner/command/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

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

char *sw_format_rate(double bytes_per_second, char buffer[SW_FORMAT_RATE])
{
    static const char prefixes[] = " kMGTPE";
    const double figure[2] = {bytes_per_second, 8 * bytes_per_second};
    int used = 0;
    for (int i = 0; i < 2; i++) {
        double value = figure[i];
        int at = 0;
        /* like data sheets: 900 GB/s, 3.35 TB/s, 3200 Gb/s */
        for (; value >= (i == 0 ? 999.5 : 9999.5) && prefixes[at + 1] != '\0'; at++)
            value /= 1000;
        used += snprintf(buffer + used, (size_t)(SW_FORMAT_RATE - used), "%s%.5g %.*s%s",
                         i == 0 ? "" : " = ", value, at > 0, prefixes + at, i == 0 ? "B/s" : "b/s");
    }
    return buffer;
}

char *sw_format_seconds(double seconds, char buffer[SW_FORMAT_BYTES])
{
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}};
    int32_t i = 0;
    if (seconds == 0)
        return strcpy(buffer, "0 s");
    if (seconds >= 9999.5) /* larger numbers of seconds are hard to read */
        return sw_format_duration(seconds, buffer);
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
    } units[] = {{60, 59.95, "min"}, {3600, 47.95, "h"}, {86400, INFINITY, "days"}};
    char digits[SW_FORMAT_BYTES];
    size_t i = 0;
    if (seconds < 59.95)
        return sw_format_seconds(seconds, buffer);
    while (seconds / units[i].unit >= units[i].most && units[i].most < INFINITY)
        i++;
    const double value = seconds / units[i].unit;
    if (value < 99.95)
        snprintf(buffer, SW_FORMAT_BYTES, "%.1f %s", value, units[i].name);
    else
        snprintf(buffer, SW_FORMAT_BYTES, "%.24s %s", sw_format_count(value, digits),
                 units[i].name);
    return buffer;
}

char *sw_format_limit(const char *written, char *buffer, size_t bytes)
{
    const bool minutes = written[0] != '\0' && written[strspn(written, "0123456789")] == '\0';
    snprintf(buffer, bytes, "%.40s%s", written,
             !minutes                    ? ""
             : strcmp(written, "1") == 0 ? " minute"
                                         : " minutes");
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

char *sw_format_short(double count, char buffer[SW_FORMAT_BYTES])
{
    static const char *const units[] = {"", " k", " M", " B", " T"};
    size_t u = 0;
    while (count >= 999.5 && u + 1 < sizeof units / sizeof units[0]) {
        count /= 1000;
        u++;
    }
    const int decimals = u == 0 || count >= 99.95 ? 0 : count >= 9.995 ? 1 : 2;
    snprintf(buffer, SW_FORMAT_BYTES, "%.*f%s", decimals, count, units[u]);
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

char *sw_format_accelerator_hours(double hours, char buffer[SW_FORMAT_RATE])
{
    char digits[SW_FORMAT_BYTES];
    if (hours < 0.01) {
        snprintf(buffer, SW_FORMAT_RATE, "%s of accelerator time",
                 sw_format_seconds(hours * 3600, digits));
        return buffer;
    }
    snprintf(digits, sizeof digits, "%.2g", hours);
    if (hours >= 9.95)
        sw_format_count(hours, digits);
    snprintf(buffer, SW_FORMAT_RATE, "%s accelerator-hours", digits);
    return buffer;
}

char *sw_format_counted(double count, const char *one, char buffer[SW_FORMAT_RATE])
{
    char digits[SW_FORMAT_BYTES];
    snprintf(buffer, SW_FORMAT_RATE, "%.24s %.32s%s", sw_format_count(count, digits), one,
             count == 1 ? "" : "s");
    return buffer;
}

int32_t sw_format_columns(void)
{
    enum { LEAST = 60 };
    const char *said = getenv("COLUMNS");
    struct winsize size = {0};
    long columns = said != NULL ? strtol(said, NULL, 10) : 0;
    if (columns <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        columns = size.ws_col;
    return columns <= 0 || columns > INT32_MAX ? INT32_MAX
           : columns < LEAST                   ? LEAST
                                               : (int32_t)columns;
}

const char *sw_format_mark(bool good)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *locale = "";
    for (size_t i = 0; i < sizeof names / sizeof names[0] && locale[0] == '\0'; i++)
        locale = getenv(names[i]) != NULL ? getenv(names[i]) : "";
    const bool utf8 = locale[0] == '\0' || strcasestr(locale, "utf-8") != NULL ||
                      strcasestr(locale, "utf8") != NULL;
    return utf8 ? (good ? "✓" : "✗") : good ? "*" : "x";
}

void sw_format_wrapped(FILE *out, const char *text, int32_t at, int32_t indent, int32_t width)
{
    const int32_t columns = sw_format_columns();
    width = columns < width ? columns : width;
    for (bool first = true; *text != '\0'; first = false) {
        const int32_t length = (int32_t)strcspn(text, " ");
        if (!first && at + 1 + length > width) {
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (!first) {
            fputc(' ', out);
            at++;
        }
        fprintf(out, "%.*s", (int)length, text);
        at += length;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}
