/* Chat templates: messages as the text that a family of models was trained on.
 *
 * Known are llama-3, chatml and mistral; a template in Jinja is not run, but recognized where it
 * writes what one of these does. Rendered as
 * `transformers` renders the template that the family's models ship. */
#ifndef SW_CHAT_H
#define SW_CHAT_H

#include "runner/text/tokenizer.h"

struct sw_chat_template; /* static memory */

struct sw_chat_message {
    const char *role; /* system, user or assistant */
    const char *content;
    size_t content_bytes;
};

/* Errors: SW_BAD_INPUT: no template has this name; the message lists those that are there. */
const struct sw_chat_template *sw_chat_template_find(const char *name, struct sw_error *err);
const char *sw_chat_template_name(const struct sw_chat_template *chat);
/* The token that ends an answer, as tokenizer.json writes it ("<|im_end|>"); generation stops there
 * too. */
const char *sw_chat_template_end(const struct sw_chat_template *chat);

/* Adds the conversation to *text, with what begins an answer when `answer`; *spans (may be NULL)
 * receives where the contents stand: malloc'ed, [count], the caller's. Errors: SW_BAD_INPUT: a role
 * the template does not know, or out of turn; SW_ENVIRONMENT: no memory. */
int sw_chat_render(const struct sw_chat_template *chat, const struct sw_chat_message *message,
                   size_t count, bool answer, struct sw_chars *text, struct sw_text_span **spans,
                   struct sw_error *err);

/* The same as tokens, added to *ids. What a content says is plain text, even where it looks like a
 * special token: nobody ends his turn by writing so. Errors: as above and as sw_tokenizer_encode;
 * SW_BAD_INPUT: the tokenizer lacks the template's tokens. */
int sw_chat_encode(const struct sw_chat_template *chat, const struct sw_tokenizer *t,
                   struct sw_text_scratch *scratch, const struct sw_chat_message *message,
                   size_t count, bool answer, struct sw_ids *ids, struct sw_error *err);

/* *out: the form that writes what this template in Jinja writes, for these tokens that begin and
 * end a text (NULL: none is named); NULL: none does. Errors: SW_ENVIRONMENT: no memory. */
int sw_chat_recognize(const char *jinja, size_t bytes, const char *bos, const char *eos,
                      const struct sw_chat_template **out, struct sw_error *err);

/* The template that a model's folder has of its own. */
struct sw_chat_own {
    const char *file;                    /* it stands there, static; NULL: the model has none */
    const struct sw_chat_template *form; /* what it writes; NULL: none of those here */
};
/* Errors: SW_BAD_INPUT: tokenizer_config.json is no JSON; SW_ENVIRONMENT. */
int sw_chat_of_folder(const char *folder, struct sw_chat_own *out, struct sw_error *err);

#endif
