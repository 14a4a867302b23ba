/* Manifests: what is written is read, what anybody else wrote is refused in a line, and a
 * checkpoint in which anything changed is found out.
 *
 *   test_manifest FOLDER */
#include "tests/unit/store_support.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <cmocka.h>

static char folder[2048], checkpoint[2100];

static struct sw_manifest sample(void)
{
    struct sw_manifest m = {.step = 500,
                            .idle_steps = 7,
                            .next_sequence = INT64_C(9007199254740993), /* no double */
                            .attempt = 2,
                            .seed = UINT64_MAX,
                            .plan_digest = 0x1234,
                            .run = "run \"one\"",
                            .optimizer = "adamw",
                            .data_path = "/data/w\xc3\xb6rter.bin",
                            .data_holdout = 0.1 + 0.2,
                            .data_tokens = 1000,
                            .sequence_length = 32,
                            .global_batch_size = 8,
                            .total_steps = 1000,
                            .mesh = "1,2,2,2",
                            .finished = true,
                            .slice_bytes = 100};
    struct sw_manifest_file *file;
    assert_int_equal(sw_manifest_add(&m, "config.json", 0, 0, NULL, NULL), 0);
    assert_int_equal(sw_manifest_add(&m, "model.safetensors", 512, 120, &file, NULL), 0);
    for (int32_t i = 0; i < file->slice_count; i++)
        file->slice[i] = sw_checksum_of(&i, sizeof i);
    assert_int_equal(sw_manifest_add(&m, "optimizer/exp_avg.safetensors", 8, 8, NULL, NULL), 0);
    return m;
}

static void write_text(const struct sw_manifest *m, char **text, size_t *bytes)
{
    struct sw_error err = {0};
    if (sw_manifest_text(m, text, bytes, &err) != 0)
        fail_msg("%s", err.message);
}

/* ---- Checksums and slices ---- */

static void checksums(void **state)
{
    (void)state;
    /* of xxHash's own tests: XXH3_128bits of no bytes, seed 0 */
    const struct sw_checksum nothing = {.low = 0x6001c324468d497f, .high = 0x99aa06d3014798d8};
    char data[5000];
    assert_true(sw_checksum_equal(sw_checksum_of(NULL, 0), nothing));
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 31);
    struct sw_checksum_stream *stream = sw_checksum_begin();
    assert_non_null(stream);
    for (int again = 0; again < 2; again++) {
        for (size_t at = 0, part = 1; at < sizeof data; at += part, part = part * 2 + 1)
            sw_checksum_add(stream, data + at, at + part < sizeof data ? part : sizeof data - at);
        assert_true(sw_checksum_equal(sw_checksum_take(stream), sw_checksum_of(data, sizeof data)));
    }
    assert_true(sw_checksum_equal(sw_checksum_take(stream), nothing));
    assert_false(sw_checksum_equal(nothing, (struct sw_checksum){.low = nothing.low}));
    assert_false(sw_checksum_equal(nothing, (struct sw_checksum){.high = nothing.high}));
    sw_checksum_free(stream);
    sw_checksum_free(NULL);
}

static void slices_cover_a_file_once(void **state)
{
    (void)state;
    enum { SLICE = 10 };
    for (int64_t data_begin = 0; data_begin <= 35; data_begin++)
        for (int64_t bytes = data_begin; bytes <= 45; bytes++) {
            const int32_t count = sw_manifest_slices(bytes, data_begin, SLICE);
            int64_t at = 0;
            assert_true(count >= 1);
            for (int32_t i = 0; i < count; i++) {
                int64_t begin, end;
                sw_manifest_slice(bytes, data_begin, SLICE, i, &begin, &end);
                assert_int_equal(begin, at);
                assert_true(end > begin || (i == 0 && bytes == 0));
                if (i == 0)
                    assert_int_equal(end, data_begin == 0 ? bytes : data_begin);
                else
                    assert_int_equal(begin / SLICE, (end - 1) / SLICE);
                at = end;
            }
            assert_int_equal(at, bytes);
        }
    int64_t begin, end;
    sw_manifest_slice(INT64_MAX, INT64_MAX - 5, INT64_MAX - 9, 1, &begin, &end);
    assert_int_equal(begin, INT64_MAX - 5);
    assert_int_equal(end, INT64_MAX);
}

