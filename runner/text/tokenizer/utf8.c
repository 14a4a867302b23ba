#include "runner/text/tokenizer/utf8.h"

#include <string.h>
#include <utf8proc.h>

int32_t sw_utf8_measure(const unsigned char *p, size_t left)
{
    const unsigned char first = p[0];
    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4)
        return -1;
    const int32_t bytes = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    /* the second byte excludes overlong forms, surrogates, and values above U+10FFFF */
    const unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    for (int32_t i = 1; i < bytes; i++) {
        if ((size_t)i == left)
            return 0;
        if (p[i] < (i == 1 ? least : 0x80) || p[i] > (i == 1 ? most : 0xbf))
            return -i;
    }
    return bytes;
}

size_t sw_utf8_valid(const char *text, size_t bytes)
{
    size_t at = 0;
    while (at < bytes) {
        uint64_t eight;
        if (at + 8 <= bytes && (memcpy(&eight, text + at, 8), (eight & 0x8080808080808080u) == 0)) {
            at += 8;
            continue;
        }
        const int32_t measure = sw_utf8_measure((const unsigned char *)text + at, bytes - at);
        if (measure <= 0)
            break;
        at += (size_t)measure;
    }
    return at;
}

int64_t sw_utf8_count_foreign(const char *text, size_t bytes)
{
    int64_t count = 0;
    for (size_t at = sw_utf8_valid(text, bytes); at < bytes;) {
        const int32_t measure = sw_utf8_measure((const unsigned char *)text + at, bytes - at);
        const size_t foreign = measure == 0 ? bytes - at : (size_t)-measure;
        count += (int64_t)foreign;
        at += foreign;
        at += sw_utf8_valid(text + at, bytes - at);
    }
    return count;
}

int sw_utf8_repair(const char *text, size_t bytes, struct sw_chars *out)
{
    size_t at = 0;
    while (at < bytes) {
        const size_t good = sw_utf8_valid(text + at, bytes - at);
        if (sw_chars_add(out, text + at, good) != 0)
            return -1;
        at += good;
        if (at == bytes)
            break;
        const int32_t measure = sw_utf8_measure((const unsigned char *)text + at, bytes - at);
        if (sw_chars_add(out, SW_UTF8_REPLACEMENT, 3) != 0)
            return -1;
        at = measure == 0 ? bytes : at + (size_t)-measure;
    }
    return 0;
}

size_t sw_utf8_put(uint32_t c, char out[4])
{
    if (c < 0x80)
        return out[0] = (char)c, 1;
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

bool sw_utf8_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

bool sw_utf8_is_word(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default: /* joiners, and Other_Alphabetic's circled letters */
        return c == 0x200c || c == 0x200d || (c >= 0x24b6 && c <= 0x24e9) ||
               (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
               (c >= 0x1f170 && c <= 0x1f189);
    }
}
