/* Orders special and added tokens as `transformers` adds them. */
#include "runner/text/tokenizer/special.h"

#include "core/base/text.h"
#include "runner/checkpoint/json_text.h"

#include <stdlib.h>
#include <string.h>

static const char config_file[] = "tokenizer_config.json", added_file[] = "added_tokens.json";
static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};
enum {
    NAMES = sizeof names / sizeof names[0],
    SHOWN_BYTES = 60 /* longest text shown in a message */
};

static int out_of_memory(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for the tokenizer");
}

/* ---- one token: a text, or an object with content and flags ---- */

const json_t *sw_special_text(const json_t *token)
{
    const json_t *text = sw_json_is_object(token) ? json_object_get(token, "content") : token;
    return json_is_string(text) ? text : NULL;
}

static bool same_text(const json_t *a, const json_t *b)
{
    a = sw_special_text(a);
    b = sw_special_text(b);
    return a != NULL && b != NULL && json_equal(a, b);
}

/* True if the first `count` of the list have the token's text. */
static bool holds_text(const json_t *list, size_t count, const json_t *token)
{
    for (size_t i = 0; i < count && i < json_array_size(list); i++)
        if (same_text(json_array_get(list, i), token))
            return true;
    return false;
}

bool sw_special_holds(const json_t *list, const json_t *token)
{
    const json_t *one;
    size_t i;
    json_array_foreach((json_t *)list, i, one) if (json_equal(one, token)) return true;
    return false;
}

json_t *sw_special_whole(const json_t *token, bool special)
{
    static const char *const flags[] = {"single_word", "lstrip", "rstrip"};
    const json_t *said = json_object_get(token, "special");
    special = said != NULL && !special ? json_is_true(said) : special;
    json_t *out = json_pack("{s:O,s:b}", "content", sw_special_text(token), "special", special);
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        json_t *flag = json_object_get(token, flags[i]);
        json_object_set_new(out, flags[i], flag != NULL ? json_incref(flag) : json_false());
    }
    json_t *normalized = json_object_get(token, "normalized");
    json_object_set_new(out, "normalized",
                        normalized != NULL ? json_incref(normalized) : json_boolean(!special));
    return out;
}

/* ---- named tokens ---- */

static bool is_usual(const char *key)
{
    for (size_t i = 0; i < NAMES; i++)
        if (strcmp(key, names[i]) == 0)
            return true;
    return false;
}

static int check_token(const struct sw_beside *b, const char *key, const json_t *value,
                       struct sw_error *err)
{
    char shown[SHOWN_BYTES + 4];
    return sw_special_text(value) != NULL
               ? 0
               : sw_beside_refuse(b, config_file, key, err,
                                  "'%s' names no token; write its text, or null",
                                  sw_text_shown(key, SHOWN_BYTES, shown));
}

/* Adds names that only this model has, such as image_token. */
static int add_own(const struct sw_beside *b, json_t *out, struct sw_error *err)
{
    const json_t *extra = json_object_get(b->config, "extra_special_tokens");
    const char *key;
    json_t *value;
    json_object_foreach(b->config, key, value)
    {
        const size_t bytes = strlen(key);
        if (b->is_version_5 && bytes > 6 && strcmp(key + bytes - 6, "_token") == 0 &&
            !is_usual(key) && sw_special_text(value) != NULL)
            json_object_set(out, key, value);
    }
    if (!sw_json_is_object(extra))
        return 0;
    json_object_foreach((json_t *)extra, key, value)
    {
        if (check_token(b, key, value, err) != 0)
            return -1;
        json_object_set(out, key, value);
    }
    return 0;
}

json_t *sw_beside_named(const struct sw_beside *b, struct sw_error *err)
{
    const struct sw_tokenizer_class *c = b->class;
    const char *const usual[] = {c != NULL ? c->bos : NULL,
                                 c != NULL ? c->eos : NULL,
                                 c != NULL ? c->unk : NULL,
                                 NULL,
                                 c != NULL ? c->pad : NULL,
                                 NULL,
                                 c != NULL && b->is_version_5 ? c->mask : NULL};
    json_t *out = json_object();
    for (size_t i = 0; i < NAMES; i++) {
        json_t *value = json_object_get(b->config, names[i]);
        if (value == NULL && i < sizeof usual / sizeof usual[0] && usual[i] != NULL)
            json_object_set_new(out, names[i], json_string(usual[i]));
        if (value == NULL || json_is_null(value))
            continue;
        if (check_token(b, names[i], value, err) != 0) {
            json_decref(out);
            return NULL;
        }
        json_object_set(out, names[i], value);
    }
    if (add_own(b, out, err) == 0)
        return out;
    json_decref(out);
    return NULL;
}

