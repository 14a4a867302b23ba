/* Tokenizers of every family, trained by `tokenizers` (tokenizer_oracle.py), give its tokens and
 * its texts: encoding, with and without what stands round a text, with special tokens as plain
 * text, decoding, and decoding token by token. */
#include "core/base/file.h"
#include "runner/text/chat.h"
#include "runner/text/tokenizer/tokenizer.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *folder;

static char *from_hex(const char *hex, size_t *bytes)
{
    *bytes = strlen(hex) / 2;
    char *text = malloc(*bytes + 1);
    assert_non_null(text);
    for (size_t i = 0; i < *bytes; i++) {
        unsigned value;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &value), 1);
        text[i] = (char)value;
    }
    text[*bytes] = '\0';
    return text;
}

static void expect_ids(const struct sw_ids *ids, const json_t *wanted, const char *hex)
{
    size_t i = 0;
    while (i < ids->count && i < json_array_size(wanted) &&
           ids->id[i] == json_integer_value(json_array_get(wanted, i)))
        i++;
    if (i != ids->count || i != json_array_size(wanted))
        fail_msg("token %zu of %zu, wanted %zu, of the text %s", i, ids->count,
                 json_array_size(wanted), hex);
}

static void expect_encoded(const struct sw_tokenizer *t, struct sw_text_scratch *scratch,
                           const json_t *one, const char *key,
                           const struct sw_encode_options *options)
{
    const char *hex = json_string_value(json_object_get(one, "hex"));
    const json_t *wanted = json_object_get(one, key);
    struct sw_error err = {0};
    struct sw_ids ids = {0};
    size_t bytes;
    if (wanted == NULL)
        return;
    char *text = from_hex(hex, &bytes);
    if (sw_tokenizer_encode(t, scratch, text, bytes, options, &ids, &err) != 0)
        fail_msg("%s", err.message);
    expect_ids(&ids, wanted, hex);
    sw_ids_free(&ids);
    free(text);
}

static bool is_text(const struct sw_chars *text, const json_t *wanted)
{
    return text->count == json_string_length(wanted) &&
           memcmp(text->byte, json_string_value(wanted), text->count) == 0;
}

/* Token by token: every piece is whole characters, and together they are the text. */
static void expect_streamed(const struct sw_tokenizer *t, const int32_t *id, size_t count,
                            bool skip_special, const json_t *wanted)
{
    const struct sw_decode_options options = {.skip_special = skip_special};
    struct sw_text_decoder *decoder;
    struct sw_error err = {0};
    struct sw_chars all = {0};
    assert_int_equal(sw_text_decoder_new(t, &options, &decoder, &err), 0);
    for (size_t i = 0; i <= count; i++) {
        const char *text;
        size_t bytes;
        assert_int_equal(i < count ? sw_text_decoder_feed(decoder, id[i], &text, &bytes, &err)
                                   : sw_text_decoder_finish(decoder, &text, &bytes, &err),
                         0);
        json_t *whole = json_stringn(text, bytes); /* NULL unless it is UTF-8 */
        assert_non_null(whole);
        json_decref(whole);
        assert_int_equal(sw_chars_add(&all, text, bytes), 0);
    }
    assert_true(is_text(&all, wanted));
    sw_chars_free(&all);
    sw_text_decoder_free(decoder);
}

