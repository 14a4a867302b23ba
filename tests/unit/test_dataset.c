/* Token data: every form of file, every message, and which sequences a step reads. */
#include "runner/text/tokenize_files.h"
#include "core/base/token_file.h"
#include "core/plan/data_file.h"
#include "runner/train/dataset.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

enum { MAGIC = 20240520, MAGIC_LLAMA_3 = 20240801, SEQUENCE = 16 };

static char folder[2048]; /* made for this run, set by main */
static char path[4096];

static void write_file(const char *name, const void *data, size_t bytes)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* count tokens of `width` bytes, token i being i, after an llm.c header when version is not 0. */
static void write_tokens(const char *name, int32_t version, int32_t header_count, int32_t count,
                         int32_t width)
{
    const size_t head = version != 0 ? 1024 : 0;
    unsigned char *data = calloc(1, head + (size_t)(count * width) + 1);
    assert_non_null(data);
    const int32_t words[3] = {width == 4 ? MAGIC_LLAMA_3 : MAGIC, version, header_count};
    if (version != 0)
        memcpy(data, words, sizeof words);
    for (int32_t i = 0; i < count; i++)
        for (int32_t b = 0; b < width; b++)
            data[head + (size_t)(i * width + b)] = (unsigned char)(i >> (8 * b));
    write_file(name, data, head + (size_t)(count * width));
    free(data);
}

static bool is_bytes(void)
{
    return sw_data_is_bytes(&(struct sw_run_config){.data_path = path});
}

static int open_data(double holdout, uint64_t seed, int64_t vocab, struct sw_dataset **out,
                     struct sw_error *err)
{
    const char *const files[] = {path};
    const struct sw_dataset_source source = {files, 1};
    return sw_dataset_open(&(struct sw_dataset_options){.source = &source,
                                                        .sources = 1,
                                                        .is_bytes = is_bytes(),
                                                        .holdout = holdout,
                                                        .seed = seed,
                                                        .document_end = -1,
                                                        .vocab_size = vocab,
                                                        .sequence_length = SEQUENCE},
                           out, err);
}

static struct sw_dataset *open_good(double holdout, uint64_t seed, int64_t vocab)
{
    struct sw_dataset *data = NULL;
    struct sw_error err = {0};
    if (open_data(holdout, seed, vocab, &data, &err) != 0)
        fail_msg("%s", err.message);
    return data;
}

/* The message must be PATH followed by `rest`, or `head` PATH `rest`. */
static void expect_message(const struct sw_error *err, enum sw_status status, const char *head,
                           const char *rest)
{
    char wanted[5000];
    snprintf(wanted, sizeof wanted, "%s%s%s", head, path, rest);
    char said[SW_ERROR_TEXT_BYTES];
    assert_string_equal(sw_error_format(err, NULL, said), wanted);
    assert_int_equal(err->status, status);
}

static void expect_no_open(int64_t vocab, enum sw_status status, const char *head, const char *rest)
{
    struct sw_dataset *data = NULL;
    struct sw_error err = {0};
    assert_int_equal(open_data(0, 1, vocab, &data, &err), -1);
    assert_null(data);
    expect_message(&err, status, head, rest);
}

/* Tokens and labels of a training sequence are consecutive; returns the first. */
static int64_t window_start(struct sw_dataset *data, int64_t sequence)
{
    int32_t tokens[SEQUENCE], labels[SEQUENCE];
    struct sw_error err = {0};
    assert_int_equal(
        sw_dataset_train(data, sequence, &(struct sw_row){tokens, labels, NULL, NULL}, &err), 0);
    for (int32_t i = 0; i < SEQUENCE; i++) {
        assert_int_equal(tokens[i], tokens[0] + i);
        assert_int_equal(labels[i], tokens[i] + 1);
    }
    return tokens[0];
}

