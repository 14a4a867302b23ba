/* What a checkpoint's files are called, hold and look like, byte by byte; how a large model is put
 * into files and dealt to ranks. (The exchange: tests/property/test_checkpoint_exchange.c.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/hash.h"
#include "core/programs/program_set.h"
#include "tests/support/small_model.h"

#include <stdlib.h>
#include <string.h>

/* ---- Allocations that fail on demand (linked with --wrap) ---- */

static int allocations_left = -1; /* -1: none fails */

static bool fails(void)
{
    return allocations_left >= 0 && allocations_left-- == 0;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : __real_malloc(bytes);
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __real_calloc(count, bytes);
}

static struct sw_program_options small_model(void)
{
    struct sw_program_options o = sw_test_small_model(sw_mesh_make(1, 1, 1, 1));
    o.model.layers = 2;
    o.global_batch = 1024;
    return o;
}

/* Llama 3.1 405B: 405.8 billion parameters. */
static struct sw_program_options llama_405b(struct sw_mesh mesh)
{
    struct sw_program_options o = small_model();
    o.model.vocab_size = 128256;
    o.model.hidden_size = 16384;
    o.model.intermediate_size = 53248;
    o.model.layers = 126;
    o.model.heads = 128;
    o.model.kv_heads = 8;
    o.model.head_dim = 128;
    o.mesh = mesh;
    o.global_batch = 1 << 20;
    return o;
}

static struct sw_program_set *compile(const struct sw_program_options *o)
{
    struct sw_program *program = NULL;
    struct sw_program_set *set = NULL;
    struct sw_error err = {0};
    if (sw_program_compile(o, SW_LAID_OUT, &program, &err) != 0 ||
        sw_program_set_single(program, SW_PROGRAM_TRAIN, &set, &err) != 0)
        fail_msg("%s", err.message);
    return set;
}

/* ---- Names ---- */

struct tensors {
    struct sw_stored_tensor *at;
    int32_t count;
};

static struct tensors list(const struct sw_program_set *set)
{
    struct tensors t;
    struct sw_error err = {0};
    if (sw_stored_tensors(&set->state, SW_STORED_SAVED, &t.at, &t.count, &err) != 0)
        fail_msg("%s", err.message);
    return t;
}

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *row, *name;
        int64_t size[2];
        bool transposed;
    } expected[] = {
        {"embedding", "model.embed_tokens.weight", {64, 32}, false},
        {"wq", "model.layers.0.self_attn.q_proj.weight", {32, 32}, true},
        {"bq", "model.layers.0.self_attn.q_proj.bias", {32, 1}, false},
        {"wk", "model.layers.0.self_attn.k_proj.weight", {16, 32}, true},
        {"bk", "model.layers.0.self_attn.k_proj.bias", {16, 1}, false},
        {"wv", "model.layers.0.self_attn.v_proj.weight", {16, 32}, true},
        {"bv", "model.layers.0.self_attn.v_proj.bias", {16, 1}, false},
        {"wo", "model.layers.0.self_attn.o_proj.weight", {32, 32}, false},
        {"bo", "model.layers.0.self_attn.o_proj.bias", {32, 1}, false},
        {"q_norm", "model.layers.0.self_attn.q_norm.weight", {8, 1}, false},
        {"k_norm", "model.layers.0.self_attn.k_norm.weight", {8, 1}, false},
        {"w_gate", "model.layers.0.mlp.gate_proj.weight", {48, 32}, true},
        {"b_gate", "model.layers.0.mlp.gate_proj.bias", {48, 1}, false},
        {"w_up", "model.layers.0.mlp.up_proj.weight", {48, 32}, true},
        {"b_up", "model.layers.0.mlp.up_proj.bias", {48, 1}, false},
        {"w_down", "model.layers.0.mlp.down_proj.weight", {32, 48}, false},
        {"b_down", "model.layers.0.mlp.down_proj.bias", {32, 1}, false},
        {"attention_norm", "model.layers.0.input_layernorm.weight", {32, 1}, false},
        {"mlp_norm", "model.layers.0.post_attention_layernorm.weight", {32, 1}, false},
        {"final_norm", "model.norm.weight", {32, 1}, false},
        {"head", "lm_head.weight", {64, 32}, false},
    };
    enum { COUNT = sizeof expected / sizeof expected[0] };
    struct sw_program_options o = small_model();
    o.model.layers = 1; /* a stack of one is of a layer all the same */
    o.model.qkv_bias = o.model.output_bias = o.model.mlp_bias = o.model.qk_norm = true;
    o.params = SW_BF16_T;
    struct sw_program_set *set = compile(&o);
    const struct tensors t = list(set);
    assert_int_equal(t.count, 3 * COUNT);
    for (int32_t i = 0; i < t.count; i++) {
        const struct sw_stored_tensor *tensor = &t.at[i];
        const int32_t e = i % COUNT, group = i / COUNT;
        static const char *const prefix[] = {"", "adam_m ", "adam_v "};
        char row[64];
        snprintf(row, sizeof row, "%s%s", prefix[group], expected[e].row);
        assert_string_equal(set->state.row[tensor->row].name, row);
        assert_string_equal(tensor->name, expected[e].name);
        assert_int_equal(tensor->group, group);
        assert_int_equal(tensor->dtype, group == 0 ? SW_STORED_BF16 : SW_STORED_F32);
        assert_int_equal(tensor->transposed, expected[e].transposed);
        assert_int_equal(tensor->size[0], expected[e].size[0]);
        assert_int_equal(tensor->size[1], expected[e].size[1]);
        assert_int_equal(tensor->bytes, tensor->size[0] * tensor->size[1] * (group == 0 ? 2 : 4));
        assert_int_equal(tensor->file, -1);
        assert_int_equal(tensor->offset, 0);
    }
    free(t.at);
    sw_program_set_free(set);
}

