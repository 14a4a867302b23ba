/* UTF-8 one character at a time, and what Unicode says about a character. */
#ifndef SW_UTF8_H
#define SW_UTF8_H

#include "runner/text/tokenizer/tokenizer.h"

#define SW_UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* What stands at p, [left] bytes, left > 0. Returns the character's bytes, 1 to 4; 0: it goes on
 * behind the end; -n: n bytes that begin no character, the longest such start of one (Unicode 15,
 * 3.9, "maximal subpart"), for which one U+FFFD stands. */
int32_t sw_utf8_measure(const unsigned char *p, size_t left);
/* How many of the bytes, from the first on, are whole characters. */
size_t sw_utf8_valid(const char *text, size_t bytes);
/* How many of the bytes belong to no whole character. */
int64_t sw_utf8_count_foreign(const char *text, size_t bytes);
/* Adds the text with U+FFFD for what is no UTF-8. Returns -1: no memory. */
int sw_utf8_repair(const char *text, size_t bytes, struct sw_chars *out);

/* The character at p, of a text that is valid; *bytes: its length. */
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

/* White_Space of Unicode. */
bool sw_utf8_is_space(uint32_t character);
/* Whether it is part of a word (UTS 18, "word"). */
bool sw_utf8_is_word(uint32_t character);

#endif
