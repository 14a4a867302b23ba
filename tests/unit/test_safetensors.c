/* Headers of safetensors files: what is read, and every refusal with its text. */
#include "runner/checkpoint/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[2048]; /* made for this run, set by main */
static char path[4096];

#define A(dtype, shape, begin, end)                                                                \
    "\"a\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" begin "," end "]}"
#define B(dtype, shape, begin, end)                                                                \
    "\"b\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" begin "," end "]}"

static void parse_good(const char *header, int64_t data_bytes, struct sw_safetensors *out)
{
    struct sw_error err = {0};
    if (sw_safetensors_parse("f", header, strlen(header), 8 + (int64_t)strlen(header) + data_bytes,
                             out, &err) != 0)
        fail_msg("%s: %s", header, err.message);
}

static void expect_refused(const char *header, size_t header_bytes, int64_t data_bytes,
                           const char *wanted)
{
    struct sw_safetensors out;
    struct sw_error err = {0};
    char said[SW_ERROR_TEXT_BYTES], line[SW_ERROR_TEXT_BYTES];
    assert_int_equal(sw_safetensors_parse("f", header, header_bytes,
                                          8 + (int64_t)header_bytes + data_bytes, &out, &err),
                     -1);
    snprintf(line, sizeof line, "f: error: %s", wanted);
    assert_string_equal(sw_error_format(&err, NULL, said), line);
    assert_int_equal(err.status, SW_BAD_INPUT);
    assert_null(out.tensor);
    assert_int_equal(out.count, 0);
}

static void reads_headers(void **state)
{
    (void)state;
    struct sw_safetensors f;
    const char *header = "{\"__metadata__\":{\"format\":\"pt\"}," B("BF16", "2,3", "8", "20") "," A(
        "F32", "2", "0",
        "8") ",\"c\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[20,28]},"
             "\"empty\":{\"shape\":[4,0],\"dtype\":\"F16\",\"data_offsets\":[20,20]}}   ";
    parse_good(header, 28, &f);
    const int64_t begin = 8 + (int64_t)strlen(header);
    assert_int_equal(f.count, 4);
    assert_int_equal(f.data_begin, begin);
    assert_int_equal(f.file_bytes, begin + 28);
    static const struct {
        const char *name, *dtype_name;
        enum sw_stored_dtype dtype;
        int64_t begin, bytes;
        uint8_t ndim;
    } wanted[] = {{"a", "F32", SW_STORED_F32, 0, 8, 1},
                  {"b", "BF16", SW_STORED_BF16, 8, 12, 2},
                  {"empty", "F16", SW_STORED_F16, 20, 0, 2},
                  {"c", "I64", SW_STORED_DTYPES, 20, 8, 0}};
    for (int32_t i = 0; i < 4; i++) {
        assert_string_equal(f.tensor[i].name, wanted[i].name);
        assert_string_equal(f.tensor[i].dtype_name, wanted[i].dtype_name);
        assert_int_equal(f.tensor[i].dtype, wanted[i].dtype);
        assert_int_equal(f.tensor[i].begin, begin + wanted[i].begin);
        assert_int_equal(f.tensor[i].bytes, wanted[i].bytes);
        assert_int_equal(f.tensor[i].ndim, wanted[i].ndim);
    }
    assert_int_equal(f.tensor[1].size[0], 2);
    assert_int_equal(f.tensor[1].size[1], 3);
    sw_safetensors_free(&f);
    assert_null(f.tensor);
    parse_good("{}", 0, &f);
    assert_int_equal(f.count, 0);
    sw_safetensors_free(&f);
    parse_good("{" A("F4", "1,3,2", "0", "3") "}", 3, &f);
    sw_safetensors_free(&f);
}

#define DAMAGED "; it is damaged or no safetensors file"
#define NOT_BRACE "its header does not begin with '{'" DAMAGED

