/* Finds added tokens before the text is split, leftmost and longest, like `tokenizers`'
 * Aho-Corasick, by descending a tree wherever a token may begin. */
#include "runner/text/tokenizer/internal.h"
#include "runner/text/tokenizer/utf8.h"

#include <stdlib.h>
#include <string.h>

static int32_t child_of(const struct sw_tree *tree, int32_t node, unsigned char byte)
{
    for (node = tree->node[node].child; node >= 0; node = tree->node[node].next)
        if (tree->node[node].byte == byte)
            break;
    return node;
}

static int32_t add_node(struct sw_tree *tree, unsigned char byte)
{
    if (tree->count == tree->capacity) {
        const int32_t capacity = tree->capacity == 0 ? 64 : tree->capacity * 2;
        struct sw_tree_node *node = realloc(tree->node, (size_t)capacity * sizeof *node);
        if (node == NULL)
            return -1;
        tree->node = node;
        tree->capacity = capacity;
    }
    tree->node[tree->count] = (struct sw_tree_node){-1, -1, -1, byte};
    return tree->count++;
}

int sw_tree_add(struct sw_tree *tree, const char *text, size_t bytes, int32_t added)
{
    if (bytes == 0)
        return 0;
    if (tree->count == 0 && add_node(tree, 0) < 0)
        return -1;
    int32_t at = 0;
    for (size_t i = 0; i < bytes; i++) {
        int32_t child = child_of(tree, at, (unsigned char)text[i]);
        if (child < 0) {
            child = add_node(tree, (unsigned char)text[i]);
            if (child < 0)
                return -1;
            tree->node[child].next = tree->node[at].child;
            tree->node[at].child = child;
        }
        at = child;
    }
    if (tree->node[at].added < 0) /* the first of two with one normalized form */
        tree->node[at].added = added;
    tree->first[(unsigned char)text[0]] = true;
    return 0;
}

/* Longest token at this position; -1: none. */
static int32_t longest(const struct sw_tree *tree, const char *text, size_t bytes, size_t *length)
{
    int32_t found = -1;
    int32_t at = 0;
    for (size_t i = 0; i < bytes && (at = child_of(tree, at, (unsigned char)text[i])) >= 0; i++)
        if (tree->node[at].added >= 0) {
            found = tree->node[at].added;
            *length = i + 1;
        }
    return found;
}

/* Start of the character before `at`. */
static size_t step_back(const char *text, size_t at)
{
    do
        at--;
    while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80);
    return at;
}

static bool is_single_word(const char *text, size_t bytes, size_t begin, size_t end)
{
    size_t length;
    if (begin > 0 && sw_utf8_is_word(sw_utf8_get(text + step_back(text, begin), &length)))
        return false;
    return end == bytes || !sw_utf8_is_word(sw_utf8_get(text + end, &length));
}

static size_t spaces_before(const char *text, size_t begin, size_t least)
{
    size_t length;
    while (begin > least) {
        const size_t before = step_back(text, begin);
        if (!sw_utf8_is_space(sw_utf8_get(text + before, &length)))
            break;
        begin = before;
    }
    return begin < least ? least : begin;
}

static size_t spaces_behind(const char *text, size_t bytes, size_t end)
{
    size_t length;
    while (end < bytes && sw_utf8_is_space(sw_utf8_get(text + end, &length)))
        end += length;
    return end;
}

/* True if the token overlaps a span; *next: first of the sorted spans that ends after its begin. */
static bool is_literal(const struct sw_encode_options *o, size_t *next, size_t begin, size_t end)
{
    while (*next < o->literal_count && o->literal[*next].end <= begin)
        ++*next;
    return *next < o->literal_count && o->literal[*next].begin < end;
}

int sw_added_split(const struct sw_tokenizer *t, const struct sw_tree *tree, const char *text,
                   size_t bytes, const struct sw_encode_options *options,
                   const struct sw_added_visitor *visitor)
{
    size_t done = 0, span = 0;
    for (size_t at = 0; tree->count > 0 && at < bytes;) {
        size_t length;
        const int32_t found = tree->first[(unsigned char)text[at]]
                                  ? longest(tree, text + at, bytes - at, &length)
                                  : -1;
        if (found < 0) {
            at++;
            continue;
        }
        const struct sw_added *added = &t->added[found];
        size_t begin = at, end = at + length;
        at = end;
        if (added->special && (options->plain_special || is_literal(options, &span, begin, end)))
            continue;
        if (added->single_word && !is_single_word(text, bytes, begin, end))
            continue;
        if (added->lstrip)
            begin = spaces_before(text, begin, done);
        if (added->rstrip)
            end = spaces_behind(text, bytes, end);
        if (done < begin && visitor->rest(visitor->self, text, done, begin) != 0)
            return -1;
        if (visitor->token(visitor->self, added->id, begin, end) != 0)
            return -1;
        done = end;
    }
    return done < bytes ? visitor->rest(visitor->self, text, done, bytes) : 0;
}

int sw_added_prepare(struct sw_tokenizer *t, struct sw_error *err)
{
    struct sw_text_scratch *scratch;
    int status = 0;
    if (sw_text_scratch_new(t, &scratch, err) != 0)
        return -1;
    for (int32_t i = 0; status == 0 && i < t->added_count; i++) {
        const struct sw_added *added = &t->added[i];
        const char *text = t->arena.byte + t->token[added->id].text;
        size_t bytes = t->token[added->id].text_bytes;
        if (added->in_plain && sw_tree_add(&t->plain_tree, text, bytes, i) != 0)
            status = sw_out_of_memory(t, err);
        if (status != 0 || !added->in_normal)
            continue;
        status = sw_normalize(t, scratch, &text, &bytes, NULL, err);
        if (status == 0 && bytes > 4 * SW_TEXT_ADDED_BYTES)
            status = sw_refuse(t, err, "an added token becomes %zu bytes when normalized", bytes);
        if (status == 0 && sw_tree_add(&t->normal_tree, text, bytes, i) != 0)
            status = sw_out_of_memory(t, err);
    }
    sw_text_scratch_free(scratch);
    return status;
}