/* ---- Text ---- */

/* The model that adapters stand on is said of adapters alone, by path and digest together. */
static void adapters_name_their_model(void **state)
{
    (void)state;
    struct sw_manifest m = sample(), read;
    struct sw_error err = {0};
    size_t bytes;
    char *text;
    write_text(&m, &text, &bytes);
    assert_null(strstr(text, "base_"));
    free(text);
    snprintf(m.base_path, sizeof m.base_path, "/models/one");
    m.base_digest = UINT64_C(0xfedcba9876543210);
    write_text(&m, &text, &bytes);
    assert_int_equal(sw_manifest_parse("m", text, bytes, &read, &err), 0);
    assert_string_equal(read.base_path, "/models/one");
    assert_true(read.base_digest == m.base_digest);
    sw_manifest_free(&read);
    sw_manifest_free(&m);
    free(text);
}

static void reads_what_it_writes(void **state)
{
    (void)state;
    struct sw_manifest m = sample(), read;
    size_t bytes, again_bytes;
    struct sw_error err = {0};
    char *text, *again;
    write_text(&m, &text, &bytes);
    assert_int_equal(sw_manifest_parse("m", text, bytes, &read, &err), 0);
    assert_int_equal(read.step, 500);
    assert_int_equal(read.next_sequence, INT64_C(9007199254740993));
    assert_int_equal(read.idle_steps, 7);
    assert_int_equal(read.attempt, 2);
    assert_true(read.seed == UINT64_MAX && read.plan_digest == 0x1234);
    assert_string_equal(read.run, "run \"one\"");
    assert_string_equal(read.optimizer, "adamw");
    assert_string_equal(read.data_path, "/data/w\xc3\xb6rter.bin");
    assert_true(read.data_holdout == 0.1 + 0.2);
    assert_int_equal(read.data_tokens, 1000);
    assert_int_equal(read.sequence_length, 32);
    assert_int_equal(read.global_batch_size, 8);
    assert_int_equal(read.total_steps, 1000);
    assert_string_equal(read.mesh, "1,2,2,2");
    assert_true(read.finished);
    assert_int_equal(read.slice_bytes, 100);
    assert_int_equal(read.file_count, 3);
    const struct sw_manifest_file *model = sw_manifest_find(&read, "model.safetensors");
    assert_ptr_equal(model, &read.file[1]);
    assert_int_equal(model->slice_count, 6);
    for (int32_t i = 0; i < 6; i++)
        assert_true(sw_checksum_equal(model->slice[i], sw_checksum_of(&i, sizeof i)));
    assert_null(sw_manifest_find(&read, "model"));
    write_text(&read, &again, &again_bytes);
    assert_int_equal(bytes, again_bytes);
    assert_memory_equal(text, again, bytes);
    sw_manifest_free(&read);
    sw_manifest_free(&read);
    sw_manifest_free(NULL);

    snprintf(m.data_path, sizeof m.data_path, "/data/w\xf6rter"); /* no UTF-8: shown */
    free(text);
    write_text(&m, &text, &bytes);
    assert_int_equal(sw_manifest_parse("m", text, bytes, &read, &err), 0);
    assert_string_equal(read.data_path, "/data/w?rter");
    sw_manifest_free(&read);
    sw_manifest_free(&m);
    free(text);
    free(again);
}

static void expect_refused(const char *text, size_t bytes, const char *message)
{
    struct sw_manifest read;
    struct sw_error err = {0};
    assert_int_equal(sw_manifest_parse("a/manifest.json", text, bytes, &read, &err), -1);
    assert_int_equal(err.status, SW_BAD_INPUT);
    assert_string_equal(err.file, "a/manifest.json");
    assert_string_equal(err.message, message);
    assert_null(read.file);
}