static void test_forms(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t version, width;
        int64_t vocab;
    } forms[] = {{"v1.bin", 1, 2, 2000},
                 {"v7.bin", 7, 4, 2000},
                 {"plain16.bin", 0, 2, 65536},
                 {"plain32.bin", 0, 4, 65537}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        write_tokens(forms[i].name, forms[i].version, 1000, 1000, forms[i].width);
        struct sw_dataset *data = open_good(0.1, 1, forms[i].vocab);
        assert_int_equal(sw_dataset_train_tokens(data), 900);
        assert_int_equal(sw_dataset_holdout_tokens(data), 100);
        assert_false(sw_dataset_is_bytes(data));
        for (int64_t s = 0; s < 200; s++)
            assert_in_range(window_start(data, s), 0, 900 - SEQUENCE - 1);
        sw_dataset_close(data);
    }
    unsigned char bytes[256];
    for (int32_t i = 0; i < 256; i++)
        bytes[i] = (unsigned char)i;
    write_file("text", bytes, sizeof bytes);
    struct sw_dataset *data = open_good(0, 1, 256);
    assert_true(sw_dataset_is_bytes(data));
    assert_int_equal(sw_dataset_train_tokens(data), 256);
    for (int64_t s = 0; s < 15; s++)
        assert_in_range(window_start(data, s), 0, 255 - SEQUENCE);
    sw_dataset_close(data);
}

/* Counts of llm.c's header are the lower 32 bits. */
static void test_large_counts(void **state)
{
    (void)state;
    const int64_t counts[] = {1, UINT32_MAX, INT64_C(1) << 32, (INT64_C(1) << 32) + 5,
                              (INT64_C(7) << 32) + 77};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int32_t width = 2; width <= 4; width += 2) {
            uint32_t head[256] = {MAGIC, width == 2 ? 1 : 7, (uint32_t)counts[i]};
            const int64_t bytes = 1024 + width * counts[i];
            const struct sw_place nowhere = {.file = NULL};
            struct sw_token_form form;
            struct sw_error err = {0};
            assert_int_equal(
                sw_token_form((unsigned char *)head, sizeof head, bytes, 100, nowhere, &form, &err),
                0);
            assert_true(form.tokens == counts[i] && form.width == width);
            assert_int_equal(sw_token_form((unsigned char *)head, sizeof head, bytes + width, 100,
                                           nowhere, &form, &err),
                             -1);
            assert_int_equal(sw_token_form((unsigned char *)head, sizeof head, bytes + 1, 100,
                                           nowhere, &form, &err),
                             -1);
        }
}

/* Every epoch reads each window once, in another order and from another offset. */
static void test_epochs_cover(void **state)
{
    (void)state;
    enum { TOKENS = 2000, WINDOWS = (TOKENS - 1) / SEQUENCE, EPOCHS = 4 };
    write_tokens("cover.bin", 7, TOKENS, TOKENS, 4);
    struct sw_dataset *data = open_good(0, 9, 1 << 20), *again = open_good(0, 9, 1 << 20),
                      *other = open_good(0, 10, 1 << 20);
    int32_t as_before = 0, as_other = 0, in_file_order = 0;
    for (int32_t epoch = 0; epoch < EPOCHS; epoch++) {
        bool seen[WINDOWS] = {false};
        const int64_t offset = window_start(data, (int64_t)epoch * WINDOWS) % SEQUENCE;
        for (int32_t i = 0; i < WINDOWS; i++) {
            const int64_t sequence = (int64_t)epoch * WINDOWS + i;
            const int64_t start = window_start(data, sequence);
            assert_int_equal(start % SEQUENCE, offset);
            assert_in_range(start / SEQUENCE, 0, WINDOWS - 1);
            assert_false(seen[start / SEQUENCE]);
            seen[start / SEQUENCE] = true;
            assert_int_equal(window_start(again, sequence), start);
            as_other += window_start(other, sequence) / SEQUENCE == start / SEQUENCE;
            as_before +=
                epoch > 0 && window_start(data, sequence - WINDOWS) / SEQUENCE == start / SEQUENCE;
            in_file_order += start / SEQUENCE == i;
        }
    }
    /* A random permutation keeps one element in its place on average (variance 1): four of them
     * keep more than 4 + 5 * 2 once in a million. */
    assert_true(as_other <= 14);
    assert_true(as_before <= 14);
    assert_true(in_file_order <= 14);
    sw_dataset_close(data);
    sw_dataset_close(again);
    sw_dataset_close(other);
}

