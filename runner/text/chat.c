/* Our templates write the formats that the families published: Meta's model card of Llama 3 ("Model
 * cards & prompt formats"), OpenAI's ChatML as in Qwen and SmolLM, and Mistral's first one
 * (mistralai/cookbook, "Chat templates", v1). */
#include "runner/text/chat_internal.h"

#include "core/base/file.h"
#include "core/base/text.h"
#include "runner/checkpoint/json_text.h"
#include "runner/text/tokenizer/internal.h"
#include "runner/text/tokenizer/special.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_TOKENS = 4, MOST_SPECIALS = 64, USUAL = 4 };
enum { MOST_VARIABLES = SW_CHAT_VARIABLES + MOST_SPECIALS + USUAL };

#define KNOWN_ROLE                                                                                 \
    "{% if m.role not in ['system', 'user', 'assistant'] %}{{ raise_exception('message ' ~ "       \
    "loop.index ~ \": the role '\" ~ m.role[:32] ~ \"' is none of system, user and assistant\") "  \
    "}}"                                                                                           \
    "{% endif %}"

static const struct {
    const char *name;
    const char *token[MOST_TOKENS + 1];
    const char *jinja;
} ours[] = {
    {"llama-3",
     {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
     "<|begin_of_text|>{% for m in messages %}" KNOWN_ROLE
     "<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content | trim }}<|eot_id|>"
     "{% endfor %}{% if add_generation_prompt %}"
     "<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"},
    {"chatml",
     {"<|im_start|>", "<|im_end|>"},
     "{% for m in messages %}" KNOWN_ROLE
     "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
     "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
    {"mistral",
     {"<s>", "</s>"},
     "<s>{% set first = 1 if messages and messages[0].role == 'system' else 0 %}"
     "{% for m in messages %}" KNOWN_ROLE "{% if not (loop.first and first) %}"
     "{% if m.role == 'system' or (m.role == 'user') != ((loop.index0 - first) % 2 == 0) %}"
     "{{ raise_exception('message ' ~ loop.index ~ ': after a first one of the system, user and "
     "assistant take turns') }}{% endif %}"
     "{% if m.role == 'assistant' %} {{ m.content }}</s>{% else %} [INST] "
     "{% if first and loop.index0 == 1 %}{{ messages[0].content }}\n\n{% endif %}"
     "{{ m.content }} [/INST]{% endif %}{% endif %}{% endfor %}"},
};
enum { OURS = sizeof ours / sizeof ours[0] };

static int fail_memory(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for the chat template");
}

/* ---- open ---- */

static struct sw_chat_template *new_template(const char *name)
{
    struct sw_chat_template *chat = calloc(1, sizeof *chat);
    if (chat != NULL &&
        ((chat->name = strdup(name)) == NULL || (chat->special = json_object()) == NULL)) {
        sw_chat_template_free(chat);
        return NULL;
    }
    return chat;
}

void sw_chat_template_free(struct sw_chat_template *chat)
{
    if (chat == NULL)
        return;
    sw_jinja_free(chat->jinja);
    sw_jinja_free(chat->tool_use);
    json_decref(chat->special);
    free(chat->name);
    free(chat);
}

int sw_chat_template_named(const char *name, struct sw_chat_template **out, struct sw_error *err)
{
    char shown[36];
    *out = NULL;
    for (size_t i = 0; i < OURS; i++) {
        if (strcmp(ours[i].name, name) != 0)
            continue;
        struct sw_chat_template *chat = new_template(name);
        if (chat == NULL)
            return fail_memory(err);
        chat->token = ours[i].token;
        if (sw_jinja_parse(name, ours[i].jinja, strlen(ours[i].jinja), &chat->jinja, err) != 0) {
            sw_chat_template_free(chat);
            return -1;
        }
        *out = chat;
        return 0;
    }
    return sw_fail(err, SW_BAD_INPUT,
                   "no chat template is named '%s'; there are llama-3, chatml and mistral",
                   sw_text_shown(name, 32, shown));
}

/* True if a text and the same text as one part render alike. */
static bool takes_parts(const struct sw_chat_template *chat)
{
    json_t *plain = json_pack("[{s:s,s:s}]", "role", "user", "content", "text");
    json_t *parts = json_pack("[{s:s,s:[{s:s,s:s}]}]", "role", "user", "content", "type", "text",
                              "text", "text");
    const struct sw_chat_talk one = {.messages = plain}, other = {.messages = parts};
    struct sw_chars a = {0}, b = {0};
    const bool same = plain != NULL && parts != NULL &&
                      sw_chat_render(chat, &one, &a, NULL, NULL, NULL) == 0 &&
                      sw_chat_render(chat, &other, &b, NULL, NULL, NULL) == 0 &&
                      a.count == b.count && memcmp(a.byte, b.byte, a.count) == 0;
    sw_chars_free(&a);
    sw_chars_free(&b);
    json_decref(plain);
    json_decref(parts);
    return same;
}

/* "</s>" or {"content": "</s>"} */
static int read_specials(struct sw_chat_template *chat, const struct sw_beside *beside,
                         struct sw_error *err)
{
    json_t *named = sw_beside_named(beside, err), *value;
    const char *key;
    if (named == NULL)
        return -1;
    json_object_foreach(named, key, value)
    {
        value = sw_json_is_object(value) ? json_object_get(value, "content") : value;
        if (json_string_length(value) > 0)
            (void)json_object_set(chat->special, key, value);
    }
    json_decref(named);
    if (json_object_size(chat->special) > MOST_SPECIALS)
        return sw_beside_refuse(beside, "tokenizer_config.json", "extra_special_tokens", err,
                                "%zu special tokens have names, of %d at most",
                                json_object_size(chat->special), (int)MOST_SPECIALS);
    return 0;
}

static int parse_texts(const struct sw_beside *beside, const struct sw_chat_texts *texts,
                       struct sw_chat_template **out, struct sw_error *err)
{
    const struct sw_chat_text *plain = &texts->plain, *tool_use = &texts->tool_use;
    struct sw_chat_template *chat =
        new_template(plain->text != NULL ? plain->name : tool_use->name);
    if (chat == NULL)
        return fail_memory(err);
    chat->is_own = true;
    chat->of_processor = texts->of_processor;
    if (read_specials(chat, beside, err) != 0 ||
        (plain->text != NULL &&
         sw_jinja_parse(plain->name, plain->text, plain->bytes, &chat->jinja, err) != 0) ||
        (tool_use->text != NULL && sw_jinja_parse(tool_use->name, tool_use->text, tool_use->bytes,
                                                  &chat->tool_use, err) != 0)) {
        sw_chat_template_free(chat);
        return -1;
    }
    chat->takes_parts = takes_parts(chat);
    *out = chat;
    return 0;
}

int sw_chat_template_of_folder(const char *folder, struct sw_chat_template **out,
                               struct sw_error *err)
{
    struct sw_chat_texts texts = {0};
    struct sw_beside *beside = NULL;
    int status = -1;
    *out = NULL;
    if (sw_beside_open(folder, &beside, err) == 0 && sw_chat_find(beside, &texts, err) == 0)
        status = texts.plain.text == NULL && texts.tool_use.text == NULL
                     ? 0
                     : parse_texts(beside, &texts, out, err);
    sw_chat_text_free(&texts.plain);
    sw_chat_text_free(&texts.tool_use);
    sw_beside_free(beside);
    return status;
}

/* ---- what is in it ---- */

const char *sw_chat_template_name(const struct sw_chat_template *chat)
{
    return chat->name;
}

bool sw_chat_template_of_processor(const struct sw_chat_template *chat)
{
    return chat->of_processor;
}

bool sw_chat_template_is_own(const struct sw_chat_template *chat)
{
    return chat->is_own;
}

bool sw_chat_template_mentions(const struct sw_chat_template *chat, const char *word)
{
    return (chat->jinja != NULL && sw_jinja_mentions(chat->jinja, word)) ||
           (chat->tool_use != NULL && sw_jinja_mentions(chat->tool_use, word));
}

bool sw_chat_template_takes_parts(const struct sw_chat_template *chat)
{
    return chat->takes_parts;
}

/* ---- a conversation ---- */

/* Reports a template's failure in one line with its place, without the folder, which a client need
 * not know. */
static int fail_within(const struct sw_error *why, struct sw_error *err)
{
    const char *slash = strrchr(why->file, '/');
    if (why->file[0] == '\0')
        return sw_fail_as(err, why);
    return sw_fail(err, why->status,
                   "the chat template cannot write this conversation: "
                   "%.120s:%d:%d: %.200s",
                   slash != NULL ? slash + 1 : why->file, (int)why->line, (int)why->column,
                   why->message);
}

static const char *const usual_names[USUAL] = {"messages", "tools", "documents",
                                               "add_generation_prompt"};

bool sw_chat_template_sets(const struct sw_chat_template *chat, const char *name)
{
    for (size_t i = 0; i < USUAL; i++)
        if (strcmp(usual_names[i], name) == 0)
            return true;
    return json_object_get(chat->special, name) != NULL;
}

static size_t add_variables(struct sw_jinja_variable *variable, size_t count, const json_t *from,
                            bool foreign)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)from, key, value)
    {
        if (count < MOST_VARIABLES - USUAL) /* both objects are bounded */
            variable[count++] = (struct sw_jinja_variable){key, value, foreign};
    }
    return count;
}

