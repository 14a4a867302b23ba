/* Tokens of a conversation that count in training: by generation blocks and by beginnings of the
 * conversation, and what is refused. */
#include "core/base/file.h"
#include "runner/text/chat.h"
#include "runner/text/tokenizer/internal.h"
#include "runner/text/tokenizer/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[2048];

static void put_text(const char *name, const char *text, size_t bytes)
{
    char path[4096];
    struct sw_error err = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(sw_file_write(path, text, bytes, 0666, &err), 0);
}

/* All bytes, two line breaks as one token, and special ones. */
static struct sw_tokenizer *make_tokenizer(void)
{
    static const char *const special[] = {"<s>", "</s>", "<|a|>", "<|u|>", "<|end|>", "<|text|>"};
    json_t *vocab = json_object(), *added = json_array(), *root;
    struct sw_tokenizer *t = NULL;
    struct sw_error err = {0};
    for (int32_t i = 0; i < 256; i++) {
        char name[5] = {0};
        name[sw_utf8_put(sw_character_of_byte(i), name)] = '\0';
        json_object_set_new(vocab, name, json_integer(i));
    }
    json_object_set_new(vocab, "\304\212\304\212", json_integer(256));
    for (int32_t i = 0; i < 6; i++)
        json_array_append_new(added, json_pack("{s:i,s:s,s:b,s:b}", "id", 300 + i, "content",
                                               special[i], "special", 1, "normalized", 0));
    root = json_pack("{s:o,s:{s:s,s:b},s:{s:s},s:{s:s,s:o,s:[[ss]]}}", "added_tokens", added,
                     "pre_tokenizer", "type", "ByteLevel", "add_prefix_space", 0, "decoder", "type",
                     "ByteLevel", "model", "type", "BPE", "vocab", vocab, "merges", "\304\212",
                     "\304\212");
    char *text = json_dumps(root, 0);
    assert_non_null(text);
    assert_int_equal(sw_tokenizer_parse("tokenizer.json", text, strlen(text), &t, &err), 0);
    free(text);
    json_decref(root);
    return t;
}

/* The counted tokens' text, '|' between runs of them. */
static void decode_counted(const struct sw_tokenizer *t, const struct sw_ids *ids,
                           const uint8_t *counts, struct sw_chars *out)
{
    assert_int_equal(sw_chars_add(out, "", 0), 0);
    for (size_t i = 0; i < ids->count; i++) {
        size_t bytes;
        const char *text = sw_tokenizer_token_bytes(t, ids->id[i], &bytes);
        if (counts[i] != 0 && out->count > 0 && counts[i - 1] == 0)
            assert_int_equal(sw_chars_add(out, "|", 1), 0);
        if (counts[i] != 0)
            assert_int_equal(sw_chars_add(out, text, bytes), 0);
    }
}

/* "u:Hi a:Yes" as messages: each letter before ':' is a role, '_' a space. */
static json_t *messages_of(const char *short_form)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    json_t *messages = json_array();
    char copy[512], *rest = copy;
    snprintf(copy, sizeof copy, "%s", short_form);
    for (char *one; (one = strsep(&rest, " ")) != NULL;) {
        const char *role = roles[one[0] == 's' ? 0 : one[0] == 'u' ? 1 : one[0] == 'a' ? 2 : 3];
        for (char *c = one; *c != '\0'; c++)
            *c = *c == '_' ? ' ' : *c == '^' ? '\n' : *c;
        json_array_append_new(messages, json_pack("{s:s,s:s}", "role", role, "content", one + 2));
    }
    return messages;
}

#define EACH "{% for m in messages %}"
#define ASK "{% if add_generation_prompt %}"
#define PLAIN                                                                                      \
    EACH "<|{{ m.role[0] }}|>{{ m.content }}<|end|>{{ '\\n' }}{% endfor %}" ASK "<|a|>{% endif %}"
