#include "core/base/text.h"

#include <ctype.h>
#include <string.h>

enum { MAX_COMPARED = 48 };

int32_t sw_text_distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n > MAX_COMPARED || m > MAX_COMPARED)
        return 1000;
    int32_t rows[3][MAX_COMPARED + 1];
    int32_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++)
        above[j] = (int32_t)j;
    memcpy(before, above, sizeof rows[0]);
    for (size_t i = 1; i <= n; i++) {
        row[0] = (int32_t)i;
        for (size_t j = 1; j <= m; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            int32_t best = above[j - 1] + (x != y);
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
                y == tolower((unsigned char)a[i - 2]) && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        int32_t *spare = before;
        before = above;
        above = row;
        row = spare;
    }
    return above[m];
}

bool sw_text_is_near(const char *a, const char *b, int32_t *distance)
{
    size_t n = strlen(a), m = strlen(b), longer = n > m ? n : m, shorter = n > m ? m : n;
    if ((longer - shorter) * 3 > longer)
        return false;
    *distance = sw_text_distance(a, b);
    return (size_t)*distance * 3 <= longer;
}

const char *sw_text_nearest(const char *name, const char *const *words, int32_t count)
{
    const char *best = NULL;
    int32_t least = 0;
    for (int32_t i = 0; i < count; i++) {
        const int32_t distance = sw_text_distance(name, words[i]);
        if (best == NULL || distance < least) {
            best = words[i];
            least = distance;
        }
    }
    return best != NULL && least <= 2 && least * 2 < (int32_t)strlen(best) ? best : NULL;
}

char *sw_text_shorten(const char *text, size_t most, char *buffer)
{
    size_t bytes = strlen(text);
    const bool cut = bytes > most;
    if (cut)
        for (bytes = most; bytes > 0 && ((unsigned char)text[bytes] & 0xc0) == 0x80;)
            bytes--;
    memcpy(buffer, text, bytes);
    strcpy(buffer + bytes, cut ? "..." : "");
    return buffer;
}

char *sw_text_shown(const char *text, size_t most, char *buffer)
{
    unsigned char *out = (unsigned char *)sw_text_shorten(text, most, buffer);
    for (; *out != '\0'; out++) {
        if (*out < 0x20 || *out == 0x7f)
            *out = '?';
        if (out[0] == 0xc2 && out[1] >= 0x80 && out[1] < 0xa0) /* U+0080 to U+009F */
            out[0] = out[1] = '?';
    }
    return buffer;
}

void sw_text_write_html(FILE *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        switch (*c) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            fputc((unsigned char)*c < ' ' ? ' ' : *c, out);
        }
}
