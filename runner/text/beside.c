/* What begins and ends a text, from the files beside tokenizer.json. */
#include "core/base/file.h"
#include "runner/text/internal.h"
#include "runner/text/json_mistake.h"

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

/* -1 unless the tokenizer has this token. */
static int32_t id_of(const struct sw_tokenizer *t, const json_t *value)
{
    const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    return id >= 0 && id < t->size && t->token[id].exists ? (int32_t)id : -1;
}

/* "</s>" or {"content": "</s>"} */
static int32_t id_of_text(const struct sw_tokenizer *t, const json_t *value)
{
    const json_t *text = json_is_object(value) ? json_object_get(value, "content") : value;
    return json_is_string(text)
               ? sw_word_find(t, &t->names, json_string_value(text), json_string_length(text))
               : -1;
}

static int add_eos(struct sw_tokenizer *t, int32_t id)
{
    for (size_t i = 0; i < t->eos.count; i++)
        if (t->eos.id[i] == id)
            return 0;
    if (id < 0)
        return 0;
    if (sw_ids_reserve(&t->eos, 1) != 0)
        return -1;
    t->eos.id[t->eos.count++] = id;
    return 0;
}

/* An id, or a list of them. */
static int read_eos(struct sw_tokenizer *t, const json_t *value)
{
    const json_t *one;
    size_t i;
    if (!json_is_array(value))
        return add_eos(t, id_of(t, value));
    json_array_foreach((json_t *)value, i, one) if (add_eos(t, id_of(t, one)) != 0) return -1;
    return 0;
}

static int read_ids(struct sw_tokenizer *t, const json_t *generation, const json_t *tokenizer,
                    const json_t *config)
{
    t->bos = id_of_text(t, json_object_get(tokenizer, "bos_token"));
    if (json_object_get(tokenizer, "bos_token") == NULL) {
        t->bos = id_of(t, json_object_get(generation, "bos_token_id"));
        if (t->bos < 0)
            t->bos = id_of(t, json_object_get(config, "bos_token_id"));
    }
    if (read_eos(t, json_object_get(generation, "eos_token_id")) != 0)
        return -1;
    if (t->eos.count == 0 &&
        add_eos(t, id_of_text(t, json_object_get(tokenizer, "eos_token"))) != 0)
        return -1;
    return t->eos.count == 0 ? read_eos(t, json_object_get(config, "eos_token_id")) : 0;
}

int sw_read_beside(struct sw_tokenizer *t, const char *folder, struct sw_error *err)
{
    json_t *generation = NULL, *tokenizer = NULL, *config = NULL;
    int status = -1;
    if (sw_text_load_json(folder, "generation_config.json", &generation, err) == 0 &&
        sw_text_load_json(folder, "tokenizer_config.json", &tokenizer, err) == 0 &&
        sw_text_load_json(folder, "config.json", &config, err) == 0)
        status = read_ids(t, generation, tokenizer, config) == 0 ? 0 : sw_out_of_memory(t, err);
    json_decref(generation);
    json_decref(tokenizer);
    json_decref(config);
    return status;
}
