/* Copies of a model in another dtype: every number, every refusal, and nothing left behind. */
#include "core/base/number.h"
#include "runner/checkpoint/export_command.h"
#include "core/checkpoint/manifest.h"
#include "runner/checkpoint/model_index.h"
#include "runner/checkpoint/convert.h"
#include "tests/unit/model_folder_support.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>

/* ---- Numbers ---- */

static void same_dtype_is_bit_exact(void **state)
{
    (void)state;
    uint16_t *in = malloc(131072), *out = malloc(131072);
    assert_non_null(in);
    assert_non_null(out);
    for (int32_t i = 0; i < 65536; i++)
        in[i] = (uint16_t)i;
    sw_convert_numbers(out, SW_STORED_BF16, in, SW_STORED_BF16, 65536);
    assert_memory_equal(in, out, 131072);
    memset(out, 0, 131072);
    sw_convert_numbers(out, SW_STORED_F16, in, SW_STORED_F16, 65536);
    assert_memory_equal(in, out, 131072);
    free(in);
    free(out);
}

/* Every half survives a stay in f32 and in f64. */
static void wider_and_back_is_bit_exact(void **state)
{
    (void)state;
    static const enum sw_stored_dtype narrow[] = {SW_STORED_BF16, SW_STORED_F16},
                                      wide[] = {SW_STORED_F32, SW_STORED_F64};
    uint16_t *in = malloc(131072), *out = malloc(131072);
    char *between = malloc(65536 * 8 + 1);
    assert_non_null(in);
    assert_non_null(out);
    assert_non_null(between);
    for (int32_t i = 0; i < 65536; i++)
        in[i] = (uint16_t)i;
    for (int n = 0; n < 2; n++)
        for (int w = 0; w < 2; w++) {
            sw_convert_numbers(between + 1, wide[w], in, narrow[n], 65536);
            sw_convert_numbers(out, narrow[n], between + 1, wide[w], 65536);
            for (int32_t i = 0; i < 65536; i++) {
                const bool nan = n == 0 ? (i & 0x7fff) > 0x7f80 : (i & 0x7fff) > 0x7c00;
                const int32_t quiet = n == 0 ? 0x40 : 0x200;
                assert_int_equal(out[i], nan ? i | quiet : i);
            }
        }
    free(in);
    free(out);
    free(between);
}

static void numbers_are_rounded(void **state)
{
    (void)state;
    static const double in[] = {1 + 0x1p-11 + 0x1p-40, -65520, 1e300, 0x1p-25, -0.0};
    static const uint16_t half[] = {0x3c01, 0xfc00, 0x7c00, 0x0000, 0x8000};
    float single[5];
    uint16_t out[5];
    sw_convert_numbers(out, SW_STORED_F16, in, SW_STORED_F64, 5);
    assert_memory_equal(out, half, sizeof half);
    sw_convert_numbers(single, SW_STORED_F32, in, SW_STORED_F64, 5);
    assert_true(single[0] == 1 + 0x1p-11f && single[1] == -65520 && isinf(single[2]));
    sw_convert_numbers(out, SW_STORED_F16, single, SW_STORED_F32, 5);
    assert_int_equal(out[0], 0x3c00); /* the middle, to even */
    sw_convert_numbers(out, SW_STORED_BF16, single, SW_STORED_F32, 5);
    assert_int_equal(out[1], sw_bf16_from_float(-65520));
    sw_convert_numbers(out, SW_STORED_F16, out + 1, SW_STORED_BF16, 1);
    assert_int_equal(out[0], 0xfc00); /* -65536 in bf16 */
}

/* ---- A model to copy ---- */

