/* Shared by chat.c and chat_counted.c. */
#ifndef SW_CHAT_INTERNAL_H
#define SW_CHAT_INTERNAL_H

#include "runner/text/chat.h"
#include "runner/text/jinja/jinja.h"

struct sw_chat_template {
    char *name;
    bool is_own, takes_parts, of_processor;
    struct sw_jinja *jinja, *tool_use; /* tool_use NULL: as jinja; jinja NULL: tools only */
    json_t *special;                   /* {"bos_token": "<s>", ...} */
    const char *const *token;          /* special tokens of ours; NULL: the model's own */
};

/* Template for this conversation. NULL with SW_BAD_INPUT: it needs tools. */
const struct sw_jinja *sw_chat_jinja(const struct sw_chat_template *chat,
                                     const struct sw_chat_talk *talk, struct sw_error *err);
/* sw_chat_render at time `now` (seconds since 1970); foreign, generated: see sw_jinja_render. */
int sw_chat_write(const struct sw_chat_template *chat, const struct sw_chat_talk *talk, int64_t now,
                  struct sw_chars *text, struct sw_text_spans *foreign,
                  struct sw_text_spans *generated, struct sw_error *err);
/* Fails if the tokenizer lacks special tokens of one of our templates. */
int sw_chat_check_tokens(const struct sw_chat_template *chat, const struct sw_tokenizer *t,
                         struct sw_error *err);

#endif
