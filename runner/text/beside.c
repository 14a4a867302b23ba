/* Tokens that begin and end a text, and the space before it, from the files beside
 * tokenizer.json. */
#include "core/base/file.h"
#include "core/base/text.h"
#include "runner/checkpoint/json_text.h"
#include "runner/text/tokenizer/internal.h"
#include "runner/text/tokenizer/json_mistake.h"
#include "runner/text/tokenizer/special.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sw_text_load_json(const char *folder, const char *name, json_t **root, struct sw_error *err)
{
    char *text = NULL, *path = sw_path_join(folder, name);
    size_t bytes;
    struct sw_json_mistake why;
    int status = 0;
    *root = NULL;
    if (path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the tokenizer");
    if (sw_file_read(path, true, SW_TEXT_CONFIG_BYTES, &text, &bytes, NULL) != 0) {
        if (errno != ENOENT)
            status =
                sw_fail_at(err, errno == EFBIG ? SW_BAD_INPUT : SW_ENVIRONMENT,
                           (struct sw_place){.file = path}, "cannot read it: %s", strerror(errno));
    } else if ((*root = sw_json_load(text, bytes, 0, &why)) == NULL) {
        status = sw_text_json_mistake(path, &why, err);
    }
    free(text);
    free(path);
    return status;
}

/* ---- ends of a text ---- */

static int32_t id_of_text(const struct sw_tokenizer *t, const json_t *value)
{
    const json_t *text = sw_json_is_object(value) ? json_object_get(value, "content") : value;
    return json_is_string(text)
               ? sw_word_find(t, &t->names, json_string_value(text), json_string_length(text))
               : -1;
}

static const char *shown(const json_t *value, char buffer[SW_TEXT_SHOWN_BYTES + 4])
{
    const json_t *text = sw_json_is_object(value) ? json_object_get(value, "content") : value;
    return sw_text_shown(json_string_value(text), SW_TEXT_SHOWN_BYTES, buffer);
}

static bool has(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value != NULL && !json_is_null(value);
}

static int add_eos(struct sw_tokenizer *t, int32_t id)
{
    for (size_t i = 0; i < t->eos.count; i++)
        if (t->eos.id[i] == id)
            return 0;
    if (sw_ids_reserve(&t->eos, 1) != 0)
        return -1;
    t->eos.id[t->eos.count++] = id;
    return 0;
}

static int read_eos_id(struct sw_tokenizer *t, const char *file, const json_t *value,
                       struct sw_error *err)
{
    const json_int_t id = json_integer_value(value);
    if (!json_is_integer(value))
        return sw_beside_refuse(t->beside, file, "eos_token_id", err,
                                "'eos_token_id' is neither an id nor a list of ids");
    if (id >= 0 && id <= INT32_MAX && add_eos(t, (int32_t)id) != 0)
        return sw_out_of_memory(t, err);
    if (id >= 0 && id < t->size && t->token[id].exists)
        return 0;
    return sw_tokenizer_add_note(t, file, err, "the tokenizer has no token %lld, an eos_token_id",
                                 (long long)id);
}

/* Reads an id, or a list of them. */
static int read_eos(struct sw_tokenizer *t, const char *file, const json_t *object,
                    struct sw_error *err)
{
    const json_t *value = json_object_get(object, "eos_token_id"), *one;
    size_t i;
    if (!json_is_array(value))
        return read_eos_id(t, file, value, err);
    json_array_foreach((json_t *)value, i, one)
    {
        if (read_eos_id(t, file, one, err) != 0)
            return -1;
    }
    return 0;
}

static int32_t id_in(const struct sw_tokenizer *t, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    return id >= 0 && id < t->size && t->token[id].exists ? (int32_t)id : -1;
}

/* Finds the end tokens like `generate` of transformers; if it would never stop, takes the
 * tokenizer's eos_token. */
static int read_ends(struct sw_tokenizer *t, const json_t *generation, const json_t *named,
                     struct sw_error *err)
{
    const json_t *config = sw_beside_model(t->beside);
    static const char generation_file[] = "generation_config.json", config_file[] = "config.json";
    const json_t *bos = json_object_get(named, "bos_token"),
                 *eos = json_object_get(named, "eos_token");
    char text[SW_TEXT_SHOWN_BYTES + 4];
    t->bos = id_of_text(t, bos);
    if (bos == NULL && json_object_get(sw_beside_config(t->beside), "bos_token") == NULL) {
        t->bos = id_in(t, generation, "bos_token_id");
        if (t->bos < 0)
            t->bos = id_in(t, config, "bos_token_id");
    }
    if (has(generation, "eos_token_id"))
        return read_eos(t, generation_file, generation, err);
    if (generation == NULL && has(config, "eos_token_id"))
        return read_eos(t, config_file, config, err) != 0
                   ? -1
                   : sw_tokenizer_add_note(t, config_file, err,
                                           "its eos_token_id ends a text, there is no %s",
                                           generation_file);
    const int32_t id = id_of_text(t, eos);
    if (id < 0)
        return 0;
    if (add_eos(t, id) != 0)
        return sw_out_of_memory(t, err);
    if (generation == NULL && config == NULL)
        return 0;
    return sw_tokenizer_add_note(t, generation != NULL ? generation_file : config_file, err,
                                 "no eos_token_id; the tokenizer's eos_token '%s' ends a text",
                                 shown(eos, text));
}

/* ---- around a text ---- */

static int add_named(struct sw_tokenizer *t, const json_t *named, const char *key, bool wanted,
                     struct sw_ids *out, struct sw_error *err)
{
    const json_t *value = json_object_get(named, key);
    if (!wanted)
        return 0;
    if (value == NULL)
        return sw_beside_refuse(t->beside, "tokenizer_config.json", key, err,
                                "no %s is named, and add_%s asks for one; name it", key, key);
    const int32_t id = id_of_text(t, value);
    if (id < 0 || strpbrk(t->arena.byte + t->token[id].text, " \t\r\n") != NULL)
        return sw_beside_refuse(t->beside, "tokenizer_config.json", key, err,
                                "transformers 4 fails to put a %s with spaces round a text "
                                "(add_%s); name another one",
                                key, key);
    if (sw_ids_reserve(out, 1) != 0)
        return sw_out_of_memory(t, err);
    out->id[out->count++] = id;
    return 0;
}

static bool same_ids(const struct sw_ids *a, const struct sw_ids *b)
{
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->id, b->id, a->count * sizeof *a->id) == 0);
}

