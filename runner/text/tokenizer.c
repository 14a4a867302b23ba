#include "runner/text/tokenizer.h"

#include "core/base/file.h"
#include "core/base/tokenizer_file.h"
#include "core/base/text.h"
#include "runner/text/internal.h"
#include "runner/text/json_mistake.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_FILE_BYTES = 128 << 20 };

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
    free(t->token);
    free(t->path);
    free(t);
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

static int check_added(const struct sw_tokenizer *t, struct sw_error *err)
{
    for (int32_t i = 0; i < t->added_count; i++) {
        const struct sw_token *token = &t->token[t->added[i].id];
        const char *text = t->arena.byte + token->text;
        char shown[SW_TEXT_SHOWN_BYTES + 4];
        if (sw_word_find(t, &t->names, text, token->text_bytes) == t->added[i].id)
            continue;
        sw_text_shown(text, SW_TEXT_SHOWN_BYTES, shown);
        return sw_refuse(t, err, "two added tokens are '%s'", shown);
    }
    return 0;
}

static int read_parts(struct sw_tokenizer *t, const json_t *root, struct sw_error *err)
{
    if (!json_is_object(root))
        return sw_refuse(t, err, "not a JSON object, so not a tokenizer");
    if (sw_read_pre_tokenizer(t, root, err) != 0 || sw_read_model(t, root, err) != 0 ||
        sw_read_added(t, root, err) != 0 || sw_read_normalizer(t, root, err) != 0 ||
        sw_read_decoder(t, root, err) != 0)
        return -1;
    if (sw_word_map_make(t, false, &t->names) != 0)
        return sw_out_of_memory(t, err);
    return check_added(t, err) != 0 || sw_read_post_processor(t, root, err) != 0 ||
                   sw_added_prepare(t, err) != 0
               ? -1
               : 0;
}

int sw_tokenizer_parse(const char *path, const char *text, size_t bytes, struct sw_tokenizer **out,
                       struct sw_error *err)
{
    struct sw_tokenizer *t = NULL;
    struct sw_json_mistake why;
    if (make(path, &t, err) != 0)
        return -1;
    json_t *root = sw_json_load(text, bytes, SW_JSON_TWICE, &why);
    int status = -1;
    if (root != NULL)
        status = read_parts(t, root, err);
    else
        sw_text_json_mistake(path, &why, err);
    json_decref(root);
    if (status != 0)
        sw_tokenizer_free(t);
    else
        *out = t;
    return status;
}

static int open_file(const char *path, struct sw_tokenizer **out, struct sw_error *err)
{
    char *text;
    size_t bytes;
    const struct sw_place place = {.file = path};
    if (sw_file_read(path, true, MOST_FILE_BYTES, &text, &bytes, NULL) != 0) {
        if (errno == EFBIG)
            return sw_fail_at(err, SW_BAD_INPUT, place, "more than %d MiB, so not a tokenizer",
                              (int)(MOST_FILE_BYTES >> 20));
        return sw_fail_at(err, sw_path_status(errno, false), place,
                          "cannot read the tokenizer: %s; name a tokenizer.json",
                          errno == ESPIPE ? "not a regular file" : strerror(errno));
    }
    const int status = sw_tokenizer_parse(path, text, bytes, out, err);
    free(text);
    return status;
}

int sw_tokenizer_open(const char *path, struct sw_tokenizer **out, struct sw_error *err)
{
    struct sw_tokenizer *t = NULL;
    if (open_file(path, &t, err) != 0)
        return -1;
    char *folder = sw_path_folder(path);
    const int status = folder == NULL ? sw_out_of_memory(t, err) : sw_read_beside(t, folder, err);
    free(folder);
    if (status != 0)
        sw_tokenizer_free(t);
    else
        *out = t;
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
