/* Tokenizers: bytes, folders and what is beside a tokenizer.json, streams, spans of plain text,
 * chat templates, and every message of a file that is refused. Tokens are compared with
 * `tokenizers` by tests/oracle/test_tokenizers.c. */
#include "core/base/file.h"
#include "runner/text/chat.h"
#include "runner/text/tokenize_files.h"
#include "runner/text/tokenizer/tokenizer.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[2048];
static char path[4096];

static void put_text(const char *name, const char *text)
{
    struct sw_error err = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(sw_file_write(path, text, strlen(text), 0666, &err), 0);
}

/* ---- a small tokenizer.json, made of parts ---- */

#define VOCAB                                                                                      \
    "\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4,\"<s>\":5,\"</"                                    \
    "s>\":6,\"\304\240\":7,\"\303\203\":8,\"\302\251\":9"
#define ADDED                                                                                      \
    "[{\"id\":5,\"content\":\"<s>\",\"special\":true,\"normalized\":false},"                       \
    "{\"id\":6,\"content\":\"</s>\",\"special\":true,\"normalized\":false}]"
#define MODEL(vocab, merges, more)                                                                 \
    "{\"type\":\"BPE\",\"vocab\":{" vocab "},\"merges\":" merges more "}"
#define BYTE_LEVEL                                                                                 \
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"                       \
    "\"decoder\":{\"type\":\"ByteLevel\"}"
#define GOOD_MODEL MODEL(VOCAB, "[\"a b\",[\"ab\",\"c\"]]", "")
#define GOOD "{\"added_tokens\":" ADDED "," BYTE_LEVEL ",\"model\":" GOOD_MODEL "}"

static struct sw_tokenizer *parse(const char *text)
{
    struct sw_error err = {0};
    struct sw_tokenizer *t;
    if (sw_tokenizer_parse("t.json", text, strlen(text), &t, &err) != 0)
        fail_msg("%s", err.message);
    return t;
}

static void expect_refused(const char *text, const char *message)
{
    struct sw_error err = {0};
    struct sw_tokenizer *t = NULL;
    if (sw_tokenizer_parse("t.json", text, strlen(text), &t, &err) == 0)
        fail_msg("accepted, instead of: %s", message);
    assert_string_equal(err.message, message);
    assert_string_equal(err.file, "t.json");
    assert_int_equal(err.status, SW_BAD_INPUT);
}

static void expect_encoded(const struct sw_tokenizer *t, const char *text,
                           const struct sw_encode_options *options, const char *wanted)
{
    struct sw_error err = {0};
    struct sw_text_scratch *scratch;
    struct sw_ids ids = {0};
    char found[256] = "";
    assert_int_equal(sw_text_scratch_new(t, &scratch, &err), 0);
    assert_int_equal(sw_tokenizer_encode(t, scratch, text, strlen(text), options, &ids, &err), 0);
    for (size_t i = 0; i < ids.count; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%d", i > 0 ? " " : "",
                 (int)ids.id[i]);
    assert_string_equal(found, wanted);
    sw_ids_free(&ids);
    sw_text_scratch_free(scratch);
}

/* ---- what works ---- */

static void test_bytes(void **state)
{
    (void)state;
    struct sw_error err = {0};
    struct sw_tokenizer *t;
    struct sw_chars text = {0};
    size_t count, bytes;
    const int32_t broken[] = {0xe4, 0xbd, 'x', 256, -1, 0xc3};
    assert_int_equal(sw_tokenizer_bytes(&t, &err), 0);
    assert_true(sw_tokenizer_is_bytes(t));
    assert_int_equal(sw_tokenizer_size(t), 256);
    assert_int_equal(sw_tokenizer_bos(t), -1);
    sw_tokenizer_eos(t, &count);
    assert_int_equal(count, 0);
    assert_int_equal(sw_tokenizer_id(t, "\xff", 1), 255);
    assert_int_equal(sw_tokenizer_id(t, "ab", 2), -1);
    assert_memory_equal(sw_tokenizer_token_bytes(t, 255, &bytes), "\xff", 1);
    assert_int_equal(bytes, 1);
    assert_null(sw_tokenizer_token(t, 256, NULL));
    expect_encoded(t, "a\xff\xe4", NULL, "97 255 228");
    assert_int_equal(sw_tokenizer_decode(t, broken, 6, NULL, &text, &err), 0);
    assert_string_equal(text.byte, "\xef\xbf\xbdx\xef\xbf\xbd");
    sw_chars_free(&text);
    sw_tokenizer_free(t);
}

static void test_good(void **state)
{
    (void)state;
    struct sw_tokenizer *t = parse(GOOD);
    size_t bytes;
    assert_int_equal(sw_tokenizer_size(t), 10);
    assert_false(sw_tokenizer_is_bytes(t));
    expect_encoded(t, "abcab c", NULL, "4 3 7 2");
    expect_encoded(t, "a<s>b</s>", NULL, "0 5 1 6");
    /* what has no token and no unk_token is left out */
    expect_encoded(t, "a?b", NULL, "0 1");
    assert_int_equal(sw_tokenizer_id(t, "<s>", 3), 5);
    assert_true(sw_tokenizer_is_special(t, 5));
    assert_false(sw_tokenizer_is_special(t, 4));
    assert_string_equal(sw_tokenizer_token(t, 7, &bytes), "\304\240");
    assert_int_equal(bytes, 2);
    assert_string_equal(sw_tokenizer_token_bytes(t, 7, &bytes), " ");
    assert_int_equal(bytes, 1);
    sw_tokenizer_free(t);
}

