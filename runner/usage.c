#include "runner/usage.h"

#include "core/base/text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { OPTION_BYTES = 64, MOST_OPTIONS = 48 };

static const char usage[] = "usage: runner ", next[] = "\n\nusage: ";

const char *sw_usage_section(const char *help, const char *command, size_t *bytes)
{
    const size_t length = strlen(command);
    for (const char *at = strstr(help, usage); at != NULL; at = strstr(at + 1, usage)) {
        const char *name = at + sizeof usage - 1;
        if (strncmp(name, command, length) != 0 || (name[length] != ' ' && name[length] != '\n'))
            continue;
        const char *end = strstr(at, next), *last = strstr(at, "\n\n  runner --version");
        end = end != NULL ? end : last != NULL ? last : at + strlen(at);
        *bytes = (size_t)(end - at);
        return at;
    }
    return NULL;
}

static bool is_part(char c)
{
    return (c >= 'a' && c <= 'z') || c == '-';
}

/* The options that the part names, each once. */
static int32_t list_options(const char *section, size_t bytes, char option[][OPTION_BYTES])
{
    int32_t count = 0;
    for (size_t i = 0; i + 2 < bytes && count < MOST_OPTIONS; i++) {
        size_t length = 0;
        if (memcmp(section + i, "--", 2) != 0 || (i > 0 && is_part(section[i - 1])))
            continue;
        while (i + length < bytes && is_part(section[i + length]))
            length++;
        bool known = length < 4 || length >= OPTION_BYTES;
        for (int32_t k = 0; k < count && !known; k++)
            known = strlen(option[k]) == length && memcmp(option[k], section + i, length) == 0;
        if (!known)
            snprintf(option[count++], OPTION_BYTES, "%.*s", (int)length, section + i);
        i += length;
    }
    return count;
}

/* Whether the words of max-tokens stand in max-new-tokens, in the same order. */
static bool has_words_of(const char *option, const char *wrong)
{
    const char *word = wrong + 2, *at = option + 2;
    while (*word != '\0' && *at != '\0') {
        const size_t length = strcspn(word, "-"), here = strcspn(at, "-");
        if (length == here && memcmp(at, word, length) == 0)
            word += length + (word[length] == '-');
        at += here + (at[here] == '-');
    }
    return *word == '\0' && word > wrong + 2;
}

/* What other tools call it. */
static const char *named_elsewhere(const char *wrong) /* with its dashes; the answer has none */
{
    static const char *const names[][2] = {{"port", "listen"},        {"host", "listen"},
                                           {"bind", "listen"},        {"address", "listen"},
                                           {"api-key", "token-file"}, {"ckpt", "checkpoint"},
                                           {"weights", "checkpoint"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i][0], wrong + 2) == 0)
            return names[i][1];
    return NULL;
}

bool sw_usage_near_option(const char *section, size_t bytes, const char *wrong, char out[64])
{
    char option[MOST_OPTIONS][OPTION_BYTES], spelled[OPTION_BYTES];
    const char *names[MOST_OPTIONS], *found = NULL, *elsewhere;
    const int32_t count = list_options(section, bytes, option);
    snprintf(spelled, sizeof spelled, "%.60s", wrong);
    spelled[strcspn(spelled, "=")] = '\0';
    for (char *p = spelled; *p != '\0'; p++)
        *p = *p == '_' ? '-' : *p;
    for (int32_t i = 0; i < count; i++) {
        names[i] = option[i];
        if (strcmp(option[i], spelled) == 0)
            found = option[i];
    }
    elsewhere = strncmp(spelled, "--", 2) == 0 ? named_elsewhere(spelled) : NULL;
    for (int32_t i = 0; found == NULL && elsewhere != NULL && i < count; i++)
        if (strcmp(option[i] + 2, elsewhere) == 0)
            found = option[i];
    if (found == NULL && count > 0)
        found = sw_text_nearest(spelled, names, count);
    for (int32_t i = 0; found == NULL && strncmp(spelled, "--", 2) == 0 && i < count; i++)
        if (has_words_of(option[i], spelled))
            found = option[i];
    if (found != NULL)
        snprintf(out, OPTION_BYTES, "%.63s", found);
    return found != NULL;
}