/* ---- tokens to add ---- */

struct numbered {
    json_t *token; /* owned */
    const char *file;
    int64_t id;
    size_t at; /* index in its file: later ones replace earlier ones of the same id */
};
struct gathering {
    const struct sw_beside *b;
    struct numbered *row;
    size_t count, capacity;
    json_t *tokens; /* [count] as read, by id */
    json_t *out;    /* [{"token": ..., "id": ..., "file": ...}] */
    struct sw_error *err;
};

static int gather(struct gathering *g, json_t *token, int64_t id, const char *file)
{
    if (g->count == g->capacity) {
        const size_t capacity = g->capacity == 0 ? 64 : 2 * g->capacity;
        struct numbered *grown = realloc(g->row, capacity * sizeof *grown);
        if (grown == NULL) {
            json_decref(token);
            return out_of_memory(g->err);
        }
        g->row = grown;
        g->capacity = capacity;
    }
    g->row[g->count] = (struct numbered){token, file, id, g->count};
    g->count++;
    return 0;
}

static int gather_list(struct gathering *g)
{
    char shown[SHOWN_BYTES + 4];
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(g->b->config, "added_tokens_decoder"), key, value)
    {
        char *end;
        const int64_t id = strtoll(key, &end, 10);
        if (*key == '\0' || *end != '\0' || !sw_json_is_object(value) ||
            sw_special_text(value) == NULL)
            return sw_beside_refuse(g->b, config_file, key, g->err,
                                    "'%s' of added_tokens_decoder is no id with a token",
                                    sw_text_shown(key, SHOWN_BYTES, shown));
        if (gather(g, sw_special_whole(value, false), id, config_file) != 0)
            return -1;
    }
    return 0;
}

/* Names, then the list, then the model's own names; version 5: all names first. */
static json_t *special_in_order(const struct sw_beside *b, const json_t *named, json_t *list,
                                size_t *named_count)
{
    json_t *out = json_array(), *value;
    const char *key;
    json_object_foreach((json_t *)named, key, value) if (b->is_version_5 || is_usual(key))
        json_array_append(out, value);
    *named_count = json_array_size(out);
    if (list != NULL)
        json_array_extend(out, list);
    json_object_foreach((json_t *)named, key, value) if (!b->is_version_5 && !is_usual(key))
        json_array_append(out, value);
    return out;
}

/* Appends texts and untyped objects: typed ones in tokenizer_config.json are not tokens yet. */
static void append_untyped(json_t *out, json_t *token)
{
    if (token != NULL && json_object_get(token, "__type") == NULL)
        json_array_append(out, token);
}

static int gather_older(struct gathering *g, const json_t *in_file, const json_t *named)
{
    json_t *special = json_array(), *value;
    char shown[SHOWN_BYTES + 4];
    const char *key;
    size_t i;
    int status = 0;
    for (i = 0; i < NAMES; i++)
        append_untyped(special, json_object_get(named, names[i]));
    for (i = 0; i < json_array_size(g->b->first_list); i++)
        append_untyped(special, json_array_get(g->b->first_list, i));
    json_object_foreach(g->b->added, key, value)
    {
        if (status == 0 && !json_is_integer(value))
            status = sw_beside_refuse(g->b, added_file, key, g->err,
                                      "the token '%s' has no id; write a whole number",
                                      sw_text_shown(key, SHOWN_BYTES, shown));
        if (status != 0)
            break;
        json_t *text = json_string(key);
        status = gather(g, sw_special_whole(text, holds_text(special, SIZE_MAX, text)),
                        json_integer_value(value), added_file);
        json_decref(text);
    }
    json_array_foreach((json_t *)in_file, i, value)
    {
        const json_t *id = json_object_get(value, "id");
        if (status == 0 && sw_special_text(value) != NULL && json_is_integer(id))
            status = gather(g, sw_special_whole(value, false), json_integer_value(id), NULL);
    }
    json_decref(special);
    return status;
}

static int by_id(const void *a, const void *b)
{
    const struct numbered *x = a, *y = b;
    return x->id != y->id ? (x->id < y->id ? -1 : 1) : x->at < y->at ? -1 : x->at > y->at;
}

/* Orders by id; of two with one id the later wins. */
static void order(struct gathering *g)
{
    size_t kept = 0;
    if (g->count > 0)
        qsort(g->row, g->count, sizeof *g->row, by_id);
    for (size_t i = 0; i < g->count; i++) {
        if (i + 1 < g->count && g->row[i + 1].id == g->row[i].id)
            json_decref(g->row[i].token);
        else
            g->row[kept++] = g->row[i];
    }
    g->count = kept;
    for (size_t i = 0; i < kept; i++)
        json_array_append(g->tokens, g->row[i].token);
}

