#include "runner/text/tokenize_files.h"

#include "core/base/json.h"
#include "core/base/json_read.h"
#include "core/base/text.h"
#include "core/base/token_index.h"
#include "core/plan/data_file.h"
#include "runner/text/chat_messages.h"
#include "runner/text/inputs.h"
#include "runner/text/interrupts.h"
#include "runner/text/tokenizer/json_mistake.h"
#include "runner/text/tokenizer/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMES = 64 }; /* most inputs that the index names */

/* State of a conversion. */
struct making {
    const struct sw_tokenizer *t;
    struct sw_text_scratch *scratch;
    const struct sw_tokenize_options *options;
    struct sw_inputs inputs;
    struct sw_token_writer *writer;
    struct sw_tokenize_counts counts;
    struct sw_chat_template *chat; /* NULL: not yet looked for */
    struct sw_ids ids;             /* the current document's */
    struct sw_error *err;
};

static struct sw_place at_input(const struct making *m)
{
    return (struct sw_place){.file = m->inputs.from};
}

/* ---- documents ---- */

/* Number of a document's first tokens that appear twice: added by the post-processor to a text that
 * already began with them, as chat templates do. */
static size_t begun_twice(const struct making *m)
{
    size_t n;
    const int32_t *begin = sw_tokenizer_begin(m->t, &n);
    const bool twice =
        n > 0 && m->ids.count >= 2 * n && memcmp(m->ids.id + n, begin, n * sizeof *begin) == 0;
    return twice ? n : 0;
}

static int end_document(struct making *m, size_t bytes)
{
    m->counts.documents++;
    m->counts.bytes += (int64_t)bytes;
    return sw_token_writer_end(m->writer, m->err);
}

static int write_document(struct making *m, const char *text, size_t bytes)
{
    const struct sw_encode_options options = {.add_special = true,
                                              .plain_special = !m->options->parses_special};
    const int32_t end = m->options->end;
    m->ids.count = 0;
    if (sw_tokenizer_encode(m->t, m->scratch, text, bytes, &options, &m->ids, m->err) != 0)
        return sw_fail_place(m->err, at_input(m));
    const size_t twice = begun_twice(m);
    if (m->ids.count > 0 &&
        sw_token_writer_add(m->writer, m->ids.id + twice, NULL, m->ids.count - twice, m->err) != 0)
        return -1;
    const bool ends = end < 0 || (m->ids.count > 0 && m->ids.id[m->ids.count - 1] == end);
    if (!ends && sw_token_writer_add(m->writer, &end, NULL, 1, m->err) != 0)
        return -1;
    return end_document(m, bytes);
}

/* ---- conversations ---- */

static int choose_template(struct making *m)
{
    const struct sw_tokenize_options *o = m->options;
    const char *name = o->chat_template;
    if (m->chat != NULL)
        return 0;
    if (name == NULL && o->folder != NULL &&
        sw_chat_template_of_folder(o->folder, &m->chat, m->err) != 0)
        return -1;
    if (name == NULL && m->chat == NULL)
        name = m->counts.guessed = sw_chat_template_by_tokens(m->t);
    if (m->chat == NULL && (name == NULL || strcmp(name, "none") == 0))
        return sw_fail(m->err, SW_BAD_INPUT,
                       "messages need a chat template, and the model has none; give "
                       "--chat-template llama-3, chatml or mistral, or a folder that has one");
    return m->chat != NULL ? 0 : sw_chat_template_named(name, &m->chat, m->err);
}

static int write_conversation(struct making *m, const json_t *object)
{
    struct sw_chat_talk talk = {.answer = false};
    uint8_t *counts = NULL;
    size_t bytes = 0;
    json_t *messages = NULL, *tools = NULL;
    int status = choose_template(m);
    m->ids.count = 0;
    if (status == 0)
        messages =
            sw_chat_read_messages(m->chat, json_object_get(object, "messages"), &bytes, m->err);
    if (messages == NULL ||
        sw_chat_read_tools(m->chat, json_object_get(object, "tools"), &tools, m->err) != 0)
        status = -1;
    talk.messages = messages;
    talk.tools = tools;
    if (status == 0)
        status = sw_chat_encode_counted(m->chat, m->t, m->scratch, &talk, &m->ids, &counts, m->err);
    if (status == 0)
        status = sw_token_writer_add(m->writer, m->ids.id, counts, m->ids.count, m->err);
    if (status == 0)
        status = end_document(m, bytes);
    m->counts.conversations += status == 0;
    free(counts);
    json_decref(messages);
    json_decref(tools);
    return status;
}

/* ---- lines ---- */

/* Column of an object's key in this line; 1: not found. */
static int32_t column_of(const char *line, size_t bytes, const char *key)
{
    struct sw_json_reader r;
    enum sw_json_event event;
    int32_t depth = 0, row, column = 1;
    sw_json_reader_begin(&r, line, bytes);
    while ((event = sw_json_next(&r)) != SW_JSON_END && event < SW_JSON_MISTAKE) {
        depth += (event == SW_JSON_OBJECT || event == SW_JSON_ARRAY) - (event == SW_JSON_CLOSE);
        if (event == SW_JSON_KEY && depth == 1 && strcmp(r.value, key) == 0)
            sw_json_where(&r, &row, &column);
    }
    sw_json_reader_free(&r);
    return column;
}