/* Two shards with every dtype, an odd count before a wide number, an integer and a buffer. */
static void put_model(const char *name, const char *config)
{
    static const char one[] =
        "{\"a\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[0,6]},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[6,22]},"
        "\"n\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[22,30]},"
        "\"x.rotary_emb.inv_freq\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[30,34]}}";
    static const char two[] = "{\"__metadata__\":{\"format\":\"pt\",\"x\":\"y\"},"
                              "\"c\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]},"
                              "\"d\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[4,12]},"
                              "\"e\":{\"dtype\":\"F16\",\"shape\":[0,3],\"data_offsets\":[4,4]}}  ";
    static const uint16_t a[] = {0x3f80, 0x7fc1, 0x0001}, c[] = {0x3c00, 0x0001};
    static const float b[] = {1.5f, 0x1.ffffp0f, -65519, 1e-30f}, inv_freq = 0.1f;
    static const double d = 0.1;
    static const int64_t n = -7;
    char path[300], data[4096] = {0};
    const char *header[2] = {one, two};
    for (int i = 0; i < 2; i++) {
        const size_t length = strlen(header[i]);
        char *at = data + 8 + length;
        memset(data, 0, sizeof data);
        data[0] = (char)length;
        data[1] = (char)(length >> 8);
        memcpy(data + 8, header[i], length);
        if (i == 0) {
            memcpy(at, a, 6);
            memcpy(at + 6, b, 16);
            memcpy(at + 22, &n, 8);
            memcpy(at + 30, &inv_freq, 4);
        } else {
            memcpy(at, c, 4);
            memcpy(at + 4, &d, 8);
        }
        snprintf(path, sizeof path, "%s/model-%05d-of-00002.safetensors", name, i + 1);
        put_file(path, data, 8 + length + (i == 0 ? 34 : 12));
    }
    static const struct sw_index_entry entry[] = {
        {"a", "model-00001-of-00002.safetensors"},
        {"b", "model-00001-of-00002.safetensors"},
        {"n", "model-00001-of-00002.safetensors"},
        {"c", "model-00002-of-00002.safetensors"},
        {"d", "model-00002-of-00002.safetensors"},
        {"e", "model-00002-of-00002.safetensors"},
        {"x.rotary_emb.inv_freq", "model-00001-of-00002.safetensors"}};
    char *index = NULL;
    assert_int_equal(sw_model_index_write(entry, 7, 46, &index, NULL), 0);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", name);
    put_text(path, index);
    free(index);
    snprintf(path, sizeof path, "%s/config.json", name);
    put_text(path, config);
    snprintf(path, sizeof path, "%s/tokenizer.json", name);
    put_text(path, "{\"tokens\": []}");
    snprintf(path, sizeof path, "%s/notes.txt", name);
    put_text(path, "not copied");
}

static const char plain_config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 16, \"hidden_size\": 8, "
    "\"intermediate_size\": 12, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "
    "\"torch_dtype\": \"float16\", \"bos_token_id\": 5}";

static void export_good(const char *from, const char *to, enum sw_stored_dtype dtype)
{
    struct sw_error err = {0};
    char *source = strdup(in_folder(from));
    if (sw_model_export(source, in_folder(to), &(struct sw_export_options){.dtype = dtype}, &err) !=
        0)
        fail_msg("%s: %s", err.file, err.message);
    free(source);
}

/* A tensor of a folder, whatever its file. */
static void expect_tensor(const char *name, const char *tensor, const char *dtype, const void *data,
                          size_t bytes)
{
    struct sw_model_folder f;
    assert_int_equal(sw_model_folder_open(in_folder(name), false, &f, NULL), 0);
    bool found = false;
    for (int32_t i = 0; i < f.count; i++)
        for (int32_t t = 0; t < f.file[i].header.count; t++) {
            const struct sw_safetensor *is = &f.file[i].header.tensor[t];
            char path[500];
            size_t all;
            if (strcmp(is->name, tensor) != 0)
                continue;
            found = true;
            assert_string_equal(is->dtype_name, dtype);
            assert_int_equal(is->bytes, bytes);
            snprintf(path, sizeof path, "%s/%s", name, f.file[i].name);
            char *text = get_file(path, &all);
            assert_int_equal(all, f.file[i].header.file_bytes);
            assert_memory_equal(text + is->begin, data, bytes);
            assert_int_equal(f.file[i].header.data_begin % SW_STORED_DATA_ALIGNMENT, 0);
            if (bytes > 0) /* every number is aligned */
                assert_int_equal(is->begin % (is->dtype_name[1] == '6' ? 8 : 2), 0);
            free(text);
        }
    if (!found)
        fail_msg("no tensor %s", tensor);
    sw_model_folder_free(&f);
}

