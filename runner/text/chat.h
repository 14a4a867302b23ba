/* Conversations as the text that a model was trained on.
 *
 * A model's folder has its chat template in Jinja (jinja.h), and that is what is rendered, as
 * `transformers` does it. For one without there are llama-3, chatml and mistral, templates of our
 * own that write what these families' first models ship. */
#ifndef SW_CHAT_H
#define SW_CHAT_H

#include "runner/text/tokenizer/tokenizer.h"

#include <jansson.h>

/* Does not change once it is made: any number of threads may use one. */
struct sw_chat_template;

/* One of ours. Errors: SW_BAD_INPUT: no template has this name; the message lists those that are
 * there; SW_ENVIRONMENT. */
int sw_chat_template_named(const char *name, struct sw_chat_template **out, struct sw_error *err);
/* The model's own: chat_template.jinja and additional_chat_templates/NAME.jinja, or chat_template
 * in tokenizer_config.json, of several the one named "default", and "tool_use" where a conversation
 * has tools; without any that of chat_template.json. *out: NULL when it has none. Errors:
 * SW_BAD_INPUT, with file, line and column: the template is no Jinja or beyond the subset; a file
 * is no JSON; none is named so; SW_ENVIRONMENT. */
int sw_chat_template_of_folder(const char *folder, struct sw_chat_template **out,
                               struct sw_error *err);
void sw_chat_template_free(struct sw_chat_template *chat); /* may be NULL */

const char *sw_chat_template_name(const struct sw_chat_template *chat); /* or its file */
/* true if it is of chat_template.json, at which transformers looks for models of images only. */
bool sw_chat_template_of_processor(const struct sw_chat_template *chat);
/* Whether it comes from the model, and so decides about roles and keys itself. */
bool sw_chat_template_is_own(const struct sw_chat_template *chat);
/* Whether it names this (tools, tool_calls ...): what it does not name it would pass over. */
bool sw_chat_template_mentions(const struct sw_chat_template *chat, const char *word);
/* Whether a conversation has this variable of its own (messages, tools, bos_token ...). */
bool sw_chat_template_sets(const struct sw_chat_template *chat, const char *name);
/* Whether contents may be lists of parts ({"type": "text", "text": ...}), not only texts. */
bool sw_chat_template_takes_parts(const struct sw_chat_template *chat);

enum { SW_CHAT_VARIABLES = 32 };
/* What is rendered. Borrowed. */
struct sw_chat_talk {
    const json_t *messages;  /* a list of objects with role and content */
    const json_t *tools;     /* a list; NULL: none */
    const json_t *variables; /* an object: up to SW_CHAT_VARIABLES more of the template's, none that
                              * is set already; NULL: none */
    bool answer;             /* with what begins an answer */
};

/* Adds the conversation to *text; *spans (may be NULL) receives where the words of messages and
 * tools stand: malloc'ed, [*span_count], the caller's. Errors: SW_BAD_INPUT: the template's own
 * refusal (raise_exception), or with its file, line and column in the message what it cannot do
 * with this conversation; SW_ENVIRONMENT: no memory. */
int sw_chat_render(const struct sw_chat_template *chat, const struct sw_chat_talk *talk,
                   struct sw_chars *text, struct sw_text_span **spans, size_t *span_count,
                   struct sw_error *err);

/* The same as tokens, added to *ids. What messages and tools say is plain text, even where it looks
 * like a special token: nobody ends his turn by writing so; a role that is one word may be part of
 * one. Errors: as above and as sw_tokenizer_encode; SW_BAD_INPUT: the tokenizer lacks the tokens of
 * one of our templates. *bytes: how long the text is; one of more than most_bytes is no error, but
 * becomes no tokens. */
int sw_chat_encode(const struct sw_chat_template *chat, const struct sw_tokenizer *t,
                   struct sw_text_scratch *scratch, const struct sw_chat_talk *talk,
                   size_t most_bytes, size_t *bytes, struct sw_ids *ids, struct sw_error *err);

/* The same of a whole conversation (talk->answer is not looked at), and which of its tokens count
 * in training: (*counts)[i] != 0 of token i that was added to *ids; malloc'ed, the caller's. What
 * the assistant says counts: what stands in the template's generation blocks; in a template without
 * them what the assistant's message adds to what begins an answer, up to the end-of-turn token.
 * A token counts when any of its characters does. Errors: as above (*ids is then as before, *counts
 * NULL); SW_BAD_INPUT: the template has no generation block and writes a beginning of the
 * conversation otherwise than the whole, with the message's number. */
int sw_chat_encode_counted(const struct sw_chat_template *chat, const struct sw_tokenizer *t,
                           struct sw_text_scratch *scratch, const struct sw_chat_talk *talk,
                           struct sw_ids *ids, uint8_t **counts, struct sw_error *err);

/* The special token that the template writes behind an answer, where generation stops too; without
 * one the model's eos_token; -1: neither is known. */
int32_t sw_chat_end(const struct sw_chat_template *chat, const struct sw_tokenizer *t,
                    struct sw_text_scratch *scratch);

#endif
