/* Normalizer, pre-tokenizer and post-processor of tokenizer.json. */
#include "core/base/text.h"
#include "runner/text/tokenizer/internal.h"

#include <string.h>

/* ---- normalizers ---- */

static int read_form(struct sw_normal *n, const char *type)
{
    static const struct {
        const char *type;
        bool compose, compatible;
    } forms[] = {
        {"NFC", true, false}, {"NFD", false, false}, {"NFKC", true, true}, {"NFKD", false, true}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (strcmp(type, forms[i].type) == 0) {
            n->kind = SW_NORMAL_UNICODE;
            n->compose = forms[i].compose;
            n->compatible = forms[i].compatible;
            return 0;
        }
    return -1;
}

static int read_normal(struct sw_tokenizer *t, const json_t *part, const char *type,
                       struct sw_error *err)
{
    if (t->normal_count == SW_TEXT_STAGES)
        return sw_refuse(t, err, "more than %d normalizers", (int)SW_TEXT_STAGES);
    struct sw_normal *n = &t->normal[t->normal_count++];
    if (read_form(n, type) == 0)
        return sw_normal_prepare(n) == 0 ? 0 : sw_out_of_memory(t, err);
    if (strcmp(type, "Prepend") == 0) {
        n->kind = SW_NORMAL_PREPEND;
        return sw_read_text(t, part, "prepend", SW_TEXT_CONTENT_BYTES, n->content,
                            &n->content_bytes, err);
    }
    if (strcmp(type, "Replace") == 0) {
        n->kind = SW_NORMAL_REPLACE;
        if (sw_read_text(t, part, "content", SW_TEXT_CONTENT_BYTES, n->content, &n->content_bytes,
                         err) != 0)
            return -1;
        return sw_read_pattern(t, json_object_get(part, "pattern"), "Replace", &n->pattern, err);
    }
    return sw_refuse_type(t, type, "normalizer",
                          "NFC, NFD, NFKC, NFKD, Prepend, Replace and Sequence", err);
}

int sw_read_normalizer(struct sw_tokenizer *t, const json_t *root, struct sw_error *err)
{
    return sw_read_sequence(t, json_object_get(root, "normalizer"), "normalizer", "normalizers",
                            read_normal, err);
}

/* ---- pre-tokenizers ---- */

/* GPT-2's, which no file contains (openai/gpt-2, src/encoder.py). */
static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static int read_byte_level(struct sw_tokenizer *t, const json_t *part, struct sw_pre *p,
                           struct sw_error *err)
{
    bool prefixed;
    t->bpe.of_bytes = true;
    p->mark[0] = ' ';
    p->mark_bytes = 1;
    p->behavior = SW_SPLIT_ISOLATED;
    if (sw_read_flag(t, part, "add_prefix_space", true, &prefixed, err) != 0 ||
        sw_read_flag(t, part, "use_regex", true, &p->splits, err) != 0)
        return -1;
    p->prefix = prefixed ? SW_PREFIX_ALWAYS : SW_PREFIX_NEVER;
    return p->splits ? sw_pattern_compile(t->path, gpt2_pattern, sizeof gpt2_pattern - 1,
                                          &p->pattern, err)
                     : 0;
}

static int read_digits(struct sw_tokenizer *t, const json_t *part, struct sw_pre *p,
                       struct sw_error *err)
{
    bool individual;
    if (sw_read_flag(t, part, "individual_digits", false, &individual, err) != 0)
        return -1;
    p->splits = true;
    p->behavior = SW_SPLIT_ISOLATED;
    return sw_pattern_compile(t->path, individual ? "\\p{N}" : "\\p{N}+", individual ? 5 : 6,
                              &p->pattern, err);
}

static int read_behavior(const struct sw_tokenizer *t, const json_t *part, struct sw_pre *p,
                         struct sw_error *err)
{
    static const char *const words[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const char *word = json_string_value(json_object_get(part, "behavior"));
    for (size_t i = 0; word != NULL && i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i]) == 0) {
            p->behavior = (enum sw_behavior)i;
            return 0;
        }
    return sw_refuse(t, err,
                     "the behavior of a Split is none of Removed, Isolated, "
                     "MergedWithPrevious, MergedWithNext and Contiguous");
}

static int read_split(struct sw_tokenizer *t, const json_t *part, struct sw_pre *p,
                      struct sw_error *err)
{
    p->splits = true;
    if (read_behavior(t, part, p, err) != 0 ||
        sw_read_flag(t, part, "invert", false, &p->inverted, err) != 0)
        return -1;
    return sw_read_pattern(t, json_object_get(part, "pattern"), "Split", &p->pattern, err);
}

/* Older files have add_prefix_space instead of prepend_scheme. */
static int read_scheme(const struct sw_tokenizer *t, const json_t *part, enum sw_prefix *out,
                       struct sw_error *err)
{
    static const char *const words[] = {"never", "first", "always"};
    const json_t *scheme = json_object_get(part, "prepend_scheme");
    bool prefixed;
    if (sw_read_flag(t, part, "add_prefix_space", true, &prefixed, err) != 0)
        return -1;
    *out = prefixed ? SW_PREFIX_ALWAYS : SW_PREFIX_NEVER;
    if (scheme == NULL)
        return 0;
    for (size_t i = 0; json_is_string(scheme) && i < sizeof words / sizeof words[0]; i++)
        if (strcmp(json_string_value(scheme), words[i]) == 0) {
            *out = (enum sw_prefix)i;
            return 0;
        }
    return sw_refuse(t, err, "the prepend_scheme is none of never, first and always");
}

