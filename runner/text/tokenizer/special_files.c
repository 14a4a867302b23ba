/* Files beside tokenizer.json: their class, version and merged contents. */
#include "core/base/file.h"
#include "core/base/text.h"
#include "runner/checkpoint/json_text.h"
#include "runner/text/tokenizer/internal.h"
#include "runner/text/tokenizer/special.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char config_file[] = "tokenizer_config.json", map_file[] = "special_tokens_map.json",
                  added_file[] = "added_tokens.json";
static const struct sw_tokenizer_class classes[] = {
    {"LlamaTokenizer", "<s>", "</s>", "<unk>", NULL, NULL, NULL, "Metaspace", true, true, true,
     false},
    {"CodeLlamaTokenizer", "<s>", "</s>", "<unk>", NULL, NULL, NULL, "Metaspace", true, true, true,
     false},
    {"GemmaTokenizer", "<bos>", "<eos>", "<unk>", "<pad>", "<mask>", "Replace", "Split", true, true,
     true, false},
    {"GPTNeoXTokenizer", "<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL, NULL, "NFC",
     "ByteLevel", true, false, false, false},
    {"GPT2Tokenizer", "<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL, NULL, NULL,
     "ByteLevel", false, false, false, false},
    {"Qwen2Tokenizer", NULL, "<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL, "NFC",
     "Sequence", false, false, false, true},
};

/* ---- places ---- */

struct sw_place sw_text_place_of(const char *path, const char *wanted, bool value)
{
    struct sw_place at = {path, 0, 0};
    char *text = NULL, *quoted = NULL;
    size_t bytes;
    if (asprintf(&quoted, "\"%s\"", wanted) < 0)
        return at;
    if (sw_file_read(path, true, SW_TEXT_CONFIG_BYTES, &text, &bytes, NULL) == 0) {
        const char *found = strstr(text, quoted);
        if (found != NULL)
            at = (struct sw_place){path, 1, 1};
        if (found != NULL && value) {
            found += strlen(quoted);
            found += strspn(found, " \t\r\n:");
        }
        for (const char *c = text; found != NULL && c < found; c++) {
            at.column = *c == '\n' ? 1 : at.column + (((unsigned char)*c & 0xc0) != 0x80);
            at.line += *c == '\n';
        }
    }
    free(quoted);
    free(text);
    return at;
}

int sw_beside_refuse(const struct sw_beside *b, const char *file, const char *text,
                     struct sw_error *err, const char *format, ...)
{
    char message[SW_ERROR_BYTES];
    char *path = sw_path_join(b->folder, file);
    va_list arguments;
    if (path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the tokenizer");
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    sw_fail_at(err, SW_BAD_INPUT, sw_text_place_of(path, text, false), "%s", message);
    free(path);
    return -1;
}

static int out_of_memory(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for the tokenizer");
}

/* ---- files ---- */

static bool is_of_version_5(const json_t *config)
{
    const char *class = json_string_value(json_object_get(config, "tokenizer_class"));
    return class == NULL || strcmp(class, "TokenizersBackend") == 0 ||
           json_object_get(config, "backend") != NULL ||
           json_is_array(json_object_get(config, "extra_special_tokens"));
}

/* Version 5 takes its own class for Qwen2 always, for Qwen3 if none is named, for Mistral never. */
static const struct sw_tokenizer_class *class_of(const json_t *config, const json_t *model,
                                                 bool is_version_5)
{
    const char *name = json_string_value(json_object_get(config, "tokenizer_class"));
    const char *kind = json_string_value(json_object_get(model, "model_type"));
    if (kind != NULL && is_version_5 && strcmp(kind, "mistral") == 0)
        return NULL;
    if (kind != NULL && is_version_5 &&
        (strcmp(kind, "qwen2") == 0 || (name == NULL && strcmp(kind, "qwen3") == 0)))
        name = "Qwen2Tokenizer";
    for (size_t i = 0; name != NULL && i < sizeof classes / sizeof classes[0]; i++) {
        const size_t bytes = strlen(classes[i].name);
        if (strncmp(name, classes[i].name, bytes) == 0 &&
            (name[bytes] == '\0' || strcmp(name + bytes, "Fast") == 0))
            return &classes[i];
    }
    return NULL;
}

static bool is_list(const json_t *value)
{
    return value != NULL && !json_is_null(value) && !sw_json_is_object(value);
}

/* The first list, then the second's tokens that it lacks. */
static json_t *join(const json_t *first, const json_t *second)
{
    json_t *out = json_is_array(first) ? json_copy((json_t *)first) : json_array();
    const json_t *one;
    size_t i;
    json_array_foreach((json_t *)second, i, one)
    {
        json_t *token = sw_json_is_object(one) && sw_special_text(one) != NULL
                            ? sw_special_whole(one, true)
                            : json_incref((json_t *)one);
        if (!sw_special_holds(out, token))
            json_array_append(out, token);
        json_decref(token);
    }
    return out;
}

/* Sets the list of unnamed special tokens. Version 5 has another key for it, which may hold an
 * object instead: names that only this model has. first_list: list by which tokens of
 * added_tokens.json are special, before version 5 reads the map's older key. */
static void take_lists(struct sw_beside *b, const json_t *map)
{
    static const char older[] = "additional_special_tokens", newer[] = "extra_special_tokens";
    json_t *more = json_object_get(b->config, older), *extra = json_object_get(b->config, newer);
    const json_t *in_map = json_object_get(map, b->is_version_5 ? newer : older);
    const bool is_newer = b->is_version_5 && (json_array_size(extra) > 0 ||
                                              json_object_size(extra) > 0 || !is_list(more));
    b->list_key = is_newer ? newer : older;
    b->list = is_newer ? extra : more;
    b->list = is_list(b->list) ? json_incref(b->list) : NULL;
    if (json_is_array(in_map)) {
        json_t *joined = join(b->list, in_map);
        json_decref(b->list);
        b->list = joined;
    }
    b->first_list = b->list != NULL ? json_incref(b->list) : NULL;
    if (is_newer && b->list == NULL) {
        json_t *left = is_list(json_object_get(map, older)) ? json_object_get(map, older) : more;
        b->list = is_list(left) ? json_incref(left) : NULL;
        b->list_key = older;
    }
}

/* Takes names from special_tokens_map.json, unless added_tokens_decoder exists. */
static void take_map(struct sw_beside *b, const json_t *map)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)map, key, value)
    {
        if (sw_json_is_object(value) && sw_special_text(value) != NULL)
            json_object_set_new(b->config, key, sw_special_whole(value, true));
        else if (!json_is_array(value))
            json_object_set(b->config, key, value);
    }
}