#define BLOCKS                                                                                     \
    EACH "<|{{ m.role[0] }}|>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|end|>" \
         "{% endgeneration %}{% else %}{{ m.content }}<|end|>{% endif %}{{ '\\n' }}{% endfor %}"
/* A template whose prompt for an answer is more than what a turn keeps. */
#define THINKS                                                                                     \
    EACH "<|{{ m.role[0] }}|>{{ m.content }}<|end|>{% endfor %}" ASK                               \
         "<|a|>think{{ '\\n' }}{% endif %}"
/* A token behind the whole conversation. */
#define CLOSED                                                                                     \
    EACH "<|{{ m.role[0] }}|>{{ m.content }}<|end|>{{ '\\n' }}{% endfor %}" ASK                    \
         "<|a|>{% else %}</s>{% endif %}"
#define PUT                                                                                        \
    "; put {% generation %} and {% endgeneration %} round what the assistant says into the chat "  \
    "template"

static const struct {
    const char *template, *messages, *counted; /* counted: '!': is refused, with this in the text */
} cases[] = {
    {PLAIN, "u:Hi a:Yes", "Yes<|end|>"},
    {BLOCKS, "u:Hi a:Yes", "Yes<|end|>"},
    {PLAIN, "s:Be u:Hi a:Yes u:So a:No_^", "Yes<|end|>|No \n<|end|>"},
    {BLOCKS, "s:Be u:Hi a:Yes u:So a:No_^", "Yes<|end|>|No \n<|end|>"},
    {PLAIN, "a:Hi u:So", "Hi<|end|>"},
    {PLAIN, "a: a:Yes a:", "<|end|>|Yes<|end|>|<|end|>"},
    {PLAIN, "u:Hi t:21 a:<|end|>^ t:3", "<|end|>\n<|end|>"},
    {PLAIN, "u:Hi s:So", ""},
    {BLOCKS, "u:Hi", ""},
    /* a token that stands on the border counts: "\\n\\n" */
    {EACH "{{ m.role }}:\n{{ m.content }}</s>{% endfor %}" ASK "assistant:\n{% endif %}",
     "u:Hi a:^^Yes", "\n\n\nYes</s>"},
    /* white space is cut only where the end of the turn is a token */
    {EACH "{{ m.role }}: {{ m.content }}{{ '\\n' }}{% endfor %}" ASK "assistant: {% endif %}",
     "u:Hi a:Yes u:So a:No", "Yes\n|No\n"},
    {EACH "{{ m.content }}{% if not loop.last or m.role == 'user' %}<|end|>{% endif %}{% endfor %}",
     "u:Hi a:Yes", "Yes"},
    {EACH "{{ m.content }}<|text|>{{ '\\n' }}<|end|>{{ '\\n' }}{% endfor %}", "u:Hi a:Yes",
     "Yes<|text|>\n<|end|>"},
    {THINKS, "u:Hi a:Yes u:So a:No", "Yes<|end|>|No<|end|>"},
    {THINKS, "u:Hi a:think^Yes", "think\nYes<|end|>"},
    {THINKS, "u:Hi a:thin", "thin<|end|>"},
    {CLOSED, "u:Hi a:Yes u:So a:No", "Yes<|end|>|No<|end|>"},
    /* what begins an answer is always there */
    {EACH "<|{{ m.role[0] }}|>{{ m.content }}<|end|>{% endfor %}<|a|>", "u:Hi a:Yes u:So a:No",
     "Yes<|end|>|No<|end|>"},
    {EACH "{{ m.role[0] }}:{{ m.content }}<|end|>{% endfor %}a:", "u:Hi a:Yes u:So a:No",
     "Yes<|end|>|No<|end|>"},
    /* the template's blocks are taken at their word */
    {EACH "{% generation %}{{ m.content }}<|end|>{{ '\\n' }}{% endgeneration %}{% endfor %}",
     "u:Hi a:Yes", "Hi<|end|>\nYes<|end|>\n"},
    {"{% if false %}{% generation %}{% endgeneration %}{% endif %}" PLAIN, "u:Hi a:Yes", ""},
    /* what cannot be told */
    {EACH "<|{{ m.role[0] }}|>{{ m.content }}<|end|><|text|>{% endfor %}<|a|>", "u:Hi a:Yes",
     "!message 2: the tokens that count cannot be told, the chat template writes it otherwise when "
     "messages follow" PUT},
    {EACH "{{ loop.last }}{{ m.content }}<|end|>{% endfor %}", "u:Hi a:Yes u:So",
     "!message 2: the tokens that count cannot be told, the chat template begins an answer "
     "otherwise than this message" PUT},
    {EACH "{{ m.content }}{{ loop.last }}{% endfor %}", "a:Yes u:So",
     "!message 1: the tokens that count cannot be told, the chat template writes it otherwise when "
     "messages follow" PUT},
    {"{{ messages|length }}" PLAIN, "a:Yes", "!message 1: "},
    {EACH
     "{{ m.content }}{% endfor %}{% if not messages %}{{ raise_exception('empty') }}{% endif %}",
     "a:Yes",
     "!message 1: the tokens that count cannot be told, no answer can be asked for before it: "
     "empty" PUT},
    {PLAIN "{{ 1 + 'a' }}", "u:Hi a:Yes",
     "!the chat template cannot write this conversation: chat_template.jinja:1:"},
};