static void test_holdout(void **state)
{
    (void)state;
    int32_t tokens[SEQUENCE], labels[SEQUENCE];
    struct sw_error err = {0};
    write_tokens("holdout.bin", 1, 1000, 1000, 2);
    struct sw_dataset *data = open_good(0.1, 1, 1000);
    assert_int_equal(sw_dataset_holdout_labels(data), 99);
    assert_int_equal(sw_dataset_holdout_sequences(data), 7); /* 6 * 16 = 96 labels, then 3 */
    int32_t next = 900;
    for (int64_t s = 0; s < 9; s++) { /* two more than there are: a batch is filled up */
        assert_int_equal(
            sw_dataset_holdout(data, s, &(struct sw_row){tokens, labels, NULL, NULL}, &err), 0);
        for (int32_t i = 0; i < SEQUENCE; i++) {
            assert_in_range(tokens[i], 0, 999);
            if (next == 999) {
                assert_int_equal(labels[i], -1);
                continue;
            }
            assert_int_equal(tokens[i], next++);
            assert_int_equal(labels[i], next);
        }
    }
    assert_int_equal(next, 999);
    sw_dataset_close(data);
    data = open_good(0, 1, 1000);
    assert_int_equal(sw_dataset_holdout_sequences(data), 0);
    assert_int_equal(sw_dataset_holdout_labels(data), 0);
    sw_dataset_close(data);
}

static void test_bigram(void **state)
{
    (void)state;
    char text[101];
    for (int32_t i = 0; i < 100; i++)
        text[i] = i % 2 == 0 ? 'a' : 'b';
    write_file("ab.txt", text, 100);
    struct sw_dataset *data = open_good(0.1, 1, 256);
    /* 90 characters to count: ab 45 times, ba 44; then ab 5 times, ba 4 */
    const double wanted = -(5 * log2(46.0 / 301.0) + 4 * log2(45.0 / 300.0)) / 9;
    assert_true(fabs(sw_dataset_bigram_bits(data) - wanted) < 16 * 0x1p-52 * wanted);
    sw_dataset_close(data);
}

static void test_token_too_large(void **state)
{
    (void)state;
    int32_t tokens[SEQUENCE], labels[SEQUENCE];
    struct sw_error err = {0};
    write_tokens("large.bin", 0, 0, SEQUENCE + 1, 2); /* one window: 0 .. 16 */
    struct sw_dataset *data = open_good(0, 1, SEQUENCE);
    assert_int_equal(sw_dataset_train(data, 0, &(struct sw_row){tokens, labels, NULL, NULL}, &err),
                     -1);
    expect_message(&err, SW_BAD_INPUT, "",
                   ": error: token 16 at position 16 is not below the model's vocab_size 16; use a "
                   "model made for these tokens, or tokenize again");
    sw_dataset_close(data);
}

static void test_late_token(void **state)
{
    (void)state;
    struct sw_error err = {0};
    write_tokens("late.bin", 0, 0, 60000, 2);
    struct sw_dataset *data = open_good(0.25, 1, 59999);
    for (int64_t part = 0; part < 7; part++)
        assert_int_equal(sw_dataset_check(data, part, 7, &err), part < 6 ? 0 : -1);
    expect_message(&err, SW_BAD_INPUT, "",
                   ": error: token 59999 at position 59999 is not below the model's vocab_size "
                   "59999; use a model made for these tokens, or tokenize again");
    sw_dataset_close(data);
    data = open_good(0.25, 1, 60000);
    for (int64_t part = 0; part < 7; part++)
        assert_int_equal(sw_dataset_check(data, part, 7, &err), 0);
    sw_dataset_close(data);
}

