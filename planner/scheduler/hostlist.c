#include "planner/scheduler/hostlist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 256, MAX_DIGITS = 9 };

int sw_hosts_add(struct sw_hosts *hosts, const char *name, struct sw_error *err)
{
    if (hosts->count == SW_MAX_HOSTS)
        return sw_fail(err, SW_BAD_INPUT, "more than %d nodes", SW_MAX_HOSTS);
    if (hosts->count == hosts->room) {
        const int32_t room = hosts->room == 0 ? 64 : 2 * hosts->room;
        char **grown = realloc(hosts->name, (size_t)room * sizeof *grown);
        if (grown == NULL)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory for %d names of nodes", room);
        hosts->name = grown;
        hosts->room = room;
    }
    char *copy = strdup(name);
    if (copy == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for %d names of nodes", hosts->count);
    hosts->name[hosts->count++] = copy;
    return 0;
}

static int malformed(const char *text, struct sw_error *err)
{
    return sw_fail(err, SW_BAD_INPUT, "'%.60s' is not a list of nodes", text);
}

/* Reads a number of at most MAX_DIGITS digits; returns the number of digits, 0: none. */
static size_t read_number(const char *p, long *out)
{
    const size_t digits = strspn(p, "0123456789");
    if (digits == 0 || digits > MAX_DIGITS)
        return 0;
    *out = strtol(p, NULL, 10);
    return digits;
}

/* Appends every name that `rest` (to `end`, no top-level comma in it) makes behind the text in
 * name. */
static int expand_one(char name[MAX_NAME], size_t used, const char *rest, const char *end,
                      struct sw_hosts *hosts, struct sw_error *err)
{
    const char *whole = rest;
    const char *bracket = memchr(rest, '[', (size_t)(end - rest));
    const size_t plain = bracket != NULL ? (size_t)(bracket - rest) : (size_t)(end - rest);
    if (used + plain + MAX_DIGITS + 1 >= MAX_NAME)
        return malformed(whole, err);
    memcpy(name + used, rest, plain);
    used += plain;
    name[used] = '\0';
    if (bracket == NULL)
        return used > 0 ? sw_hosts_add(hosts, name, err) : malformed(whole, err);
    const char *close = memchr(bracket, ']', (size_t)(end - bracket));
    if (close == NULL || close == bracket + 1)
        return malformed(whole, err);
    for (const char *p = bracket + 1; p < close;) {
        long first = 0, last = 0;
        const size_t digits = read_number(p, &first);
        size_t more = digits;
        p += digits;
        last = first;
        if (digits > 0 && *p == '-') {
            more = read_number(p + 1, &last);
            p += 1 + more;
        }
        if (digits == 0 || more == 0 || last < first || last - first >= SW_MAX_HOSTS ||
            (*p != ',' && p != close))
            return malformed(whole, err);
        for (long i = first; i <= last; i++) {
            const int width = snprintf(name + used, MAX_NAME - used, "%0*ld", (int)digits, i);
            if (expand_one(name, used + (size_t)width, close + 1, end, hosts, err) != 0)
                return -1;
        }
        p += *p == ',';
    }
    return 0;
}

int sw_hosts_expand(const char *text, struct sw_hosts *hosts, struct sw_error *err)
{
    char name[MAX_NAME];
    if (text == NULL || strcmp(text, "(null)") == 0)
        return 0;
    for (const char *p = text; *p != '\0';) {
        const char *end = p;
        bool inside = false;
        for (; *end != '\0' && (inside || *end != ','); end++)
            inside = *end == '[' || (inside && *end != ']');
        if (expand_one(name, 0, p, end, hosts, err) != 0)
            return -1;
        p = end + (*end == ',');
    }
    return 0;
}

/* Runs of digits compare as numbers; equal numbers by spelling. */
static int compare_names(const char *a, const char *b)
{
    const char *x = a, *y = b;
    while (*x != '\0' && *y != '\0') {
        const size_t m = strspn(x, "0123456789"), n = strspn(y, "0123456789");
        if (m == 0 || n == 0) {
            if (*x != *y)
                return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
            x++, y++;
            continue;
        }
        const size_t zeros_x = strspn(x, "0"), zeros_y = strspn(y, "0");
        const size_t p = zeros_x < m ? m - zeros_x : 0, q = zeros_y < n ? n - zeros_y : 0;
        if (p != q)
            return p < q ? -1 : 1;
        const int order = strncmp(x + m - p, y + n - q, p);
        if (order != 0)
            return order;
        x += m, y += n;
    }
    if (*x != *y)
        return *x == '\0' ? -1 : 1;
    return strcmp(a, b);
}

static int compare_entries(const void *a, const void *b)
{
    return compare_names(*(char *const *)a, *(char *const *)b);
}

void sw_hosts_sort(struct sw_hosts *hosts)
{
    int32_t kept = 0;
    if (hosts->count == 0)
        return;
    qsort(hosts->name, (size_t)hosts->count, sizeof *hosts->name, compare_entries);
    for (int32_t i = 1; i < hosts->count; i++)
        if (strcmp(hosts->name[i], hosts->name[kept]) == 0)
            free(hosts->name[i]);
        else
            hosts->name[++kept] = hosts->name[i];
    hosts->count = kept + 1;
}

bool sw_hosts_contain(const struct sw_hosts *hosts, const char *name)
{
    return hosts->count > 0 && bsearch(&name, hosts->name, (size_t)hosts->count,
                                       sizeof *hosts->name, compare_entries) != NULL;
}

int32_t sw_hosts_common(const struct sw_hosts *a, const struct sw_hosts *b)
{
    int32_t i = 0, k = 0, common = 0;
    while (i < a->count && k < b->count) {
        const int order = compare_names(a->name[i], b->name[k]);
        common += order == 0;
        i += order <= 0;
        k += order >= 0;
    }
    return common;
}

/* Splits a name at its last number. false: none that fits. */
static bool split(const char *name, size_t *before, size_t *digits, long *number)
{
    size_t end = strlen(name);
    while (end > 0 && strchr("0123456789", name[end - 1]) == NULL)
        end--;
    size_t start = end;
    while (start > 0 && end - start < MAX_DIGITS && strchr("0123456789", name[start - 1]) != NULL)
        start--;
    if (start == end)
        return false;
    *before = start;
    *digits = end - start;
    *number = strtol(name + start, NULL, 10);
    return true;
}

static bool padded(const char *name, size_t before, size_t digits)
{
    return digits > 1 && name[before] == '0';
}

/* True if b can join the brackets of a: the same text around the number, and numbers of the same
 * form. */
static bool alike(const char *a, size_t before, size_t digits, const char *b, long *number)
{
    size_t other = 0, width = 0;
    if (!split(b, &other, &width, number) || other != before || memcmp(a, b, before) != 0 ||
        strcmp(a + before + digits, b + other + width) != 0)
        return false;
    return width == digits || (!padded(a, before, digits) && !padded(b, before, width));
}

char *sw_hosts_compress(const struct sw_hosts *hosts)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        return NULL;
    for (int32_t i = 0; i < hosts->count;) {
        const char *name = hosts->name[i];
        size_t before = 0, digits = 0;
        long first = 0, next = 0;
        int32_t end = i + 1;
        fputs(i > 0 ? "," : "", out);
        if (!split(name, &before, &digits, &first) || end == hosts->count ||
            !alike(name, before, digits, hosts->name[end], &next)) {
            fputs(name, out);
            i = end;
            continue;
        }
        const int width = padded(name, before, digits) ? (int)digits : 1;
        fprintf(out, "%.*s[%.*s", (int)before, name, (int)digits, name + before);
        long start = first, last = first;
        for (; end < hosts->count && alike(name, before, digits, hosts->name[end], &next); end++) {
            if (next != last + 1) {
                if (last > start)
                    fprintf(out, "-%0*ld", width, last);
                fprintf(out, ",%0*ld", width, next);
                start = next;
            }
            last = next;
        }
        if (last > start)
            fprintf(out, "-%0*ld", width, last);
        fprintf(out, "]%s", name + before + digits);
        i = end;
    }
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

void sw_hosts_free(struct sw_hosts *hosts)
{
    for (int32_t i = 0; i < hosts->count; i++)
        free(hosts->name[i]);
    free(hosts->name);
    *hosts = (struct sw_hosts){0};
}