static int frame(struct sw_tokenizer *t, const json_t *root, const json_t *named,
                 struct sw_error *err)
{
    struct sw_ids before = {0}, after = {0};
    bool bos = false, eos = false;
    if (!sw_beside_frames(t->beside, &bos, &eos))
        return 0;
    int status = add_named(t, named, "bos_token", bos, &before, err) != 0 ||
                         add_named(t, named, "eos_token", eos, &after, err) != 0
                     ? -1
                     : 0;
    const bool same = same_ids(&before, &t->before) && same_ids(&after, &t->after);
    if (status == 0 && !same) {
        const struct sw_ids were[] = {t->before, t->after};
        t->before = before;
        t->after = after;
        before = were[0];
        after = were[1];
        if (has(root, "post_processor"))
            status = sw_tokenizer_add_note(
                t, "tokenizer_config.json", err,
                "add_bos_token is %s and add_eos_token %s, as transformers 4 takes them; 5 takes "
                "the post_processor of tokenizer.json, which differs",
                bos ? "true" : "false", eos ? "true" : "false");
    }
    sw_ids_free(&before);
    sw_ids_free(&after);
    return status;
}

static bool has_prefix(const struct sw_tokenizer *t)
{
    for (int32_t i = 0; i < t->normal_count; i++)
        if (t->normal[i].kind == SW_NORMAL_PREPEND)
            return true;
    for (int32_t i = 0; i < t->pre_count; i++)
        if (t->pre[i].mark_bytes > 0 && t->pre[i].prefix != SW_PREFIX_NEVER)
            return true;
    return false;
}

