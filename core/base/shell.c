#include "core/base/shell.h"

#include <string.h>

/* Construct that a closing character ends. */
enum frame { DOUBLE = 1, PAREN, BRACE, ARITH, ARITH_PAREN, BACKTICK };

const char *sw_shell_context_name(enum sw_shell_context context)
{
    static const char *const names[] = {
        [SW_SHELL_WORD] = "a word",
        [SW_SHELL_COMMENT] = "a comment",
        [SW_SHELL_SINGLE] = "single quotes",
        [SW_SHELL_DOUBLE] = "double quotes",
        [SW_SHELL_ANSI] = "$'...' quotes",
        [SW_SHELL_BACKTICK] = "backticks",
        [SW_SHELL_HEREDOC] = "a here-document",
        [SW_SHELL_PARAMETER] = "${...}",
        [SW_SHELL_ARITHMETIC] = "arithmetic",
        [SW_SHELL_ESCAPED] = "a backslash's escape",
        [SW_SHELL_DOLLAR] = "a '$'",
        [SW_SHELL_OPEN] = "parentheses",
    };
    return names[context];
}

static enum frame top(const struct sw_shell_scan *s)
{
    return s->depth > 0 ? (enum frame)s->frame[s->depth - 1] : 0;
}

static void push(struct sw_shell_scan *s, enum frame frame)
{
    if (s->depth == SW_SHELL_DEPTH) {
        s->too_deep = true; /* everything from here on counts as quoted */
        return;
    }
    s->frame[s->depth++] = (unsigned char)frame;
    s->in_word = false;
}

static void pop(struct sw_shell_scan *s)
{
    if (s->depth > 0)
        s->depth--;
    s->in_word = true;
}

/* True where commands stand: comments, here-documents and redirections are possible. */
static bool is_code(const struct sw_shell_scan *s)
{
    const enum frame frame = top(s);
    return frame == 0 || frame == PAREN || frame == BACKTICK;
}

/* True in "${x:-'a'}", where a single quote is an ordinary character. */
static bool is_inside_double(const struct sw_shell_scan *s)
{
    int32_t i = s->depth - 1;
    while (i >= 0 && s->frame[i] == BRACE)
        i--;
    return i >= 0 && s->frame[i] == DOUBLE;
}

/* Reads the word behind '<<'; `at`: first character behind these. Returns the character behind the
 * word. */
static const char *read_delimiter(struct sw_shell_scan *s, const char *at)
{
    bool strip = *at == '-', quoted = false;
    at += strip;
    at += strspn(at, " \t");
    const char *from = at;
    while (*at != '\0' && strchr(" \t\n;&|<>()", *at) == NULL) {
        quoted = quoted || strchr("'\"\\", *at) != NULL;
        at++;
    }
    if (at == from || s->heredocs == SW_SHELL_HEREDOCS) {
        s->wants_word = at == from;
        s->too_deep = s->too_deep || at != from;
        return at;
    }
    s->heredoc[s->heredocs].word = from;
    s->heredoc[s->heredocs].bytes = (size_t)(at - from);
    s->heredoc[s->heredocs].strip = strip;
    s->heredoc[s->heredocs++].quoted = quoted;
    return at;
}

/* True if the line from..end is the word that ends a here-document; its quotes don't count. */
static bool ends_heredoc(const struct sw_shell_scan *s, const char *from, const char *end)
{
    const char *word = s->heredoc[0].word, *stop = word + s->heredoc[0].bytes;
    if (s->heredoc[0].strip)
        while (from < end && *from == '\t')
            from++;
    for (; word < stop; word++) {
        if (strchr("'\"\\", *word) != NULL)
            continue;
        if (from == end || *from != *word)
            return false;
        from++;
    }
    return from == end;
}

/* Skips one line of a here-document, or its part before `to`. */
static const char *skip_heredoc_line(struct sw_shell_scan *s, const char *at, const char *to)
{
    const char *end = at;
    while (end < to && *end != '\n')
        end++;
    const bool whole = end < to || *end == '\0';
    if (whole && ends_heredoc(s, at, end)) {
        memmove(s->heredoc, s->heredoc + 1, sizeof s->heredoc - sizeof s->heredoc[0]);
        s->in_heredoc = --s->heredocs > 0;
    }
    return end < to ? end + 1 : end;
}

