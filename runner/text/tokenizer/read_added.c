/* Reads added tokens: tokenizer.json's, then those of the files beside it, numbered as in
 * `tokenizers`: a known text keeps its id, a new one gets the next. */
#include "core/base/text.h"
#include "runner/text/tokenizer/internal.h"
#include "runner/text/tokenizer/special.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct added_text {
    const char *text, *file; /* file: the one that claims the id */
    size_t bytes;
    struct sw_added added;
};

static int read_flags(const struct sw_tokenizer *t, const json_t *value, struct sw_added *added,
                      struct sw_error *err)
{
    return sw_read_flag(t, value, "special", false, &added->special, err) != 0 ||
                   sw_read_flag(t, value, "single_word", false, &added->single_word, err) != 0 ||
                   sw_read_flag(t, value, "lstrip", false, &added->lstrip, err) != 0 ||
                   sw_read_flag(t, value, "rstrip", false, &added->rstrip, err) != 0 ||
                   sw_read_flag(t, value, "normalized", !added->special, &added->normalized, err) !=
                       0
               ? -1
               : 0;
}

/* Id of the text, assigned if new. -1: *err. */
static int32_t number(struct sw_tokenizer *t, const struct added_text *a, struct sw_error *err)
{
    const int32_t known = sw_word_find(t, &t->names, a->text, a->bytes);
    if (known >= 0)
        return known;
    const int32_t id = t->next_added;
    if (id < t->size && t->token[id].exists) {
        char shown[SW_TEXT_SHOWN_BYTES + 4];
        sw_text_shown(t->arena.byte + t->token[id].text, SW_TEXT_SHOWN_BYTES, shown);
        return sw_refuse(t, err,
                         "an added token gets the id %d from transformers, which '%s' has already; "
                         "the vocabulary has gaps",
                         (int)id, shown);
    }
    if (sw_token_add(t, id, a->text, a->bytes, err) != 0)
        return -1;
    t->next_added++;
    return sw_word_map_add(t, &t->names, id) == 0 ? id : sw_out_of_memory(t, err);
}

/* Ignores claimed ids that differ from the assigned ones, like transformers, and counts them for a
 * note. */
static void compare_id(struct sw_tokenizer *t, const struct added_text *a, int64_t claimed,
                       int32_t id)
{
    struct sw_misnumbered *m = &t->misnumbered;
    if (claimed == id || m->count++ > 0)
        return;
    m->claimed = claimed;
    m->id = id;
    m->file = a->file;
}

static int note_ids(struct sw_tokenizer *t, struct sw_error *err)
{
    const struct sw_misnumbered *m = &t->misnumbered;
    char shown[SW_TEXT_SHOWN_BYTES + 4], others[48] = "";
    if (m->count == 0)
        return 0;
    if (m->count > 1)
        snprintf(others, sizeof others, "; the first of %d such tokens", (int)m->count);
    sw_text_shown(t->arena.byte + t->token[m->id].text, SW_TEXT_SHOWN_BYTES, shown);
    return sw_tokenizer_add_note(t, m->file, err,
                                 "the added token '%s' has the id %lld there, and %d in "
                                 "transformers, which is taken%s",
                                 shown, (long long)m->claimed, (int)m->id, others);
}

/* A text's last flags win, but special stays. The older `tokenizers` of transformers 4 keep
 * searching in the earlier way, and special tokens only in that. */
static int put(struct sw_tokenizer *t, const struct added_text *a, int32_t id, struct sw_error *err)
{
    struct sw_token *token = &t->token[id];
    if (token->added == 0) {
        if (t->added_count == t->added_capacity) {
            const int32_t capacity = t->added_capacity == 0 ? 64 : 2 * t->added_capacity;
            struct sw_added *grown = realloc(t->added, (size_t)capacity * sizeof *grown);
            if (grown == NULL)
                return sw_out_of_memory(t, err);
            t->added = grown;
            t->added_capacity = capacity;
        }
        t->added[t->added_count] = (struct sw_added){.id = id};
        token->added = ++t->added_count;
    }
    struct sw_added *added = &t->added[token->added - 1];
    const struct sw_added was = *added;
    const bool older = t->beside != NULL && !sw_beside_is_version_5(t->beside);
    *added = a->added;
    added->id = id;
    added->special |= was.special;
    added->in_plain = (older && was.in_plain) || (!added->normalized && !(older && was.special));
    added->in_normal = (older && was.in_normal) || (added->normalized && !(older && was.special));
    token->special = added->special;
    token->normalized = added->normalized;
    return 0;
}

static int read_one(struct sw_tokenizer *t, const json_t *value, const json_t *claimed,
                    const char *file, struct sw_error *err)
{
    const json_t *content = json_object_get(value, "content");
    if (!json_is_string(content) || (file == NULL && !json_is_integer(claimed)))
        return sw_refuse(t, err, "an added token lacks its id or content");
    struct added_text a = {json_string_value(content), file, json_string_length(content), {0}};
    if (a.bytes == 0 || a.bytes > SW_TEXT_ADDED_BYTES)
        return sw_refuse(t, err, "an added token has %zu bytes, of 1 to %d", a.bytes,
                         (int)SW_TEXT_ADDED_BYTES);
    if (read_flags(t, value, &a.added, file == NULL ? err : NULL) != 0)
        return file == NULL ? -1
                            : sw_beside_refuse(t->beside, file, a.text, err,
                                               "a flag of this token is neither true nor false");
    const int32_t id = number(t, &a, err);
    if (id < 0)
        return -1;
    if (json_is_integer(claimed))
        compare_id(t, &a, json_integer_value(claimed), id);
    return put(t, &a, id, err);
}

/* Special tokens first, as in `tokenizers`: of two with one normalized form the first is found. */
static int order_added(struct sw_tokenizer *t, struct sw_error *err)
{
    struct sw_added *room = malloc((size_t)(t->added_count + 1) * sizeof *room);
    int32_t at = 0;
    if (room == NULL)
        return sw_out_of_memory(t, err);
    for (int32_t special = 1; special >= 0; special--)
        for (int32_t i = 0; i < t->added_count; i++)
            if (t->added[i].special == (special == 1))
                room[at++] = t->added[i];
    free(t->added);
    t->added = room;
    return 0;
}

int sw_read_added(struct sw_tokenizer *t, const json_t *root, struct sw_error *err)
{
    const json_t *list = json_object_get(root, "added_tokens"), *value;
    json_t *more = NULL;
    size_t i;
    int status = 0;
    if (list != NULL && !json_is_null(list) && !json_is_array(list))
        return sw_refuse(t, err, "'added_tokens' is not a list");
    if (t->beside != NULL && sw_beside_settle(t->beside, root, err) != 0)
        return -1;
    const bool counts = t->beside == NULL || !sw_beside_replaces(t->beside);
    json_array_foreach((json_t *)list, i, value)
    {
        if (counts && status == 0)
            status = read_one(t, value, json_object_get(value, "id"), NULL, err);
    }
    if (status == 0 && t->beside != NULL)
        status = sw_beside_tokens(t->beside, list, &more, err);
    json_array_foreach(more, i, value)
    {
        if (status == 0)
            status = read_one(t, json_object_get(value, "token"), json_object_get(value, "id"),
                              json_string_value(json_object_get(value, "file")), err);
    }
    if (status == 0)
        status = note_ids(t, err);
    json_decref(more);
    return status == 0 ? order_added(t, err) : -1;
}