/* Refuses a line that is no JSON; says so if the first line is no text at all. */
static int refuse_line(struct making *m, const char *line, size_t bytes,
                       const struct sw_json_mistake *why)
{
    struct sw_json_mistake mistake = *why;
    const struct sw_place at = sw_inputs_place(&m->inputs, why->column);
    mistake.line = at.line;
    if (at.line == 1 && why->what != NULL && sw_data_check_text(at.file, line, bytes, m->err) != 0)
        return -1;
    return sw_text_json_mistake(at.file, &mistake, m->err);
}

static const json_t *member(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

/* Reads {"text": "..."} or {"messages": [...]}; ignores other members, except "tools" beside
 * messages. */
static int read_object(struct making *m, const char *line, size_t bytes, const json_t *object)
{
    const bool is_object = sw_json_is_object(object);
    const json_t *text = is_object ? member(object, "text") : NULL;
    const json_t *messages = is_object ? member(object, "messages") : NULL;
    if ((text == NULL) == (messages == NULL))
        return sw_fail_at(m->err, SW_BAD_INPUT, sw_inputs_place(&m->inputs, 1),
                          text != NULL ? "both a 'text' and 'messages'; leave one out"
                                       : "no object with a 'text' or with 'messages'; each line is "
                                         "one, {\"text\": \"...\"} or {\"messages\": [...]}");
    const char *key = text != NULL ? "text" : "messages";
    int status;
    if (text == NULL)
        status = write_conversation(m, object);
    else if (json_is_string(text))
        status = write_document(m, json_string_value(text), json_string_length(text));
    else
        status = sw_fail(m->err, SW_BAD_INPUT, "'text' must be a string");
    return status == 0
               ? 0
               : sw_fail_place(m->err, sw_inputs_place(&m->inputs, column_of(line, bytes, key)));
}

static int read_line(struct making *m, const char *line, size_t bytes)
{
    struct sw_json_mistake why;
    json_t *object = sw_json_load(line, bytes, 0, &why);
    const int status =
        object == NULL ? refuse_line(m, line, bytes, &why) : read_object(m, line, bytes, object);
    json_decref(object);
    return status;
}

/* ---- inputs ---- */

static void tell(struct making *m)
{
    if (m->inputs.tells)
        sw_inputs_tell(&m->inputs, m->counts.documents, sw_token_writer_counts(m->writer).tokens);
}

static int fail_empty(const struct making *m)
{
    return sw_fail_at(m->err, SW_BAD_INPUT, at_input(m), "the file is empty; name one with a text");
}

static int read_bytes(struct making *m)
{
    const char *block;
    int64_t all = 0;
    for (size_t n; sw_inputs_block(&m->inputs, &block, &n, m->err) == 0;) {
        m->ids.count = 0;
        if (n == 0)
            return all == 0 ? fail_empty(m) : end_document(m, (size_t)all);
        if (sw_tokenizer_encode(m->t, m->scratch, block, n, NULL, &m->ids, m->err) != 0 ||
            sw_token_writer_add(m->writer, m->ids.id, NULL, m->ids.count, m->err) != 0)
            return -1;
        all += (int64_t)n;
        tell(m);
    }
    return -1;
}

/* Refuses a text at its first NUL. */
static int refuse_nul(const struct making *m, const struct sw_chars *text)
{
    struct sw_place at = at_input(m);
    const char *nul = memchr(text->byte, 0, text->count), *from = text->byte;
    at.line = at.column = 1;
    for (const char *p = text->byte; p < nul; p++) {
        from = *p == '\n' ? p + 1 : from;
        at.line += *p == '\n' && at.line < INT32_MAX;
    }
    for (const char *p = from; p < nul; p++)
        at.column += ((unsigned char)*p & 0xc0) != 0x80 && at.column < INT32_MAX;
    return sw_fail_at(m->err, SW_BAD_INPUT, at,
                      "a zero byte, which no text in UTF-8 has; name a text, or say --bytes to "
                      "make a token of each byte");
}

static int read_text(struct making *m)
{
    struct sw_chars text = {0};
    const char *block;
    int status = 0;
    for (size_t n; (status = sw_inputs_block(&m->inputs, &block, &n, m->err)) == 0 && n > 0;) {
        if (sw_chars_add(&text, block, n) != 0)
            status = sw_fail(m->err, SW_ENVIRONMENT, "out of memory for '%s'", m->inputs.from);
        else if (text.count > INT32_MAX)
            status = sw_fail_at(m->err, SW_BAD_INPUT, at_input(m),
                                "a text of more than 2^31 - 1 bytes; split the file, or write its "
                                "documents to a NAME.jsonl, one a line");
        if (status != 0)
            break;
        tell(m);
    }
    if (status == 0 && text.count == 0)
        status = fail_empty(m);
    else if (status == 0)
        status = sw_data_check_text(m->inputs.from, text.byte, text.count, m->err);
    if (status == 0 && memchr(text.byte, 0, text.count) != NULL)
        status = refuse_nul(m, &text);
    m->counts.foreign += status == 0 ? sw_utf8_count_foreign(text.byte, text.count) : 0;
    if (status == 0)
        status = write_document(m, text.byte, text.count);
    sw_chars_free(&text);
    return status;
}

static bool is_blank(const char *line, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && (line[i] == ' ' || line[i] == '\t' || line[i] == '\r'))
        i++;
    return i == bytes;
}