static void test_tied_layers(void **state)
{
    (void)state;
    struct sw_program_options o = small_model();
    o.model.tied = true;
    struct sw_program_set *set = compile(&o);
    const struct tensors t = list(set);
    assert_int_equal(t.count, 3 * (1 + 2 * 9 + 1));
    assert_string_equal(t.at[9].name, "model.layers.0.post_attention_layernorm.weight");
    assert_string_equal(t.at[10].name, "model.layers.1.self_attn.q_proj.weight");
    assert_int_equal(t.at[10].instance, 1);
    for (int32_t i = 0; i < t.count; i++)
        assert_string_not_equal(t.at[i].name, "lm_head.weight");
    free(t.at);
    sw_program_set_free(set);
}

/* Experts are a dimension of the state; files have a tensor for each, or all in one. */
static void test_stacks(void **state)
{
    (void)state;
    static const struct sw_parameter each = {.name = "w_gate",
                                             .stored = "mlp.experts.*.gate_proj.weight",
                                             .part = SW_OF_LAYER,
                                             .file_order = 1,
                                             .transposed = true};
    static const struct sw_parameter bias = {.name = "b_gate",
                                             .stored = "mlp.experts.*.gate_proj.bias",
                                             .part = SW_OF_LAYER,
                                             .file_order = 2};
    static const struct sw_parameter all = {
        .name = "w_down", .stored = "mlp.experts.down_proj", .part = SW_OF_LAYER, .file_order = 3};
    static const char *const names[] = {"model.layers.0.mlp.experts.0.gate_proj.weight",
                                        "model.layers.0.mlp.experts.1.gate_proj.weight",
                                        "model.layers.0.mlp.experts.0.gate_proj.bias",
                                        "model.layers.0.mlp.experts.1.gate_proj.bias",
                                        "model.layers.0.mlp.experts.down_proj",
                                        "model.layers.1.mlp.experts.0.gate_proj.weight"};
    static const int64_t shapes[][SW_STORED_DIMS] = {{5, 3}, {5, 3}, {5}, {5}, {2, 5, 3}, {5, 3}};
    static const uint8_t ndim[] = {2, 2, 1, 1, 3, 2};
    struct sw_state_row rows[3];
    memset(rows, 0, sizeof rows);
    for (int i = 0; i < 3; i++) {
        rows[i] = (struct sw_state_row){.role = SW_ROLE_PARAMETER,
                                        .parameter = i == 0   ? &each
                                                     : i == 1 ? &bias
                                                              : &all,
                                        .ndim = i == 1 ? 2 : 3,
                                        .size = {2, i == 0 ? 3 : 5, i == 0 ? 5 : 3},
                                        .stack = 2};
    }
    const struct sw_state s = {.row = rows, .count = 3};
    struct tensors t;
    struct sw_error err = {0};
    assert_int_equal(sw_stored_tensors(&s, SW_STORED_FROM + SW_ORIGIN_RUN, &t.at, &t.count, NULL),
                     0);
    assert_int_equal(t.count, 2 * (2 + 2 + 1));
    for (int32_t i = 0; i < 6; i++) {
        int64_t shape[SW_STORED_DIMS], elems = 1;
        assert_string_equal(t.at[i].name, names[i]);
        assert_int_equal(sw_stored_shape(&t.at[i], shape), ndim[i]);
        for (int d = 0; d < ndim[i]; d++) {
            assert_int_equal(shape[d], shapes[i][d]);
            elems *= shape[d];
        }
        assert_int_equal(t.at[i].bytes, elems * 4);
    }
    free(t.at);
    rows[2].dtype = SW_I8; /* scales have one dimension */
    assert_int_equal(sw_stored_tensors(&s, SW_STORED_FROM + SW_ORIGIN_RUN, &t.at, &t.count, &err),
                     -1);
}

