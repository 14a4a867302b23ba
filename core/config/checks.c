/* What the texts of a description may look like. Whatever passes here may reach a shell script or a
 * path. What Slurm's own settings may look like: checks_slurm.c. */
#include "core/config/internal.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 64 };

bool sw_text_consists_of(const char *text, const char *others, size_t max)
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
    return sw_text_consists_of(text, "._-", MAX_NAME) && text[0] != '.' && text[0] != '-';
}

bool sw_text_is_node_range(const char *text)
{
    int32_t least, most;
    return sw_node_range_parse(text, &least, &most) == 0;
}

/* A number of 1 to 6 digits; *text moves behind it. -1: none. */
static int32_t read_nodes(const char **text)
{
    const size_t digits = strspn(*text, "0123456789");
    if (digits < 1 || digits > 6)
        return -1;
    const int32_t number = (int32_t)strtol(*text, NULL, 10);
    *text += digits;
    return number;
}

int sw_node_range_parse(const char *text, int32_t *least, int32_t *most)
{
    enum { APART = 63 };
    const char *p = text;
    *least = *most = read_nodes(&p);
    if (*least >= 1 && *p == '-') {
        p++;
        *most = read_nodes(&p);
    }
    return *p == '\0' && *least >= 1 && *least <= *most && *most - *least <= APART ? 0 : -1;
}

bool sw_text_is_not_empty(const char *text)
{
    return text[0] != 0;
}
