/* The forms are those that the families publish with their models: Meta's model card of Llama 3
 * ("Model cards & prompt formats"), OpenAI's ChatML as Qwen and SmolLM use it, and Mistral's first
 * one (mistralai/cookbook, "Chat templates", v1). */
#include "runner/text/chat.h"

#include "core/base/text.h"
#include "runner/text/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_TOKENS = 4 };

/* A conversation that is being written. */
struct rendering {
    const struct sw_chat_template *chat;
    struct sw_chars *text;
    struct sw_text_span *span; /* NULL: nobody asks */
    const struct sw_chat_message *message;
    size_t count;
    struct sw_error *err;
};

struct sw_chat_template {
    const char *name;
    const char *token[MOST_TOKENS]; /* special ones that it writes; NULL behind the last */
    const char *end;                /* of an answer */
    const char *begin;              /* of the conversation */
    int (*write)(const struct rendering *r, size_t i); /* message i */
    const char *before, *behind;                       /* a role, of those that write it */
    bool trims;                                        /* contents, at both ends */
    const char *answer;
};

static int fail_memory(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for a conversation");
}

static int put(const struct rendering *r, const char *text)
{
    return sw_chars_add(r->text, text, strlen(text)) == 0 ? 0 : fail_memory(r->err);
}

/* What Python's str.strip takes away. */
static bool is_stripped(uint32_t character)
{
    return sw_utf8_is_space(character) || (character >= 0x1c && character <= 0x1f);
}

/* Takes white space off both ends of what was written from `begin` on. */
static void trim(struct sw_chars *text, size_t begin)
{
    size_t step, from = begin;
    while (from < text->count && is_stripped(sw_utf8_get(text->byte + from, &step)))
        from += step;
    memmove(text->byte + begin, text->byte + from, text->count - from);
    text->count -= from - begin;
    while (text->count > begin) {
        size_t last = text->count - 1;
        while (last > begin && ((unsigned char)text->byte[last] & 0xc0) == 0x80)
            last--;
        if (!is_stripped(sw_utf8_get(text->byte + last, &step)))
            break;
        text->count = last;
    }
    text->byte[text->count] = '\0';
}

static int put_content(const struct rendering *r, size_t i)
{
    const struct sw_chat_message *m = &r->message[i];
    const size_t begin = r->text->count;
    if (sw_chars_add(r->text, "", 0) != 0 ||
        sw_utf8_repair(m->content, m->content_bytes, r->text) != 0)
        return fail_memory(r->err);
    if (r->chat->trims)
        trim(r->text, begin);
    if (r->span != NULL)
        r->span[i] = (struct sw_text_span){begin, r->text->count};
    return 0;
}

static bool is_role(const struct rendering *r, size_t i, const char *role)
{
    return i < r->count && strcmp(r->message[i].role, role) == 0;
}

static int check_role(const struct rendering *r, size_t i)
{
    char shown[36];
    if (is_role(r, i, "system") || is_role(r, i, "user") || is_role(r, i, "assistant"))
        return 0;
    sw_text_shown(r->message[i].role, 32, shown);
    return sw_fail(r->err, SW_BAD_INPUT,
                   "message %zu: the role '%s' is none of system, user and assistant", i + 1,
                   shown);
}

/* Each message between marks that name its role. */
static int write_marked(const struct rendering *r, size_t i)
{
    return put(r, r->chat->before) != 0 || put(r, r->message[i].role) != 0 ||
                   put(r, r->chat->behind) != 0 || put_content(r, i) != 0 ||
                   put(r, r->chat->end) != 0
               ? -1
               : 0;
}

static int write_chatml(const struct rendering *r, size_t i)
{
    return write_marked(r, i) != 0 ? -1 : put(r, "\n");
}

/* Users and assistants in turn; what the system says stands in the first user's turn. */
static int write_mistral(const struct rendering *r, size_t i)
{
    const size_t turn = i - (is_role(r, 0, "system") ? 1 : 0);
    if (i == 0 && is_role(r, 0, "system"))
        return 0;
    if (is_role(r, i, "system") || is_role(r, i, "user") != (turn % 2 == 0))
        return sw_fail(r->err, SW_BAD_INPUT,
                       "message %zu: after a first one of the system, user and assistant take "
                       "turns",
                       i + 1);
    if (is_role(r, i, "assistant"))
        return put(r, " ") != 0 || put_content(r, i) != 0 || put(r, r->chat->end) != 0 ? -1 : 0;
    if (put(r, " [INST] ") != 0)
        return -1;
    if (i == 1 && turn == 0 && (put_content(r, 0) != 0 || put(r, "\n\n") != 0))
        return -1;
    return put_content(r, i) != 0 || put(r, " [/INST]") != 0 ? -1 : 0;
}