static void test_cases(void **state)
{
    (void)state;
    struct sw_tokenizer *t = make_tokenizer();
    struct sw_text_scratch *scratch;
    assert_int_equal(sw_text_scratch_new(t, &scratch, NULL), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sw_chat_template *chat = NULL;
        struct sw_error err = {0};
        struct sw_ids ids = {0};
        struct sw_chars found = {0};
        uint8_t *counts = NULL;
        json_t *messages = messages_of(cases[i].messages);
        const struct sw_chat_talk talk = {.messages = messages, .answer = true};
        put_text("chat_template.jinja", cases[i].template, strlen(cases[i].template));
        assert_int_equal(sw_chat_template_of_folder(folder, &chat, &err), 0);
        const int status = sw_chat_encode_counted(chat, t, scratch, &talk, &ids, &counts, &err);
        if (status == 0)
            decode_counted(t, &ids, counts, &found);
        if (cases[i].counted[0] == '!' ? strstr(err.message, cases[i].counted + 1) == NULL ||
                                             status == 0 || ids.count > 0 || counts != NULL
                                       : status != 0 || strcmp(found.byte, cases[i].counted) != 0)
            fail_msg("case %zu, %s: '%s', error '%s'", i, cases[i].messages,
                     found.byte != NULL ? found.byte : "", err.message);
        free(counts);
        sw_chars_free(&found);
        sw_ids_free(&ids);
        sw_chat_template_free(chat);
        json_decref(messages);
    }
    sw_text_scratch_free(scratch);
    sw_tokenizer_free(t);
}

/* Our own templates have no blocks. */
static void test_ours(void **state)
{
    (void)state;
    struct sw_tokenizer *t = make_tokenizer();
    struct sw_text_scratch *scratch;
    struct sw_chat_template *chat = NULL;
    struct sw_ids ids = {0};
    struct sw_chars found = {0};
    struct sw_error err = {0};
    uint8_t *counts = NULL;
    json_t *messages = messages_of("s:Be u:Hi a:Yes u:So a:No");
    const struct sw_chat_talk talk = {.messages = messages};
    assert_int_equal(sw_text_scratch_new(t, &scratch, NULL), 0);
    assert_int_equal(sw_chat_template_named("mistral", &chat, NULL), 0);
    assert_int_equal(sw_chat_encode_counted(chat, t, scratch, &talk, &ids, &counts, &err), 0);
    decode_counted(t, &ids, counts, &found);
    assert_string_equal(found.byte, " Yes</s>| No</s>");
    sw_chat_template_free(chat);
    free(counts);
    assert_int_equal(sw_chat_template_named("chatml", &chat, NULL), 0);
    assert_int_equal(sw_chat_encode_counted(chat, t, scratch, &talk, &ids, &counts, &err), -1);
    assert_string_equal(err.message, "the chat template 'chatml' needs the special token "
                                     "'<|im_start|>', which the tokenizer lacks");
    assert_null(counts);
    sw_chat_template_free(chat);
    sw_chars_free(&found);
    sw_ids_free(&ids);
    sw_text_scratch_free(scratch);
    sw_tokenizer_free(t);
    json_decref(messages);
}