static void expect_config(const char *name, const char *part)
{
    char path[300];
    size_t bytes;
    snprintf(path, sizeof path, "%s/config.json", name);
    char *text = get_file(path, &bytes);
    if (strstr(text, part) == NULL)
        fail_msg("no %s in %s", part, text);
    assert_null(strstr(text, "shardwright"));
    free(text);
}

static int32_t count_entries(const char *name)
{
    DIR *directory = opendir(in_folder(name));
    assert_non_null(directory);
    int32_t count = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(directory);
    return count;
}

static void copies_are_what_was_asked_for(void **state)
{
    (void)state;
    static const uint16_t a[] = {0x3f80, 0x7fc1, 0x0001}, c[] = {0x3c00, 0x0001};
    static const uint16_t b_bf16[] = {0x3fc0, 0x4000, 0xc780, 0x0da2},
                          b_f16[] = {0x3e00, 0x4000, 0xfbff, 0x0000};
    static const float b[] = {1.5f, 0x1.ffffp0f, -65519, 1e-30f}, inv_freq = 0.1f, d_f32 = 0.1f;
    static const double d = 0.1;
    static const int64_t n = -7;
    put_model("m", plain_config);
    export_good("m", "same", SW_STORED_DTYPES);
    expect_tensor("same", "a", "BF16", a, sizeof a);
    expect_tensor("same", "b", "F32", b, sizeof b);
    expect_tensor("same", "c", "F16", c, sizeof c);
    expect_tensor("same", "d", "F64", &d, sizeof d);
    expect_tensor("same", "e", "F16", "", 0);
    expect_tensor("same", "n", "I64", &n, sizeof n);
    expect_config("same", "\"torch_dtype\": \"float16\"");
    expect_config("same", "\"bos_token_id\": 5");
    assert_int_equal(count_entries("same"), 5);
    export_good("m", "bf16", SW_STORED_BF16);
    expect_tensor("bf16", "a", "BF16", a, sizeof a);
    expect_tensor("bf16", "b", "BF16", b_bf16, sizeof b_bf16);
    expect_tensor("bf16", "e", "BF16", "", 0);
    expect_tensor("bf16", "n", "I64", &n, sizeof n);
    expect_tensor("bf16", "x.rotary_emb.inv_freq", "F32", &inv_freq, sizeof inv_freq);
    expect_config("bf16", "\"torch_dtype\": \"bfloat16\"");
    expect_config("bf16", "\"dtype\": \"bfloat16\"");
    export_good("m", "f16", SW_STORED_F16);
    expect_tensor("f16", "b", "F16", b_f16, sizeof b_f16);
    expect_tensor("f16", "c", "F16", c, sizeof c);
    export_good("m", "f32", SW_STORED_F32);
    expect_tensor("f32", "b", "F32", b, sizeof b);
    expect_tensor("f32", "d", "F32", &d_f32, sizeof d_f32);
    export_good("f32", "back", SW_STORED_BF16);
    expect_tensor("back", "a", "BF16", a, sizeof a);
    size_t bytes;
    char *tokenizer = get_file("bf16/tokenizer.json", &bytes);
    assert_string_equal(tokenizer, "{\"tokens\": []}");
    free(tokenizer);
    char *index = get_file("bf16/model.safetensors.index.json", &bytes);
    assert_non_null(strstr(index, "\"total_size\": 32")); /* 3 4 1 2 1 0 numbers */
    free(index);
    assert_int_equal(count_entries("."), 6); /* nothing aside */
    static const char *const made[] = {"m", "same", "bf16", "f16", "f32", "back"};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
        remove_all(made[i]);
}