static const struct sw_chat_template templates[] = {
    {.name = "llama-3",
     .token = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
     .end = "<|eot_id|>",
     .begin = "<|begin_of_text|>",
     .write = write_marked,
     .before = "<|start_header_id|>",
     .behind = "<|end_header_id|>\n\n",
     .trims = true,
     .answer = "<|start_header_id|>assistant<|end_header_id|>\n\n"},
    {.name = "chatml",
     .token = {"<|im_start|>", "<|im_end|>"},
     .end = "<|im_end|>",
     .begin = "",
     .write = write_chatml,
     .before = "<|im_start|>",
     .behind = "\n",
     .answer = "<|im_start|>assistant\n"},
    {.name = "mistral",
     .token = {"<s>", "</s>"},
     .end = "</s>",
     .begin = "<s>",
     .write = write_mistral,
     .answer = ""},
};

const struct sw_chat_template *sw_chat_template_find(const char *name, struct sw_error *err)
{
    char shown[36];
    for (size_t i = 0; i < sizeof templates / sizeof templates[0]; i++)
        if (strcmp(templates[i].name, name) == 0)
            return &templates[i];
    sw_text_shown(name, 32, shown);
    sw_fail(err, SW_BAD_INPUT,
            "no chat template is named '%s'; there are llama-3, chatml and mistral", shown);
    return NULL;
}

const char *sw_chat_template_name(const struct sw_chat_template *chat)
{
    return chat->name;
}

const char *sw_chat_template_end(const struct sw_chat_template *chat)
{
    return chat->end;
}

static int write_all(const struct rendering *r, bool answer)
{
    if (put(r, r->chat->begin) != 0)
        return -1;
    for (size_t i = 0; i < r->count; i++)
        if (check_role(r, i) != 0 || r->chat->write(r, i) != 0)
            return -1;
    return answer ? put(r, r->chat->answer) : 0;
}

int sw_chat_render(const struct sw_chat_template *chat, const struct sw_chat_message *message,
                   size_t count, bool answer, struct sw_chars *text, struct sw_text_span **spans,
                   struct sw_error *err)
{
    struct rendering r = {chat, text, NULL, message, count, err};
    const size_t before = text->count;
    if (spans != NULL && (r.span = calloc(count + 1, sizeof *r.span)) == NULL)
        return fail_memory(err);
    if (write_all(&r, answer) != 0) {
        free(r.span);
        text->count = before;
        return -1;
    }
    if (spans != NULL)
        *spans = r.span;
    return 0;
}

static int check_tokens(const struct sw_chat_template *chat, const struct sw_tokenizer *t,
                        struct sw_error *err)
{
    for (int32_t i = 0; i < MOST_TOKENS && chat->token[i] != NULL; i++)
        if (!sw_tokenizer_is_special(t, sw_tokenizer_id(t, chat->token[i], strlen(chat->token[i]))))
            return sw_fail(err, SW_BAD_INPUT,
                           "the chat template '%s' needs the special token '%s', which the "
                           "tokenizer lacks",
                           chat->name, chat->token[i]);
    return 0;
}

int sw_chat_encode(const struct sw_chat_template *chat, const struct sw_tokenizer *t,
                   struct sw_text_scratch *scratch, const struct sw_chat_message *message,
                   size_t count, bool answer, struct sw_ids *ids, struct sw_error *err)
{
    struct sw_chars text = {0};
    struct sw_encode_options options = {.literal_count = count};
    struct sw_text_span *spans = NULL;
    int status = -1;
    if (check_tokens(chat, t, err) == 0 &&
        sw_chat_render(chat, message, count, answer, &text, &spans, err) == 0) {
        options.literal = spans;
        status = sw_tokenizer_encode(t, scratch, text.byte, text.count, &options, ids, err);
    }
    free(spans);
    sw_chars_free(&text);
    return status;
}
