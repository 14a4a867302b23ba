/* Declarations that chat.c and chat_counted.c share. */
#ifndef SW_CHAT_INTERNAL_H
#define SW_CHAT_INTERNAL_H

#include "runner/text/chat.h"
#include "runner/text/jinja/jinja.h"

struct sw_chat_template {
    char *name;
    bool is_own, takes_parts, of_processor;
    struct sw_jinja *jinja, *tool_use; /* tool_use NULL: the same; jinja NULL: with tools only */
    json_t *special;                   /* {"bos_token": "<s>", ...} */
    const char *const *token;          /* special ones that ours write; NULL: of the model's own */
};

/* The one that writes this conversation. NULL: SW_BAD_INPUT: there is none without tools. */
const struct sw_jinja *sw_chat_jinja(const struct sw_chat_template *chat,
                                     const struct sw_chat_talk *talk, struct sw_error *err);
/* sw_chat_render at a moment `now` (seconds since 1970); foreign and generated as in
 * sw_jinja_render. */
int sw_chat_write(const struct sw_chat_template *chat, const struct sw_chat_talk *talk, int64_t now,
                  struct sw_chars *text, struct sw_text_spans *foreign,
                  struct sw_text_spans *generated, struct sw_error *err);
/* Fails where the tokenizer lacks the special tokens of one of our templates. */
int sw_chat_check_tokens(const struct sw_chat_template *chat, const struct sw_tokenizer *t,
                         struct sw_error *err);

#endif