const struct sw_jinja *sw_chat_jinja(const struct sw_chat_template *chat,
                                     const struct sw_chat_talk *talk, struct sw_error *err)
{
    const struct sw_jinja *jinja =
        talk->tools != NULL && chat->tool_use != NULL ? chat->tool_use : chat->jinja;
    if (jinja == NULL)
        sw_fail(err, SW_BAD_INPUT,
                "the model's chat template is one for conversations with tools, none is "
                "named 'default'; give tools");
    return jinja;
}

int sw_chat_write(const struct sw_chat_template *chat, const struct sw_chat_talk *talk, int64_t now,
                  struct sw_chars *text, struct sw_text_spans *foreign,
                  struct sw_text_spans *generated, struct sw_error *err)
{
    const json_t *const nothing = json_null(), *const answer = json_boolean(talk->answer);
    const struct sw_jinja *jinja = sw_chat_jinja(chat, talk, err);
    const struct sw_jinja_variable usual[] = {
        {usual_names[0], talk->messages, true},
        {usual_names[1], talk->tools != NULL ? talk->tools : nothing, true},
        {usual_names[2], nothing, false},
        {usual_names[3], answer, false},
    };
    struct sw_jinja_variable variable[MOST_VARIABLES];
    struct sw_error why = {0};
    if (jinja == NULL)
        return -1;
    size_t count = add_variables(variable, 0, talk->variables, true);
    count = add_variables(variable, count, chat->special, false); /* later ones override */
    memcpy(variable + count, usual, sizeof usual);
    return sw_jinja_render(jinja, variable, count + USUAL, &SW_JINJA_USUAL_LIMITS, now, text,
                           foreign, generated, &why) == 0
               ? 0
               : fail_within(&why, err);
}