/* Reads '$' and its construct. Returns the character behind it. */
static const char *read_dollar(struct sw_shell_scan *s, const char *at)
{
    const bool quoted = top(s) == DOUBLE || (top(s) == BRACE && is_inside_double(s));
    s->in_word = true;
    if (at[1] == '(' && at[2] == '(') {
        push(s, ARITH);
        return at + 3;
    }
    if (at[1] == '(' || at[1] == '{') {
        push(s, at[1] == '(' ? PAREN : BRACE);
        return at + 2;
    }
    if (at[1] == '\'' && !quoted) {
        s->ansi = true;
        return at + 2;
    }
    if (at[1] == '"' && !quoted) {
        push(s, DOUBLE);
        return at + 2;
    }
    s->dollar = true;
    return at + 1;
}

/* Reads a character with the same meaning in every frame, or one in a frame that is no code. NULL:
 * code. */
static const char *read_quoted(struct sw_shell_scan *s, const char *at)
{
    const enum frame frame = top(s);
    const bool literal = frame == DOUBLE || (frame == BRACE && is_inside_double(s));
    switch (*at) {
    case '\\':
        s->escaped = s->in_word = true;
        return at + 1;
    case '$':
        return read_dollar(s, at);
    case '"':
        if (frame == DOUBLE)
            pop(s);
        else
            push(s, DOUBLE);
        return at + 1;
    case '`': {
        int32_t i = s->depth;
        while (i > 0 && s->frame[i - 1] != BACKTICK)
            i--;
        if (i > 0)
            s->depth = i - 1; /* ends every open construct inside */
        else
            push(s, BACKTICK);
        s->in_word = i > 0;
        return at + 1;
    }
    case '\'':
        if (literal)
            break;
        s->single = s->in_word = true;
        return at + 1;
    default:
        break;
    }
    if (is_code(s))
        return NULL;
    if (frame == BRACE && *at == '}') {
        pop(s);
    } else if (frame == ARITH && *at == '(') {
        push(s, ARITH_PAREN);
    } else if (frame == ARITH_PAREN && *at == ')') {
        pop(s);
    } else if (frame == ARITH_PAREN && *at == '(') {
        push(s, ARITH_PAREN);
    } else if (frame == ARITH && *at == ')') {
        pop(s);
        return at + (at[1] == ')' ? 2 : 1);
    }
    return at + 1;
}

static const char *read_code(struct sw_shell_scan *s, const char *at)
{
    const char c = *at;
    const bool was_in_word = s->in_word;
    s->in_word = false;
    s->wants_word = s->wants_word && (c == ' ' || c == '\t');
    switch (c) {
    case '\n':
        s->in_heredoc = s->heredocs > 0;
        s->subscript = false;
        return at + 1;
    case ' ':
    case '\t':
        s->subscript = false;
        return at + 1;
    case '#':
        s->comment = !was_in_word;
        s->in_word = was_in_word;
        return at + 1;
    case '<':
        if (at[1] == '<' && at[2] == '<')
            return at + 3;
        return at[1] == '<' ? read_delimiter(s, at + 2) : at + 1;
    case '(':
        if (at[1] == '(' && !was_in_word) {
            push(s, ARITH);
            return at + 2;
        }
        push(s, PAREN);
        return at + 1;
    case ')':
        if (top(s) == PAREN)
            pop(s);
        s->in_word = false;
        return at + 1;
    case ';':
    case '&':
    case '|':
    case '>':
        s->subscript = false;
        return at + 1;
    case '[':
        s->subscript = s->subscript || was_in_word;
        s->in_word = true;
        return at + 1;
    case ']':
        s->subscript = false;
        s->in_word = true;
        return at + 1;
    default:
        s->in_word = true;
        return at + 1;
    }
}