/* Numbers of any width are read as they are, whatever they are: none is taken for another form. */
static void test_drawn_numbers(void **state)
{
    (void)state;
    uint64_t draw = 42;
    unsigned char bytes[8 * 3000];
    for (int32_t i = 0; i < 400; i++) {
        const int32_t width = 2 << (i % 3);
        const int64_t vocab = i % 2 == 0 ? 65536 : width == 2 ? 300 : 150000, count = 500 + 6 * i;
        for (int64_t t = 0; t < count; t++) {
            draw = draw * 6364136223846793005u + 1442695040888963407u;
            const uint64_t token = (draw >> 33) % (uint64_t)(i % 5 == 0 ? 7 : vocab);
            for (int32_t b = 0; b < width; b++)
                bytes[t * width + b] = (unsigned char)(token >> (8 * b));
        }
        write_file("drawn.bin", bytes, (size_t)(count * width));
        const struct sw_run_config run = {.data_path = path,
                                          .model = {.shape = {.vocab_size = vocab}}};
        struct sw_error err = {0};
        if (sw_data_check(&run, &err) != 0)
            fail_msg("draw %d, %d bytes: %s", (int)i, (int)width, err.message);
        struct sw_dataset *data = open_good(0, 1, vocab);
        assert_int_equal(sw_dataset_train_tokens(data), count);
        assert_int_equal(sw_dataset_check(data, 0, 1, &err), 0);
        sw_dataset_close(data);
    }
}

/* Bytes that are gone would end the process by a signal. */
static void test_cut_while_open(void **state)
{
    (void)state;
    int32_t tokens[SEQUENCE], labels[SEQUENCE];
    struct sw_error err = {0};
    write_tokens("cut.bin", 7, 10000, 10000, 4);
    struct sw_dataset *data = open_good(0.5, 1, 10000);
    assert_int_equal(truncate(path, 1), 0);
    assert_int_equal(sw_dataset_train(data, 0, &(struct sw_row){tokens, labels, NULL, NULL}, &err),
                     -1);
    expect_message(&err, SW_ENVIRONMENT, "",
                   ": error: the data file became shorter while it was in use; restore it and "
                   "start again");
    err = (struct sw_error){0};
    assert_int_equal(
        sw_dataset_holdout(data, 0, &(struct sw_row){tokens, labels, NULL, NULL}, &err), -1);
    assert_int_equal(err.status, SW_ENVIRONMENT);
    sw_dataset_close(data);
    write_file("cut.txt", "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz", 52);
    data = open_good(0.5, 1, 256);
    assert_int_equal(truncate(path, 0), 0);
    assert_true(isnan(sw_dataset_bigram_bits(data)));
    sw_dataset_close(data);
}

