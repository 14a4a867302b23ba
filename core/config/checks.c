/* Checks of a description's texts. Texts that pass may reach a shell script or a path. */
#include "core/base/text.h"
#include "core/config/internal.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 64, MAX_TEXT = 200, MAX_LINE = 1000 };

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
    /* '.' or '-' in front would make a hidden file, a parent directory or an option. */
    return sw_text_consists_of(text, "._-", MAX_NAME) && text[0] != '.' && text[0] != '-';
}

bool sw_text_is_stage(const char *text)
{
    /* NAME.4.plan.yaml is for 4 nodes, and a run's checkpoints are in 'checkpoints' */
    const bool letter = (text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z');
    return letter && sw_text_consists_of(text, "_-", MAX_NAME) && strcmp(text, "checkpoints") != 0;
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

/* ---- Texts for scripts ---- */

bool sw_text_is_word(const char *text)
{
    return sw_text_consists_of(text, "_.,:=+@/%-", MAX_TEXT) && text[0] != '-';
}

bool sw_text_is_line(const char *text)
{
    size_t length = 0;
    for (const char *p = text; *p != '\0'; p++, length++)
        if (sw_text_hidden(p) > 0)
            return false;
    return length > 0 && length <= MAX_LINE;
}

bool sw_text_is_value(const char *text)
{
    return text[0] == '\0' || sw_text_is_line(text);
}

/* Length of the name in one '--name' or '--name=value'; 0: no such option. */
size_t sw_option_name_length(const char *text)
{
    if (strncmp(text, "--", 2) != 0 || text[2] < 'a' || text[2] > 'z')
        return 0;
    const size_t length = strspn(text + 2, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return text[2 + length] == '\0' || text[2 + length] == '=' ? length : 0;
}

bool sw_text_is_option(const char *text)
{
    return sw_option_name_length(text) > 0 && sw_text_is_line(text);
}

/* "name/version", as `module load` takes it. */
bool sw_text_is_module(const char *text)
{
    return sw_text_consists_of(text, "_.+/-@:=", MAX_TEXT) && text[0] != '-';
}

/* An image: a path, a file, or a name with a registry in front. */
bool sw_text_is_image(const char *text)
{
    return sw_text_is_line(text) && strpbrk(text, " \"'\\$`,") == NULL && text[0] != '-';
}

/* "/from:/to" or "/from:/to:flags". Container programs split lists of them at commas. */
bool sw_text_is_mount(const char *text)
{
    if (!sw_text_is_line(text) || strpbrk(text, ",\"'\\") != NULL || text[0] != '/')
        return false;
    const char *colon = strchr(text, ':');
    if (colon == NULL || colon[1] != '/')
        return false;
    colon = strchr(colon + 1, ':');
    return colon == NULL || (colon[1] != '\0' && sw_text_consists_of(colon + 1, "+-_", 64));
}

bool sw_text_is_absolute_path(const char *text)
{
    return text[0] == '/' && sw_text_is_line(text);
}

bool sw_text_is_variable(const char *text)
{
    return sw_text_consists_of(text, "_", 128) && (text[0] < '0' || text[0] > '9');
}