/* Offsets of characters that a token shares, and none of a text that is no UTF-8. */
static void test_offsets(void **state)
{
    (void)state;
    static const struct sw_text_span wanted[] = {{0, 1}, {1, 3}, {1, 3}, {3, 6}, {6, 8}};
    struct sw_tokenizer *t = make_tokenizer();
    struct sw_text_scratch *scratch;
    struct sw_text_spans offsets = {0};
    struct sw_ids ids = {0};
    struct sw_error err = {0};
    const struct sw_encode_options options = {.offsets = &offsets};
    assert_int_equal(sw_text_scratch_new(t, &scratch, NULL), 0);
    assert_int_equal(sw_tokenizer_encode(t, scratch, "a\303\251<s>\n\n", 8, &options, &ids, &err),
                     0);
    assert_int_equal(ids.count, 5);
    assert_int_equal(offsets.count, 5);
    assert_memory_equal(offsets.span, wanted, sizeof wanted);
    assert_int_equal(sw_tokenizer_encode(t, scratch, "a\303", 2, &options, &ids, &err), -1);
    assert_string_equal(err.message, "offsets are asked for of a text that is not UTF-8");
    assert_int_equal(ids.count, 5);
    assert_int_equal(offsets.count, 5);
    sw_text_spans_free(&offsets);
    sw_ids_free(&ids);
    sw_text_scratch_free(scratch);
    sw_tokenizer_free(t);
}

/* The tokens are those of sw_chat_encode, added to what is there. */
static void test_same_tokens(void **state)
{
    (void)state;
    struct sw_tokenizer *t = make_tokenizer();
    struct sw_text_scratch *scratch;
    struct sw_chat_template *chat = NULL;
    struct sw_ids plain = {0}, counted = {0};
    uint8_t *counts = NULL;
    size_t bytes = 0;
    json_t *messages = messages_of("s:Be_\303\251 u:Hi^^<|end|> a:Yes");
    const struct sw_chat_talk talk = {.messages = messages};
    assert_int_equal(sw_text_scratch_new(t, &scratch, NULL), 0);
    put_text("chat_template.jinja", PLAIN, strlen(PLAIN));
    assert_int_equal(sw_chat_template_of_folder(folder, &chat, NULL), 0);
    assert_int_equal(sw_chat_encode(chat, t, scratch, &talk, SIZE_MAX, &bytes, &plain, NULL), 0);
    assert_int_equal(sw_ids_reserve(&counted, 1), 0);
    counted.id[counted.count++] = 7;
    assert_int_equal(sw_chat_encode_counted(chat, t, scratch, &talk, &counted, &counts, NULL), 0);
    assert_int_equal(counted.count, plain.count + 1);
    assert_int_equal(counted.id[0], 7);
    assert_memory_equal(counted.id + 1, plain.id, plain.count * sizeof *plain.id);
    free(counts);
    sw_ids_free(&plain);
    sw_ids_free(&counted);
    sw_chat_template_free(chat);
    sw_text_scratch_free(scratch);
    sw_tokenizer_free(t);
    json_decref(messages);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_ours),
                                       cmocka_unit_test(test_offsets),
                                       cmocka_unit_test(test_same_tokens)};
    snprintf(folder, sizeof folder, "%s/counted.XXXXXX", argc > 1 ? argv[1] : ".");
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[4096];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) != 0 ? 1 : failed;
}