static void test_literal(void **state)
{
    (void)state;
    struct sw_tokenizer *t = parse(
        "{\"added_tokens\":[{\"id\":2,\"content\":\"ab\",\"special\":true,\"normalized\":false}],"
        "\"model\":{\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]},\"pre_tokenizer\":{\"type\":"
        "\"ByteLevel\",\"add_prefix_space\":false}}");
    const struct sw_text_span spans[] = {{3, 5}, {5, 5}, {7, 9}};
    struct sw_encode_options options = {.literal = spans, .literal_count = 3};
    expect_encoded(t, "abaabaab", NULL, "2 0 2 0 2");
    expect_encoded(t, "abaabaab", &options, "2 0 0 1 0 0 1");
    expect_encoded(t, "abaabaab", &(struct sw_encode_options){.plain_special = true},
                   "0 1 0 0 1 0 0 1");
    /* in a broken text the places are lost: nothing of it is special */
    expect_encoded(t, "ab\xff", &options, "0 1");
    sw_tokenizer_free(t);
}

static void test_stream(void **state)
{
    (void)state;
    struct sw_tokenizer *t = parse(GOOD);
    struct sw_error err = {0};
    struct sw_text_decoder *d;
    const char *text;
    size_t bytes;
    assert_int_equal(
        sw_text_decoder_new(t, &(struct sw_decode_options){.skip_special = true}, &d, &err), 0);
    assert_int_equal(sw_text_decoder_feed(d, 8, &text, &bytes, &err), 0);
    assert_int_equal(bytes, 0); /* C3 begins a character */
    assert_int_equal(sw_text_decoder_feed(d, 5, &text, &bytes, &err), 0);
    assert_int_equal(bytes, 0);
    assert_int_equal(sw_text_decoder_feed(d, 9, &text, &bytes, &err), 0);
    assert_string_equal(text, "\303\251");
    assert_int_equal(sw_text_decoder_feed(d, 8, &text, &bytes, &err), 0);
    assert_int_equal(bytes, 0);
    assert_int_equal(sw_text_decoder_feed(d, 4, &text, &bytes, &err), 0);
    assert_string_equal(text, "\xef\xbf\xbd"
                              "abc");
    assert_int_equal(sw_text_decoder_feed(d, 8, &text, &bytes, &err), 0);
    assert_int_equal(sw_text_decoder_finish(d, &text, &bytes, &err), 0);
    assert_string_equal(text, "\xef\xbf\xbd");
    assert_int_equal(sw_text_decoder_finish(d, &text, &bytes, &err), 0);
    assert_int_equal(bytes, 0);
    sw_text_decoder_free(d);
    sw_tokenizer_free(t);
}

/* An answer goes on behind its prompt: its first space is no beginning of a text. */
static void test_continues(void **state)
{
    (void)state;
    struct sw_tokenizer *t = parse(
        "{\"model\":{\"vocab\":{\"\342\226\201\":0,\"a\":1,\"<0xE4>\":2,\"<0xBD>\":3,\"<0xA0>\":4},"
        "\"merges\":[]},\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\","
        "\"pattern\":{\"String\":\"\342\226\201\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},"
        "{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}}");
    const int32_t ids[] = {0, 1, 0, 2, 3, 4, 2, 1};
    struct sw_error err = {0};
    struct sw_chars text = {0};
    assert_int_equal(sw_tokenizer_decode(t, ids, 6, NULL, &text, &err), 0);
    assert_string_equal(text.byte, "a \344\275\240");
    text.count = 0;
    assert_int_equal(
        sw_tokenizer_decode(t, ids, 2, &(struct sw_decode_options){.continues = true}, &text, &err),
        0);
    assert_string_equal(text.byte, " a");
    /* a run of byte tokens that is no UTF-8: as a whole when all is known, as far as it was good in
     * a stream */
    text.count = 0;
    assert_int_equal(sw_tokenizer_decode(t, ids + 3, 5, NULL, &text, &err), 0);
    assert_string_equal(text.byte, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                                   "a");
    struct sw_text_decoder *d;
    text.count = 0;
    assert_int_equal(sw_text_decoder_new(t, NULL, &d, &err), 0);
    for (int32_t i = 3; i < 8; i++) {
        const char *piece;
        size_t bytes;
        assert_int_equal(sw_text_decoder_feed(d, ids[i], &piece, &bytes, &err), 0);
        assert_int_equal(sw_chars_add(&text, piece, bytes), 0);
    }
    assert_string_equal(text.byte, "\344\275\240\xef\xbf\xbd"
                                   "a");
    sw_text_decoder_free(d);
    sw_chars_free(&text);
    sw_tokenizer_free(t);
}

/* A letter a million times is one word: the time per letter must not grow with it. */
static void test_long_words(void **state)
{
    (void)state;
    static const size_t lengths[] = {39, 40, 41, 42, 1000, 1 << 20};
    struct sw_tokenizer *t =
        parse("{\"model\":{\"vocab\":{\"a\":0,\"aa\":1,\"aaaa\":2},\"merges\":"
              "[\"a a\",\"aa aa\"]},\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}");
    struct sw_error err = {0};
    struct sw_text_scratch *scratch;
    struct sw_ids ids = {0};
    char *text = malloc(1 << 20);
    assert_non_null(text);
    memset(text, 'a', 1 << 20);
    assert_int_equal(sw_text_scratch_new(t, &scratch, &err), 0);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const size_t n = lengths[i];
        ids.count = 0;
        assert_int_equal(sw_tokenizer_encode(t, scratch, text, n, NULL, &ids, &err), 0);
        assert_int_equal(ids.count, n / 4 + n % 4 / 2 + n % 2);
        for (size_t k = 0; k < ids.count; k++)
            assert_int_equal(ids.id[k], k < n / 4 ? 2 : k < n / 4 + n % 4 / 2 ? 1 : 0);
    }
    free(text);
    sw_ids_free(&ids);
    sw_text_scratch_free(scratch);
    sw_tokenizer_free(t);
}

static void *encode_often(void *tokenizer)
{
    struct sw_text_scratch *scratch;
    struct sw_ids ids = {0};
    int32_t bad = sw_text_scratch_new(tokenizer, &scratch, NULL) != 0;
    for (int32_t i = 0; bad == 0 && i < 2000; i++) {
        ids.count = 0;
        bad += sw_tokenizer_encode(tokenizer, scratch, "abc ab<s>c", 10, NULL, &ids, NULL) != 0 ||
               ids.count != 5 || ids.id[0] != 4 || ids.id[4] != 2;
    }
    sw_ids_free(&ids);
    sw_text_scratch_free(scratch);
    return bad == 0 ? NULL : tokenizer;
}

