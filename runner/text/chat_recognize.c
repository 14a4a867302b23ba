/* Which of the forms here a template in Jinja writes. Templates are not run: one is brought into a
 * form in which spelling does not count (white space, quotes, a key as .role or ['role'], a text in
 * one piece or in several), and must then be one of those below, which chat.c writes to the letter.
 * Jinja is set as transformers sets it, with trim_blocks and lstrip_blocks. */
#include "core/base/file.h"
#include "runner/text/chat.h"
#include "runner/text/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ASSISTANT_OF_LLAMA "<|start_header_id|>assistant<|end_header_id|>\\n\\n"
#define BODY_OF_LLAMA                                                                              \
    "{set loop_messages=messages}{for message in loop_messages}"                                   \
    "{set content=\"<|start_header_id|>\"+message.role+\"<|end_header_id|>\\n\\n\""                \
    "+message.content|trim+\"<|eot_id|>\"}"                                                        \
    "{if loop.index0==0}{set content=bos_token+content}{endif}[content]{endfor}"
#define CHATML                                                                                     \
    "{for message in messages}\"<|im_start|>\"[message.role]\"\\n\"[message.content]"              \
    "\"<|im_end|>\\n\"{endfor}"                                                                    \
    "{if add_generation_prompt}\"<|im_start|>assistant\\n\"{endif}"

/* "text": written; [x]: the value of x written; {x}: a statement. What raise_exception says does
 * not count. */
static const struct {
    const char *name, *form;
    const char *bos, *eos; /* that it must have; NULL: any */
} known[] = {
    {"llama-3", BODY_OF_LLAMA "{if add_generation_prompt}\"" ASSISTANT_OF_LLAMA "\"{endif}",
     "<|begin_of_text|>", NULL},
    {"llama-3", BODY_OF_LLAMA "\"" ASSISTANT_OF_LLAMA "\"", "<|begin_of_text|>", NULL},
    {"chatml", CHATML, NULL, NULL},
    {"chatml",
     "{if not add_generation_prompt is defined}{set add_generation_prompt=false}{endif}" CHATML,
     NULL, NULL},
    {"mistral",
     "{if messages[0].role==\"system\"}{set system_message=messages[0].content}"
     "{set loop_messages=messages[1:]}{else}{set loop_messages=messages}{endif}[bos_token]"
     "{for message in loop_messages}"
     "{if(message.role==\"user\")!=(loop.index0%2==0)}[raise_exception()]{endif}"
     "{if message.role==\"user\"}{if loop.first and system_message is defined}"
     "\" [INST] \"[system_message]\"\\n\\n\"[message.content]\" [/INST]\""
     "{else}\" [INST] \"[message.content]\" [/INST]\"{endif}"
     "{elif message.role==\"assistant\"}\" \"[message.content][eos_token]"
     "{else}[raise_exception()]{endif}{endfor}",
     "<s>", "</s>"},
};

/* ---- the form in which spelling does not count ---- */

struct normalizing {
    struct sw_chars out;
    bool in_text; /* a text that is written was begun and not ended */
    bool failed;  /* no memory */
};

static void put(struct normalizing *n, const char *text, size_t bytes)
{
    if (bytes > 0 && sw_chars_add(&n->out, text, bytes) != 0)
        n->failed = true;
}

static void put_escaped(struct normalizing *n, char byte)
{
    if (byte == '\n')
        put(n, "\\n", 2);
    else if (byte == '"' || byte == '\\')
        put(n, (char[2]){'\\', byte}, 2);
    else
        put(n, &byte, 1);
}

/* Texts that follow each other are one. */
static void write_text(struct normalizing *n, const char *text, size_t bytes)
{
    if (bytes > 0 && !n->in_text)
        put(n, "\"", 1);
    n->in_text = n->in_text || bytes > 0;
    for (size_t i = 0; i < bytes; i++)
        put_escaped(n, text[i]);
}

static void end_text(struct normalizing *n)
{
    if (n->in_text)
        put(n, "\"", 1);
    n->in_text = false;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The end of the string that begins at p, behind its quote; NULL: it has none. */
static const char *string_end(const char *p, const char *end)
{
    const char quote = *p++;
    while (p < end && *p != quote)
        p += *p == '\\' && p + 1 < end ? 2 : 1;
    return p < end ? p + 1 : NULL;
}

/* A string's text; escapes other than these stay as they are, and then it is no known one. */
static void read_string(struct sw_chars *text, const char *p, const char *end)
{
    for (p++; p < end - 1; p++) {
        char c = *p;
        if (c == '\\' && strchr("n\\'\"", p[1]) != NULL) {
            p++;
            c = *p == 'n' ? '\n' : *p;
        }
        (void)sw_chars_add(text, &c, 1);
    }
}

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && strchr(" \t\r\n", *p) != NULL)
        p++;
    return p;
}