static void expect_decoded(const struct sw_tokenizer *t, const json_t *ids, const json_t *wanted,
                           bool skip_special, bool streams)
{
    const struct sw_decode_options options = {.skip_special = skip_special};
    const size_t count = json_array_size(ids);
    struct sw_error err = {0};
    struct sw_chars text = {0};
    if (ids == NULL || wanted == NULL)
        return;
    int32_t *id = malloc((count + 1) * sizeof *id);
    assert_non_null(id);
    for (size_t i = 0; i < count; i++)
        id[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    assert_int_equal(sw_tokenizer_decode(t, id, count, &options, &text, &err), 0);
    if (!is_text(&text, wanted))
        fail_msg("decoded\n%s\nwanted\n%s", text.byte, json_string_value(wanted));
    if (streams)
        expect_streamed(t, id, count, skip_special, wanted);
    sw_chars_free(&text);
    free(id);
}

static void check_case(const struct sw_tokenizer *t, struct sw_text_scratch *scratch,
                       const json_t *one)
{
    const json_t *any = json_object_get(one, "ids_only");
    const char *text = json_string_value(json_object_get(one, "decoded"));
    expect_encoded(t, scratch, one, "ids", NULL);
    expect_encoded(t, scratch, one, "framed", &(struct sw_encode_options){.add_special = true});
    expect_encoded(t, scratch, one, "plain", &(struct sw_encode_options){.plain_special = true});
    expect_decoded(t, json_object_get(one, "ids"), json_object_get(one, "decoded"), false, true);
    expect_decoded(t, json_object_get(one, "framed"), json_object_get(one, "skipped"), true, true);
    /* a stream shows a character before it can know that its run of bytes ends badly */
    expect_decoded(t, any, json_object_get(one, "decoded"), false,
                   any != NULL && strstr(text, "\xef\xbf\xbd") == NULL);
}

static void check_family(const char *name)
{
    char path[4096];
    struct sw_error err = {0};
    struct sw_tokenizer *t;
    struct sw_text_scratch *scratch;
    int32_t cases = 0;
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    if (sw_tokenizer_open(path, &t, &err) != 0)
        fail_msg("%s: %s", err.file, err.message);
    assert_int_equal(sw_text_scratch_new(t, &scratch, &err), 0);
    snprintf(path, sizeof path, "%s/%s.cases", folder, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    json_error_t why;
    json_t *one;
    while ((one = json_loadf(file, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &why)) != NULL) {
        check_case(t, scratch, one);
        json_decref(one);
        cases++;
    }
    assert_true(feof(file));
    assert_in_range(cases, 80, 1000);
    fclose(file);
    sw_text_scratch_free(scratch);
    sw_tokenizer_free(t);
}

static void check_chat(const json_t *one)
{
    const struct sw_chat_talk talk = {.messages = json_object_get(one, "messages"),
                                      .answer = json_is_true(json_object_get(one, "answer"))};
    struct sw_error err = {0};
    struct sw_chat_template *chat = NULL;
    size_t bytes = 0;
    struct sw_tokenizer *t;
    struct sw_text_scratch *scratch;
    struct sw_chars text = {0};
    struct sw_ids ids = {0};
    char path[4096];
    assert_int_equal(
        sw_chat_template_named(json_string_value(json_object_get(one, "chat")), &chat, &err), 0);
    assert_int_equal(sw_chat_render(chat, &talk, &text, NULL, NULL, &err), 0);
    assert_string_equal(text.byte, json_string_value(json_object_get(one, "text")));
    snprintf(path, sizeof path, "%s/%s.json", folder,
             json_string_value(json_object_get(one, "tokenizer")));
    assert_int_equal(sw_tokenizer_open(path, &t, &err), 0);
    assert_int_equal(sw_text_scratch_new(t, &scratch, &err), 0);
    assert_int_equal(sw_chat_encode(chat, t, scratch, &talk, SIZE_MAX, &bytes, &ids, &err), 0);
    expect_ids(&ids, json_object_get(one, "ids"), text.byte);
    sw_ids_free(&ids);
    sw_chars_free(&text);
    sw_text_scratch_free(scratch);
    sw_tokenizer_free(t);
    sw_chat_template_free(chat);
}

static void test_chats(void **state)
{
    (void)state;
    char path[4096];
    json_error_t why;
    int32_t cases = 0;
    snprintf(path, sizeof path, "%s/chats.cases", folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (json_t *one; (one = json_loadf(file, JSON_DISABLE_EOF_CHECK, &why)) != NULL; cases++) {
        check_chat(one);
        json_decref(one);
    }
    assert_true(feof(file));
    assert_int_equal(cases, 24);
    fclose(file);
}

#define FAMILY(name)                                                                               \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        check_family(#name);                                                                       \
    }
FAMILY(gpt2)
FAMILY(llama3)
FAMILY(qwen2)
FAMILY(smollm)
FAMILY(nfkc_prefixed)
FAMILY(behaviors)
FAMILY(llama2)
FAMILY(mistral)
FAMILY(marked)
FAMILY(unknown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),          cmocka_unit_test(test_llama3),
        cmocka_unit_test(test_qwen2),         cmocka_unit_test(test_smollm),
        cmocka_unit_test(test_nfkc_prefixed), cmocka_unit_test(test_behaviors),
        cmocka_unit_test(test_llama2),        cmocka_unit_test(test_mistral),
        cmocka_unit_test(test_marked),        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_chats),
    };
    if (argc != 2) {
        fprintf(stderr, "usage: test_tokenizers FOLDER\n");
        return 2;
    }
    folder = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