static void refuses(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        int64_t data_bytes;
        const char *wanted;
    } cases[] = {
        {"", 0, NOT_BRACE},
        {" {}", 0, NOT_BRACE},
        {"[]", 0, NOT_BRACE},
        {"\"a\"", 0, NOT_BRACE},
        {"{", 0, "its header is not JSON at byte 1: the text ends within a value" DAMAGED},
        {"{\"a\":", 0, "its header is not JSON at byte 5: the text ends within a value" DAMAGED},
        {"{a:1}", 0, "its header is not JSON at byte 1: wrong syntax" DAMAGED},
        {"{} x", 0, "its header is not JSON at byte 3: text after the end" DAMAGED},
        {"{" A("F32", "1", "0", "4") "," A("F32", "1", "0", "4") "}", 4,
         "its header is not JSON at byte 54: a duplicate key" DAMAGED},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0,
         "its header is not JSON at byte 20: a duplicate key" DAMAGED},
        {"{\"\xff\":1}", 0, "its header is not JSON at byte 2: a text that is not UTF-8" DAMAGED},
        {"{\"a\\u0000b\":1}", 0,
         "its header is not JSON at byte 1: a string with a NUL character" DAMAGED},
        {"{" A("F32", "1", "0", "18446744073709551616") "}", 4,
         "tensor 'a' has no pair of data_offsets" DAMAGED},
        {"{\"a\":1}", 0, "tensor 'a' is described by no mapping" DAMAGED},
        {"{\"\":{}}", 0, "a tensor without a name" DAMAGED},
        {"{\"a\":{}}", 0, "tensor 'a' has no dtype" DAMAGED},
        {"{\"a\":{\"dtype\":3}}", 0, "tensor 'a' has no dtype" DAMAGED},
        {"{\"a\":{\"dtype\":\"f32\"}}", 0, "tensor 'a' has the unknown dtype 'f32'"},
        {"{\"a\":{\"dtype\":\"\\u001b[2J_and_more_of_it\"}}", 0,
         "tensor 'a' has the unknown dtype '?[2J_and_more_of_it'"},
        {"{\"a\":{\"dtype\":\"F32\"}}", 0, "tensor 'a' has no shape" DAMAGED},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":3}}", 0, "tensor 'a' has no shape" DAMAGED},
        {"{" A("F32", "1,1,1,1,1,1,1,1,1", "0", "4") "}", 4,
         "tensor 'a' has 9 dimensions, of at most 8"},
        {"{" A("F32", "-1", "0", "4") "}", 4,
         "tensor 'a' has a shape that is not made of sizes" DAMAGED},
        {"{" A("F32", "1.0", "0", "4") "}", 4,
         "tensor 'a' has a shape that is not made of sizes" DAMAGED},
        {"{" A("F32", "4294967296,4294967296,4294967296", "0", "4") "}", 4,
         "tensor 'a' has more elements than can be counted" DAMAGED},
        {"{" A("U8", "4294967296,4294967296,0", "0", "0") "}", 0,
         "tensor 'a' has more elements than can be counted" DAMAGED},
        {"{" A("F4", "3", "0", "2") "}", 2, "tensor 'a' ends within a byte" DAMAGED},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4,
         "tensor 'a' has no pair of data_offsets" DAMAGED},
        {"{" A("F32", "1", "0", "4,8") "}", 4, "tensor 'a' has no pair of data_offsets" DAMAGED},
        {"{" A("F32", "1", "0", "4.0") "}", 4, "tensor 'a' has no pair of data_offsets" DAMAGED},
        {"{" A("F32", "1", "-4", "0") "}", 4, "tensor 'a' lies from byte -4 to 0" DAMAGED},
        {"{" A("F32", "1", "4", "0") "}", 4, "tensor 'a' lies from byte 4 to 0" DAMAGED},
        {"{" A("F32", "2", "0", "8") "}", 4,
         "tensor 'a' ends at byte 8 of 4 bytes of data; the file is cut off or damaged"},
        {"{" A("F32", "2", "0", "4") "}", 4,
         "tensor 'a' has 4 bytes where its shape and dtype need 8" DAMAGED},
        {"{" A("F32", "1", "0", "4") "," B("F32", "1", "2", "6") "}", 6,
         "tensor 'b' overlaps 'a'" DAMAGED},
        {"{" A("F32", "1", "0", "4") "," B("F32", "1", "0", "4") "}", 4,
         "tensor 'b' overlaps 'a'" DAMAGED},
        {"{" A("F32", "1", "0", "4") "," B("F32", "1", "6", "10") "}", 10,
         "tensor 'b' has 2 bytes of no tensor before it" DAMAGED},
        {"{" A("F32", "1", "3", "7") "}", 7,
         "tensor 'a' has 3 bytes of no tensor before it" DAMAGED},
        {"{" A("F32", "1", "0", "4") "}", 9, "5 bytes of no tensor at its end" DAMAGED},
        {"{}", 1, "1 bytes of no tensor at its end" DAMAGED},
        {"{\"__metadata__\":[]}", 0, "'__metadata__' is not a mapping of texts to texts" DAMAGED},
        {"{\"__metadata__\":{\"a\":1}}", 0,
         "'__metadata__' is not a mapping of texts to texts" DAMAGED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(cases[i].header, strlen(cases[i].header), cases[i].data_bytes,
                       cases[i].wanted);
    expect_refused("{}\0", 3, 0, "its header is not JSON at byte 2: text after the end" DAMAGED);
}

