#include "runner/text/tokenizer/tokenizer.h"

#include "core/base/file.h"
#include "core/base/tokenizer_file.h"
#include "runner/checkpoint/json_text.h"
#include "runner/text/tokenizer/internal.h"
#include "runner/text/tokenizer/json_mistake.h"
#include "runner/text/tokenizer/special.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int make(const char *path, struct sw_tokenizer **out, struct sw_error *err)
{
    struct sw_tokenizer *t = calloc(1, sizeof *t);
    if (t == NULL || (t->path = strdup(path)) == NULL) {
        free(t);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the tokenizer");
    }
    t->bos = -1;
    t->bpe.unknown = -1;
    *out = t;
    return 0;
}

void sw_tokenizer_free(struct sw_tokenizer *t)
{
    if (t == NULL)
        return;
    for (int32_t i = 0; i < t->normal_count; i++) {
        sw_pattern_free(&t->normal[i].pattern);
        free(t->normal[i].unsafe);
    }
    for (int32_t i = 0; i < t->pre_count; i++)
        sw_pattern_free(&t->pre[i].pattern);
    sw_bpe_free(&t->bpe);
    sw_chars_free(&t->arena);
    sw_ids_free(&t->before);
    sw_ids_free(&t->after);
    sw_ids_free(&t->eos);
    for (int32_t i = 0; i < t->decoding.replacement_count; i++)
        sw_pattern_free(&t->decoding.replacement[i].from);
    free(t->names.slot);
    free(t->words.slot);
    free(t->added);
    free(t->plain_tree.node);
    free(t->normal_tree.node);
    for (int32_t i = 0; i < t->notes; i++)
        free(t->note[i]);
    free(t->note);
    sw_beside_free(t->beside);
    free(t->token);
    free(t->path);
    free(t);
}

int sw_tokenizer_add_note(struct sw_tokenizer *t, const char *file, struct sw_error *err,
                          const char *format, ...)
{
    char message[SW_ERROR_BYTES];
    char *path = file != NULL ? sw_path_join(sw_beside_folder(t->beside), file) : strdup(t->path);
    char **grown = realloc(t->note, ((size_t)t->notes + 1) * sizeof *grown);
    va_list arguments;
    int status = -1;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (grown != NULL)
        t->note = grown;
    if (grown != NULL && path != NULL &&
        asprintf(&t->note[t->notes], "%s: note: %s", path, message) >= 0) {
        t->notes++;
        status = 0;
    }
    free(path);
    return status == 0 ? 0 : sw_out_of_memory(t, err);
}

int sw_tokenizer_bytes(struct sw_tokenizer **out, struct sw_error *err)
{
    struct sw_tokenizer *t = NULL;
    if (make("bytes", &t, err) != 0)
        return -1;
    t->is_bytes = true;
    for (int32_t i = 0; i < 256; i++) {
        const char byte = (char)i;
        if (sw_token_add(t, i, &byte, 1, err) != 0) {
            sw_tokenizer_free(t);
            return -1;
        }
        t->token[i].out = t->token[i].text;
        t->token[i].out_bytes = 1;
    }
    *out = t;
    return 0;
}

static int read_parts(struct sw_tokenizer *t, const json_t *root, struct sw_error *err)
{
    if (!sw_json_is_object(root))
        return sw_refuse(t, err, "not a JSON object, so not a tokenizer");
    if (sw_read_pre_tokenizer(t, root, err) != 0 || sw_read_model(t, root, err) != 0 ||
        sw_read_added(t, root, err) != 0 || sw_read_normalizer(t, root, err) != 0 ||
        sw_read_decoder(t, root, err) != 0 || sw_read_post_processor(t, root, err) != 0)
        return -1;
    if (t->beside != NULL && sw_read_beside(t, root, err) != 0)
        return -1;
    return sw_added_prepare(t, err);
}

/* folder: of the files beside it; NULL: reads none. */
static int parse(const char *path, const char *folder, const char *text, size_t bytes,
                 struct sw_tokenizer **out, struct sw_error *err)
{
    struct sw_tokenizer *t = NULL;
    struct sw_json_mistake why;
    if (make(path, &t, err) != 0)
        return -1;
    json_t *root = sw_json_load(text, bytes, SW_JSON_TWICE, &why);
    int status = -1;
    if (root == NULL)
        sw_text_json_mistake(path, &why, err);
    else if (folder == NULL || sw_beside_open(folder, &t->beside, err) == 0)
        status = read_parts(t, root, err);
    json_decref(root);
    sw_beside_free(t->beside);
    t->beside = NULL;
    if (status != 0)
        sw_tokenizer_free(t);
    else
        *out = t;
    return status;
}