/* The sample's text with one part replaced, and with its own checksum again. */
static void expect_refused_with(const char *part, const char *other, const char *message)
{
    struct sw_manifest m = sample();
    size_t bytes;
    char *text, *changed, sum[40];
    write_text(&m, &text, &bytes);
    const char *tail = strstr(text, ",\n  \"checksum\""), *at = strstr(text, part);
    assert_true(tail != NULL && at != NULL);
    const int head = asprintf(&changed, "%.*s%s%.*s", (int)(at - text), text, other,
                              (int)(tail - at - (ptrdiff_t)strlen(part)), at + strlen(part));
    assert_true(head > 0);
    const struct sw_checksum own = sw_checksum_of(changed, (size_t)head);
    free(text);
    snprintf(sum, sizeof sum, "%016" PRIx64 "%016" PRIx64, own.high, own.low);
    const int all = asprintf(&text, "%s,\n  \"checksum\": \"%s\"\n}\n", changed, sum);
    expect_refused(text, (size_t)all, message);
    free(text);
    free(changed);
    sw_manifest_free(&m);
}

/* A manifest says something of spikes only where a run is watched for them. */
static void keeps_spikes(void **state)
{
    (void)state;
    struct sw_manifest m = sample(), read;
    struct sw_error err = {0};
    size_t bytes;
    char *text;
    write_text(&m, &text, &bytes);
    assert_null(strstr(text, "spikes"));
    assert_int_equal(sw_manifest_parse("m", text, bytes, &read, &err), 0);
    assert_false(read.spikes.watched);
    sw_manifest_free(&read);
    free(text);
    m.spikes = (struct sw_spikes){.watched = true,
                                  .seen = 7,
                                  .loss_mean = 0.1 + 0.2,
                                  .loss_variance = 0x1.fffffffffffffp-3,
                                  .norm_mean = 1e300,
                                  .norm_variance = 5e-324,
                                  .skips = 3,
                                  .skips_in_a_row = 2,
                                  .rewinds = 1};
    write_text(&m, &text, &bytes);
    assert_int_equal(sw_manifest_parse("m", text, bytes, &read, &err), 0);
    const struct sw_spikes *a = &m.spikes, *b = &read.spikes;
    assert_true(b->watched && a->seen == b->seen && a->loss_mean == b->loss_mean &&
                a->loss_variance == b->loss_variance && a->norm_mean == b->norm_mean &&
                a->norm_variance == b->norm_variance && a->skips == b->skips &&
                a->skips_in_a_row == b->skips_in_a_row && a->rewinds == b->rewinds);
    sw_manifest_free(&read);
    free(text);
    m.spikes.loss_variance = -1;
    write_text(&m, &text, &bytes);
    expect_refused(text, bytes, "its 'spikes' is invalid");
    free(text);
    sw_manifest_free(&m);
}

