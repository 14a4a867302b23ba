#include "runner/text/tokenize_files.h"

#include "core/base/file.h"
#include "core/plan/data_file.h"
#include "runner/text/tokenizer/json_mistake.h"
#include "runner/text/tokenizer/utf8.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LLMC_HEADER_BYTES = 1024, LLMC_MAGIC = 20240520, LLMC_UINT16 = 1, LLMC_UINT32 = 7 };
enum { BLOCK = 16384 };

/* What is being made. */
struct making {
    const struct sw_tokenizer *t;
    struct sw_text_scratch *scratch;
    const struct sw_tokenize_options *options;
    struct sw_new_file made;
    struct sw_tokenize_counts counts;
    struct sw_ids ids; /* of a document */
    int32_t width;     /* bytes of a token: 2 or 4 */
    const char *to, *from;
    FILE *in; /* `from`, while it is read */
    struct sw_error *err;
};

static struct sw_place at_input(const struct making *m)
{
    return (struct sw_place){.file = m->from};
}

/* ---- writing ---- */

static int fail_to_write(const struct making *m)
{
    const int reason = errno;
    sw_fail_at(m->err, SW_ENVIRONMENT, (struct sw_place){.file = m->to}, "cannot write it: %s",
               strerror(reason));
    return sw_path_blame(m->err, reason, "name another file to write");
}

static int write_header(const struct making *m)
{
    unsigned char header[LLMC_HEADER_BYTES] = {0};
    const uint32_t words[3] = {LLMC_MAGIC, m->width == 2 ? LLMC_UINT16 : LLMC_UINT32,
                               (uint32_t)m->counts.tokens};
    for (int32_t w = 0; w < 3; w++)
        for (int32_t b = 0; b < 4; b++)
            header[4 * w + b] = (unsigned char)(words[w] >> (8 * b));
    rewind(m->made.out);
    return fwrite(header, 1, sizeof header, m->made.out) == sizeof header ? 0 : fail_to_write(m);
}

static int write_ids(struct making *m, const int32_t *id, size_t count)
{
    unsigned char out[4 * BLOCK];
    m->counts.tokens += (int64_t)count;
    if (m->counts.tokens > INT32_MAX)
        return sw_fail_at(m->err, SW_BAD_INPUT, at_input(m),
                          sw_tokenizer_is_bytes(m->t)
                              ? "more than 2^31 - 1 bytes; split the file"
                              : "more than 2^31 - 1 tokens; write several files");
    while (count > 0) {
        const size_t n = count < BLOCK ? count : BLOCK;
        for (size_t i = 0; i < n; i++)
            for (int32_t b = 0; b < m->width; b++)
                out[i * (size_t)m->width + (size_t)b] = (unsigned char)((uint32_t)id[i] >> (8 * b));
        if (fwrite(out, (size_t)m->width, n, m->made.out) != n)
            return fail_to_write(m);
        id += n;
        count -= n;
    }
    return 0;
}

/* ---- reading ---- */

/* How many tokens of a document's beginning stand twice: those that the post-processor put before a
 * text that began with them itself, as a chat template writes it. */
static size_t begun_twice(const struct making *m)
{
    size_t n;
    const int32_t *begin = sw_tokenizer_begin(m->t, &n);
    const bool twice =
        n > 0 && m->ids.count >= 2 * n && memcmp(m->ids.id + n, begin, n * sizeof *begin) == 0;
    return twice ? n : 0;
}

static int write_document(struct making *m, const char *text, size_t bytes)
{
    const struct sw_encode_options options = {.add_special = true,
                                              .plain_special = !m->options->parses_special};
    const int32_t end = m->options->end;
    m->ids.count = 0;
    if (sw_tokenizer_encode(m->t, m->scratch, text, bytes, &options, &m->ids, m->err) != 0)
        return -1;
    const size_t twice = begun_twice(m);
    if (write_ids(m, m->ids.id + twice, m->ids.count - twice) != 0)
        return -1;
    m->counts.documents++;
    m->counts.bytes += (int64_t)bytes;
    if (end < 0 || (m->ids.count > 0 && m->ids.id[m->ids.count - 1] == end))
        return 0;
    return write_ids(m, &end, 1);
}

static int fail_to_read(const struct making *m)
{
    return sw_fail_at(m->err, SW_ENVIRONMENT, at_input(m), "cannot read it: %s", strerror(errno));
}

static int fail_empty(const struct making *m)
{
    return sw_fail_at(m->err, SW_BAD_INPUT, at_input(m), "the file is empty; name one with a text");
}

static int fail_too_long(const struct making *m)
{
    return sw_fail_at(m->err, SW_BAD_INPUT, at_input(m),
                      "more than 2^31 - 1 bytes; split the file");
}

static int read_bytes(struct making *m)
{
    char block[BLOCK];
    const int64_t before = m->counts.tokens;
    for (size_t n; (n = fread(block, 1, sizeof block, m->in)) > 0;) {
        m->ids.count = 0;
        if (sw_tokenizer_encode(m->t, m->scratch, block, n, NULL, &m->ids, m->err) != 0 ||
            write_ids(m, m->ids.id, m->ids.count) != 0)
            return -1;
        m->counts.bytes += (int64_t)n;
    }
    m->counts.documents++;
    return ferror(m->in) ? fail_to_read(m) : m->counts.tokens == before ? fail_empty(m) : 0;
}