static void test_threads(void **state)
{
    (void)state;
    struct sw_tokenizer *t = parse(GOOD);
    pthread_t thread[4];
    for (int32_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, encode_often, t), 0);
    for (int32_t i = 0; i < 4; i++) {
        void *bad;
        assert_int_equal(pthread_join(thread[i], &bad), 0);
        assert_null(bad);
    }
    sw_tokenizer_free(t);
}

/* ---- folders ---- */

static void put_or_remove(const char *name, const char *text)
{
    if (text != NULL) {
        put_text(name, text);
        return;
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)unlink(path);
}

static void expect_ends(int32_t bos, int32_t eos, int32_t second)
{
    struct sw_error err = {0};
    struct sw_tokenizer *t;
    size_t count;
    if (sw_tokenizer_open_folder(folder, &t, &err) != 0)
        fail_msg("%s: %s", err.file, err.message);
    const int32_t *id = sw_tokenizer_eos(t, &count);
    assert_int_equal(sw_tokenizer_bos(t), bos);
    assert_int_equal(count, (eos >= 0) + (second >= 0));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(id[i], i == 0 ? eos : second);
    sw_tokenizer_free(t);
}

/* Lines without the folder in front. */
static void expect_notes(const char *wanted)
{
    struct sw_error err = {0};
    struct sw_tokenizer *t;
    char found[4096] = "";
    assert_int_equal(sw_tokenizer_open_folder(folder, &t, &err), 0);
    for (int32_t i = 0; sw_tokenizer_note(t, i) != NULL; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s\n",
                 sw_tokenizer_note(t, i) + strlen(folder) + 1);
    assert_string_equal(found, wanted);
    sw_tokenizer_free(t);
}

static void expect_folder_refused(const char *name, const char *message, enum sw_status status)
{
    struct sw_error err = {0};
    struct sw_tokenizer *t;
    char place[4096];
    snprintf(place, sizeof place, "%s%s%s", folder, *name != '\0' ? "/" : "", name);
    assert_int_equal(sw_tokenizer_open_folder(folder, &t, &err), -1);
    assert_string_equal(err.message, message);
    assert_string_equal(err.file, place);
    assert_int_equal(err.status, status);
}

static void test_folder(void **state)
{
    (void)state;
    struct sw_error err = {0};
    struct sw_tokenizer *t;
    assert_int_equal(sw_tokenizer_open_folder(folder, &t, &err), 0);
    assert_true(sw_tokenizer_is_bytes(t));
    sw_tokenizer_free(t);
    put_text("merges.txt", "a b\n");
    expect_folder_refused("",
                          "the tokenizer is 'merges.txt', without a tokenizer.json; write one with "
                          "transformers: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)",
                          SW_BAD_INPUT);
    put_text("tokenizer.json", GOOD);
    expect_ends(-1, -1, -1);
    put_text("config.json", "{\"bos_token_id\": 5, \"eos_token_id\": 6}");
    expect_ends(5, 6, -1);
    expect_notes("config.json: note: its eos_token_id ends a text, there is no "
                 "generation_config.json\n");
    put_text("tokenizer_config.json",
             "{\"bos_token\": null, \"eos_token\": {\"content\": \"abc\"}}");
    expect_ends(-1, 6, -1);
    put_text("config.json", "{}");
    expect_ends(-1, 4, -1);
    expect_notes(
        "config.json: note: no eos_token_id; the tokenizer's eos_token 'abc' ends a text\n");
    put_text("tokenizer_config.json", "{\"eos_token\": \"abc\"}");
    put_text("generation_config.json", "{\"bos_token_id\": 3, \"eos_token_id\": [6, 5, 6]}");
    expect_ends(3, 6, 5);
    expect_notes("");
    put_text("generation_config.json", "{\"eos_token_id\": [77]}");
    expect_ends(-1, 77, -1);
    expect_notes("generation_config.json: note: the tokenizer has no token 77, an eos_token_id\n");
    put_text("generation_config.json", "{\"eos_token_id\": null}");
    expect_ends(-1, 4, -1);
    expect_notes("generation_config.json: note: no eos_token_id; the tokenizer's eos_token 'abc' "
                 "ends a text\n");
    put_text("generation_config.json", "{\n  \"eos_token_id\": \"6\"}");
    expect_folder_refused("generation_config.json",
                          "'eos_token_id' is neither an id nor a list of ids", SW_BAD_INPUT);
    put_text("generation_config.json", "{\"eos_token_id\": 6,}");
    expect_folder_refused("generation_config.json", "not valid JSON: wrong syntax", SW_BAD_INPUT);
    assert_int_equal(unlink(path), 0);
    put_or_remove("config.json", NULL);
    put_or_remove("tokenizer_config.json", NULL);
    put_text("tokenizer.json", "[");
    expect_folder_refused("tokenizer.json", "not valid JSON: the text ends within a value",
                          SW_BAD_INPUT);
    assert_int_equal(sw_tokenizer_open("/nowhere/tokenizer.json", &t, &err), -1);
    assert_string_equal(err.message, "cannot read the tokenizer: No such file or directory; name a "
                                     "tokenizer.json");
    assert_int_equal(err.status, SW_BAD_INPUT);
}

/* Each place of a special or an added token, what it gives, and how a wrong one is refused: the
 * rest is compared with transformers (tests/oracle/tokenizer_folders.py). */