static void refuses_what_is_none(void **state)
{
    (void)state;
    static const char
        cut[] = "no checksum at its end; it is not a manifest, or it was cut off",
        twice[] = "it is not JSON from line 4 on",
        size[] = "entry 1 of its 'files' has a size that does not fit its checksums",
        name[] = "entry 0 of its 'files' has a name that is not that of a checkpoint's file";
    struct sw_manifest m = sample();
    size_t bytes;
    char *text;
    write_text(&m, &text, &bytes);
    expect_refused("", 0, cut);
    expect_refused("{}", 2, cut);
    for (size_t end = 0; end < bytes; end++)
        expect_refused(text, end, cut);
    for (size_t i = 0; i < bytes * 8; i++) { /* every bit */
        struct sw_manifest read;
        text[i / 8] ^= (char)(1 << i % 8);
        assert_int_equal(sw_manifest_parse("m", text, bytes, &read, NULL), -1);
        text[i / 8] ^= (char)(1 << i % 8);
    }
    text[20] ^= 1;
    expect_refused(text, bytes, "its own checksum is wrong; it was changed or damaged");
    free(text);
    sw_manifest_free(&m);

    expect_refused_with("checkpoint/1", "checkpoint/2",
                        "its schema is not 'shardwright.checkpoint/1'; it was written by another "
                        "version");
    expect_refused_with("\"step\"", "\"run\"", twice);
    expect_refused_with("\"step\"", "\"steps\"", "its 'step' is missing or invalid");
    expect_refused_with("\"step\": 500", "\"step\": -1", "its 'step' is missing or invalid");
    expect_refused_with("\"step\": 500", "\"step\": 1.5", "its 'step' is missing or invalid");
    expect_refused_with("\"step\": 500", "\"step\": 9223372036854775808",
                        "it is not JSON from line 4 on");
    expect_refused_with("\"step\": 500", "\"more\": 1, \"step\": 500",
                        "it has keys that a manifest does not have");
    expect_refused_with("\"idle_steps\": 7", "\"idle_steps\": 501", "its 'idle_steps' is invalid");
    expect_refused_with("\"idle_steps\": 7", "\"idle_steps\": 0", "its 'idle_steps' is invalid");
    expect_refused_with("ffffffffffffffff", "Ffffffffffffffff", "its 'seed' is missing or invalid");
    expect_refused_with("ffffffffffffffff", "fffffffffffffff", "its 'seed' is missing or invalid");
    expect_refused_with("true", "1", "its 'finished' is missing or invalid");
    expect_refused_with("1,2,2,2",
                        "1,2,2,2,1,2,2,2,1,2,2,2,1,2,2,2,1,2,2,2,1,2,2,2,1,2,2,2,1,2,2,2,1,2,2,2",
                        "its 'mesh' is missing or invalid");
    expect_refused_with("\"data_holdout\": ", "\"data_holdout\": null, \"x\": ",
                        "its 'data_holdout' is missing or invalid");
    expect_refused_with("\"slice_bytes\": 100", "\"slice_bytes\": 0",
                        "its 'slice_bytes' is missing or invalid");
    expect_refused_with("\"slice_bytes\": 100", "\"slice_bytes\": 1", size);
    expect_refused_with("\"slice_bytes\": 100", "\"slice_bytes\": 1000", size);
    expect_refused_with("\"bytes\": 512", "\"bytes\": 9223372036854775807", size);
    expect_refused_with("\"bytes\": 512", "\"bytes\": 119", size);
    expect_refused_with("\"files\": [", "\"files\": [1, ", "entry 0 of its 'files' is none");
    expect_refused_with("\"name\"", "\"names\"", "entry 0 of its 'files' is none");
    expect_refused_with("\"checksums\": \"", "\"checksums\": \"g",
                        "entry 0 of its 'files' has a size that does not fit its checksums");
    expect_refused_with("\"checksums\": \"0", "\"checksums\": \"g",
                        "entry 0 of its 'files' has an invalid checksum");
    expect_refused_with("\"optimizer/exp_avg.safetensors\"", "\"config.json\"",
                        "its 'files' have 'config.json' twice");
    static const char *const names[] = {
        "../config.json", "/etc/passwd",    "..",           ".",        "",
        "optimizer/",     "optimizer/../x", "optimizer/.x", "a/b",      "manifest.json",
        "a\\\\b",         "a\\u001bb",      "a\\u0085b",    "a\\u0000b"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char quoted[64];
        snprintf(quoted, sizeof quoted, "\"%s\"", names[i]);
        expect_refused_with("\"config.json\"", quoted,
                            strstr(names[i], "0000") != NULL ? "it is not JSON from line 22 on"
                                                             : name);
    }
}

