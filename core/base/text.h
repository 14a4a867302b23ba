/* Words and texts for people: suggestions for typos, shortening, escapes for HTML. Pure functions;
 * any thread. */
#ifndef SW_TEXT_H
#define SW_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Letters to insert, delete, exchange or swap with their neighbour until both are the same
 * (Damerau-Levenshtein, each position once), ignoring case; 1000 if one has more than 48. */
int32_t sw_text_distance(const char *a, const char *b);
/* True if one may be a typo for the other: at most a third of the letters differ, of three or fewer
 * not the first, and not digits alone (int4 is no typo for int8). Then *distance is set. */
bool sw_text_is_near(const char *a, const char *b, int32_t *distance);
/* The first of the words most like `name`, NULL: none; at most two letters, and less than half of
 * the word, may differ. */
const char *sw_text_nearest(const char *name, const char *const *words, int32_t count);

/* Copies at most `most` bytes of text and, if there were more, "..."; cuts no UTF-8 character in
 * two. Returns buffer, which has room for most + 4 bytes. */
char *sw_text_shorten(const char *text, size_t most, char *buffer);

/* Length of the character at p if it is invisible, controls a terminal or reorders text: controls,
 * zero-width ones, line separators, direction marks. 0: an ordinary one. */
size_t sw_text_hidden(const char *p);
/* Replaces each of those by '?', in place. Returns text. */
char *sw_text_show(char *text);
/* Shortens an untrusted text and replaces such characters, so that it stays on its line of a
 * message. */
char *sw_text_shown(const char *text, size_t most, char *buffer);

/* Writes a text for HTML, inside elements and quoted attributes; controls become spaces. */
void sw_text_write_html(FILE *out, const char *text);

#endif