/* Refuses objects in the map's older list: version 5 fails on them. */
static int check_map(const struct sw_beside *b, const json_t *map, struct sw_error *err)
{
    static const char key[] = "additional_special_tokens";
    const json_t *one;
    size_t i;
    char shown[SW_TEXT_SHOWN_BYTES + 4];
    json_array_foreach(json_object_get(map, key), i, one)
    {
        if (sw_json_is_object(one) && json_object_get(one, "__type") == NULL &&
            sw_special_text(one) != NULL)
            return sw_beside_refuse(
                b, map_file, key, err,
                "the token '%s' of %s is an object, at which transformers 5 fails; write its text",
                sw_text_shown(json_string_value(sw_special_text(one)), SW_TEXT_SHOWN_BYTES, shown),
                key);
    }
    return 0;
}

static int check_object(const struct sw_beside *b, const char *file, const json_t *value,
                        struct sw_error *err)
{
    return value == NULL || sw_json_is_object(value)
               ? 0
               : sw_beside_refuse(b, file, "", err, "not a JSON object; remove it or write {}");
}

/* True if version 4 makes the tokenizer from its sentencepiece model. */
static bool makes_anew(const struct sw_beside *b, const json_t *config)
{
    return b->class != NULL && b->class->of_pieces &&
           json_is_boolean(json_object_get(config, "add_prefix_space"));
}

static bool has_pieces(const char *folder)
{
    char *path = sw_path_join(folder, "tokenizer.model");
    const bool found = path == NULL || access(path, F_OK) == 0;
    free(path);
    return found;
}

/* True if the files declare a byte tokenizer, which gets no sentencepiece class in version 5. */
static bool declares_bytes(const char *folder)
{
    char *path = sw_path_join(folder, "tokenizer.json"), *text = NULL;
    size_t bytes;
    bool found = false;
    if (path != NULL && sw_file_read(path, true, SW_TEXT_FILE_BYTES, &text, &bytes, NULL) == 0)
        for (const char *at = text; !found && (at = strstr(at, "\"type\"")) != NULL;) {
            at += 6;
            at += strspn(at, " \t\r\n:");
            found = strncmp(at, "\"ByteLevel\"", 11) == 0;
        }
    free(text);
    free(path);
    return found;
}