static const struct {
    const char *config, *map, *added, *text, *ids, *notes, *refusal;
} places[] = {
    {"{\"tokenizer_class\":\"X\",\"added_tokens_decoder\":{\"10\":{\"content\":\"<p>\"}}}", NULL,
     NULL, "a<p>b", "0 10 1", "", NULL},
    {"{\"tokenizer_class\":\"X\",\"added_tokens_decoder\":{\"40\":{\"content\":\"<p>\"},\"41\":"
     "{\"content\":\"<q>\",\"lstrip\":true}}}",
     NULL, NULL, "a <q><p>b", "0 11 10 1",
     "tokenizer_config.json: note: the added token '<p>' has the id 40 there, and 10 in "
     "transformers, which is taken; the first of 2 such tokens\n",
     NULL},
    {NULL, NULL, "{\"<p>\": 10}", "a<p>b", "0 10 1", "", NULL},
    {NULL, "{\"pad_token\": \"<p>\"}", NULL, "a<p>b", "0 10 1", "", NULL},
    {"{\"additional_special_tokens\":[\"<p>\"]}", NULL, NULL, "a<p>b", "0 10 1", "", NULL},
    {"{\"extra_special_tokens\":{\"image_token\":\"<p>\"}}", NULL, NULL, "a<p>b", "0 10 1", "",
     NULL},
    {"{\"tokenizer_class\":\"LlamaTokenizer\",\"add_eos_token\":true}", NULL, NULL, "a", "5 0 6",
     "", NULL},
    {"{\"tokenizer_class\":\"X\",\"add_prefix_space\":true}", NULL, NULL, "a", "7 0",
     "tokenizer_config.json: note: a space stands before a text, as transformers takes "
     "add_prefix_space; tokenizer.json differs\n",
     NULL},
    {"{\"split_special_tokens\":true}", NULL, NULL, "<s>ab", "3", "", NULL},
    {"{\n \"pad_token\": 7}", NULL, NULL, NULL, NULL, NULL,
     "tokenizer_config.json:2:2: error: 'pad_token' names no token; write its text, or null"},
    {"{\"tokenizer_class\":\"LlamaTokenizer\",\"bos_token\":null}", NULL, NULL, NULL, NULL, NULL,
     "tokenizer_config.json:1:37: error: no bos_token is named, and add_bos_token asks for one; "
     "name it"},
    {"{\"additional_special_tokens\":[7]}", NULL, NULL, NULL, NULL, NULL,
     "tokenizer_config.json:1:2: error: 'additional_special_tokens' is not a list of tokens; write "
     "their texts"},
    {"{\"added_tokens_decoder\":{\"x\":{}}}", NULL, NULL, NULL, NULL, NULL,
     "tokenizer_config.json:1:26: error: 'x' of added_tokens_decoder is no id with a token"},
    {"{\"added_tokens_decoder\":{\"10\":{\"content\":\"<p>\",\"lstrip\":1}}}", NULL, NULL, NULL,
     NULL, NULL,
     "tokenizer_config.json:1:42: error: a flag of this token is neither true nor false"},
    {NULL, "{\"additional_special_tokens\":[{\"content\":\"<p>\"}]}", NULL, NULL, NULL, NULL,
     "special_tokens_map.json:1:2: error: the token '<p>' of additional_special_tokens is an "
     "object, at which transformers 5 fails; write its text"},
    {NULL, NULL, "{\"<p>\": true}", NULL, NULL, NULL,
     "added_tokens.json:1:2: error: the token '<p>' has no id; write a whole number"},
    {"[]", NULL, NULL, NULL, NULL, NULL,
     "tokenizer_config.json: error: not a JSON object; remove it or write {}"},
};

static void test_places(void **state)
{
    (void)state;
    put_text("tokenizer.json", GOOD);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct sw_error err = {0};
        struct sw_tokenizer *t = NULL;
        char shown[SW_ERROR_TEXT_BYTES];
        put_or_remove("tokenizer_config.json", places[i].config);
        put_or_remove("special_tokens_map.json", places[i].map);
        put_or_remove("added_tokens.json", places[i].added);
        const int opened = sw_tokenizer_open_folder(folder, &t, &err);
        if (places[i].refusal != NULL) {
            assert_int_equal(opened, -1);
            assert_string_equal(sw_error_format(&err, NULL, shown) + strlen(folder) + 1,
                                places[i].refusal);
            continue;
        }
        if (opened != 0)
            fail_msg("%s", sw_error_format(&err, NULL, shown));
        expect_encoded(t, places[i].text, &(struct sw_encode_options){.add_special = true},
                       places[i].ids);
        expect_notes(places[i].notes);
        sw_tokenizer_free(t);
    }
    put_or_remove("tokenizer.json", NULL);
    put_or_remove("tokenizer_config.json", NULL);
    put_or_remove("special_tokens_map.json", NULL);
    put_or_remove("added_tokens.json", NULL);
}

/* ---- what is refused ---- */

#define WITH(part) "{" part ",\"model\":" GOOD_MODEL "}"
#define OF(model) "{" BYTE_LEVEL ",\"model\":" model "}"
#define PLUS(token) "{\"added_tokens\":[" token "]," BYTE_LEVEL ",\"model\":" GOOD_MODEL "}"
#define PRE(part) WITH("\"pre_tokenizer\":" part)
#define SPLIT(regex)                                                                               \
    PRE("{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"" regex "\"}}")
#define POST(single, more)                                                                         \
    WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[" single                 \
         "],\"special_tokens\":{\"<s>\":{\"ids\":[" more "]}}}")