static void test_dtypes(void **state)
{
    (void)state;
    static const char *const names[] = {"F32", "BF16", "F16", "F64", "U8"};
    static const size_t bytes[] = {4, 2, 2, 8, 1};
    for (int32_t d = 0; d < SW_STORED_DTYPES; d++) {
        assert_string_equal(sw_stored_dtype_name((enum sw_stored_dtype)d), names[d]);
        assert_int_equal(sw_stored_dtype_bytes((enum sw_stored_dtype)d), bytes[d]);
    }
}

/* ---- Headers ---- */

static void test_header(void **state)
{
    (void)state;
    static const char text[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"model.embed_tokens.weight\":{\"dtype\":\"BF16\",\"shape\":[64,32],"
        "\"data_offsets\":[0,4096]},"
        "\"model.layers.0.self_attn.q_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[32,32],"
        "\"data_offsets\":[4096,6144]},"
        "\"model.layers.0.self_attn.k_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[16,32],"
        "\"data_offsets\":[6144,7168]},"
        "\"model.layers.0.self_attn.v_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[16,32],"
        "\"data_offsets\":[7168,8192]},"
        "\"model.layers.0.self_attn.o_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[32,32],"
        "\"data_offsets\":[8192,10240]},"
        "\"model.layers.0.mlp.gate_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[48,32],"
        "\"data_offsets\":[10240,13312]},"
        "\"model.layers.0.mlp.up_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[48,32],"
        "\"data_offsets\":[13312,16384]},"
        "\"model.layers.0.mlp.down_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[32,48],"
        "\"data_offsets\":[16384,19456]},"
        "\"model.layers.0.input_layernorm.weight\":{\"dtype\":\"BF16\",\"shape\":[32],"
        "\"data_offsets\":[19456,19520]},"
        "\"model.layers.0.post_attention_layernorm.weight\":{\"dtype\":\"BF16\",\"shape\":[32],"
        "\"data_offsets\":[19520,19584]},"
        "\"model.norm.weight\":{\"dtype\":\"BF16\",\"shape\":[32],"
        "\"data_offsets\":[19584,19648]}}";
    struct sw_program_options o = small_model();
    o.model.layers = 1;
    o.model.tied = true;
    o.params = SW_BF16_T;
    struct sw_program_set *set = compile(&o);
    struct sw_placement p;
    char *header = NULL;
    assert_int_equal(sw_placement_make(&set->state, 1, &p, NULL), 0);
    assert_int_equal(p.file_count, 3);
    assert_string_equal(p.file[0].name, "model-00001-of-00001.safetensors");
    assert_string_equal(p.file[1].name, "optimizer/exp_avg-00001-of-00001.safetensors");
    assert_string_equal(p.file[2].name, "optimizer/exp_avg_sq-00001-of-00001.safetensors");
    assert_int_equal(p.file[0].data_begin, 4096);
    assert_int_equal(p.file[0].bytes, 4096 + 19648);
    assert_int_equal(p.file[2].bytes, 4096 + 2 * 19648);
    assert_int_equal(sw_placement_bytes(&p), 3 * 4096 + 5 * 19648);
    assert_int_equal(sw_placement_header(&p, 0, &header, NULL), 0);
    assert_memory_equal(header, "\xf8\x0f\0\0\0\0\0\0", 8); /* 4088 */
    assert_memory_equal(header + 8, text, sizeof text - 1);
    for (size_t i = 8 + sizeof text - 1; i < 4096; i++)
        assert_int_equal(header[i], ' ');
    free(header);
    sw_placement_free(&p);
    sw_placement_free(&p); /* of a zeroed one, too */
    sw_program_set_free(set);
}

/* Phi-3's: one tensor in the file, parts one behind the other in the table, and never a file's end
 * between them. */
static void test_fused(void **state)
{
    (void)state;
    static const char qkv[] = "\"model.layers.0.self_attn.qkv_proj.weight\":{\"dtype\":\"BF16\","
                              "\"shape\":[64,32],\"data_offsets\":[4096,8192]},"
                              "\"model.layers.0.self_attn.o_proj.weight\"",
                      gate_up[] = "\"model.layers.0.mlp.gate_up_proj.weight\":{\"dtype\":\"BF16\","
                                  "\"shape\":[96,32],\"data_offsets\":[10240,16384]},"
                                  "\"model.layers.0.mlp.down_proj.weight\"";
    struct sw_program_options o = small_model();
    o.model.layers = 1;
    o.model.fused = true;
    o.params = SW_BF16_T;
    struct sw_program_set *set = compile(&o);
    struct sw_placement p;
    char *header = NULL;
    int32_t parts = 0;
    assert_int_equal(sw_placement_make(&set->state, 1, &p, NULL), 0);
    assert_int_equal(sw_placement_header(&p, 0, &header, NULL), 0);
    header[p.file[0].data_begin - 1] = '\0'; /* of the spaces */
    assert_non_null(strstr(header + 8, qkv));
    assert_non_null(strstr(header + 8, gate_up));
    assert_null(strstr(header + 8, "q_proj"));
    for (int32_t t = 0; t < p.tensor_count; t++) {
        const struct sw_stored_tensor *part = &p.tensor[t];
        if (part->fused_rows == 0)
            continue;
        parts++;
        assert_int_equal(part->fused_rows, strstr(part->name, "qkv") != NULL ? 64 : 96);
        if (part->first_row > 0) {
            assert_string_equal(part->name, part[-1].name);
            assert_int_equal(part->first_row, part[-1].first_row + part[-1].size[0]);
            assert_int_equal(part->offset, part[-1].offset + part[-1].bytes);
        }
    }
    assert_int_equal(parts, 3 * 5); /* with both moments */
    free(header);
    sw_placement_free(&p);
    sw_program_set_free(set);
    o.model.hidden_size = 8192; /* tensors of a GB or so, in as many files as there may be */
    o.model.head_dim = 8192;
    o.model.intermediate_size = 65536;
    o.model.layers = 3;
    set = compile(&o);
    for (int32_t ranks = 1; ranks <= 64; ranks *= 4) {
        assert_int_equal(sw_placement_make(&set->state, ranks, &p, NULL), 0);
        assert_true(p.file_count > 3);
        for (int32_t t = 1; t < p.tensor_count; t++)
            if (p.tensor[t].first_row > 0)
                assert_int_equal(p.tensor[t].file, p.tensor[t - 1].file);
        sw_placement_free(&p);
    }
    sw_program_set_free(set);
}

/* ---- Large models ---- */

static void check_files(const struct sw_placement *p, int32_t ranks)
{
    int64_t tensors = 0, rank_bytes = 0, headers = 0;
    for (int32_t f = 0; f < p->file_count; f++) {
        const struct sw_stored_file *file = &p->file[f];
        int64_t at = file->data_begin;
        assert_int_equal(file->first_tensor, tensors);
        assert_int_equal(file->data_begin % 4096, 0);
        assert_true(file->tensor_count > 0);
        assert_true(file->tensor_count == 1 || file->bytes - file->data_begin <= 5000000000);
        for (int32_t t = 0; t < file->tensor_count; t++, tensors++) {
            assert_int_equal(p->tensor[tensors].file, f);
            assert_int_equal(p->tensor[tensors].group, file->group);
            assert_int_equal(p->tensor[tensors].offset, at);
            at += p->tensor[tensors].bytes;
        }
        assert_int_equal(file->bytes, at);
        headers += file->data_begin;
    }
    assert_int_equal(tensors, p->tensor_count);
    for (int32_t r = 0; r < ranks; r++)
        rank_bytes += sw_placement_rank_bytes(p, r);
    assert_int_equal(rank_bytes + headers, sw_placement_bytes(p));
    assert_true(sw_placement_most_bytes(p) <= rank_bytes / ranks + 1 + p->slice_bytes);
}

/* The model's files, and all of them have such a name. */
static int32_t model_files(const struct sw_placement *p)
{
    int32_t count = 0;
    char name[SW_STORED_FILE_BYTES];
    while (count < p->file_count && p->file[count].group == SW_STORED_MODEL)
        count++;
    for (int32_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", i + 1, count);
        assert_string_equal(p->file[i].name, name);
    }
    return count;
}

static void test_huge(void **state)
{
    (void)state;
    struct sw_program_options o = llama_405b(sw_mesh_make(1, 64, 8, 1));
    struct sw_program_set *set = compile(&o);
    struct sw_placement p;
    struct sw_exchange x;
    const double start_s = sw_clock_busy();
    assert_int_equal(sw_placement_make(&set->state, 512, &p, NULL), 0);
    assert_int_equal(sw_exchange_make(&set->state, &p, &o.mesh, false, 0, &x, NULL), 0);
    const struct sw_exchange_traffic traffic = sw_exchange_traffic(&x, 100);
    const double seconds = sw_clock_busy() - start_s;
    check_files(&p, 512);
    /* a file for each rank were 3.2 GB; but no tensor is split, and those of the MLP have 3.5 */
    assert_int_equal(model_files(&p), 507);
    assert_int_equal(p.slice_bytes, 128 << 20); /* 4.87 TB in at most 65536 slices */
    assert_int_equal(x.chunk_bytes, 64 << 20);
    assert_int_equal(x.rounds, (sw_placement_most_bytes(&p) + x.chunk_bytes - 1) / x.chunk_bytes);
    /* nothing is held twice, so a rank sends about what it has */
    assert_true(traffic.sent_bytes <= set->state.bytes &&
                traffic.sent_bytes > set->state.bytes / 10 * 9);
    assert_true(traffic.messages > 511);
    sw_exchange_free(&x);
    sw_exchange_free(&x);
    sw_placement_free(&p);

    /* one rank alone: as few files as fit */
    assert_int_equal(sw_placement_make(&set->state, 1, &p, NULL), 0);
    check_files(&p, 1);
    assert_int_equal(model_files(&p), 381);
    sw_placement_free(&p);
    sw_program_set_free(set);
    if (seconds > 0.5) /* measured: 0.01 s */
        fail_msg("the tables of 512 ranks took %.2f s", seconds);
}

/* A GPT-2-sized model: 0.5 GB. */
static void test_few_files(void **state)
{
    (void)state;
    struct sw_program_options o = small_model();
    o.model.vocab_size = 32000;
    o.model.hidden_size = 768;
    o.model.intermediate_size = 2048;
    o.model.layers = 13;
    o.model.heads = o.model.kv_heads = 12;
    o.model.head_dim = 64;
    struct sw_program_set *set = compile(&o);
    struct sw_placement p;
    static const int32_t ranks[] = {1, 2, 8}, files[] = {1, 2, 2}; /* at least 256 MiB each */
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(sw_placement_make(&set->state, ranks[i], &p, NULL), 0);
        check_files(&p, ranks[i]);
        assert_int_equal(model_files(&p), files[i]);
        assert_int_equal(p.file_count, 3 * files[i]);
        assert_int_equal(p.slice_bytes, SW_SLICE_BYTES);
        sw_placement_free(&p);
    }
    sw_program_set_free(set);
}