int sw_beside_open(const char *folder, struct sw_beside **out, struct sw_error *err)
{
    struct sw_beside *b = calloc(1, sizeof *b);
    json_t *config = NULL, *map = NULL;
    int status = -1;
    if (b == NULL || (b->folder = strdup(folder)) == NULL) {
        sw_beside_free(b);
        return out_of_memory(err);
    }
    if (sw_text_load_json(folder, config_file, &config, err) != 0 ||
        sw_text_load_json(folder, "config.json", &b->model, err) != 0 ||
        check_object(b, config_file, config, err) != 0)
        goto out;
    b->is_version_5 = is_of_version_5(config);
    b->class = class_of(config, b->model, b->is_version_5);
    if (makes_anew(b, config) && !has_pieces(folder)) {
        b->is_version_5 = true;
        b->class = class_of(config, b->model, true);
    }
    if (b->is_version_5 && b->class != NULL && b->class->of_pieces && declares_bytes(folder))
        b->class = NULL;
    b->has_list = sw_json_is_object(json_object_get(config, "added_tokens_decoder"));
    b->config = config != NULL ? json_deep_copy(config) : json_object();
    if (b->config == NULL) {
        out_of_memory(err);
        goto out;
    }
    if (!b->has_list && (sw_text_load_json(folder, map_file, &map, err) != 0 ||
                         sw_text_load_json(folder, added_file, &b->added, err) != 0 ||
                         check_object(b, map_file, map, err) != 0 ||
                         check_object(b, added_file, b->added, err) != 0))
        goto out;
    if (b->is_version_5 && check_map(b, map, err) != 0)
        goto out;
    take_lists(b, map);
    take_map(b, map);
    status = 0;
    *out = b;
out:
    if (status != 0)
        sw_beside_free(b);
    json_decref(config);
    json_decref(map);
    return status;
}

void sw_beside_free(struct sw_beside *b)
{
    if (b == NULL)
        return;
    json_decref(b->config);
    json_decref(b->added);
    json_decref(b->model);
    json_decref(b->list);
    json_decref(b->first_list);
    free(b->folder);
    free(b);
}

static bool is_type(const json_t *part, const char *wanted)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return wanted == NULL ? type == NULL : type != NULL && strcmp(type, wanted) == 0;
}

/* True if version 5's own stages for the class have tokenizer.json's types. */
static bool is_like(const struct sw_tokenizer_class *class, const json_t *root)
{
    return is_type(json_object_get(root, "normalizer"), class->normalizer) &&
           is_type(json_object_get(root, "pre_tokenizer"), class->pre_tokenizer);
}

int sw_beside_settle(struct sw_beside *b, const json_t *root, struct sw_error *err)
{
    if (!b->is_version_5 || b->class == NULL)
        return 0;
    const bool named = json_object_get(b->config, "tokenizer_class") != NULL;
    if (is_like(b->class, root))
        return 0;
    if (named)
        return sw_beside_refuse(b, config_file, "tokenizer_class", err,
                                "transformers 5 takes %s with a normalizer and a pre-tokenizer of "
                                "its own, not those of tokenizer.json; write the class "
                                "TokenizersBackend for these",
                                b->class->name);
    b->unlike = b->class->name;
    b->class = NULL;
    return 0;
}

const char *sw_beside_unlike(const struct sw_beside *b)
{
    return b->unlike;
}

bool sw_beside_is_version_5(const struct sw_beside *b)
{
    return b->is_version_5;
}

bool sw_beside_is_older_piece(const struct sw_beside *b)
{
    return !b->is_version_5 && b->class != NULL && b->class->of_pieces;
}

const json_t *sw_beside_config(const struct sw_beside *b)
{
    return b->config;
}

const json_t *sw_beside_model(const struct sw_beside *b)
{
    return b->model;
}

const char *sw_beside_folder(const struct sw_beside *b)
{
    return b->folder;
}

bool sw_beside_frames(const struct sw_beside *b, bool *bos, bool *eos)
{
    const json_t *adds_bos = json_object_get(b->config, "add_bos_token");
    if (b->is_version_5 || b->class == NULL || !b->class->frames)
        return false;
    *bos = adds_bos != NULL ? json_is_true(adds_bos) : b->class->adds_bos;
    *eos = json_is_true(json_object_get(b->config, "add_eos_token"));
    return true;
}

enum sw_beside_prefix sw_beside_prefix(const struct sw_beside *b, bool alone, bool bytes,
                                       bool written)
{
    const json_t *wanted = json_object_get(b->config, "add_prefix_space");
    const bool is_set = json_is_boolean(wanted);
    if (b->class != NULL && b->class->of_pieces) {
        if (is_set && json_is_true(wanted) != written)
            return SW_BESIDE_UNCLEAR;
        return !b->is_version_5 || !written                         ? SW_BESIDE_AS_WRITTEN
               : json_is_true(json_object_get(b->config, "legacy")) ? SW_BESIDE_PREFIX
                                                                    : SW_BESIDE_FIRST;
    }
    /* version 4 sets it if ByteLevel is alone, 5 if a class makes the tokenizer anew */
    if (b->is_version_5 ? b->class == NULL || !bytes : !alone || (wanted != NULL && !is_set))
        return SW_BESIDE_AS_WRITTEN;
    return json_is_true(wanted) ? SW_BESIDE_PREFIX : SW_BESIDE_NO_PREFIX;
}
