/* Shell contexts: tells for a position in a shell text if it is in quotes, in a here-document or
 * outside. For other people's texts into which words are put, or which become part of a script.
 * Owns nothing.
 *
 * It reads bash as far as possible without running it: text for `eval`, and the ')' of a `case`
 * inside '$(...)', are taken literally. */
#ifndef SW_SHELL_H
#define SW_SHELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum sw_shell_context {
    SW_SHELL_WORD, /* a word of the shell may stand here */
    SW_SHELL_COMMENT,
    SW_SHELL_SINGLE,     /* '...' */
    SW_SHELL_DOUBLE,     /* "..." */
    SW_SHELL_ANSI,       /* $'...' */
    SW_SHELL_BACKTICK,   /* `...`, at any depth: quotes mean something else in it */
    SW_SHELL_HEREDOC,    /* text behind <<WORD, or that word */
    SW_SHELL_PARAMETER,  /* ${...} */
    SW_SHELL_ARITHMETIC, /* $((...)), ((...)), name[...]: evaluated even in quotes */
    SW_SHELL_ESCAPED,    /* behind a backslash */
    SW_SHELL_DOLLAR,     /* behind a $, which changes what quotes mean */
    SW_SHELL_OPEN        /* unclosed $(...) or (...): only for a whole text */
};
/* "single quotes", "a here-document", ... */
const char *sw_shell_context_name(enum sw_shell_context context);

enum { SW_SHELL_DEPTH = 32, SW_SHELL_HEREDOCS = 4 };

/* Zeroed except for `text`, it is at the beginning. */
struct sw_shell_scan {
    const char *text; /* the next character */
    unsigned char frame[SW_SHELL_DEPTH];
    int32_t depth;
    bool single, ansi, comment, escaped, dollar, in_word, subscript, too_deep;
    /* here-documents whose text begins with the next line, or has begun */
    struct {
        const char *word;
        size_t bytes;
        bool strip, quoted;
    } heredoc[SW_SHELL_HEREDOCS];
    int32_t heredocs;
    bool in_heredoc, wants_word;
};

/* Reads up to `to`, which is in the same text. */
void sw_shell_scan_to(struct sw_shell_scan *scan, const char *to);
/* Moves to `to` as if one word of the shell, safely quoted, stood between. */
void sw_shell_scan_word(struct sw_shell_scan *scan, const char *to);
/* Context of a word inserted here. */
enum sw_shell_context sw_shell_scan_context(const struct sw_shell_scan *scan);

/* The construct that a text leaves open at its end (a quote, a here-document, a '$('),
 * SW_SHELL_WORD: none. A backslash at the end counts, a comment does not. */
enum sw_shell_context sw_shell_leaves_open(const char *text);

/* Length of the "$NAME" or "${NAME}" at the begin of a text; 0: neither. */
size_t sw_shell_variable_length(const char *text);

/* Writes a text as one word of the shell, in single quotes if needed; "" as ''. */
void sw_shell_write_word(FILE *out, const char *text);

#endif