static int read_lines(struct making *m)
{
    const int64_t before = m->counts.documents;
    const char *line;
    int status;
    for (size_t n; (status = sw_inputs_line(&m->inputs, &line, &n, m->err)) == 0 && line != NULL;) {
        if (!is_blank(line, n) && (status = read_line(m, line, n)) != 0)
            return status;
        tell(m);
    }
    return status == 0 && m->counts.documents == before ? fail_empty(m) : status;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static int read_input(struct making *m, int32_t i)
{
    if (sw_inputs_open(&m->inputs, i, m->err) != 0)
        return -1;
    return sw_tokenizer_is_bytes(m->t)                                ? read_bytes(m)
           : m->options->lines || ends_with(m->inputs.from, ".jsonl") ? read_lines(m)
                                                                      : read_text(m);
}

/* ---- the output ---- */

/* Index line that names the tokens' source. NULL: no memory. */
static char *write_source(const struct making *m)
{
    const struct sw_inputs *inputs = &m->inputs;
    const int32_t end = m->options->end;
    char *line = NULL;
    size_t bytes;
    FILE *out = open_memstream(&line, &bytes);
    if (out == NULL)
        return NULL;
    struct sw_json j = {.out = out, .style = SW_JSON_LINE};
    sw_json_object(&j, NULL);
    sw_json_array(&j, "inputs");
    for (int32_t i = 0; i < inputs->count && i < MOST_NAMES; i++)
        sw_json_text(&j, NULL, inputs->path[i]);
    sw_json_end(&j);
    sw_json_integer(&j, "input_count", inputs->count);
    sw_json_text(&j, "tokenizer", m->options->tokenizer);
    sw_json_text(&j, "template", m->chat != NULL ? sw_chat_template_name(m->chat) : NULL);
    sw_json_text(&j, "end", end >= 0 ? sw_tokenizer_token(m->t, end, NULL) : NULL);
    sw_json_end(&j);
    struct sw_chars repaired = {0}; /* names may have any bytes */
    const bool written = fclose(out) == 0 && sw_utf8_repair(line, bytes, &repaired) == 0;
    free(line);
    if (written)
        return sw_text_show(repaired.byte);
    sw_chars_free(&repaired);
    return NULL;
}

static void remove_files(const void *writer)
{
    sw_token_writer_remove(writer);
}

static int make(struct making *m, const char *to)
{
    const int32_t width = sw_tokenizer_size(m->t) <= 65536 ? 2 : 4;
    struct sw_interrupts interrupts = {.remove = remove_files};
    int status = sw_token_writer_open(to, width, &m->writer, m->err);
    if (status != 0)
        return status;
    interrupts.context = m->writer;
    sw_interrupts_begin(&interrupts);
    for (int32_t i = 0; status == 0 && i < m->inputs.count; i++)
        status = read_input(m, i);
    sw_interrupts_hold(&interrupts);
    char *source = status == 0 ? write_source(m) : NULL;
    if (status == 0 && source == NULL)
        status = sw_fail(m->err, SW_ENVIRONMENT, "out of memory for the index of '%.200s'", to);
    if (status == 0)
        status = sw_token_writer_end(m->writer, m->err);
    m->counts.made = sw_token_writer_counts(m->writer);
    if (status == 0)
        status = sw_token_writer_commit(m->writer, source, m->err);
    else
        sw_token_writer_abandon(m->writer);
    sw_interrupts_end(&interrupts);
    free(source);
    return status;
}

int sw_tokenize_files(const struct sw_tokenizer *t, const char *const *from, int32_t count,
                      const char *to, const struct sw_tokenize_options *options,
                      struct sw_tokenize_counts *counts, struct sw_error *err)
{
    struct making m = {.t = t, .options = options, .err = err};
    char *index = sw_token_index_path(to);
    int status = index != NULL ? 0 : sw_fail(err, SW_ENVIRONMENT, "out of memory for '%s'", to);
    if (status == 0)
        status = sw_inputs_begin(&m.inputs, from, count, to, index, err);
    if (status == 0)
        status = sw_text_scratch_new(t, &m.scratch, err);
    if (status == 0) {
        status = make(&m, to);
        sw_inputs_end(&m.inputs);
    }
    if (status == 0 && counts != NULL)
        *counts = m.counts;
    sw_chat_template_free(m.chat);
    sw_ids_free(&m.ids);
    sw_text_scratch_free(m.scratch);
    free(index);
    return status;
}