/* Sets the scheme: version 5 follows 'legacy' for its LlamaTokenizer. */
static int set_scheme(struct sw_tokenizer *t, enum sw_prefix wanted, struct sw_error *err)
{
    if (t->pre[0].prefix == wanted)
        return 0;
    t->pre[0].prefix = wanted;
    return sw_tokenizer_add_note(t, "tokenizer_config.json", err,
                                 "a space stands before %s, as transformers takes 'legacy'; the "
                                 "prepend_scheme of tokenizer.json differs",
                                 wanted == SW_PREFIX_FIRST ? "a whole text only"
                                                           : "each part of a text");
}

/* Notes normalizers that version 5 would replace (Llama 2 and its kin). */
static int note_normalizer(struct sw_tokenizer *t, struct sw_error *err)
{
    const char *unlike = sw_beside_unlike(t->beside);
    if (unlike != NULL)
        return sw_tokenizer_add_note(t, "tokenizer.json", err,
                                     "read as it is; transformers 5 takes %s by the model_type of "
                                     "config.json, whose normalizer and pre-tokenizer differ",
                                     unlike);
    for (int32_t i = 0; i < t->normal_count; i++)
        if (t->normal[i].kind == SW_NORMAL_PREPEND && sw_beside_is_older_piece(t->beside))
            return sw_tokenizer_add_note(
                t, "tokenizer.json", err,
                "a space stands before a text and behind each special token, as transformers 4 "
                "reads it; 5 goes by 'legacy' instead, and puts none there or another one");
    return 0;
}

static int set_prefix(struct sw_tokenizer *t, const json_t *root, struct sw_error *err)
{
    static const char file[] = "tokenizer_config.json";
    const char *type =
        json_string_value(json_object_get(json_object_get(root, "pre_tokenizer"), "type"));
    const bool alone = type != NULL && strcmp(type, "ByteLevel") == 0, written = has_prefix(t);
    const enum sw_beside_prefix wanted =
        sw_beside_prefix(t->beside, alone, t->bpe.of_bytes, written);
    if (wanted == SW_BESIDE_UNCLEAR)
        return sw_beside_refuse(t->beside, file, "add_prefix_space", err,
                                "add_prefix_space is %s, while tokenizer.json puts %s before a "
                                "text; make them equal",
                                written ? "false" : "true", written ? "a space" : "nothing");
    if (t->pre_count == 1 && t->pre[0].replaces &&
        (wanted == SW_BESIDE_FIRST || wanted == SW_BESIDE_PREFIX))
        return set_scheme(t, wanted == SW_BESIDE_FIRST ? SW_PREFIX_FIRST : SW_PREFIX_ALWAYS, err);
    if (!t->bpe.of_bytes || wanted == SW_BESIDE_AS_WRITTEN ||
        (wanted == SW_BESIDE_PREFIX) == written)
        return 0;
    t->pre[t->pre_count - 1].prefix = written ? SW_PREFIX_NEVER : SW_PREFIX_ALWAYS;
    return sw_tokenizer_add_note(t, file, err,
                                 "%s space stands before a text, as transformers takes "
                                 "add_prefix_space; tokenizer.json differs",
                                 written ? "no" : "a");
}

int sw_read_beside(struct sw_tokenizer *t, const json_t *root, struct sw_error *err)
{
    const char *folder = sw_beside_folder(t->beside);
    json_t *generation = NULL, *named = sw_beside_named(t->beside, err);
    int status = -1;
    t->splits_special =
        json_is_true(json_object_get(sw_beside_config(t->beside), "split_special_tokens"));
    if (named != NULL &&
        sw_text_load_json(folder, "generation_config.json", &generation, err) == 0 &&
        read_ends(t, generation, named, err) == 0 && frame(t, root, named, err) == 0 &&
        note_normalizer(t, err) == 0)
        status = set_prefix(t, root, err);
    json_decref(generation);
    json_decref(named);
    return status;
}