static void test_refused(void **state)
{
    (void)state;
    write_tokens("version.bin", 3, 100, 100, 2);
    expect_no_open(100, SW_BAD_INPUT, "",
                   ": error: a token file of version 3; write version 1 (uint16) or 7 (uint32)");
    write_tokens("short.bin", 1, 100, 90, 2);
    expect_no_open(
        100, SW_BAD_INPUT, "",
        ": error: the header says 100 tokens, the file holds 90; write or copy it again");
    write_tokens("one.bin", 1, 1, 0, 2);
    expect_no_open(100, SW_BAD_INPUT, "",
                   ": error: the header says 1 token, the file holds 0; write or copy it again");
    write_file("odd.bin", "abc", 3);
    expect_no_open(100, SW_BAD_INPUT, "",
                   ": error: no whole number of 2-byte tokens in 3 bytes; write or copy it again");
    expect_no_open(70000, SW_BAD_INPUT, "",
                   ": error: no whole number of 4-byte tokens in 3 bytes; write or copy it again");
    write_file("few.txt", "0123456789012345", 16);
    expect_no_open(256, SW_BAD_INPUT, "",
                   ": error: 16 tokens to train on, a sequence takes 17; use more data, a smaller "
                   "sequence_length or holdout");
    write_file("one.txt", "a", 1);
    expect_no_open(256, SW_BAD_INPUT, "",
                   ": error: 1 token to train on, a sequence takes 17; use more data, a smaller "
                   "sequence_length or holdout");
    write_file("empty.txt", "", 0);
    expect_no_open(256, SW_BAD_INPUT, "",
                   ": error: the data file is empty; name one with something to train on");
    snprintf(path, sizeof path, "%s", folder);
    expect_no_open(256, SW_BAD_INPUT, "",
                   ": error: the data is a folder; name a text file or a .bin file of tokens");
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0); /* nobody writes to it: not waited for */
    expect_no_open(256, SW_BAD_INPUT, "",
                   ": error: the data is not a regular file; name a text file or a .bin file of "
                   "tokens");
    static const char help[] = "; name one that every node has as data.path in the run file and "
                               "emit the plan again";
    char message[256];
    snprintf(path, sizeof path, "%s/absent.txt", folder);
    snprintf(message, sizeof message,
             ": error: cannot open the data file: No such file or directory%s", help);
    expect_no_open(256, SW_BAD_INPUT, "", message);
    snprintf(path, sizeof path, "%s/few.txt/absent.txt", folder);
    snprintf(message, sizeof message, ": error: cannot open the data file: Not a directory%s",
             help);
    expect_no_open(256, SW_BAD_INPUT, "", message);
    if (geteuid() == 0)
        return; /* root reads everything */
    write_file("secret.txt", "0123456789012345", 16);
    assert_int_equal(chmod(path, 0), 0);
    expect_no_open(256, SW_ENVIRONMENT, "",
                   ": error: cannot open the data file: Permission denied; it must be readable on "
                   "every node");
}

static int tokenize_bytes(const char *from, const char *to, struct sw_error *err)
{
    struct sw_tokenizer *bytes;
    assert_int_equal(sw_tokenizer_bytes(&bytes, err), 0);
    const int status =
        sw_tokenize_files(bytes, &from, 1, to, &(struct sw_tokenize_options){.end = -1}, NULL, err);
    sw_tokenizer_free(bytes);
    return status;
}