/* ['role'] as .role; returns what follows it, p itself when this is none. */
static const char *put_key(struct normalizing *n, const char *p, const char *end)
{
    const char *open = skip_space(p + 1, end);
    if (open >= end || (*open != '\'' && *open != '"'))
        return p;
    const char *close = string_end(open, end);
    const char *behind = close == NULL ? end : skip_space(close, end);
    if (behind >= end || *behind != ']' || close - open < 3)
        return p;
    for (const char *c = open + 1; c < close - 1; c++)
        if (!is_word(*c))
            return p;
    put(n, ".", 1);
    put(n, open + 1, (size_t)(close - open) - 2);
    return behind + 1;
}

/* The tokens of a statement or an expression; white space stands only between two words. */
static void put_tokens(struct normalizing *n, const char *p, const char *end)
{
    bool after_word = false;
    while ((p = skip_space(p, end)) < end) {
        const char *from = p;
        if (is_word(*p)) {
            while (p < end && is_word(*p))
                p++;
            if (after_word)
                put(n, " ", 1);
            put(n, from, (size_t)(p - from));
            after_word = true;
            if (p - from == 15 && memcmp(from, "raise_exception", 15) == 0 && p < end && *p == '(')
                p = (put(n, "()", 2), end);
            continue;
        }
        after_word = false;
        if ((*p == '\'' || *p == '"') && string_end(p, end) != NULL) {
            struct sw_chars text = {0};
            p = string_end(p, end);
            read_string(&text, from, p);
            put(n, "\"", 1);
            for (size_t i = 0; i < text.count; i++)
                put_escaped(n, text.byte[i]);
            put(n, "\"", 1);
            sw_chars_free(&text);
        } else if (*p == '[' && (p = put_key(n, p, end)) != from) {
            after_word = true;
        } else {
            put(n, p++, 1);
        }
    }
}

/* Whether an expression is but texts and names, joined by '+': of an `if` or a call the parts are
 * not written one after the other. */
static bool is_sum(const char *p, const char *end)
{
    while (p < end) {
        const char *behind = *p == '\'' || *p == '"' ? string_end(p, end) : p + 1;
        if (behind == NULL || strchr("(){}<>=!,*/%~-:", *p) != NULL)
            return false;
        if (is_word(*p)) {
            const char *word = p;
            while (behind < end && is_word(*behind))
                behind++;
            const char *next = skip_space(behind, end);
            /* two words behind each other: an operator is one of them */
            if (next > behind && next < end && is_word(*next))
                return false;
            p = word;
        }
        p = behind;
    }
    return true;
}

static void write_part(struct normalizing *n, const char *p, const char *end)
{
    p = skip_space(p, end);
    while (end > p && strchr(" \t\r\n", end[-1]) != NULL)
        end--;
    if (p < end && (*p == '\'' || *p == '"') && string_end(p, end) == end) {
        struct sw_chars text = {0};
        read_string(&text, p, end);
        write_text(n, text.byte, text.count);
        sw_chars_free(&text);
        return;
    }
    end_text(n);
    put(n, "[", 1);
    put_tokens(n, p, end);
    put(n, "]", 1);
}

static void write_expression(struct normalizing *n, const char *p, const char *end)
{
    const char *from = p;
    const bool sum = is_sum(p, end);
    for (; sum && p < end; p++) {
        if (*p == '\'' || *p == '"') {
            p = string_end(p, end) - 1;
        } else if (*p == '+') {
            write_part(n, from, p);
            from = p + 1;
        }
    }
    write_part(n, from, end);
}

/* Where the tag that begins at p ends: behind its "%}"; NULL: nowhere. */
static const char *tag_end(const char *p, const char *end)
{
    const char closer = p[1] == '{' ? '}' : p[1];
    for (const char *c = p + 2; c + 1 < end;) {
        if (closer != '#' && (*c == '\'' || *c == '"')) {
            c = string_end(c, end);
            if (c == NULL)
                return NULL;
        } else if (*c == closer && c[1] == '}') {
            return c + 2;
        } else {
            c++;
        }
    }
    return NULL;
}

static const char *next_tag(const char *p, const char *end)
{
    for (; p + 1 < end; p++)
        if (*p == '{' && strchr("{%#", p[1]) != NULL)
            return p;
    return end;
}

/* What stands between two tags, as it is written: before: the one before it (NULL: none), which
 * ends at `from`; after: the one behind it, at `to`. */