/* Slices double until there are few enough. */
static void test_slices(void **state)
{
    (void)state;
    static const struct {
        int64_t bytes, slice_bytes;
    } cases[] = {{1, 1 << 20},
                 {(int64_t)65536 << 20, 1 << 20},
                 {(int64_t)65537 << 20, 2 << 20},
                 {(int64_t)1 << 40, 16 << 20}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sw_stored_file file = {.data_begin = 4096, .bytes = cases[i].bytes + 4096};
        struct sw_placement p = {.file = &file, .file_count = 1};
        assert_int_equal(sw_placement_deal(&p, 3, NULL), 0);
        assert_int_equal(p.slice_bytes, cases[i].slice_bytes);
        if (i > 0) /* cut at slices */
            assert_true(p.extent[0].end % p.slice_bytes == 0 &&
                        p.extent[1].end % p.slice_bytes == 0);
        p.file = NULL;
        sw_placement_free(&p);
    }
}

/* A large tensor between small ones has several writers; chunks have limits. */
static void test_chunk_bytes(void **state)
{
    (void)state;
    static const int64_t GiB = 1 << 30;
    static const struct {
        int64_t bytes, room_bytes;
        int32_t ranks;
        int64_t chunk_bytes;
    } cases[] = {{0, 0, 1, 64 << 10},
                 {1 << 20, 0, 1, 64 << 10},
                 {16 << 20, 0, 1, 1 << 20},
                 {(16 << 20) + 16, 0, 1, (1 << 20) + 4096},
                 /* a MiB for each rank, at least 4, at most 64 */
                 {4 * GiB, 0, 1, 4 << 20},
                 {4 * GiB, 0, 8, 8 << 20},
                 {1024 * GiB, 0, 256, 64 << 20},
                 {1024 * GiB, 0, 1 << 14, (4 << 20) + 4096}, /* parts end with slices */
                 /* room for more than a sixteenth, but not for more than there is */
                 {16 << 20, (4 << 20) + 8191, 1, 2 << 20},
                 {16 << 20, 4 << 20, 1, 2 << 20},
                 {16 << 20, 1 << 20, 1, 1 << 20},
                 {16 << 20, GiB, 1, 4 << 20},
                 {(3 << 20) + 1, GiB, 1, (3 << 20) + 4096}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sw_stored_file file = {.data_begin = 4096, .bytes = cases[i].bytes + 4096};
        struct sw_placement p = {.file = &file, .file_count = 1};
        assert_int_equal(sw_placement_deal(&p, cases[i].ranks, NULL), 0);
        assert_int_equal(sw_exchange_chunk_bytes(&p, cases[i].room_bytes), cases[i].chunk_bytes);
        p.file = NULL;
        sw_placement_free(&p);
    }
}