int sw_chat_render(const struct sw_chat_template *chat, const struct sw_chat_talk *talk,
                   struct sw_chars *text, struct sw_text_span **spans, size_t *span_count,
                   struct sw_error *err)
{
    struct sw_text_spans foreign = {0};
    if (sw_chat_write(chat, talk, (int64_t)time(NULL), text, spans != NULL ? &foreign : NULL, NULL,
                      err) != 0)
        return -1;
    if (spans != NULL) {
        *spans = foreign.span;
        *span_count = foreign.count;
    }
    return 0;
}

int sw_chat_check_tokens(const struct sw_chat_template *chat, const struct sw_tokenizer *t,
                         struct sw_error *err)
{
    for (size_t i = 0; chat->token != NULL && chat->token[i] != NULL; i++)
        if (!sw_tokenizer_is_special(t, sw_tokenizer_id(t, chat->token[i], strlen(chat->token[i]))))
            return sw_fail(err, SW_BAD_INPUT,
                           "the chat template '%s' needs the special token '%s', which the "
                           "tokenizer lacks",
                           chat->name, chat->token[i]);
    return 0;
}

int sw_chat_encode(const struct sw_chat_template *chat, const struct sw_tokenizer *t,
                   struct sw_text_scratch *scratch, const struct sw_chat_talk *talk,
                   size_t most_bytes, size_t *bytes, struct sw_ids *ids, struct sw_error *err)
{
    struct sw_chars text = {0};
    struct sw_encode_options options = {.add_special = false};
    struct sw_text_span *spans = NULL;
    int status = -1;
    if (sw_chat_check_tokens(chat, t, err) == 0 &&
        sw_chat_render(chat, talk, &text, &spans, &options.literal_count, err) == 0) {
        options.literal = spans;
        *bytes = text.count;
        status = text.count > most_bytes
                     ? 0
                     : sw_tokenizer_encode(t, scratch, text.byte, text.count, &options, ids, err);
    }
    free(spans);
    sw_chars_free(&text);
    return status;
}

int32_t sw_chat_end(const struct sw_chat_template *chat, const struct sw_tokenizer *t,
                    struct sw_text_scratch *scratch)
{
    json_t *messages = json_pack("[{s:s,s:s},{s:s,s:s}]", "role", "user", "content", "a", "role",
                                 "assistant", "content", "b");
    const struct sw_chat_talk talk = {.messages = messages};
    const json_t *eos = json_object_get(chat->special, "eos_token");
    struct sw_chars text = {0};
    struct sw_text_span *spans = NULL;
    struct sw_ids ids = {0};
    size_t count = 0;
    int32_t end = -1;
    if (messages != NULL && sw_chat_render(chat, &talk, &text, &spans, &count, NULL) == 0 &&
        count > 0) {
        const size_t from = spans[count - 1].end;
        if (sw_tokenizer_encode(t, scratch, text.byte + from, text.count - from, NULL, &ids,
                                NULL) == 0 &&
            ids.count > 0 && sw_tokenizer_is_special(t, ids.id[0]))
            end = ids.id[0];
    }
    if (end < 0 && eos != NULL)
        end = sw_tokenizer_id(t, json_string_value(eos), json_string_length(eos));
    sw_ids_free(&ids);
    free(spans);
    sw_chars_free(&text);
    json_decref(messages);
    return end;
}