/* A checkpoint of a run that started from bf16: that is the default; its single file needs no
 * index. */
static void original_dtype_is_the_default(void **state)
{
    (void)state;
    const struct sw_program_options options = small_options(true);
    char *config = NULL;
    static const char header[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    static const uint16_t zeros[2] = {0};
    assert_int_equal(sw_model_config_json(&options.model, SW_STORED_F32,
                                          "{\"dtype\": \"bfloat16\"}", &config, NULL),
                     0);
    put_text("m/config.json", config);
    free(config);
    put_tensors("m/model.safetensors", header, 8);
    assert_int_equal(symlink("m", in_folder("latest")), 0);
    struct sw_error err = {0};
    char to[2200];
    snprintf(to, sizeof to, "%s/out//", folder);
    assert_int_equal(
        sw_model_export(folder, to, &(struct sw_export_options){.dtype = SW_STORED_DTYPES}, &err),
        0);
    expect_tensor("out", "w", "BF16", zeros, sizeof zeros);
    expect_config("out", "\"torch_dtype\": \"bfloat16\"");
    assert_int_equal(count_entries("out"), 2);
    remove_all("latest");
    remove_all("out");
    remove_all("m");
}

/* ---- Refusals ---- */

static void expect_no_export(const char *from, const char *to, enum sw_stored_dtype dtype,
                             enum sw_status status, const char *wanted)
{
    struct sw_error err = {0};
    char said[SW_ERROR_TEXT_BYTES], *source = strdup(in_folder(from));
    assert_int_equal(
        sw_model_export(source, in_folder(to), &(struct sw_export_options){.dtype = dtype}, &err),
        -1);
    assert_string_equal(sw_error_format(&err, NULL, said), wanted);
    assert_int_equal(err.status, status);
    free(source);
}

/* fp16 ends at 65504; what was infinite or NaN before may be so again. */
static void numbers_beyond_the_range_are_refused(void **state)
{
    (void)state;
    static const char header[] =
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}";
    static const float fine[] = {65519, (float)-INFINITY, (float)NAN}, large[] = {1, -65520, 2};
    static const uint16_t half[] = {0x7bff, 0xfc00, 0x7e00};
    char file[8 + sizeof header - 1 + sizeof fine] = {(char)(sizeof header - 1)}, wanted[6000];
    memcpy(file + 8, header, sizeof header - 1);
    memcpy(file + 8 + sizeof header - 1, fine, sizeof fine);
    put_text("m/config.json", plain_config);
    put_file("m/model.safetensors", file, sizeof file);
    export_good("m", "out", SW_STORED_F16);
    expect_tensor("out", "w", "F16", half, sizeof half);
    remove_all("out");
    memcpy(file + 8 + sizeof header - 1, large, sizeof large);
    put_file("m/model.safetensors", file, sizeof file);
    snprintf(wanted, sizeof wanted,
             "%s/m/model.safetensors: error: 'w' has -65520, which is beyond the range of fp16; "
             "take --dtype bf16 or fp32",
             folder);
    expect_no_export("m", "out", SW_STORED_F16, SW_BAD_INPUT, wanted);
    assert_int_equal(count_entries("."), 1);
    remove_all("m");
}

static void what_is_there_is_not_touched(void **state)
{
    (void)state;
    char wanted[6000];
    put_model("m", plain_config);
    put_text("out/file", "kept");
    snprintf(wanted, sizeof wanted,
             "%s/out: error: already exists; give the copy another name, or remove it", folder);
    expect_no_export("m", "out", SW_STORED_BF16, SW_BAD_INPUT, wanted);
    expect_no_export("m", "out/", SW_STORED_BF16, SW_BAD_INPUT, wanted);
    snprintf(wanted, sizeof wanted,
             "error: cannot create the folder '%s/absent/.out.partial': No such file or directory; "
             "name another folder for the copy",
             folder);
    expect_no_export("m", "absent/out", SW_STORED_BF16, SW_BAD_INPUT, wanted);
    snprintf(wanted, sizeof wanted,
             "%s/none: error: No such file or directory; a Hugging Face model directory or a "
             "checkpoint is needed",
             folder);
    expect_no_export("none", "new", SW_STORED_BF16, SW_BAD_INPUT, wanted);
    assert_int_equal(count_entries("."), 2);
    assert_int_equal(count_entries("out"), 1);
    remove_all("out");
    remove_all("m");
}