static void put_out(struct gathering *g, const json_t *token, bool special,
                    const struct numbered *row)
{
    json_t *one = json_object(), *copy = sw_special_whole(token, false);
    if (special)
        json_object_set_new(copy, "special", json_true());
    json_object_set_new(one, "token", copy);
    json_object_set_new(one, "file",
                        json_string(row != NULL && row->file != NULL ? row->file : config_file));
    if (row != NULL && row->file != NULL)
        json_object_set_new(one, "id", json_integer(row->id));
    json_array_append_new(g->out, one);
}

/* Resolves a name to the token of that text, with its flags; in version 4 not to one of
 * added_tokens.json. */
static void resolve(const struct gathering *g, json_t *named)
{
    for (size_t i = 0; i < NAMES; i++) {
        const json_t *value = json_object_get(named, names[i]);
        for (size_t j = g->count; value != NULL && j-- > 0;)
            if ((g->b->is_version_5 || g->row[j].file != added_file) &&
                same_text(g->row[j].token, value)) {
                json_object_set(named, names[i], g->row[j].token);
                break;
            }
    }
}

/* Adds a special token unless present: a text by its text, a token by its text and flags. */
static void put_special(struct gathering *g, const json_t *in_file, const json_t *list,
                        size_t named)
{
    const bool newer = g->b->is_version_5;
    json_t *seen = json_array(), *token;
    size_t i;
    json_array_foreach((json_t *)list, i, token)
    {
        const bool is_there =
            holds_text(in_file, SIZE_MAX, token) || holds_text(g->tokens, SIZE_MAX, token);
        const bool twice =
            newer ? sw_special_holds(seen, token) : holds_text(seen, SIZE_MAX, token);
        json_t *full = sw_json_is_object(token) ? sw_special_whole(token, false) : NULL;
        json_array_append(seen, token);
        if (!twice && !(is_there && (newer || full == NULL)) &&
            (full == NULL || !sw_special_holds(g->tokens, full))) {
            json_t *made = full != NULL ? json_incref(full) : sw_special_whole(token, true);
            put_out(g, made, !newer || i < named, NULL);
            json_decref(made);
        }
        json_decref(full);
    }
    json_decref(seen);
}

static void put_plain(struct gathering *g, const json_t *list)
{
    const json_t *token;
    size_t i;
    json_array_foreach((json_t *)list, i, token)
    {
        json_t *plain = sw_special_whole(sw_special_text(token), true);
        put_out(g, plain, true, NULL);
        json_decref(plain);
    }
}

static int check_list(const struct sw_beside *b, struct sw_error *err)
{
    bool good = b->list == NULL || json_is_array(b->list);
    const json_t *one;
    size_t i;
    json_array_foreach(b->list, i, one) good = good && sw_special_text(one) != NULL;
    return good ? 0
                : sw_beside_refuse(b, config_file, b->list_key, err,
                                   "'%s' is not a list of tokens; write their texts", b->list_key);
}

bool sw_beside_replaces(const struct sw_beside *b)
{
    return b->is_version_5 && b->class != NULL && b->has_list;
}

int sw_beside_tokens(const struct sw_beside *b, const json_t *in_file, json_t **out,
                     struct sw_error *err)
{
    struct gathering g = {.b = b, .err = err, .tokens = json_array(), .out = json_array()};
    json_t *named = sw_beside_named(b, err), *list = NULL;
    size_t named_count = 0;
    int status = named == NULL || check_list(b, err) != 0 ? -1
                 : b->has_list                            ? gather_list(&g)
                                                          : gather_older(&g, in_file, named);
    if (status == 0) {
        order(&g);
        resolve(&g, named);
        list = special_in_order(b, named, b->list, &named_count);
        const size_t promoting = b->is_version_5 ? named_count : json_array_size(list);
        for (size_t i = 0; i < g.count; i++)
            put_out(&g, g.row[i].token, holds_text(list, promoting, g.row[i].token), &g.row[i]);
        put_special(&g, sw_beside_replaces(b) ? NULL : in_file, list, named_count);
        if (b->is_version_5 && b->class != NULL && b->class->is_plain)
            put_plain(&g, list);
        *out = json_incref(g.out);
    }
    for (size_t i = 0; i < g.count; i++)
        json_decref(g.row[i].token);
    free(g.row);
    json_decref(g.tokens);
    json_decref(g.out);
    json_decref(list);
    json_decref(named);
    return status;
}
