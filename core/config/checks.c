/* What the texts of a description may look like. Whatever passes here may reach a shell script or a
 * path. */
#include "core/config/internal.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 64, MAX_SLURM_TEXT = 200 };

static bool consists_of(const char *text, const char *others, size_t max)
{
    size_t length = strlen(text);
    if (length == 0 || length > max)
        return false;
    for (const unsigned char *p = (const unsigned char *)text; *p != 0; p++) {
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');
        if (!letter && !(*p >= '0' && *p <= '9') && strchr(others, *p) == NULL)
            return false;
    }
    return true;
}

bool sw_text_is_name(const char *text)
{
    /* '.' and '-' first would make a hidden file, a parent directory or an option. */
    return consists_of(text, "._-", MAX_NAME) && text[0] != '.' && text[0] != '-';
}

bool sw_text_is_slurm_word(const char *text)
{
    return consists_of(text, "_.,:=+@/%-", MAX_SLURM_TEXT) && text[0] != '-';
}

bool sw_text_is_slurm_constraint(const char *text)
{
    return consists_of(text, "_.,:=+@/%-&|*[]()", MAX_SLURM_TEXT) && text[0] != '-';
}

/* Length of the run of digits at *text, which moves behind it. */
static size_t skip_digits(const char **text)
{
    size_t length = strspn(*text, "0123456789");
    *text += length;
    return length;
}

bool sw_text_is_slurm_time(const char *text)
{
    if (strcmp(text, "UNLIMITED") == 0 || strcmp(text, "INFINITE") == 0)
        return true;
    if (strlen(text) > 20)
        return false;
    if (skip_digits(&text) == 0)
        return false;
    if (*text == '-') {
        text++;
        if (skip_digits(&text) == 0)
            return false;
    }
    int32_t colons = 0;
    while (*text == ':') {
        text++;
        size_t digits = skip_digits(&text);
        if (digits < 1 || digits > 2)
            return false;
        colons++;
    }
    return *text == 0 && colons <= 2;
}

double sw_slurm_time_seconds(const char *time)
{
    double part[3] = {0}, days = 0;
    int32_t parts = 0;
    if (time == NULL || time[0] < '0' || time[0] > '9')
        return INFINITY;
    const char *dash = strchr(time, '-');
    if (dash != NULL) {
        days = strtod(time, NULL);
        time = dash + 1;
    }
    for (const char *p = time; p != NULL && parts < 3; parts++) {
        part[parts] = strtod(p, NULL);
        p = strchr(p, ':');
        p = p == NULL ? NULL : p + 1;
    }
    double seconds = days * 86400;
    if (dash != NULL || parts == 3)
        seconds += part[0] * 3600 + part[1] * 60 + part[2];
    else
        seconds += part[0] * 60 + part[1];
    return seconds > 0 ? seconds : INFINITY;
}

bool sw_text_is_slurm_gpus(const char *text)
{
    if (!consists_of(text, "_.,:-", MAX_SLURM_TEXT) || text[0] == '-')
        return false;
    for (const char *p = text;;) {
        size_t length = strcspn(p, ",");
        const char *colon = memchr(p, ':', length);
        const char *number = colon != NULL ? colon + 1 : p;
        size_t digits = strspn(number, "0123456789");
        if (colon == p || digits == 0 || digits > 6 || number + digits != p + length ||
            number[0] == '0')
            return false;
        if (p[length] == 0)
            return true;
        p += length + 1;
    }
}

bool sw_text_is_slurm_memory(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits < 16 &&
           (text[digits] == 0 || (strchr("KMGT", text[digits]) != NULL && text[digits + 1] == 0));
}

bool sw_text_is_not_empty(const char *text)
{
    return text[0] != 0;
}
