/* Any bytes as a chat template, rendered with one conversation: refused in one line with a place,
 * or by itself; else text in UTF-8 and the words of others where the spans say, within the limits.
 */
#include "runner/text/jinja/jinja.h"
#include "runner/text/tokenizer/utf8.h"
#include "tests/fuzz/support.h"

#include <stdlib.h>
#include <string.h>

static const char talk[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\" Be <b>.\\n\"},{\"role\":\"user\","
    "\"content\":[{\"type\":\"text\",\"text\":\"\xc3\xa9\xe6\x97\xa5\"}]},{\"role\":\"assistant\","
    "\"content\":null,\"tool_calls\":[{\"name\":\"f\",\"arguments\":{\"x\":[1,2.5,true,null]}}]}],"
    "\"tools\":[{\"name\":\"f\"}]}";

static void check_error(const struct sw_error *err)
{
    fuzz_require(err->status == SW_BAD_INPUT, "no mistake of the template", err->message);
    fuzz_require_plain(err->message);
    if (err->file[0] != '\0')
        fuzz_require_place(err->file, err->line, err->column, err->message);
}

static void check_text(const struct sw_chars *text, const struct sw_text_spans *spans)
{
    const struct sw_text_span *span = spans->span;
    fuzz_require(sw_utf8_valid(text->byte, text->count) == text->count, "no UTF-8", "");
    for (size_t i = 0; i < spans->count; i++) {
        fuzz_require(span[i].begin < span[i].end && span[i].end <= text->count, "a span", "");
        fuzz_require(i == 0 || span[i - 1].end < span[i].begin, "spans that touch", "");
    }
}

void fuzz_one(const uint8_t *data, size_t bytes)
{
    const struct sw_jinja_limits limits = {200000, (size_t)4 << 20};
    json_t *root = json_loads(talk, 0, NULL);
    const json_t *bos = json_object_get(root, "none");
    const struct sw_jinja_variable variable[] = {
        {"messages", json_object_get(root, "messages"), true},
        {"tools", json_object_get(root, "tools"), true},
        {"bos_token", bos, false},
    };
    char *copy = malloc(bytes + 1); /* sanitizers watch its end */
    struct sw_jinja *jinja = NULL;
    struct sw_chars text = {0};
    struct sw_text_spans foreign = {0}, generated = {0};
    struct sw_error err = {0};
    fuzz_require(root != NULL && copy != NULL, "no memory", "");
    if (bytes > 0)
        memcpy(copy, data, bytes);
    copy = realloc(copy, bytes > 0 ? bytes : 1);
    if (sw_jinja_parse("t.jinja", copy, bytes, &jinja, &err) != 0 ||
        sw_jinja_render(jinja, variable, 3, &limits, 0, &text, &foreign, &generated, &err) != 0)
        check_error(&err);
    else {
        check_text(&text, &foreign);
        check_text(&text, &generated);
    }
    sw_text_spans_free(&foreign);
    sw_text_spans_free(&generated);
    sw_chars_free(&text);
    sw_jinja_free(jinja);
    free(copy);
    json_decref(root);
}
