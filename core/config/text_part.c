/* The text part of a model of text and images, and defaults of a family's class. */
#include "core/config/internal.h"

#include <string.h>

/* Defaults of transformers' classes; published files leave out keys that have them. */
static const char gemma2[] = "{\"vocab_size\": 256000, \"hidden_size\": 2304, "
                             "\"intermediate_size\": 9216, \"num_hidden_layers\": 26, "
                             "\"num_attention_heads\": 8, \"num_key_value_heads\": 4, "
                             "\"head_dim\": 256, \"max_position_embeddings\": 8192, "
                             "\"initializer_range\": 0.02, \"rms_norm_eps\": 1.0e-6, "
                             "\"rope_theta\": 10000.0, \"tie_word_embeddings\": true, "
                             "\"sliding_window\": 4096, \"attn_logit_softcapping\": 50.0, "
                             "\"final_logit_softcapping\": 30.0}";
static const char olmo3[] = "{\"vocab_size\": 50304, \"hidden_size\": 4096, "
                            "\"intermediate_size\": 11008, \"num_hidden_layers\": 32, "
                            "\"num_attention_heads\": 32, \"max_position_embeddings\": 2048, "
                            "\"initializer_range\": 0.02, \"rms_norm_eps\": 1.0e-5, "
                            "\"rope_theta\": 500000.0, \"tie_word_embeddings\": false, "
                            "\"sliding_window\": 4096}";
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

/* Applies --set's values for the model to the text part. */
static void move_overrides(struct sw_config *c, const struct node *root, struct node *text)
{
    for (const struct node *entry = root->first; entry != NULL; entry = entry->next) {
        struct node *there = sw_node_find(text, entry->key->text);
        if (entry == text || !entry->source->is_override)
            continue;
        if (there != NULL) {
            struct node *next = there->next;
            *there = *entry;
            there->next = next;
        } else if ((there = sw_config_alloc(c, sizeof *there)) != NULL) {
            *there = *entry;
            sw_node_append(text, there);
        }
    }
}

struct node *sw_model_text_part(struct sw_config *c, struct node *root)
{
    struct node *text;
    const struct node *names = sw_node_find(root, "architectures");
    const struct node *first = names != NULL && names->kind == NODE_SEQUENCE ? names->first : names;
    if (!is_text(sw_node_find(root, "model_type"), "gemma3") &&
        !is_text(first, "Gemma3ForConditionalGeneration"))
        return root;
    text = sw_node_find(root, "text_config");
    if (text == NULL || text->kind != NODE_MAPPING)
        return root;
    move_overrides(c, root, text);
    sw_config_note_at(c, text->key,
                      "the text part of the model is read, and its vision part is left out");
    return text;
}

void sw_model_add_defaults(struct sw_config *c, struct node *root, uint8_t family)
{
    const char *text = family == SW_FAMILY_GEMMA3   ? gemma3
                       : family == SW_FAMILY_GEMMA2 ? gemma2
                       : family == SW_FAMILY_OLMO3  ? olmo3
                                                    : NULL;
    struct source *source = text != NULL ? sw_config_alloc(c, sizeof *source) : NULL;
    if (source == NULL)
        return;
    *source = *root->source;
    source->text = text;
    source->bytes = strlen(text);
    const struct node *defaults = sw_config_parse(c, source);
    struct node *next;
    for (struct node *entry = defaults != NULL ? defaults->first : NULL; entry != NULL;
         entry = next) {
        next = entry->next;
        const bool inside = strcmp(entry->key->text, "rope_theta") == 0 &&
                            sw_node_find(root, "rope_parameters") != NULL;
        if (inside || sw_node_find(root, entry->key->text) != NULL)
            continue;
        entry->source = root->source; /* mistakes point at the mapping without the key */
        entry->line = root->line;
        entry->column = root->column;
        sw_node_append(root, entry);
    }
}