static void test_tokenize(void **state)
{
    (void)state;
    char from[4096];
    unsigned char bytes[256];
    struct sw_error err = {0};
    for (int32_t i = 0; i < 256; i++)
        bytes[i] = (unsigned char)i;
    write_file("from.txt", bytes, sizeof bytes);
    snprintf(from, sizeof from, "%s", path);
    snprintf(path, sizeof path, "%s/to.bin", folder);
    assert_int_equal(tokenize_bytes(from, path, &err), 0);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 1024 + 2 * 256);
    struct sw_dataset *data = open_good(0, 1, 256);
    assert_int_equal(sw_dataset_train_tokens(data), 256);
    for (int64_t s = 0; s < 15; s++)
        assert_in_range(window_start(data, s), 0, 255 - SEQUENCE);
    sw_dataset_close(data);

    char to[5000], partial[5200];
    snprintf(to, sizeof to, "%s/never.bin", folder);
    snprintf(partial, sizeof partial, "%s/.never.bin.%ld", folder, (long)getpid());
    snprintf(path, sizeof path, "%s/absent.txt", folder);
    assert_int_equal(tokenize_bytes(path, to, &err), -1);
    expect_message(&err, SW_BAD_INPUT, "",
                   ": error: cannot open the file to tokenize: No such file or directory; name a "
                   "file that exists");
    assert_int_equal(access(to, F_OK), -1);
    assert_int_equal(access(partial, F_OK), -1);
    /* a folder can be opened, not read */
    err = (struct sw_error){0};
    assert_int_equal(tokenize_bytes(folder, to, &err), -1);
    snprintf(path, sizeof path, "%s", folder);
    expect_message(&err, SW_BAD_INPUT, "", ": error: this is a folder; name a file to tokenize");
    assert_int_equal(access(to, F_OK), -1);
    assert_int_equal(access(partial, F_OK), -1);
    write_file("empty.txt", "", 0);
    err = (struct sw_error){0};
    assert_int_equal(tokenize_bytes(path, to, &err), -1);
    expect_message(&err, SW_BAD_INPUT, "", ": error: the file is empty; name one with a text");
    assert_int_equal(access(to, F_OK), -1);
    assert_int_equal(access(partial, F_OK), -1);

    /* its own input is not overwritten, under whatever name */
    write_file("from.txt", bytes, sizeof bytes);
    snprintf(path, sizeof path, "%s/./from.txt", folder);
    err = (struct sw_error){0};
    assert_int_equal(tokenize_bytes(from, path, &err), -1);
    expect_message(&err, SW_BAD_INPUT, "",
                   ": error: this is the file to tokenize; name another one to write");
    assert_int_equal(link(from, partial), 0);
    assert_int_equal(tokenize_bytes(from, to, NULL), 0);
    assert_int_equal(stat(from, &info), 0);
    assert_int_equal(info.st_size, sizeof bytes);
    assert_int_equal(access(partial, F_OK), -1);
    assert_int_equal(unlink(to), 0);

    /* what is there and no file stays what it is: a pipe here, a device of root's elsewhere */
    snprintf(from, sizeof from, "%s/from.txt", folder);
    assert_int_equal(mkfifo(to, 0600), 0);
    err = (struct sw_error){0};
    assert_int_equal(tokenize_bytes(from, to, &err), -1);
    snprintf(path, sizeof path, "%s/never.bin", folder);
    expect_message(&err, SW_BAD_INPUT, "", ": error: not a regular file; name a file to write");
    assert_int_equal(stat(to, &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    assert_int_equal(access(partial, F_OK), -1);
}

/* What does not fit leaves what was there before. */
static void test_tokenize_to_full_disk(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 100, 100000}; /* fails at the end, there, under way */
    unsigned char *bytes = calloc(1, 100000);
    char from[4096], partial[5200], kept[8] = "";
    struct rlimit before, limit;
    assert_non_null(bytes);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        write_file("text.txt", bytes, sizes[i]);
        snprintf(from, sizeof from, "%s", path);
        write_file("kept.bin", "before", 6);
        snprintf(partial, sizeof partial, "%s/.kept.bin.%ld", folder, (long)getpid());
        struct sw_error err = {0};
        limit = before;
        limit.rlim_cur = 1024;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        const int status = tokenize_bytes(from, path, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(status, -1);
        expect_message(&err, SW_ENVIRONMENT, "", ": error: cannot write it: File too large");
        assert_int_equal(access(partial, F_OK), -1);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        assert_int_equal(fread(kept, 1, sizeof kept, file), 6);
        fclose(file);
        assert_memory_equal(kept, "before", 6);
    }
    (void)signal(SIGXFSZ, handler);
    free(bytes);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),          cmocka_unit_test(test_large_counts),
        cmocka_unit_test(test_epochs_cover),   cmocka_unit_test(test_holdout),
        cmocka_unit_test(test_bigram),         cmocka_unit_test(test_token_too_large),
        cmocka_unit_test(test_late_token),     cmocka_unit_test(test_drawn_numbers),
        cmocka_unit_test(test_cut_while_open), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_tokenize),       cmocka_unit_test(test_tokenize_to_full_disk),
    };
    snprintf(folder, sizeof folder, "%s/dataset.XXXXXX", argc > 1 ? argv[1] : ".");
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[4096];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) != 0 || failed != 0;
}