static void refuses_files_that_do_not_fit(void **state)
{
    (void)state;
    struct sw_manifest m = {.slice_bytes = 10};
    struct sw_error err = {0};
    assert_int_equal(sw_manifest_add(&m, "a", 5, 0, NULL, &err), 0);
    assert_int_equal(sw_manifest_add(&m, "a", 5, 0, NULL, &err), -1);
    assert_string_equal(err.message, "a checkpoint cannot have a second file 'a'");
    assert_int_equal(err.status, SW_BAD_INPUT);
    err = (struct sw_error){0};
    assert_int_equal(sw_manifest_add(&m, "../a", 5, 0, NULL, &err), -1);
    assert_string_equal(err.message, "a checkpoint cannot have a file '../a'");
    err = (struct sw_error){0};
    assert_int_equal(sw_manifest_add(&m, "b", 5, 6, NULL, &err), -1);
    assert_string_equal(err.message,
                        "the file 'b' of 5 bytes, data from 6, does not fit slices of 10");
    assert_int_equal(sw_manifest_add(&m, "b", INT64_MAX, 1, NULL, NULL), -1);
    assert_int_equal(sw_manifest_add(&m, "b", 30000000000, 1, NULL, NULL), -1);
    assert_int_equal(m.file_count, 1);
    sw_manifest_free(&m);
}

/* ---- A checkpoint on the disk ---- */

static char *path_in(const char *name)
{
    char *path = sw_path_join(checkpoint, name);
    assert_non_null(path);
    return path;
}

static void expect_found(const char *name, const char *message)
{
    struct sw_manifest manifest;
    struct sw_error err = {0};
    char *path = path_in(name);
    assert_int_equal(sw_checkpoint_verify(checkpoint, &manifest, &err), -1);
    assert_string_equal(err.message, message);
    assert_string_equal(err.file, path);
    assert_int_equal(err.status, SW_BAD_INPUT);
    assert_null(manifest.file);
    free(path);
}

static int save_one(void **state)
{
    (void)state;
    char command[2200];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0)
        return -1;
    return small_save(folder, 7, 1, 1, 0, NULL, NULL);
}

static void a_whole_one_is_whole(void **state)
{
    (void)state;
    struct sw_manifest manifest;
    struct sw_error err = {0};
    int64_t step, generation;
    assert_true(small_check(checkpoint, &step, &generation));
    assert_int_equal(step, 7);
    char *nfs = path_in(".nfs0000001");
    assert_int_equal(sw_file_write(nfs, "x", 1, 0666, NULL), 0);
    assert_int_equal(sw_checkpoint_verify(checkpoint, &manifest, &err), 0);
    assert_int_equal(manifest.file_count, SMALL_FILES);
    sw_manifest_free(&manifest);
    free(nfs);
}

/* Each byte of each file, and in it a bit. */
static void finds_every_changed_byte(void **state)
{
    (void)state;
    for (int32_t i = 0; i <= SMALL_FILES; i++) {
        const char *name = i < SMALL_FILES ? small_files[i].name : SW_MANIFEST_NAME;
        char *path = path_in(name), *text;
        size_t bytes;
        struct sw_manifest manifest;
        assert_int_equal(sw_file_read(path, true, 1 << 20, &text, &bytes, NULL), 0);
        FILE *file = fopen(path, "r+");
        assert_non_null(file);
        for (size_t at = 0; at < bytes; at++) {
            struct sw_error err = {0};
            fseek(file, (long)at, SEEK_SET);
            fputc(text[at] ^ 1 << at % 8, file);
            fflush(file);
            assert_int_equal(sw_checkpoint_verify(checkpoint, &manifest, &err), -1);
            assert_string_equal(err.file, path);
            fseek(file, (long)at, SEEK_SET);
            fputc(text[at], file);
            fflush(file);
        }
        fclose(file);
        assert_int_equal(sw_checkpoint_verify(checkpoint, &manifest, NULL), 0);
        sw_manifest_free(&manifest);
        free(path);
        free(text);
    }
}