static int read_text(struct making *m)
{
    struct sw_chars text = {0};
    char block[BLOCK];
    int status = 0;
    for (size_t n; status == 0 && (n = fread(block, 1, sizeof block, m->in)) > 0;) {
        if (sw_chars_add(&text, block, n) != 0)
            status = sw_fail(m->err, SW_ENVIRONMENT, "out of memory for '%s'", m->from);
        else if (text.count > INT32_MAX)
            status = fail_too_long(m);
    }
    if (status == 0 && ferror(m->in))
        status = fail_to_read(m);
    else if (status == 0 && text.count == 0)
        status = fail_empty(m);
    else if (status == 0)
        status = sw_data_check_text(m->from, text.byte, text.count, m->err);
    m->counts.foreign += status == 0 ? sw_utf8_count_foreign(text.byte, text.count) : 0;
    if (status == 0)
        status = write_document(m, text.byte, text.count);
    sw_chars_free(&text);
    return status;
}

/* {"text": "..."}; its other members are not looked at. */
static int read_line(struct making *m, const char *line, size_t bytes, int32_t number)
{
    struct sw_json_mistake why;
    json_t *object = sw_json_load(line, bytes, 0, &why);
    const json_t *text = json_object_get(object, "text");
    int status;
    if (object == NULL) {
        why.line = number;
        status = sw_text_json_mistake(m->from, &why, m->err);
    } else if (!json_is_string(text)) {
        status = sw_fail_at(m->err, SW_BAD_INPUT,
                            (struct sw_place){.file = m->from, .line = number, .column = 1},
                            "no object with a 'text'; each line is one, {\"text\": \"...\"}");
    } else {
        status = write_document(m, json_string_value(text), json_string_length(text));
    }
    json_decref(object);
    return status;
}

static int read_lines(struct making *m)
{
    char *line = NULL;
    size_t room = 0;
    int32_t number = 0;
    int status = 0;
    const int64_t before = m->counts.documents;
    for (ssize_t n; status == 0 && (errno = 0, n = getline(&line, &room, m->in)) > 0;) {
        number++;
        if (n > 0 && line[n - 1] == '\n')
            n--;
        if (strspn(line, " \t\r") < (size_t)n)
            status = read_line(m, line, (size_t)n, number);
    }
    free(line);
    if (status == 0 && ferror(m->in))
        return fail_to_read(m);
    if (status == 0 && m->counts.documents == before)
        return fail_empty(m);
    return status;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Whether the input can be tokenized and the output written meanwhile. */
static int check_files(const struct making *m)
{
    struct stat source, there;
    if (fstat(fileno(m->in), &source) != 0)
        return fail_to_read(m);
    if (S_ISDIR(source.st_mode))
        return sw_fail_at(m->err, SW_BAD_INPUT, at_input(m),
                          "this is a folder; name a file to tokenize");
    if (S_ISREG(source.st_mode) && source.st_size > INT32_MAX && !ends_with(m->from, ".jsonl"))
        return fail_too_long(m);
    if (sw_path_same(m->from, m->to))
        return sw_fail_at(m->err, SW_BAD_INPUT, (struct sw_place){.file = m->to},
                          "this is the file to tokenize; name another one to write");
    /* the rename at the end would put a file where a device or a pipe was */
    if (stat(m->to, &there) == 0 && !S_ISREG(there.st_mode))
        return sw_fail_at(m->err, SW_BAD_INPUT, (struct sw_place){.file = m->to},
                          "not a regular file; name a file to write");
    return 0;
}

static int open_input(struct making *m)
{
    m->in = fopen(m->from, "rb");
    if (m->in != NULL)
        return check_files(m);
    const enum sw_status status = sw_path_status(errno, false);
    return sw_fail_at(m->err, status, at_input(m), "cannot open the file to tokenize: %s%s",
                      strerror(errno), status == SW_BAD_INPUT ? "; name a file that exists" : "");
}

static void close_input(struct making *m)
{
    if (m->in != NULL)
        fclose(m->in);
    m->in = NULL;
}

/* A mistake in the last name is told before anything is read. */
static int check_inputs(struct making *m, const char *const *from, int32_t count)
{
    int status = 0;
    for (int32_t i = 0; status == 0 && i < count; i++) {
        m->from = from[i];
        status = open_input(m);
        if (count > 1) /* what can be read but once is */
            close_input(m);
    }
    return status;
}

static int read_inputs(struct making *m, const char *const *from, int32_t count)
{
    int status = 0;
    for (int32_t i = 0; status == 0 && i < count; i++) {
        m->from = from[i];
        if (m->in == NULL)
            status = open_input(m);
        if (status == 0)
            status = sw_tokenizer_is_bytes(m->t)    ? read_bytes(m)
                     : ends_with(from[i], ".jsonl") ? read_lines(m)
                                                    : read_text(m);
        close_input(m);
    }
    return status;
}

int sw_tokenize_files(const struct sw_tokenizer *t, const char *const *from, int32_t count,
                      const char *to, const struct sw_tokenize_options *options,
                      struct sw_tokenize_counts *counts, struct sw_error *err)
{
    struct making m = {.t = t, .options = options, .to = to, .err = err};
    int status = -1;
    m.width = sw_tokenizer_size(t) <= 65536 ? 2 : 4;
    if (sw_text_scratch_new(t, &m.scratch, err) != 0 || check_inputs(&m, from, count) != 0)
        goto out;
    if (sw_file_begin(&m.made, to, 0666, NULL) != 0) {
        fail_to_write(&m);
        goto out;
    }
    if (write_header(&m) == 0 && read_inputs(&m, from, count) == 0 && write_header(&m) == 0)
        status = 0;
    if (status != 0) {
        sw_file_abandon(&m.made);
    } else if (sw_file_commit(&m.made, NULL) != 0) {
        const int reason = errno;
        sw_file_abandon(&m.made);
        errno = reason;
        status = fail_to_write(&m);
    }
    if (status == 0 && counts != NULL)
        *counts = m.counts;
out:
    close_input(&m);
    sw_ids_free(&m.ids);
    sw_text_scratch_free(m.scratch);
    return status;
}
