/* Our templates write what the families publish with their models: Meta's model card of Llama 3
 * ("Model cards & prompt formats"), OpenAI's ChatML as Qwen and SmolLM use it, and Mistral's first
 * one (mistralai/cookbook, "Chat templates", v1). */
#include "runner/text/chat.h"

#include "core/base/file.h"
#include "core/base/text.h"
#include "runner/text/internal.h"
#include "runner/text/jinja.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_TOKENS = 4, SPECIALS = 7, USUAL = 4 };
enum { MOST_VARIABLES = SW_CHAT_VARIABLES + SPECIALS + USUAL };

static const char *const specials[SPECIALS] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                               "pad_token", "cls_token", "mask_token"};

struct sw_chat_template {
    char *name;
    bool is_own, takes_parts;
    struct sw_jinja *jinja, *tool_use; /* tool_use NULL: the same */
    json_t *special;                   /* {"bos_token": "<s>", ...} */
    const char *const *token;          /* special ones that ours write; NULL: of the model's own */
};

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

/* Whether a text and the same text in one part are written alike. */
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
static void read_specials(struct sw_chat_template *chat, const json_t *config)
{
    for (size_t i = 0; i < SPECIALS; i++) {
        json_t *value = json_object_get(config, specials[i]);
        value = json_is_object(value) ? json_object_get(value, "content") : value;
        if (json_is_string(value))
            (void)json_object_set(chat->special, specials[i], value);
    }
}

static const json_t *template_of(const json_t *list, const char *wanted)
{
    const json_t *one;
    size_t i;
    json_array_foreach(list, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name != NULL && strcmp(name, wanted) == 0)
            return json_object_get(one, "template");
    }
    return NULL;
}

/* A template inside of the file has lines of its own: "FILE:12:20: chat_template", in which a place
 * of the template then follows. The caller's; NULL: out of memory. */
static char *name_inside(const char *file)
{
    static const char key[] = "\"chat_template\"";
    struct sw_place at = {file, 1, 1};
    char *text = NULL, *name = NULL;
    size_t bytes;
    if (sw_file_read(file, true, SW_TEXT_CONFIG_BYTES, &text, &bytes, NULL) != 0)
        return strdup(file);
    const char *value = strstr(text, key);
    if (value != NULL) {
        value += sizeof key - 1;
        value += strspn(value, " \t\r\n:");
    }
    for (const char *c = text; value != NULL && c < value; c++) {
        at.column = *c == '\n' ? 1 : at.column + (((unsigned char)*c & 0xc0) != 0x80);
        at.line += *c == '\n';
    }
    if (asprintf(&name, "%s:%d:%d: chat_template", file, (int)at.line, (int)at.column) < 0)
        name = NULL;
    free(text);
    return name;
}

static int parse_texts(struct sw_chat_template *chat, const json_t *value, struct sw_error *err)
{
    const json_t *plain = json_is_array(value) ? template_of(value, "default") : value;
    const json_t *tools = json_is_array(value) ? template_of(value, "tool_use") : NULL;
    if (!json_is_string(plain))
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){chat->name, 1, 1},
                          "its chat_template is neither a text nor a list with one named "
                          "'default'");
    char *name = name_inside(chat->name);
    int status = name == NULL ? fail_memory(err)
                              : sw_jinja_parse(name, json_string_value(plain),
                                               json_string_length(plain), &chat->jinja, err);
    if (status == 0 && json_is_string(tools))
        status = sw_jinja_parse(name, json_string_value(tools), json_string_length(tools),
                                &chat->tool_use, err);
    free(name);
    return status;
}

/* The folder's file as a template; *text NULL: it has none. */
static int read_file(const char *folder, char **text, size_t *bytes, struct sw_error *err)
{
    char *path = sw_path_join(folder, "chat_template.jinja");
    int status = path == NULL ? fail_memory(err) : 0;
    if (status == 0 && sw_file_read(path, true, SW_TEXT_CONFIG_BYTES, text, bytes, NULL) != 0 &&
        errno != ENOENT)
        status = sw_fail_at(err, errno == EFBIG ? SW_BAD_INPUT : SW_ENVIRONMENT,
                            (struct sw_place){.file = path}, "cannot read it: %s", strerror(errno));
    free(path);
    return status;
}

