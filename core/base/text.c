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

/* True if both have digits and differ in nothing else: int4 is not a typo of int8. */
static bool differ_in_digits(const char *a, const char *b)
{
    static const char digits[] = "0123456789";
    bool differ = false;
    if (strpbrk(a, digits) == NULL || strpbrk(b, digits) == NULL)
        return false;
    for (;;) {
        const size_t n = strspn(a, digits), m = strspn(b, digits);
        differ |= n != m || strncmp(a, b, n) != 0;
        a += n;
        b += m;
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return false;
        if (*a == '\0')
            return differ;
        a++;
        b++;
    }
}

bool sw_text_is_near(const char *a, const char *b, int32_t *distance)
{
    size_t n = strlen(a), m = strlen(b), longer = n > m ? n : m, shorter = n > m ? m : n;
    if ((longer - shorter) * 3 > longer)
        return false;
    /* in three letters the first is hardly a typo: gpu is not cpu */
    if (longer <= 3 && n > 0 && m > 0 &&
        tolower((unsigned char)a[0]) != tolower((unsigned char)b[0]))
        return false;
    if (differ_in_digits(a, b))
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

size_t sw_text_hidden(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    if (*p == '\0')
        return 0;
    if (*p < 0x20 || *p == 0x7f)
        return 1;
    if (p[0] == 0xc2 && p[1] >= 0x80) /* U+0080 to U+009F, U+00AD */
        return p[1] < 0xa0 || p[1] == 0xad ? 2 : 0;
    if (p[0] == 0xd8 && p[1] == 0x9c) /* U+061C */
        return 2;
    if (p[0] == 0xe2 && p[1] == 0x80) /* U+200B to U+200F, U+2028 to U+202E */
        return (p[2] >= 0x8b && p[2] <= 0x8f) || (p[2] >= 0xa8 && p[2] <= 0xae) ? 3 : 0;
    if (p[0] == 0xe2 && p[1] == 0x81) /* U+2060 to U+206F */
        return p[2] >= 0xa0 && p[2] <= 0xaf ? 3 : 0;
    return p[0] == 0xef && p[1] == 0xbb && p[2] == 0xbf ? 3 : 0; /* U+FEFF */
}

char *sw_text_show(char *text)
{
    char *out = text;
    for (const char *p = text; *p != '\0';) {
        const size_t hidden = sw_text_hidden(p);
        *out++ = hidden > 0 ? '?' : *p;
        p += hidden > 0 ? hidden : 1;
    }
    *out = '\0';
    return text;
}

char *sw_text_shown(const char *text, size_t most, char *buffer)
{
    return sw_text_show(sw_text_shorten(text, most, buffer));
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
