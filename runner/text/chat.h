/* Conversations as the text that a model was trained on.
 *
 * A model's folder has a chat template in Jinja (jinja.h), rendered as `transformers` does. For
 * folders without one there are our own llama-3, chatml and mistral, which write the format of
 * these families' first models. */
#ifndef SW_CHAT_H
#define SW_CHAT_H

#include "runner/text/tokenizer/tokenizer.h"

#include <jansson.h>

/* Immutable once made: any number of threads may use one. */
struct sw_chat_template;

/* Finds one of our templates. Errors: SW_BAD_INPUT: no such template; the message lists them;
 * SW_ENVIRONMENT. */
int sw_chat_template_named(const char *name, struct sw_chat_template **out, struct sw_error *err);
/* Reads the model's own template: chat_template.jinja and additional_chat_templates/NAME.jinja, or
 * chat_template in tokenizer_config.json (of several the one named "default", and "tool_use" for
 * conversations with tools), else chat_template.json. *out: NULL if there is none. Errors:
 * SW_BAD_INPUT, with file, line and column: no Jinja, or beyond the subset; no JSON; no template
 * has these names; SW_ENVIRONMENT. */
int sw_chat_template_of_folder(const char *folder, struct sw_chat_template **out,
                               struct sw_error *err);
void sw_chat_template_free(struct sw_chat_template *chat); /* may be NULL */

const char *sw_chat_template_name(const struct sw_chat_template *chat); /* name, or file */
/* True if it is from chat_template.json, which transformers reads for image models only. */
bool sw_chat_template_of_processor(const struct sw_chat_template *chat);
/* True if it is the model's, and so checks roles and keys itself. */
bool sw_chat_template_is_own(const struct sw_chat_template *chat);
/* True if it names this word (tools, tool_calls ...); it would ignore others. */
bool sw_chat_template_mentions(const struct sw_chat_template *chat, const char *word);
/* True if conversations define this variable (messages, tools, bos_token ...). */
bool sw_chat_template_sets(const struct sw_chat_template *chat, const char *name);
/* True if contents may be lists of parts ({"type": "text", "text": ...}), not only texts. */
bool sw_chat_template_takes_parts(const struct sw_chat_template *chat);

enum { SW_CHAT_VARIABLES = 32 };
/* Input of a rendering. Borrowed. */
struct sw_chat_talk {
    const json_t *messages;  /* a list of objects with role and content */
    const json_t *tools;     /* a list; NULL: none */
    const json_t *variables; /* an object: up to SW_CHAT_VARIABLES more variables; NULL: none */
    bool answer;             /* true to end with the beginning of an answer */
};

/* Appends the conversation to *text; *spans (may be NULL): positions of the messages' and tools'
 * texts, malloc'ed, [*span_count], freed by the caller. Errors: SW_BAD_INPUT: the template's own
 * refusal (raise_exception), or another failure with the template's file, line and column;
 * SW_ENVIRONMENT: no memory. */
int sw_chat_render(const struct sw_chat_template *chat, const struct sw_chat_talk *talk,
                   struct sw_chars *text, struct sw_text_span **spans, size_t *span_count,
                   struct sw_error *err);

/* Renders to tokens, appended to *ids. Texts of messages and tools are plain, even if they look
 * like special tokens, so that no author can end a turn; a role of one word may be part of a
 * special token. Errors: as above and as sw_tokenizer_encode; SW_BAD_INPUT: the tokenizer lacks the
 * tokens of one of our templates. *bytes: length of the text; above most_bytes no tokens are made,
 * without an error. */
int sw_chat_encode(const struct sw_chat_template *chat, const struct sw_tokenizer *t,
                   struct sw_text_scratch *scratch, const struct sw_chat_talk *talk,
                   size_t most_bytes, size_t *bytes, struct sw_ids *ids, struct sw_error *err);

/* Encodes a whole conversation (ignores talk->answer). (*counts)[i] != 0 if token i of those
 * appended to *ids counts in training; malloc'ed, freed by the caller. The assistant's texts count:
 * the template's generation blocks or, without any, each assistant message's text after the
 * beginning of an answer, up to the end-of-turn token. A token counts if any of its characters
 * does. Errors: as above (*ids unchanged, *counts NULL); SW_BAD_INPUT, with the message's number:
 * no generation block, and a beginning of the conversation renders differently than in the
 * whole. */
int sw_chat_encode_counted(const struct sw_chat_template *chat, const struct sw_tokenizer *t,
                           struct sw_text_scratch *scratch, const struct sw_chat_talk *talk,
                           struct sw_ids *ids, uint8_t **counts, struct sw_error *err);

/* Special token that the template writes after an answer, where generation stops; else the model's
 * eos_token; -1: neither is known. */
int32_t sw_chat_end(const struct sw_chat_template *chat, const struct sw_tokenizer *t,
                    struct sw_text_scratch *scratch);

#endif