static const char *const refused[][2] = {
    {"[]", "not a JSON object, so not a tokenizer"},
    {"{}", "there is no 'model', so this is not a tokenizer.json"},
    {"{\"a\":1,\"a\":2}", "not valid JSON: a duplicate key"},
    {"{\"model\":{\"type\":\"Unigram\"}}",
     "the model 'Unigram' is not supported; supported is BPE"},
    {"{\"model\":{\"type\":\"WordPiece\"}}",
     "the model 'WordPiece' is not supported; supported is BPE"},
    {"{\"model\":{}}", "the model 'without a type' is not supported; supported is BPE"},
    {"{\"model\":{\"type\":\"BPE\"}}", "the model has no 'vocab' of tokens and ids"},
    {OF(MODEL("\"a\":0.5", "[]", "")), "an id in the vocabulary is not a whole number"},
    {OF(MODEL("\"a\":-1", "[]", "")), "a token has the id -1, ids are 0 to 4194303"},
    {OF(MODEL("\"a\":4194304", "[]", "")), "a token has the id 4194304, ids are 0 to 4194303"},
    {OF(MODEL("\"a\":1,\"b\":1", "[]", "")), "two tokens have the id 1"},
    {OF("{\"type\":\"BPE\",\"vocab\":{}}"), "the model has no list of 'merges'"},
    {OF(MODEL("\"a\":1", "[\"a\"]", "")), "merge 1 is not two tokens of the vocabulary"},
    {OF(MODEL("\"a\":1", "[\"a b\"]", "")), "merge 1 is not two tokens of the vocabulary"},
    {OF(MODEL("\"a\":1", "[\"a a a\"]", "")), "merge 1 is not two tokens of the vocabulary"},
    {OF(MODEL("\"a\":1,\"\":2", "[[\"\",\"a\"]]", "")),
     "merge 1 is not two tokens of the vocabulary"},
    {OF(MODEL("\"a\":1", "[[\"a\",1]]", "")), "merge 1 is not two tokens of the vocabulary"},
    {OF(MODEL("\"a\":1", "[\"a a\"]", "")), "merge 1 makes no token of the vocabulary"},
    {OF(MODEL("", "[]", ",\"dropout\":0.1")), "the model's 'dropout' is not supported; write null"},
    {OF(MODEL("", "[]", ",\"end_of_word_suffix\":\"</w>\"")),
     "the model's 'end_of_word_suffix' is not supported; write null"},
    {OF(MODEL("", "[]", ",\"continuing_subword_prefix\":\"##\"")),
     "the model's 'continuing_subword_prefix' is not supported; write null"},
    {OF(MODEL("", "[]", ",\"unk_token\":7")), "the model's 'unk_token' is not a string"},
    {OF(MODEL("", "[]", ",\"fuse_unk\":1")), "'fuse_unk' must be true or false"},
    {OF(MODEL("", "[]", ",\"byte_fallback\":true")),
     "byte_fallback with ByteLevel is not supported where a byte has no token"},
    {WITH("\"added_tokens\":{}"), "'added_tokens' is not a list"},
    {PLUS("{\"id\":77}"), "an added token lacks its id or content"},
    {PLUS("{\"id\":77,\"content\":\"\"}"), "an added token has 0 bytes, of 1 to 512"},
    {"{\"added_tokens\":[{\"id\":2,\"content\":\"zz\"}]," BYTE_LEVEL
     ",\"model\":" MODEL("\"a\":0,\"b\":2", "[]", "") "}",
     "an added token gets the id 2 from transformers, which 'b' has already; the vocabulary has "
     "gaps"},
    {WITH("\"normalizer\":{\"type\":\"BertNormalizer\"}"),
     "the normalizer 'BertNormalizer' is not supported; supported are NFC, NFD, NFKC, NFKD, "
     "Prepend, Replace and Sequence"},
    {WITH("\"normalizer\":{}"), "a part of the 'normalizer' has no type"},
    {WITH("\"normalizer\":{\"type\":\"Prepend\"}"), "'prepend' is missing or not a string"},
    {WITH("\"normalizer\":{\"type\":\"Replace\",\"content\":\"\",\"pattern\":\"x\"}"),
     "the pattern of a 'Replace' is neither a String nor a Regex"},
    {WITH("\"normalizer\":{\"type\":\"Sequence\"}"),
     "the Sequence of the 'normalizer' has no list 'normalizers'"},
    {PRE("{\"type\":\"Whitespace\"}"),
     "the pre-tokenizer 'Whitespace' is not supported; supported are ByteLevel, Split, Digits, "
     "Metaspace and Sequence"},
    {PRE("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]"
         "}"),
     "the pre-tokenizer 'Digits' stands behind ByteLevel, which is supported only as the last one"},
    {PRE("{\"type\":\"Split\",\"behavior\":\"Merged\",\"pattern\":{\"String\":\"x\"}}"),
     "the behavior of a Split is none of Removed, Isolated, MergedWithPrevious, MergedWithNext and "
     "Contiguous"},
    {PRE("{\"type\":\"Metaspace\",\"replacement\":\"\"}"),
     "the replacement of the Metaspace is empty"},
    {PRE("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"last\"}"),
     "the prepend_scheme is none of never, first and always"},
    {SPLIT("(a"), "the regular expression '(a' is not accepted: missing closing parenthesis"},
    {SPLIT("[a&&b]"),
     "the regular expression '[a&&b]' uses && within brackets, which is not supported"},
    {SPLIT("[a[b]]"),
     "the regular expression '[a[b]]' uses brackets within brackets, which is not supported"},
    {SPLIT("a{2}+"), "the regular expression 'a{2}+' uses {}+, which is not supported"},
    {SPLIT("[\\\\S]"),
     "the regular expression '[\\S]' uses \\S or \\W within brackets, which is not supported"},
    {SPLIT("\\\\h"),
     "the regular expression '\\h' uses one of \\h \\H \\b \\B \\K \\u, which is not supported"},
    {SPLIT("(*ACCEPT)"), "the regular expression '(*ACCEPT)' uses a verb '(*', which is not "
                         "supported"},
    {WITH("\"post_processor\":{\"type\":\"BertProcessing\"}"),
     "the post-processor 'BertProcessing' is not supported; supported are TemplateProcessing, "
     "ByteLevel and Sequence"},
    {POST("{\"Sequence\":{\"id\":\"B\"}}", "5"),
     "'single' of the TemplateProcessing is not tokens round one text A"},
    {POST("{\"SpecialToken\":{\"id\":\"<s>\"}}", "5"),
     "'single' of the TemplateProcessing lacks the text A"},
    {POST("{\"SpecialToken\":{\"id\":\"</s>\"}}", "5"),
     "a token of the TemplateProcessing is not in its special_tokens"},
    {POST("{\"SpecialToken\":{\"id\":\"<s>\"}}", "99"),
     "an id of the TemplateProcessing is not the id of a token"},
    {WITH("\"decoder\":{\"type\":\"WordPiece\"}"),
     "the decoder 'WordPiece' is not supported; supported are ByteLevel, Metaspace, and Sequences "
     "of Replace, ByteFallback, Fuse and Strip, in this order"},
    {WITH("\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":"
          "\"ByteFallback\"}]}"),
     "the decoder's part 'ByteFallback' is not supported; supported are ByteLevel, Metaspace, and "
     "Sequences of Replace, ByteFallback, Fuse and Strip, in this order"},
    {WITH("\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":"
          "\"Strip\",\"content\":\" \",\"start\":0,\"stop\":1}]}"),
     "a Strip at the end of the text is not supported"},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        expect_refused(refused[i][0], refused[i][1]);
}