/* ---- Rows that are saved, or read from elsewhere ---- */

/* Each property by itself, drawn: as an adapter has it, whose base lies in another model's files.
 */
static void test_saved_and_origin(void **state)
{
    (void)state;
    struct sw_program_options o = small_model();
    struct sw_program_set *set = compile(&o);
    const struct tensors all = list(set);
    uint64_t x = 1;
    for (int32_t round = 0; round < 50; round++) {
        for (int32_t i = 0; i < set->state.count; i++) {
            x = sw_hash_mix(x + 1);
            set->state.row[i].saved = x % 3 != 0;
            set->state.row[i].origin = x / 3 % 2 ? SW_ORIGIN_BASE : SW_ORIGIN_RUN;
        }
        for (int32_t which = SW_STORED_SAVED; which <= SW_STORED_FROM + SW_ORIGIN_BASE; which++) {
            struct sw_stored_tensor *some;
            int32_t count, at = 0;
            assert_int_equal(sw_stored_tensors(&set->state, which, &some, &count, NULL), 0);
            for (int32_t t = 0; t < all.count; t++) {
                const struct sw_state_row *row = &set->state.row[all.at[t].row];
                if (which == SW_STORED_SAVED ? row->saved : row->origin == which - SW_STORED_FROM) {
                    assert_true(at < count);
                    assert_string_equal(some[at++].name, all.at[t].name);
                }
            }
            assert_int_equal(at, count);
            free(some);
        }
        struct sw_placement p; /* of the saved ones alone */
        assert_int_equal(sw_placement_make(&set->state, 2, &p, NULL), 0);
        for (int32_t t = 0; t < p.tensor_count; t++)
            assert_true(set->state.row[p.tensor[t].row].saved);
        sw_placement_free(&p);
    }
    free(all.at);
    sw_program_set_free(set);
}