/* A process that was killed leaves files and no lock; one that writes holds it. */
static void what_a_killed_one_left_goes(void **state)
{
    (void)state;
    char wanted[6000];
    put_model("m", plain_config);
    put_text(".out.partial/model-00009-of-00009.safetensors", "half");
    const int other = open(in_folder(".out.partial"), O_RDONLY | O_DIRECTORY);
    assert_true(other >= 0);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
    snprintf(wanted, sizeof wanted,
             "%s/out: error: is being written by another export; wait for it, or give the copy "
             "another name",
             folder);
    expect_no_export("m", "out", SW_STORED_BF16, SW_ENVIRONMENT, wanted);
    assert_int_equal(count_entries(".out.partial"), 1);
    close(other);
    export_good("m", "out", SW_STORED_BF16);
    assert_int_equal(count_entries("."), 2);
    assert_int_equal(access(in_folder("out/model-00009-of-00009.safetensors"), F_OK), -1);
    remove_all("out");
    remove_all("m");
}

static void full_disk_leaves_nothing(void **state)
{
    (void)state;
    struct rlimit before, limit;
    char wanted[6000];
    put_model("m", plain_config);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    limit = before;
    limit.rlim_cur = 4100; /* within the data of the first model file */
    snprintf(wanted, sizeof wanted,
             "error: cannot write '%s/.out.partial/model-00001-of-00002.safetensors': File too "
             "large",
             folder);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    struct sw_error err = {0};
    char said[SW_ERROR_TEXT_BYTES], *source = strdup(in_folder("m"));
    const int status = sw_model_export(source, in_folder("out"),
                                       &(struct sw_export_options){.dtype = SW_STORED_BF16}, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(status, -1);
    assert_string_equal(sw_error_format(&err, NULL, said), wanted);
    assert_int_equal(err.status, SW_ENVIRONMENT);
    assert_int_equal(count_entries("."), 1);
    free(source);
    remove_all("m");
}

static void add_to_manifest(struct sw_manifest *manifest, const char *name, int64_t data_begin)
{
    char path[300];
    size_t bytes;
    struct sw_manifest_file *file = NULL;
    snprintf(path, sizeof path, "m/%s", name);
    char *data = get_file(path, &bytes);
    assert_int_equal(sw_manifest_add(manifest, name, (int64_t)bytes, data_begin, &file, NULL), 0);
    for (int32_t i = 0; i < file->slice_count; i++) {
        int64_t begin, end;
        sw_manifest_slice(file->bytes, data_begin, manifest->slice_bytes, i, &begin, &end);
        file->slice[i] = sw_checksum_of(data + begin, (size_t)(end - begin));
    }
    free(data);
}

/* A bit that flips anywhere in a checkpoint of ours is found, also in several slices. */
static void checkpoints_are_verified(void **state)
{
    (void)state;
    const struct sw_program_options options = small_options(true);
    struct sw_program_set *set = make_set(&options);
    struct sw_placement placement;
    struct sw_manifest manifest = {.optimizer = "adamw", .mesh = "1,1,1,1", .run = "r"};
    char *text = NULL, *index = NULL, path[300];
    size_t bytes;
    assert_int_equal(sw_placement_make(&set->state, 1, &placement, NULL), 0);
    put_placement("m", &placement);
    put_config("m", &options.model);
    put_text("m/tokenizer.json", "{}");
    assert_int_equal(sw_model_index_json(&placement, &index, NULL), 0);
    put_text("m/model.safetensors.index.json", index);
    free(index);
    const struct sw_stored_file *file = &placement.file[0];
    manifest.slice_bytes = SW_SLICE_BYTES;
    add_to_manifest(&manifest, "config.json", 0);
    add_to_manifest(&manifest, "tokenizer.json", 0);
    add_to_manifest(&manifest, "model.safetensors.index.json", 0);
    add_to_manifest(&manifest, file->name, file->data_begin);
    assert_int_equal(sw_manifest_text(&manifest, &text, &bytes, NULL), 0);
    put_file("m/manifest.json", text, bytes);
    free(text);
    export_good("m", "out", SW_STORED_BF16);
    assert_int_equal(access(in_folder("out/manifest.json"), F_OK), -1);
    assert_int_equal(access(in_folder("out/optimizer"), F_OK), -1);
    remove_all("out");
    const char *const names[] = {"config.json", "tokenizer.json", "model.safetensors.index.json",
                                 file->name, "manifest.json"};
    int32_t flips = 0;
    for (size_t f = 0; f < sizeof names / sizeof names[0]; f++) {
        snprintf(path, sizeof path, "m/%s", names[f]);
        char *data = get_file(path, &bytes);
        const size_t step = bytes / 97 + 1;
        for (size_t i = 0; i < bytes; i += step, flips++) {
            struct sw_error err = {0};
            char *source = strdup(in_folder("m"));
            data[i] ^= (char)(1 << i % 8);
            put_file(path, data, bytes);
            if (sw_model_export(source, in_folder("out"),
                                &(struct sw_export_options){.dtype = SW_STORED_BF16}, &err) == 0)
                fail_msg("bit %zu of byte %zu of %s", i % 8, i, names[f]);
            assert_int_equal(err.status, SW_BAD_INPUT);
            assert_int_equal(count_entries("."), 1);
            data[i] ^= (char)(1 << i % 8);
            free(source);
        }
        put_file(path, data, bytes);
        free(data);
    }
    assert_true(flips > 200);
    /* the texts */
    char wanted[6000];
    snprintf(path, sizeof path, "m/%s", file->name);
    char *data = get_file(path, &bytes);
    data[bytes - 1] ^= 1;
    put_file(path, data, bytes);
    snprintf(wanted, sizeof wanted,
             "%s/%s: error: bytes %d to %d are not what was written: their checksum is wrong",
             folder, path, (int)file->data_begin, (int)file->bytes);
    expect_no_export("m", "out", SW_STORED_BF16, SW_BAD_INPUT, wanted);
    data[bytes - 1] ^= 1;
    put_file(path, data, bytes);
    free(data);
    put_text("m/tokenizer.json", "{ }");
    snprintf(wanted, sizeof wanted, "%s/m/tokenizer.json: error: it has 3 bytes, not 2", folder);
    expect_no_export("m", "out", SW_STORED_BF16, SW_BAD_INPUT, wanted);
    put_text("m/tokenizer.json", "{}");
    put_text("m/tokenizer_config.json", "{}"); /* somebody's own: copied */
    put_text("m/additional_chat_templates/rag.jinja", "x");
    put_text(".out.partial/additional_chat_templates/old.jinja", "x"); /* of one that was killed */
    export_good("m", "out", SW_STORED_BF16);
    assert_int_equal(access(in_folder("out/tokenizer_config.json"), F_OK), 0);
    assert_int_equal(access(in_folder("out/additional_chat_templates/rag.jinja"), F_OK), 0);
    assert_int_equal(access(in_folder("out/additional_chat_templates/old.jinja"), F_OK), -1);
    remove_all("out");
    char *sharded = strdup(in_folder(path));
    assert_int_equal(rename(sharded, in_folder("m/model.safetensors")), 0);
    free(sharded);
    remove_all("m/model.safetensors.index.json");
    snprintf(wanted, sizeof wanted, "%s/m/model.safetensors.index.json: error: it is missing",
             folder);
    expect_no_export("m", "out", SW_STORED_BF16, SW_BAD_INPUT, wanted);
    sw_manifest_free(&manifest);
    sw_placement_free(&placement);
    sw_program_set_free(set);
    remove_all("m");
}

/* A tensor of 96 MiB (of holes) in a few MiB of memory. */
static void memory_is_bounded(void **state)
{
    (void)state;
    static const char header[] =
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[25165824],\"data_offsets\":[0,100663296]}}";
    struct rusage before, after;
    put_text("m/config.json", plain_config);
    put_tensors("m/model.safetensors", header, 0);
    assert_int_equal(
        truncate(in_folder("m/model.safetensors"), 8 + (off_t)strlen(header) + 100663296), 0);
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    export_good("m", "out", SW_STORED_BF16);
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    assert_true(after.ru_maxrss - before.ru_maxrss < 16 * 1024); /* KiB */
    struct stat status;
    assert_int_equal(stat(in_folder("out/model.safetensors"), &status), 0);
    assert_int_equal(status.st_size, 4096 + 50331648);
    remove_all("m");
    remove_all("out");
}

static void expect_mistake(const char *line, int argc, const char *a, const char *b, const char *c,
                           const char *d)
{
    char *argv[] = {(char *)a, (char *)b, (char *)c, (char *)d};
    char said[SW_ERROR_TEXT_BYTES];
    struct sw_error err = {0};
    assert_int_equal(sw_export_command(argc, argv, &err), -1);
    assert_string_equal(sw_error_format(&err, NULL, said), line);
    assert_int_equal(err.status, SW_BAD_INPUT);
}

static void expect_usage(const char *wanted, int argc, const char *a, const char *b, const char *c,
                         const char *d)
{
    char line[400];
    snprintf(line, sizeof line, "error: %s; see 'runner export --help'", wanted);
    expect_mistake(line, argc, a, b, c, d);
}

static void command_line(void **state)
{
    (void)state;
    expect_usage("export takes CHECKPOINT OUT", 0, NULL, NULL, NULL, NULL);
    expect_usage("export takes CHECKPOINT OUT", 1, "a", NULL, NULL, NULL);
    expect_usage("export takes CHECKPOINT OUT", 2, "", "b", NULL, NULL);
    expect_usage("unexpected argument 'c'", 3, "a", "b", "c", NULL);
    expect_mistake("error: unknown option '--dtpye'; did you mean '--dtype'?", 3, "--dtpye", "bf16",
                   "a", NULL);
    expect_usage("--dtype needs a value: bf16, fp16 or fp32", 1, "--dtype", NULL, NULL, NULL);
    expect_usage("--dtype must be bf16, fp16 or fp32, not 'int8'", 4, "--dtype", "int8", "a", "b");
    put_model("m", plain_config);
    char *m = strdup(in_folder("m"));
    char *argv[] = {m, (char *)"--dtype", (char *)"fp32", in_folder("out")};
    static const float d = 0.1f;
    assert_int_equal(sw_export_command(4, argv, NULL), 0);
    expect_tensor("out", "d", "F32", &d, sizeof d);
    free(m);
    remove_all("m");
    remove_all("out");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_dtype_is_bit_exact),
        cmocka_unit_test(wider_and_back_is_bit_exact),
        cmocka_unit_test(numbers_are_rounded),
        cmocka_unit_test(copies_are_what_was_asked_for),
        cmocka_unit_test(original_dtype_is_the_default),
        cmocka_unit_test(numbers_beyond_the_range_are_refused),
        cmocka_unit_test(what_is_there_is_not_touched),
        cmocka_unit_test(what_a_killed_one_left_goes),
        cmocka_unit_test(full_disk_leaves_nothing),
        cmocka_unit_test(checkpoints_are_verified),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(command_line),
    };
    return run_in_folder(tests, sizeof tests / sizeof tests[0], argc > 1 ? argv[1] : ".", "export");
}