static int read_metaspace(struct sw_tokenizer *t, const json_t *part, struct sw_pre *p,
                          struct sw_error *err)
{
    p->replaces = true;
    p->behavior = SW_SPLIT_WITH_NEXT;
    if (sw_read_text(t, part, "replacement", 4, p->mark, &p->mark_bytes, err) != 0 ||
        read_scheme(t, part, &p->prefix, err) != 0 ||
        sw_read_flag(t, part, "split", true, &p->splits, err) != 0)
        return -1;
    if (p->mark_bytes == 0)
        return sw_refuse(t, err, "the replacement of the Metaspace is empty");
    return sw_pattern_plain(p->mark, p->mark_bytes, &p->pattern) == 0 ? 0
                                                                      : sw_out_of_memory(t, err);
}

static const struct {
    const char *type;
    int (*read)(struct sw_tokenizer *t, const json_t *part, struct sw_pre *p, struct sw_error *err);
} pre_types[] = {{"ByteLevel", read_byte_level},
                 {"Split", read_split},
                 {"Digits", read_digits},
                 {"Metaspace", read_metaspace}};

static int read_pre(struct sw_tokenizer *t, const json_t *part, const char *type,
                    struct sw_error *err)
{
    if (t->pre_count == SW_TEXT_STAGES)
        return sw_refuse(t, err, "more than %d pre-tokenizers", (int)SW_TEXT_STAGES);
    for (size_t i = 0; i < sizeof pre_types / sizeof pre_types[0]; i++) {
        if (strcmp(type, pre_types[i].type) != 0)
            continue;
        if (t->bpe.of_bytes)
            return sw_refuse(t, err,
                             "the pre-tokenizer '%s' stands behind ByteLevel, which is "
                             "supported only as the last one",
                             type);
        return pre_types[i].read(t, part, &t->pre[t->pre_count++], err);
    }
    return sw_refuse_type(t, type, "pre-tokenizer",
                          "ByteLevel, Split, Digits, Metaspace and Sequence", err);
}

int sw_read_pre_tokenizer(struct sw_tokenizer *t, const json_t *root, struct sw_error *err)
{
    return sw_read_sequence(t, json_object_get(root, "pre_tokenizer"), "pre_tokenizer",
                            "pretokenizers", read_pre, err);
}

/* ---- post-processors ---- */

/* Adds the ids of a template's special token. */
static int add_template_token(struct sw_tokenizer *t, const json_t *template, const char *name,
                              struct sw_ids *out, struct sw_error *err)
{
    const json_t *ids =
        json_object_get(json_object_get(json_object_get(template, "special_tokens"), name), "ids");
    const json_t *value;
    size_t i;
    if (!json_is_array(ids))
        return sw_refuse(t, err, "a token of the TemplateProcessing is not in its special_tokens");
    json_array_foreach((json_t *)ids, i, value)
    {
        const json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || id >= t->size || !t->token[id].exists)
            return sw_refuse(t, err, "an id of the TemplateProcessing is not the id of a token");
        if (sw_ids_reserve(out, 1) != 0)
            return sw_out_of_memory(t, err);
        out->id[out->count++] = (int32_t)id;
    }
    return 0;
}

static int read_template(struct sw_tokenizer *t, const json_t *part, struct sw_error *err)
{
    const json_t *single = json_object_get(part, "single"), *piece;
    bool has_text = false;
    size_t i;
    if (!json_is_array(single))
        return sw_refuse(t, err, "the TemplateProcessing has no list 'single'");
    if (t->before.count + t->after.count > 0)
        return sw_refuse(t, err, "two post-processors TemplateProcessing, one is supported");
    json_array_foreach((json_t *)single, i, piece)
    {
        const json_t *token = json_object_get(piece, "SpecialToken");
        const char *name = json_string_value(json_object_get(token, "id"));
        if (name != NULL) {
            if (add_template_token(t, part, name, has_text ? &t->after : &t->before, err) != 0)
                return -1;
            continue;
        }
        const char *text =
            json_string_value(json_object_get(json_object_get(piece, "Sequence"), "id"));
        if (text == NULL || strcmp(text, "A") != 0 || has_text)
            return sw_refuse(t, err,
                             "'single' of the TemplateProcessing is not tokens round one text A");
        has_text = true;
    }
    return has_text ? 0 : sw_refuse(t, err, "'single' of the TemplateProcessing lacks the text A");
}

static int read_post(struct sw_tokenizer *t, const json_t *part, const char *type,
                     struct sw_error *err)
{
    if (strcmp(type, "ByteLevel") == 0) /* changes offsets only */
        return sw_read_flag(t, part, "trim_offsets", true, &t->trims_offsets, err) != 0
                   ? -1
                   : sw_read_flag(t, part, "add_prefix_space", true, &t->keeps_prefix, err);
    if (strcmp(type, "TemplateProcessing") == 0)
        return read_template(t, part, err);
    return sw_refuse_type(t, type, "post-processor", "TemplateProcessing, ByteLevel and Sequence",
                          err);
}

int sw_read_post_processor(struct sw_tokenizer *t, const json_t *root, struct sw_error *err)
{
    return sw_read_sequence(t, json_object_get(root, "post_processor"), "post_processor",
                            "processors", read_post, err);
}
