/* UTF-8 by character, and Unicode properties. */
#ifndef SW_UTF8_H
#define SW_UTF8_H

#include "runner/text/tokenizer/tokenizer.h"

#define SW_UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Measures the character at p, [left] bytes, left > 0. Returns its bytes, 1 to 4; 0: it continues
 * past the end; -n: n invalid bytes, the longest start of a character (Unicode 15, 3.9, "maximal
 * subpart"), to be replaced by one U+FFFD. */
int32_t sw_utf8_measure(const unsigned char *p, size_t left);
/* Number of leading bytes that are whole characters. */
size_t sw_utf8_valid(const char *text, size_t bytes);
/* Number of bytes in no whole character. */
int64_t sw_utf8_count_foreign(const char *text, size_t bytes);
/* Appends the text with U+FFFD for invalid bytes. Returns -1: no memory. */
int sw_utf8_repair(const char *text, size_t bytes, struct sw_chars *out);

/* Character at the start of a valid text; *bytes: its length. */
static inline uint32_t sw_utf8_get(const char *text, size_t *bytes)
{
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80)
        return *bytes = 1, p[0];
    if (p[0] < 0xe0)
        return *bytes = 2, (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
    if (p[0] < 0xf0)
        return *bytes = 3,
               (uint32_t)(p[0] & 0xf) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
    return *bytes = 4, (uint32_t)(p[0] & 7) << 18 | (uint32_t)(p[1] & 0x3f) << 12 |
                           (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f);
}
/* Writes a character below 0x110000; returns its bytes. */
size_t sw_utf8_put(uint32_t character, char out[4]);

/* Unicode's White_Space. */
bool sw_utf8_is_space(uint32_t character);
/* True if it is a word character (UTS 18, "word"). */
bool sw_utf8_is_word(uint32_t character);

#endif
