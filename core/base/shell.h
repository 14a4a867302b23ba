/* Where in a shell text one is: in quotes, in a here-document, in the open. For texts that others
 * write and into which words are put, or which become a part of a script. Owns nothing.
 *
 * It reads bash as far as that can be read without running it: what `eval` gets, and the ')' of a
 * `case` inside '$(...)', it takes for what they look like. */
#ifndef SW_SHELL_H
#define SW_SHELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum sw_shell_context {
    SW_SHELL_WORD, /* where a word of the shell may stand */
    SW_SHELL_COMMENT,
    SW_SHELL_SINGLE,     /* '...' */
    SW_SHELL_DOUBLE,     /* "..." */
    SW_SHELL_ANSI,       /* $'...' */
    SW_SHELL_BACKTICK,   /* `...`, at any depth: quotes mean something else in it */
    SW_SHELL_HEREDOC,    /* the text behind <<WORD, or that word */
    SW_SHELL_PARAMETER,  /* ${...} */
    SW_SHELL_ARITHMETIC, /* $((...)), ((...)), name[...]: evaluated even in quotes */
    SW_SHELL_ESCAPED,    /* behind a backslash */
    SW_SHELL_DOLLAR,     /* behind a $, which changes what quotes mean */
    SW_SHELL_OPEN        /* $(...) or (...) that does not end: of a whole text only */
};
/* "single quotes", "a here-document", ... */
const char *sw_shell_context_name(enum sw_shell_context context);

enum { SW_SHELL_DEPTH = 32, SW_SHELL_HEREDOCS = 4 };

/* Zeroed but for `text` it stands at the beginning. */
struct sw_shell_scan {
    const char *text; /* the next character */
    unsigned char frame[SW_SHELL_DEPTH];
    int32_t depth;
    bool single, ansi, comment, escaped, dollar, in_word, subscript, too_deep;
    /* of the here-documents whose text begins with the next line, or has begun */
    struct {
        const char *word;
        size_t bytes;
        bool strip, quoted;
    } heredoc[SW_SHELL_HEREDOCS];
    int32_t heredocs;
    bool in_heredoc, wants_word;
};

/* Reads on up to `to`, which is in the same text. */
void sw_shell_scan_to(struct sw_shell_scan *scan, const char *to);
/* Goes to `to` as if one word of the shell, safely quoted, stood between. */
void sw_shell_scan_word(struct sw_shell_scan *scan, const char *to);
/* What a word would be put into here. */
enum sw_shell_context sw_shell_scan_context(const struct sw_shell_scan *scan);

/* What a text leaves open at its end (a quote, a here-document, a '$('), SW_SHELL_WORD: nothing. A
 * backslash at the end counts, a comment does not. */
enum sw_shell_context sw_shell_leaves_open(const char *text);

/* Bytes of the "$NAME" or "${NAME}" that a text begins with; 0: it begins with neither. */
size_t sw_shell_variable_length(const char *text);

/* Writes a text as one word of the shell, in single quotes where it needs them; "" as ''. */
void sw_shell_write_word(FILE *out, const char *text);

#endif