static void refuses_long_names_and_deep_values(void **state)
{
    (void)state;
    static char header[200000];
    char name[257], wanted[400];
    memset(name, 'n', 256);
    name[256] = '\0';
    snprintf(header, sizeof header, "{\"%s\":1}", name);
    snprintf(wanted, sizeof wanted, "tensor '%.100s...' has a name of 256 bytes, of at most 255",
             name);
    expect_refused(header, strlen(header), 0, wanted);
    snprintf(header, sizeof header, "{\"%s\":1}", name + 1);
    snprintf(wanted, sizeof wanted, "tensor '%.100s...' is described by no mapping" DAMAGED, name);
    expect_refused(header, strlen(header), 0, wanted);
    memset(header, '[', 100000);
    memcpy(header, "{\"a\":", 5);
    expect_refused(header, 100000, 0,
                   "its header is not JSON at byte 2052: values nested too deeply" DAMAGED);
}

/* ---- Files ---- */

static void write_file(const void *data, size_t bytes)
{
    snprintf(path, sizeof path, "%s/f.safetensors", folder);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void expect_unopened(enum sw_status status, const char *wanted)
{
    struct sw_safetensors out;
    struct sw_error err = {0};
    char said[SW_ERROR_TEXT_BYTES], line[5000], *raw = NULL;
    assert_int_equal(sw_safetensors_open(path, &out, &raw, &err), -1);
    snprintf(line, sizeof line, "%s: error: %s", path, wanted);
    assert_string_equal(sw_error_format(&err, NULL, said), line);
    assert_int_equal(err.status, status);
    assert_null(raw);
}

static void opens_files(void **state)
{
    (void)state;
    static const char header[] = "{" A("F32", "2", "0", "8") "}  ";
    char data[8 + sizeof header - 1 + 8] = {(char)(sizeof header - 1)}, *raw = NULL;
    const size_t begin = 8 + sizeof header - 1;
    struct sw_safetensors f;
    struct sw_error err = {0};
    memcpy(data + 8, header, sizeof header - 1);
    write_file(data, sizeof data);
    if (sw_safetensors_open(path, &f, &raw, &err) != 0)
        fail_msg("%s", err.message);
    assert_int_equal(f.data_begin, begin);
    assert_int_equal(f.file_bytes, sizeof data);
    assert_memory_equal(raw, data, begin);
    free(raw);
    sw_safetensors_free(&f);
    /* Cut off anywhere, it is refused. */
    for (size_t bytes = 0; bytes < sizeof data; bytes++) {
        char wanted[300];
        write_file(data, bytes);
        if (bytes < 8)
            snprintf(wanted, sizeof wanted,
                     "has %zu bytes, and a safetensors file begins with 8; it is cut off or not a "
                     "safetensors file",
                     bytes);
        else if (bytes < begin)
            snprintf(wanted, sizeof wanted,
                     "ends within its header, after %zu of %zu bytes; it is cut off or damaged",
                     bytes - 8, begin - 8);
        else
            snprintf(wanted, sizeof wanted,
                     "tensor 'a' ends at byte 8 of %zu bytes of data; the file is cut off or "
                     "damaged",
                     bytes - begin);
        expect_unopened(SW_BAD_INPUT, wanted);
    }
}

static void does_not_open_what_is_none(void **state)
{
    (void)state;
    static const unsigned char large[8] = {1, 0xe1, 0xf5, 5},
                               all[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    write_file(large, 8);
    expect_unopened(SW_BAD_INPUT, "has a header of 100000001 bytes, of at most 100000000" DAMAGED);
    write_file(all, 8);
    expect_unopened(SW_BAD_INPUT,
                    "has a header of 18446744073709551615 bytes, of at most 100000000" DAMAGED);
    snprintf(path, sizeof path, "%s/absent", folder);
    expect_unopened(SW_BAD_INPUT, "cannot be read: No such file or directory");
    snprintf(path, sizeof path, "%s/.", folder);
    expect_unopened(SW_BAD_INPUT, "is not a regular file");
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_unopened(SW_BAD_INPUT, "is not a regular file");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_headers), cmocka_unit_test(refuses),
                                       cmocka_unit_test(refuses_long_names_and_deep_values),
                                       cmocka_unit_test(opens_files),
                                       cmocka_unit_test(does_not_open_what_is_none)};
    snprintf(folder, sizeof folder, "%s/safetensors.XXXXXX", argc > 1 ? argv[1] : ".");
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[4096];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) != 0 || failed != 0;
}