static void expect_failed(const struct sw_tokenizer *t, const char *text, const char *message)
{
    struct sw_error err = {0};
    struct sw_text_scratch *scratch;
    struct sw_ids ids = {0};
    assert_int_equal(sw_text_scratch_new(t, &scratch, &err), 0);
    assert_int_equal(sw_tokenizer_encode(t, scratch, text, strlen(text), NULL, &ids, &err), -1);
    assert_string_equal(err.message, message);
    assert_int_equal(err.status, SW_BAD_INPUT);
    assert_int_equal(ids.count, 0);
    sw_ids_free(&ids);
    sw_text_scratch_free(scratch);
}

static void test_texts_that_fail(void **state)
{
    (void)state;
    struct sw_tokenizer *t = parse(SPLIT("(a+a+)+x"));
    expect_failed(t,
                  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaayx",
                  "a pattern of the pre-tokenizer takes too many steps on this text");
    sw_tokenizer_free(t);
    t = parse("{\"model\":" MODEL("\"a\":0", "[]", ",\"unk_token\":\"<unk>\"") "}");
    expect_failed(t, "ab",
                  "a character of 'ab' has no token, and neither has the model's unk_token");
    sw_tokenizer_free(t);
}

/* ---- chat templates ---- */

static json_t *json_of(const char *text)
{
    json_t *value = json_loads(text, 0, NULL);
    assert_non_null(value);
    return value;
}

static struct sw_chat_template *ours(const char *name)
{
    struct sw_chat_template *chat = NULL;
    assert_int_equal(sw_chat_template_named(name, &chat, NULL), 0);
    return chat;
}

static void expect_chat_refused(const struct sw_chat_template *chat, const char *messages,
                                const char *message)
{
    json_t *value = json_of(messages);
    const struct sw_chat_talk talk = {.messages = value, .answer = true};
    struct sw_chars text = {0};
    struct sw_error err = {0};
    assert_int_equal(sw_chat_render(chat, &talk, &text, NULL, NULL, &err), -1);
    assert_string_equal(err.message, message);
    assert_int_equal(text.count, 0);
    sw_chars_free(&text);
    json_decref(value);
}

static void test_chat_mistakes(void **state)
{
    (void)state;
    struct sw_error err = {0};
    struct sw_chat_template *chat;
    size_t bytes = 0;
    json_t *messages = json_of("[{\"role\":\"user\",\"content\":\"a\"}]");
    const struct sw_chat_talk talk = {.messages = messages};
    assert_int_equal(sw_chat_template_named("gemma", &chat, &err), -1);
    assert_string_equal(err.message,
                        "no chat template is named 'gemma'; there are llama-3, chatml and mistral");
    chat = ours("mistral");
    assert_string_equal(sw_chat_template_name(chat), "mistral");
    assert_false(sw_chat_template_is_own(chat));
    expect_chat_refused(
        chat, "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\"}]",
        "message 2: after a first one of the system, user and assistant take turns");
    sw_chat_template_free(chat);
    chat = ours("chatml");
    expect_chat_refused(
        chat, "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"tool\",\"content\":\"b\"}]",
        "message 2: the role 'tool' is none of system, user and assistant");
    struct sw_tokenizer *t = parse(GOOD);
    err = (struct sw_error){0};
    assert_int_equal(sw_chat_encode(chat, t, NULL, &talk, SIZE_MAX, &bytes, NULL, &err), -1);
    assert_string_equal(err.message, "the chat template 'chatml' needs the special token "
                                     "'<|im_start|>', which the tokenizer lacks");
    sw_tokenizer_free(t);
    sw_chat_template_free(chat);
    json_decref(messages);
}

/* Renders a talk with the folder's own template; what is expected begins with '!': refused so. */
static void expect_own(const struct sw_chat_talk *talk, const char *expected)
{
    struct sw_chat_template *chat = NULL;
    struct sw_chars text = {0};
    struct sw_error err = {0};
    assert_int_equal(sw_chat_template_of_folder(folder, &chat, &err), 0);
    assert_non_null(chat);
    assert_true(sw_chat_template_is_own(chat));
    const int status = sw_chat_render(chat, talk, &text, NULL, NULL, &err);
    if (expected[0] == '!')
        assert_non_null(strstr(err.message, expected + 1));
    else
        assert_string_equal(text.byte, expected);
    assert_int_equal(status, expected[0] == '!' ? -1 : 0);
    sw_chars_free(&text);
    sw_chat_template_free(chat);
}

static void expect_no_template(const char *message)
{
    struct sw_chat_template *chat = NULL;
    struct sw_error err = {0};
    char shown[SW_ERROR_TEXT_BYTES];
    assert_int_equal(sw_chat_template_of_folder(folder, &chat, &err), -1);
    assert_int_equal(err.status, SW_BAD_INPUT);
    assert_non_null(strstr(sw_error_format(&err, NULL, shown), message));
    assert_null(chat);
}