/* ---- Errors ---- */

static void test_unknown_row(void **state)
{
    (void)state;
    struct sw_program_options o = small_model();
    struct sw_program_set *set = compile(&o);
    struct sw_stored_tensor *tensors = NULL;
    struct sw_error err = {0};
    int32_t count;
    snprintf(set->state.row[3].name, sizeof set->state.row[3].name, "w_router");
    set->state.row[3].parameter = NULL;
    assert_int_equal(sw_stored_tensors(&set->state, SW_STORED_SAVED, &tensors, &count, &err), -1);
    assert_int_equal(err.status, SW_ENVIRONMENT);
    assert_string_equal(err.message,
                        "'w_router' of the state has no counterpart in Hugging Face's files");
    sw_program_set_free(set);
}

static void test_memory(void **state)
{
    (void)state;
    struct sw_program_options o = small_model();
    struct sw_program_set *set = compile(&o);
    struct sw_placement p;
    struct sw_exchange x;
    static const char *const messages[] = {"out of memory for the tensors of a checkpoint",
                                           "out of memory for the tensors of a checkpoint",
                                           "out of memory for the files of a checkpoint",
                                           "out of memory for the files of a checkpoint"};
    for (int32_t i = 0; i < 4; i++) {
        struct sw_error err = {0};
        allocations_left = i;
        assert_int_equal(sw_placement_make(&set->state, 1, &p, &err), -1);
        allocations_left = -1;
        assert_int_equal(err.status, SW_ENVIRONMENT);
        assert_string_equal(err.message, messages[i]);
        assert_null(p.tensor);
    }
    assert_int_equal(sw_placement_make(&set->state, 1, &p, NULL), 0);
    struct sw_error err = {0};
    allocations_left = 0;
    assert_int_equal(sw_exchange_make(&set->state, &p, &o.mesh, true, 0, &x, &err), -1);
    allocations_left = -1;
    assert_string_equal(err.message, "out of memory for the exchange of a checkpoint");
    sw_placement_free(&p);
    sw_program_set_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_tied_layers),
        cmocka_unit_test(test_stacks),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_huge),
        cmocka_unit_test(test_fused),
        cmocka_unit_test(test_few_files),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_chunk_bytes),
        cmocka_unit_test(test_unknown_row),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_saved_and_origin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
