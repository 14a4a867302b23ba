/* Where a model's text part stands, and what its files leave out. */
#include "core/config/internal.h"

#include <string.h>

/* What transformers' Gemma3TextConfig has for keys that are not written; the files of the larger
 * models rely on it. */
static const char gemma3[] = "{\"vocab_size\": 262208, \"hidden_size\": 2304, "
                             "\"intermediate_size\": 9216, \"num_hidden_layers\": 26, "
                             "\"num_attention_heads\": 8, \"num_key_value_heads\": 4, "
                             "\"head_dim\": 256, \"max_position_embeddings\": 131072, "
                             "\"initializer_range\": 0.02, \"rms_norm_eps\": 1.0e-6, "
                             "\"rope_theta\": 1000000.0, \"tie_word_embeddings\": true, "
                             "\"sliding_window\": 4096}";

static bool is_text(const struct node *node, const char *text)
{
    return node != NULL && node->kind == NODE_SCALAR && strcmp(node->text, text) == 0;
}

struct node *sw_model_text_part(struct sw_config *c, struct node *root)
{
    struct node *text = NULL;
    const struct node *names = sw_node_find(root, "architectures");
    const struct node *first = names != NULL && names->kind == NODE_SEQUENCE ? names->first : names;
    if (!is_text(sw_node_find(root, "model_type"), "gemma3") &&
        !is_text(first, "Gemma3ForConditionalGeneration"))
        return root;
    for (struct node *entry = root->first; entry != NULL; entry = entry->next)
        if (strcmp(entry->key->text, "text_config") == 0 && entry->kind == NODE_MAPPING)
            text = entry;
    if (text == NULL)
        return root;
    sw_config_note_at(c, text->key,
                      "the text part of the model is read, and its vision part is left out");
    return text;
}

void sw_model_add_defaults(struct sw_config *c, struct node *root, uint8_t family)
{
    struct source *source = family == SW_FAMILY_GEMMA3 ? sw_config_alloc(c, sizeof *source) : NULL;
    if (source == NULL)
        return;
    *source = *root->source;
    source->text = gemma3;
    source->bytes = sizeof gemma3 - 1;
    const struct node *defaults = sw_config_parse(c, source);
    struct node *next;
    for (struct node *entry = defaults != NULL ? defaults->first : NULL; entry != NULL;
         entry = next) {
        next = entry->next;
        const bool inside = strcmp(entry->key->text, "rope_theta") == 0 &&
                            sw_node_find(root, "rope_parameters") != NULL;
        if (inside || sw_node_find(root, entry->key->text) != NULL)
            continue;
        entry->next = NULL;
        if (root->last != NULL)
            root->last->next = entry;
        else
            root->first = entry;
        root->last = entry;
        root->count++;
    }
}