/* Where a model's template stands, which of several it is, and what it sees. */
static void test_chat_of_folder(void **state)
{
    (void)state;
    struct sw_chat_template *chat = NULL;
    struct sw_error err = {0};
    json_t *messages = json_of("[{\"role\":\"user\",\"content\":\"Hi\"}]"),
           *tools = json_of("[{\"name\":\"f\"}]"), *more = json_of("{\"thinking\":true}");
    struct sw_chat_talk talk = {.messages = messages};
    assert_int_equal(sw_chat_template_of_folder(folder, &chat, &err), 0);
    assert_null(chat);
    put_text("tokenizer_config.json",
             "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"</s>\",\"chat_template\":"
             "\"{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ tools }}{{ thinking }}"
             "{{ add_generation_prompt }}\"}");
    expect_own(&talk, "<s>Hi</s>NoneFalse");
    talk.answer = true;
    talk.variables = more;
    expect_own(&talk, "<s>Hi</s>NoneTrueTrue");
    put_text("tokenizer_config.json",
             "{\"chat_template\":[{\"name\":\"default\",\"template\":\"plain\"},"
             "{\"name\":\"tool_use\",\"template\":\"{{ tools|tojson }}\"}]}");
    expect_own(&talk, "plain");
    talk.tools = tools;
    expect_own(&talk, "[{\"name\": \"f\"}]");
    /* of a template inside of JSON both places are told: in the file, and in the template */
    put_text("tokenizer_config.json",
             "{\n  \"bos_token\": \"é\",\n  \"chat_template\": \"a\\n\\n  {{ 1 + }}\"\n}\n");
    expect_no_template("tokenizer_config.json:3:20: chat_template:3:10: error: ");
    put_text("tokenizer_config.json", "{\"chat_template\": \"a\\n{{ messages[0].content + 1 }}\"}");
    expect_own(&talk,
               "!tokenizer_config.json:1:19: chat_template:2:24: no '+' between str and int");
    put_text("tokenizer_config.json", "{\"chat_template\":[{\"name\":\"x\",\"template\":\"\"}]}");
    expect_no_template(
        "tokenizer_config.json:1:2: error: its chat_template is neither a text nor a "
        "list with one named 'default'");
    put_text("chat_template.jinja", "{% for p in messages[0].content if p is mapping %}{{ p.text }}"
                                    "{% else %}{{ messages[0].content }}{% endfor %}");
    assert_int_equal(sw_chat_template_of_folder(folder, &chat, &err), 0);
    assert_true(sw_chat_template_takes_parts(chat));
    assert_true(sw_chat_template_mentions(chat, "content"));
    assert_false(sw_chat_template_mentions(chat, "tools"));
    sw_chat_template_free(chat);
    put_text("chat_template.jinja", "{{ messages[0].content }}");
    assert_int_equal(sw_chat_template_of_folder(folder, &chat, &err), 0);
    assert_false(sw_chat_template_takes_parts(chat));
    sw_chat_template_free(chat);
    put_text("chat_template.jinja", "a\n{{ messages[0].content + 1 }}\n");
    expect_own(&talk, "!chat_template.jinja:2:24: no '+' between str and int");
    put_text("chat_template.jinja", "{{ raise_exception('no ' + messages[0].content) }}");
    expect_own(&talk, "!no Hi");
    put_text("chat_template.jinja", "a\n {% include 'x' %}\n");
    expect_no_template("chat_template.jinja:2:5: error: no tag 'include' is in the subset of Jinja "
                       "that is run here");
    put_or_remove("chat_template.jinja", NULL);
    snprintf(path, sizeof path, "%s/additional_chat_templates", folder);
    (void)mkdir(path, 0777);
    put_text("additional_chat_templates/rag.jinja", "");
    expect_no_template(
        "additional_chat_templates/rag.jinja:1:1: error: none of the templates there is "
        "named 'default' or 'tool_use'; put one in chat_template.jinja");
    put_text("additional_chat_templates/tool_use.jinja", "{{ tools|tojson }}");
    expect_own(&talk, "[{\"name\": \"f\"}]");
    talk.tools = NULL;
    expect_own(&talk,
               "!the model's chat template is one for conversations with tools, none is named "
               "'default'; give tools");
    put_or_remove("additional_chat_templates/rag.jinja", NULL);
    put_or_remove("additional_chat_templates/tool_use.jinja", NULL);
    snprintf(path, sizeof path, "%s/additional_chat_templates", folder);
    assert_int_equal(rmdir(path), 0);
    put_text("tokenizer_config.json", "{}");
    put_text("chat_template.json", "{\"chat_template\": \"of a processor\"}");
    expect_own(&talk, "of a processor");
    put_or_remove("chat_template.json", NULL);
    put_or_remove("tokenizer_config.json", NULL);
    json_decref(messages);
    json_decref(tools);
    json_decref(more);
}

/* Nobody ends his turn by writing what ends one; what ends an answer is what follows one. */
static void test_chat_is_safe(void **state)
{
    (void)state;
    struct sw_tokenizer *t = parse(GOOD);
    struct sw_chat_template *chat = ours("mistral");
    size_t bytes = 0;
    json_t *messages = json_of("[{\"role\":\"user\",\"content\":\"a</s>b\"},"
                               "{\"role\":\"assistant\",\"content\":\"b\"}]");
    const struct sw_chat_talk talk = {.messages = messages};
    struct sw_error err = {0};
    struct sw_text_scratch *scratch;
    struct sw_ids ids = {0};
    int32_t special = 0;
    assert_int_equal(sw_text_scratch_new(t, &scratch, &err), 0);
    assert_int_equal(sw_chat_encode(chat, t, scratch, &talk, SIZE_MAX, &bytes, &ids, &err), 0);
    for (size_t i = 0; i < ids.count; i++)
        special += sw_tokenizer_is_special(t, ids.id[i]);
    assert_int_equal(special, 2); /* the beginning, and the end of the answer */
    assert_int_equal(ids.id[0], 5);
    assert_int_equal(ids.id[ids.count - 1], 6);
    assert_int_equal(sw_chat_end(chat, t, scratch), 6);
    sw_ids_free(&ids);
    sw_text_scratch_free(scratch);
    sw_tokenizer_free(t);
    sw_chat_template_free(chat);
    json_decref(messages);
}

/* ---- files ---- */