static void change(const char *name, long at)
{
    char *path = path_in(name);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    fseek(file, at, SEEK_SET);
    const int byte = fgetc(file);
    fseek(file, at, SEEK_SET);
    fputc(byte ^ 0x10, file);
    fclose(file);
    free(path);
}

static void says_which_bytes(void **state)
{
    (void)state;
    static const struct {
        int32_t file;
        long at;
        const char *message;
    } cases[] = {
        {0, 3, "bytes 0 to 70 are not what was written: their checksum is wrong"},
        {1, 95, "bytes 0 to 96 are not what was written: their checksum is wrong"},
        {1, 96, "bytes 96 to 256 are not what was written: their checksum is wrong"},
        {1, 256, "bytes 256 to 512 are not what was written: their checksum is wrong"},
        {2, 1499, "bytes 1280 to 1500 are not what was written: their checksum is wrong"},
        {3, 399, "bytes 256 to 400 are not what was written: their checksum is wrong"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        change(small_files[cases[i].file].name, cases[i].at);
        expect_found(small_files[cases[i].file].name, cases[i].message);
        change(small_files[cases[i].file].name, cases[i].at);
    }
    change(SW_MANIFEST_NAME, 100);
    expect_found(SW_MANIFEST_NAME, "its own checksum is wrong; it was changed or damaged");
}

static void finds_what_is_missing_or_too_much(void **state)
{
    (void)state;
    const char *name = small_files[3].name;
    char *path = path_in(name), *more = path_in("model.safetensors"),
         *below = path_in("optimizer/x"), *manifest = path_in(SW_MANIFEST_NAME);
    struct sw_manifest read;
    struct sw_error err = {0};
    assert_int_equal(truncate(path, 399), 0);
    expect_found(name, "it has 399 bytes, not 400");
    assert_int_equal(truncate(path, 401), 0);
    expect_found(name, "it has 401 bytes, not 400");
    assert_int_equal(unlink(path), 0);
    expect_found(name, "it is missing");
    assert_int_equal(mkdir(path, 0777), 0);
    expect_found(name, "it is not a regular file");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0666), 0);
    expect_found(name, "it is not a regular file");
    assert_int_equal(save_one(NULL), 0);
    assert_int_equal(sw_file_write(more, "x", 1, 0666, NULL), 0);
    expect_found("model.safetensors", "it is not a file of this checkpoint");
    assert_int_equal(unlink(more), 0);
    assert_int_equal(mkdir(below, 0777), 0);
    expect_found("optimizer/x", "it is not a file of this checkpoint");
    assert_int_equal(rmdir(below), 0);
    assert_int_equal(sw_checkpoint_verify(checkpoint, &read, &err), 0);
    sw_manifest_free(&read);
    assert_int_equal(unlink(manifest), 0);
    expect_found(SW_MANIFEST_NAME, "it is missing; a folder without it is not a checkpoint");
    assert_int_equal(mkdir(manifest, 0777), 0);
    expect_found(SW_MANIFEST_NAME, "cannot read it: Is a directory");
    free(path);
    free(more);
    free(below);
    free(manifest);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums),
        cmocka_unit_test(slices_cover_a_file_once),
        cmocka_unit_test(keeps_spikes),
        cmocka_unit_test(reads_what_it_writes),
        cmocka_unit_test(adapters_name_their_model),
        cmocka_unit_test(refuses_what_is_none),
        cmocka_unit_test(refuses_files_that_do_not_fit),
        cmocka_unit_test_setup(a_whole_one_is_whole, save_one),
        cmocka_unit_test_setup(finds_every_changed_byte, save_one),
        cmocka_unit_test_setup(says_which_bytes, save_one),
        cmocka_unit_test_setup(finds_what_is_missing_or_too_much, save_one),
    };
    if (argc != 2)
        return 2;
    snprintf(folder, sizeof folder, "%s/manifest", argv[1]);
    snprintf(checkpoint, sizeof checkpoint, "%s/step-000007", folder);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