int sw_tokenizer_parse(const char *path, const char *text, size_t bytes, struct sw_tokenizer **out,
                       struct sw_error *err)
{
    return parse(path, NULL, text, bytes, out, err);
}

int sw_tokenizer_open(const char *path, struct sw_tokenizer **out, struct sw_error *err)
{
    char *text;
    size_t bytes;
    const struct sw_place place = {.file = path};
    if (sw_file_read(path, true, SW_TEXT_FILE_BYTES, &text, &bytes, NULL) != 0) {
        if (errno == EFBIG)
            return sw_fail_at(err, SW_BAD_INPUT, place, "more than %d MiB, so not a tokenizer",
                              (int)(SW_TEXT_FILE_BYTES >> 20));
        return sw_fail_at(err, sw_path_status(errno, false), place,
                          "cannot read the tokenizer: %s; name a tokenizer.json",
                          errno == ESPIPE ? "not a regular file" : strerror(errno));
    }
    char *folder = sw_path_folder(path);
    const int status = folder == NULL
                           ? sw_fail(err, SW_ENVIRONMENT, "out of memory for the tokenizer")
                           : parse(path, folder, text, bytes, out, err);
    free(folder);
    free(text);
    return status;
}

int sw_tokenizer_open_folder(const char *folder, struct sw_tokenizer **out, struct sw_error *err)
{
    const char *name = sw_tokenizer_file(folder);
    if (name == NULL)
        return sw_tokenizer_bytes(out, err);
    if (strcmp(name, "tokenizer.json") != 0)
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = folder},
                          "the tokenizer is '%s', without a tokenizer.json; write one with "
                          "transformers: AutoTokenizer.from_pretrained(DIR).save_pretrained"
                          "(DIR)",
                          name);
    char *path = sw_path_join(folder, name);
    const int status = path == NULL
                           ? sw_fail(err, SW_ENVIRONMENT, "out of memory for the tokenizer")
                           : sw_tokenizer_open(path, out, err);
    free(path);
    return status;
}

bool sw_tokenizer_is_bytes(const struct sw_tokenizer *t)
{
    return t->is_bytes;
}

int32_t sw_tokenizer_size(const struct sw_tokenizer *t)
{
    return t->size;
}

static const struct sw_token *token_of(const struct sw_tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->size && t->token[id].exists ? &t->token[id] : NULL;
}

const char *sw_tokenizer_token(const struct sw_tokenizer *t, int32_t id, size_t *bytes)
{
    const struct sw_token *token = token_of(t, id);
    if (token == NULL)
        return NULL;
    if (bytes != NULL)
        *bytes = token->text_bytes;
    return t->arena.byte + token->text;
}

const char *sw_tokenizer_token_bytes(const struct sw_tokenizer *t, int32_t id, size_t *bytes)
{
    const struct sw_token *token = token_of(t, id);
    if (token == NULL)
        return NULL;
    if (bytes != NULL)
        *bytes = token->out_bytes;
    return t->arena.byte + token->out;
}

int32_t sw_tokenizer_id(const struct sw_tokenizer *t, const char *token, size_t bytes)
{
    if (t->is_bytes)
        return bytes == 1 ? (int32_t)(unsigned char)token[0] : -1;
    return sw_word_find(t, &t->names, token, bytes);
}

bool sw_tokenizer_is_special(const struct sw_tokenizer *t, int32_t id)
{
    const struct sw_token *token = token_of(t, id);
    return token != NULL && token->special;
}

const char *sw_tokenizer_note(const struct sw_tokenizer *t, int32_t i)
{
    return i < t->notes ? t->note[i] : NULL;
}

const int32_t *sw_tokenizer_begin(const struct sw_tokenizer *t, size_t *count)
{
    *count = t->before.count;
    return t->before.id;
}

int32_t sw_tokenizer_bos(const struct sw_tokenizer *t)
{
    return t->bos;
}

const int32_t *sw_tokenizer_eos(const struct sw_tokenizer *t, size_t *count)
{
    *count = t->eos.count;
    return t->eos.id;
}