void sw_shell_scan_to(struct sw_shell_scan *s, const char *to)
{
    const char *at = s->text;
    while (at < to) {
        s->dollar = false;
        if (s->in_heredoc) {
            at = skip_heredoc_line(s, at, to);
        } else if (s->comment) {
            s->comment = *at != '\n';
            at += s->comment;
        } else if (s->escaped) {
            s->escaped = false;
            at++;
        } else if (s->single) {
            s->single = *at++ != '\'';
        } else if (s->ansi) {
            if (*at == '\\')
                s->escaped = true;
            else
                s->ansi = *at != '\'';
            at++;
        } else {
            const char *next = read_quoted(s, at);
            at = next != NULL ? next : read_code(s, at);
        }
    }
    /* lookahead includes the text at `to`: '${{name}}', '<<{{name}}' */
    if (at > to && s->heredocs > 0 && !s->in_heredoc)
        s->wants_word = true;
    else if (at > to)
        s->dollar = true;
    s->text = at;
}

void sw_shell_scan_word(struct sw_shell_scan *s, const char *to)
{
    s->text = to;
    s->in_word = true;
    s->dollar = s->escaped = s->wants_word = false;
}

enum sw_shell_context sw_shell_scan_context(const struct sw_shell_scan *s)
{
    static const enum sw_shell_context contexts[] = {
        [0] = SW_SHELL_WORD,           [DOUBLE] = SW_SHELL_DOUBLE,
        [PAREN] = SW_SHELL_WORD,       [BRACE] = SW_SHELL_PARAMETER,
        [ARITH] = SW_SHELL_ARITHMETIC, [ARITH_PAREN] = SW_SHELL_ARITHMETIC,
        [BACKTICK] = SW_SHELL_BACKTICK};
    if (s->in_heredoc || s->wants_word)
        return SW_SHELL_HEREDOC;
    if (s->comment)
        return SW_SHELL_COMMENT;
    if (s->single)
        return SW_SHELL_SINGLE;
    if (s->ansi)
        return SW_SHELL_ANSI;
    if (s->escaped)
        return SW_SHELL_ESCAPED;
    if (s->dollar)
        return SW_SHELL_DOLLAR;
    for (int32_t i = 0; i < s->depth; i++)
        if (s->frame[i] == BACKTICK)
            return SW_SHELL_BACKTICK;
    if (s->too_deep)
        return SW_SHELL_DOUBLE;
    if (top(s) == 0 || top(s) == PAREN)
        return s->subscript ? SW_SHELL_ARITHMETIC : SW_SHELL_WORD;
    return contexts[top(s)];
}

enum sw_shell_context sw_shell_leaves_open(const char *text)
{
    struct sw_shell_scan scan = {.text = text};
    sw_shell_scan_to(&scan, text + strlen(text));
    const bool waits = scan.heredocs > 0 && !scan.in_heredoc;
    scan.subscript = scan.dollar = false;
    if (scan.in_heredoc || waits || scan.wants_word)
        return SW_SHELL_HEREDOC;
    if (scan.comment)
        scan.comment = false;
    const enum sw_shell_context context = sw_shell_scan_context(&scan);
    return context == SW_SHELL_WORD && scan.depth > 0 ? SW_SHELL_OPEN : context;
}

size_t sw_shell_variable_length(const char *text)
{
    static const char letters[] = "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    if (text[0] != '$')
        return 0;
    const size_t brace = text[1] == '{';
    const char *name = text + 1 + brace;
    const size_t length = name[0] >= '0' && name[0] <= '9' ? 0 : strspn(name, letters);
    if (length == 0 || (brace > 0 && name[length] != '}'))
        return 0;
    return 1 + 2 * brace + length;
}

static bool is_plain_word(const char *text)
{
    /* a '=' in front would look like a comparison */
    if (*text == '\0' || *text == '=')
        return false;
    for (const char *p = text; *p != '\0'; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
              strchr("_-./:,=+@%", *p) != NULL))
            return false;
    return true;
}

void sw_shell_write_word(FILE *out, const char *text)
{
    if (is_plain_word(text)) {
        fputs(text, out);
        return;
    }
    fputc('\'', out);
    for (const char *p = text; *p != '\0'; p++)
        if (*p == '\'')
            fputs("'\\''", out);
        else
            fputc(*p, out);
    fputc('\'', out);
}
