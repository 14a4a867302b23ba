/* JSON as Python writes it (json_texts.py): every value is read, and a template writes it again as
 * Python does; in a file of which only some keys are read, none of it is in the way. */
#include "core/config/config.h"
#include "runner/checkpoint/json_text.h"
#include "runner/text/jinja/jinja.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *texts;

/* The bytes of a line of hexadecimal digits, 0-terminated; NULL: the file ends. */
static char *read_line(FILE *file, size_t *bytes)
{
    char *line = NULL;
    size_t room = 0;
    const ssize_t length = getline(&line, &room, file);
    if (length <= 0) {
        free(line);
        return NULL;
    }
    *bytes = (size_t)length / 2;
    for (size_t i = 0; i < *bytes; i++) {
        const char digits[3] = {line[2 * i], line[2 * i + 1], '\0'};
        line[i] = (char)strtoul(digits, NULL, 16);
    }
    line[*bytes] = '\0';
    return line;
}

static void write_text(FILE *out, const char *text, size_t bytes)
{
    fputc('s', out);
    for (size_t i = 0; i < bytes; i++) {
        const bool nul = text[i] == '\xc0'; /* of a key */
        fprintf(out, "%02x", nul ? 0 : (unsigned)(unsigned char)text[i]);
        i += nul;
    }
    fputc(';', out);
}

static void write_real(FILE *out, double real)
{
    uint64_t bits;
    memcpy(&bits, &real, sizeof bits);
    if (isnan(real))
        fputs("nan;", out);
    else
        fprintf(out, "d%016" PRIx64 ";", bits);
}

static void write_shape(FILE *out, json_t *value)
{
    const char *key, *big = sw_json_big(value);
    json_t *member;
    size_t i;
    if (big != NULL && big[strspn(big, "-0123456789")] == '\0') {
        fprintf(out, "i%s;", big);
    } else if (big != NULL) {
        write_real(out, strtod(big, NULL));
    } else if (json_is_object(value)) {
        fputc('{', out);
        json_object_foreach(value, key, member)
        {
            write_text(out, key, strlen(key));
            write_shape(out, member);
        }
        fputc('}', out);
    } else if (json_is_array(value)) {
        fputc('[', out);
        json_array_foreach(value, i, member) write_shape(out, member);
        fputc(']', out);
    } else if (json_is_string(value)) {
        write_text(out, json_string_value(value), json_string_length(value));
    } else if (json_is_integer(value)) {
        fprintf(out, "i%" JSON_INTEGER_FORMAT ";", json_integer_value(value));
    } else if (json_is_real(value)) {
        write_real(out, json_real_value(value));
    } else {
        fputc(json_is_null(value) ? 'n' : json_is_true(value) ? 't' : 'f', out);
    }
}

static void expect_shape(json_t *root, const char *wanted, int number)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    write_shape(out, root);
    fclose(out);
    if (strcmp(text, wanted) != 0)
        fail_msg("text %d is read as\n%s\nand is\n%s", number, text, wanted);
    free(text);
}

static void expect_rendered(json_t *root, const char *wanted, size_t bytes, int number)
{
    static const char source[] = "{{ w|tojson }}";
    const struct sw_jinja_variable variable = {"w", json_object_get(root, "w"), false};
    struct sw_jinja *jinja = NULL;
    struct sw_chars text = {0};
    struct sw_error err = {0};
    assert_int_equal(sw_jinja_parse("t", source, sizeof source - 1, &jinja, &err), 0);
    if (sw_jinja_render(jinja, &variable, 1, &SW_JINJA_USUAL_LIMITS, 0, &text, NULL, NULL, &err) !=
        0)
        fail_msg("text %d: %s", number, err.message);
    if (text.count != bytes || memcmp(text.byte, wanted, bytes) != 0)
        fail_msg("text %d is written as\n%.*s\nand is\n%s", number, (int)text.count, text.byte,
                 wanted);
    sw_chars_free(&text);
    sw_jinja_free(jinja);
}

/* A config.json in which the text is the value of a key that nobody reads. */
static void expect_model(const char *text, size_t bytes, int number)
{
    static const char model[] =
        "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 256, \"hidden_size\": 64, "
        "\"intermediate_size\": 128, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
        "\"unread\": ";
    char *whole = NULL;
    size_t length;
    struct sw_error err = {0};
    FILE *out = open_memstream(&whole, &length);
    const size_t mark = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    assert_non_null(out);
    fwrite(text, 1, mark, out);
    fputs(model, out);
    fwrite(text + mark, 1, bytes - mark, out);
    fputs("}\n", out);
    fclose(out);
    struct sw_config *config =
        sw_config_read_text("config.json", whole, length, SW_CONFIG_MODEL, NULL, NULL, 0, &err);
    assert_non_null(config);
    if (sw_config_model(config) == NULL)
        fail_msg("text %d as an unread value: %s\n%s", number,
                 sw_config_diagnostic(config, 0)->message, whole);
    sw_config_free(config);
    free(whole);
}

static void texts_are_read_as_python_reads_them(void **state)
{
    FILE *file = fopen(texts, "re");
    size_t bytes, shape_bytes, written_bytes;
    char *text;
    int count = 0;
    (void)state;
    assert_non_null(file);
    for (; (text = read_line(file, &bytes)) != NULL; count++) {
        char *shape = read_line(file, &shape_bytes), *written = read_line(file, &written_bytes);
        struct sw_json_mistake why = {0};
        assert_non_null(written);
        json_t *root = sw_json_load(text, bytes, 0, &why);
        if (root == NULL)
            fail_msg("text %d at byte %zu: %s\n%s", count, why.byte, why.what, text);
        expect_shape(root, shape, count);
        expect_rendered(root, written, written_bytes, count);
        json_decref(root);
        root = sw_json_load(text, bytes, SW_JSON_TWICE, NULL);
        if (root != NULL)
            expect_model(text, bytes, count);
        json_decref(root);
        free(text);
        free(shape);
        free(written);
    }
    fclose(file);
    assert_true(count >= 120);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_are_read_as_python_reads_them)};
    texts = argc > 1 ? argv[1] : "build/tests/json_texts.txt";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