int sw_chat_template_of_folder(const char *folder, struct sw_chat_template **out,
                               struct sw_error *err)
{
    struct sw_chat_template *chat = NULL;
    char *text = NULL, *path = NULL;
    json_t *config = NULL;
    size_t bytes = 0;
    int status = -1;
    *out = NULL;
    if (sw_text_load_json(folder, "tokenizer_config.json", &config, err) != 0 ||
        read_file(folder, &text, &bytes, err) != 0)
        goto out;
    const json_t *value = json_object_get(config, "chat_template");
    status = 0;
    if (text == NULL && (value == NULL || json_is_null(value)))
        goto out;
    path = sw_path_join(folder, text != NULL ? "chat_template.jinja" : "tokenizer_config.json");
    status = -1;
    if (path == NULL || (chat = new_template(path)) == NULL) {
        fail_memory(err);
        goto out;
    }
    chat->is_own = true;
    read_specials(chat, config);
    status = text != NULL ? sw_jinja_parse(path, text, bytes, &chat->jinja, err)
                          : parse_texts(chat, value, err);
    if (status == 0) {
        chat->takes_parts = takes_parts(chat);
        *out = chat;
        chat = NULL;
    }
out:
    sw_chat_template_free(chat);
    json_decref(config);
    free(path);
    free(text);
    return status;
}

/* ---- what is in it ---- */

const char *sw_chat_template_name(const struct sw_chat_template *chat)
{
    return chat->name;
}

bool sw_chat_template_is_own(const struct sw_chat_template *chat)
{
    return chat->is_own;
}

bool sw_chat_template_mentions(const struct sw_chat_template *chat, const char *word)
{
    return sw_jinja_mentions(chat->jinja, word) ||
           (chat->tool_use != NULL && sw_jinja_mentions(chat->tool_use, word));
}

bool sw_chat_template_takes_parts(const struct sw_chat_template *chat)
{
    return chat->takes_parts;
}

/* ---- a conversation ---- */

/* What fails within the template is said in one line with its place, but for its folder, which a
 * client need not know. */
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
        if (count < MOST_VARIABLES - USUAL)
            variable[count++] = (struct sw_jinja_variable){key, value, foreign};
    }
    return count;
}

int sw_chat_render(const struct sw_chat_template *chat, const struct sw_chat_talk *talk,
                   struct sw_chars *text, struct sw_text_span **spans, size_t *span_count,
                   struct sw_error *err)
{
    const json_t *const nothing = json_null(), *const answer = json_boolean(talk->answer);
    const struct sw_jinja *jinja =
        talk->tools != NULL && chat->tool_use != NULL ? chat->tool_use : chat->jinja;
    const struct sw_jinja_variable usual[] = {
        {usual_names[0], talk->messages, true},
        {usual_names[1], talk->tools != NULL ? talk->tools : nothing, true},
        {usual_names[2], nothing, false},
        {usual_names[3], answer, false},
    };
    struct sw_jinja_variable variable[MOST_VARIABLES];
    struct sw_error why = {0};
    size_t count = add_variables(variable, 0, talk->variables, true);
    count = add_variables(variable, count, chat->special, false); /* a later one counts */
    memcpy(variable + count, usual, sizeof usual);
    return sw_jinja_render(jinja, variable, count + USUAL, &SW_JINJA_USUAL_LIMITS,
                           (int64_t)time(NULL), text, spans, span_count, &why) == 0
               ? 0
               : fail_within(&why, err);
}

static int check_tokens(const struct sw_chat_template *chat, const struct sw_tokenizer *t,
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
    if (check_tokens(chat, t, err) == 0 &&
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