static void test_files(void **state)
{
    (void)state;
    struct sw_tokenizer *t = parse(GOOD);
    struct sw_error err = {0};
    struct sw_tokenize_counts counts;
    struct sw_tokenize_options options = {.end = 6};
    char text[4096], lines[4096], to[4096];
    put_text("a.txt", "abc<s>");
    snprintf(text, sizeof text, "%s", path);
    put_text("b.jsonl", "{\"text\": \"ab\"}\n\n{\"text\": \"c\\n\", \"id\": 1}");
    snprintf(lines, sizeof lines, "%s", path);
    snprintf(to, sizeof to, "%s/out.bin", folder);
    const char *from[] = {text, lines};
    assert_int_equal(sw_tokenize_files(t, from, 2, to, &options, &counts, &err), 0);
    assert_int_equal(counts.documents, 3);
    assert_int_equal(counts.bytes, 10);
    static const uint16_t wanted[] = {4, 6, 3, 6, 2, 6}; /* < s > have no token */
    unsigned char found[1024 + sizeof wanted + 1];
    FILE *file = fopen(to, "rb");
    assert_non_null(file);
    assert_int_equal(fread(found, 1, sizeof found, file), 1024 + sizeof wanted);
    fclose(file);
    assert_memory_equal(found + 1024, wanted, sizeof wanted);
    options.parses_special = true;
    options.end = -1;
    assert_int_equal(sw_tokenize_files(t, from, 1, to, &options, &counts, &err), 0);
    assert_int_equal(counts.made.tokens, 2);

    put_text("b.jsonl", "{\"text\": \"ab\"}\n{\"txt\": \"c\"}\n");
    assert_int_equal(sw_tokenize_files(t, from, 2, to, &options, &counts, &err), -1);
    assert_string_equal(err.message,
                        "no object with a 'text' or with 'messages'; each line is one, "
                        "{\"text\": \"...\"} or {\"messages\": [...]}");
    assert_string_equal(err.file, lines);
    assert_int_equal(err.line, 2);
    put_text("b.jsonl", "{\"text\": \"ab\"\n");
    err = (struct sw_error){0};
    assert_int_equal(sw_tokenize_files(t, from, 2, to, &options, &counts, &err), -1);
    assert_string_equal(err.message, "not valid JSON: the text ends within a value");
    assert_int_equal(err.line, 1);
    assert_int_equal(unlink(path), 0);
    err = (struct sw_error){0};
    assert_int_equal(sw_tokenize_files(t, from, 2, to, &options, &counts, &err), -1);
    assert_string_equal(err.message, "cannot open the file to tokenize: No such file or directory; "
                                     "name a file that exists");
    assert_int_equal(err.status, SW_BAD_INPUT);
    sw_tokenizer_free(t);
}

/* A chat template may write the token that the post-processor puts before each text. */
static void test_files_begin_once(void **state)
{
    (void)state;
    struct sw_tokenizer *t =
        parse("{\"added_tokens\":" ADDED "," BYTE_LEVEL
              ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
              "{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],"
              "\"special_tokens\":{\"<s>\":{\"ids\":[5]}}},\"model\":" GOOD_MODEL "}");
    struct sw_error err = {0};
    char to[4096];
    put_text("c.jsonl", "{\"text\": \"<s>ab\"}\n{\"text\": \"c\"}\n{\"text\": \"<s>\"}\n"
                        "{\"text\": \"a<s>\"}\n{\"text\": \"\"}");
    snprintf(to, sizeof to, "%s/out.bin", folder);
    const char *from = path;
    const struct sw_tokenize_options options = {.end = 6, .parses_special = true};
    assert_int_equal(sw_tokenize_files(t, &from, 1, to, &options, NULL, &err), 0);
    static const uint16_t wanted[] = {5, 3, 6, 5, 2, 6, 5, 6, 5, 0, 5, 6, 5, 6};
    unsigned char found[1024 + sizeof wanted + 1];
    FILE *file = fopen(to, "rb");
    assert_non_null(file);
    assert_int_equal(fread(found, 1, sizeof found, file), 1024 + sizeof wanted);
    fclose(file);
    assert_memory_equal(found + 1024, wanted, sizeof wanted);
    sw_tokenizer_free(t);
}

static void add_text(struct sw_chars *chars, const char *text)
{
    assert_int_equal(sw_chars_add(chars, text, strlen(text)), 0);
}

/* A vocabulary of more than 65536 needs the wider form. */
static void test_wide(void **state)
{
    (void)state;
    struct sw_chars text = {0};
    char one[32];
    add_text(&text, "{\"model\":{\"merges\":[],\"vocab\":{\"a\":0");
    for (int32_t id = 1; id < 70000; id++) {
        snprintf(one, sizeof one, ",\"t%d\":%d", (int)id, (int)id);
        add_text(&text, one);
    }
    add_text(&text, "}},\"added_tokens\":[{\"id\":70000,\"content\":\"zz\"}]}");
    struct sw_tokenizer *t = parse(text.byte);
    sw_chars_free(&text);
    struct sw_error err = {0};
    char to[4096];
    unsigned char found[1032];
    put_text("a.txt", "azz");
    snprintf(to, sizeof to, "%s/out.bin", folder);
    const char *from = path;
    assert_int_equal(
        sw_tokenize_files(t, &from, 1, to, &(struct sw_tokenize_options){.end = -1}, NULL, &err),
        0);
    FILE *file = fopen(to, "rb");
    assert_non_null(file);
    assert_int_equal(fread(found, 1, sizeof found, file), sizeof found);
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
    assert_int_equal(found[4], 7); /* version */
    assert_int_equal(found[8], 2); /* tokens */
    assert_int_equal(found[1028] | found[1029] << 8 | found[1030] << 16, 70000);
    sw_tokenizer_free(t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_literal),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_continues),
        cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_folder),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_texts_that_fail),
        cmocka_unit_test(test_chat_mistakes),
        cmocka_unit_test(test_chat_of_folder),
        cmocka_unit_test(test_chat_is_safe),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_wide),
        cmocka_unit_test(test_files_begin_once),
    };
    snprintf(folder, sizeof folder, "%s/tokenizer.XXXXXX", argc > 1 ? argv[1] : ".");
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[4096];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) != 0 ? 1 : failed;
}