static void write_between(struct normalizing *n, const char *begin, const char *before,
                          const char *from, const char *to, const char *end)
{
    if (before != NULL && from[-3] == '-')
        from = skip_space(from, to);
    else if (before != NULL && before[1] != '{' && from < to && *from == '\n')
        from++;
    if (to < end && to[2] == '-') {
        while (to > from && strchr(" \t\r\n", to[-1]) != NULL)
            to--;
    } else if (to < end && to[1] != '{') {
        const char *line = to;
        while (line > from && (line[-1] == ' ' || line[-1] == '\t'))
            line--;
        if (line == begin || line[-1] == '\n')
            to = line;
    }
    write_text(n, from, (size_t)(to - from));
}

/* Returns 0; -1: no memory; 1: it is no template. */
static int normalize(const char *text, size_t bytes, struct normalizing *n)
{
    const char *end = text + bytes, *before = NULL, *p = text;
    if (bytes > 0 && end[-1] == '\n')
        end--;
    for (;;) {
        const char *tag = next_tag(p, end);
        write_between(n, text, before, p, tag, end);
        if (tag == end)
            break;
        const char *behind = tag_end(tag, end);
        if (behind == NULL || behind - tag < 5)
            return 1;
        const char *from = tag + 2 + (tag[2] == '-'), *to = behind - 2 - (behind[-3] == '-');
        if (from > to)
            return 1;
        if (tag[1] == '{') {
            write_expression(n, from, to);
        } else if (tag[1] == '%') {
            end_text(n);
            put(n, "{", 1);
            put_tokens(n, from, to);
            put(n, "}", 1);
        }
        before = tag;
        p = behind;
    }
    end_text(n);
    return n->failed ? -1 : 0;
}

static bool fits(const char *wanted, const char *token)
{
    return wanted == NULL || (token != NULL && strcmp(wanted, token) == 0);
}

int sw_chat_recognize(const char *jinja, size_t bytes, const char *bos, const char *eos,
                      const struct sw_chat_template **out, struct sw_error *err)
{
    struct normalizing n = {0};
    *out = NULL;
    const int status = normalize(jinja, bytes, &n);
    for (size_t i = 0; status == 0 && *out == NULL && i < sizeof known / sizeof known[0]; i++)
        if (n.out.count == strlen(known[i].form) &&
            memcmp(n.out.byte, known[i].form, n.out.count) == 0 && fits(known[i].bos, bos) &&
            fits(known[i].eos, eos))
            *out = sw_chat_template_find(known[i].name, NULL);
    sw_chars_free(&n.out);
    return status < 0 ? sw_fail(err, SW_ENVIRONMENT, "out of memory for the chat template") : 0;
}

/* ---- a model's own ---- */

/* "</s>" or {"content": "</s>"} */
static const char *token_text(const json_t *value)
{
    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

/* The template, or of several the one named "default". */
static const json_t *default_of(const json_t *value)
{
    const json_t *one;
    size_t i;
    if (!json_is_array(value))
        return value;
    json_array_foreach(value, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name != NULL && strcmp(name, "default") == 0)
            return json_object_get(one, "template");
    }
    return value;
}

int sw_chat_of_folder(const char *folder, struct sw_chat_own *out, struct sw_error *err)
{
    char *path = sw_path_join(folder, "chat_template.jinja"), *text = NULL;
    json_t *config = NULL;
    size_t bytes = 0;
    int status = path == NULL ? sw_fail(err, SW_ENVIRONMENT, "out of memory for the chat template")
                              : sw_text_load_json(folder, "tokenizer_config.json", &config, err);
    *out = (struct sw_chat_own){.file = NULL};
    if (status == 0 && sw_file_read(path, true, SW_TEXT_CONFIG_BYTES, &text, &bytes, NULL) == 0)
        out->file = "chat_template.jinja";
    else if (status == 0 && errno != ENOENT)
        status = sw_fail_at(err, errno == EFBIG ? SW_BAD_INPUT : SW_ENVIRONMENT,
                            (struct sw_place){.file = path}, "cannot read it: %s", strerror(errno));
    const json_t *own = default_of(json_object_get(config, "chat_template"));
    if (status == 0 && out->file == NULL && own != NULL && !json_is_null(own))
        out->file = "tokenizer_config.json";
    if (status == 0 && (text != NULL || json_is_string(own)))
        status =
            sw_chat_recognize(text != NULL ? text : json_string_value(own),
                              text != NULL ? bytes : json_string_length(own),
                              token_text(json_object_get(config, "bos_token")),
                              token_text(json_object_get(config, "eos_token")), &out->form, err);
    json_decref(config);
    free(text);
    free(path);
    return status;
}
