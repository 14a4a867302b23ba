/* Model directories that transformers 4 and 5 wrote (make_checkpoint_fixtures.py), as our reader of
 * folders has them: their names, orientations and dtypes are right when the logits and the loss are
 * those of transformers, on one rank and on a mesh. A tied head that is stored as well is found.
 *
 * The bytes are read here, plainly; how a job reads them is the loader's tests' matter. */
#include "core/base/number.h"
#include "core/programs/program_set.h"
#include "runner/checkpoint/model_folder.h"
#include "tests/support/harness.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* The forward half of what test_families.c derives its bound from, with sums that are as long. */
#define TOLERANCE 1e-5

enum { MAX_TENSORS = 64 };

/* A parameter's instance, in the orientation of the state. */
struct tensor {
    char name[SW_NAME_BYTES];
    int32_t instance;
    int64_t elems;
    float *data;
};

struct loaded {
    struct sw_model model;
    struct tensor tensor[MAX_TENSORS];
    int32_t count;
    bool tied_copy, tied_copy_is_equal;
};

struct expected {
    int64_t rows, sequence, vocab;
    double loss;
    double *logits; /* [rows, sequence, vocab] */
    int32_t *token; /* [rows, sequence + 1] */
};

static const char *folder = "build/tests/checkpoints";

/* ---- Fixtures ---- */

static FILE *open_fixture(const char *name, const char *end)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, end);
    FILE *in = fopen(path, "rb");
    if (in == NULL)
        fail_msg("cannot open '%s'", path);
    return in;
}

/* The layouts are in make_checkpoint_fixtures.py. */
static void read_expected(const char *name, struct expected *e)
{
    char magic[8];
    int64_t n[3];
    FILE *in = open_fixture(name, ".logits");
    assert_int_equal(fread(magic, 1, 8, in), 8);
    assert_memory_equal(magic, "SWLOGITS", 8);
    assert_int_equal(fread(n, sizeof n[0], 3, in), 3);
    assert_int_equal(fread(&e->loss, sizeof e->loss, 1, in), 1);
    e->rows = n[0], e->sequence = n[1], e->vocab = n[2];
    const int64_t elems = e->rows * e->sequence * e->vocab;
    assert_in_range(elems, 1, 1 << 20);
    e->logits = malloc((size_t)elems * sizeof *e->logits);
    assert_non_null(e->logits);
    for (int64_t i = 0; i < elems; i++) {
        float value;
        assert_int_equal(fread(&value, sizeof value, 1, in), 1);
        e->logits[i] = (double)value;
    }
    fclose(in);

    /* The second half; rows overlap by the token that is the label of one and the first of the
     * next. */
    in = open_fixture("tokens", ".bin");
    assert_int_equal(fseek(in, (e->rows * e->sequence + 1) * 2, SEEK_SET), 0);
    e->token = malloc((size_t)(e->rows * (e->sequence + 1)) * sizeof *e->token);
    assert_non_null(e->token);
    for (int64_t i = 0; i <= e->rows * e->sequence; i++) {
        uint16_t token;
        assert_int_equal(fread(&token, sizeof token, 1, in), 1);
        const int64_t row = i / e->sequence, at = i % e->sequence;
        if (row < e->rows)
            e->token[row * (e->sequence + 1) + at] = token;
        if (at == 0 && row > 0)
            e->token[row * (e->sequence + 1) - 1] = token;
    }
    fclose(in);
}

static void set_options(struct sw_program_options *o, const struct sw_model *model,
                        struct sw_mesh mesh)
{
    *o = (struct sw_program_options){.model = *model,
                                     .mesh = mesh,
                                     .sequence_length = 32,
                                     .global_batch = 2,
                                     .kind = SW_PROGRAM_EVALUATE,
                                     .logits = true,
                                     .compute = SW_F32,
                                     .params = SW_F32,
                                     .reduce = SW_F32};
    o->micro_batch_per_rank = o->global_batch / (mesh.size[SW_DP] * mesh.size[SW_FSDP]);
    o->layout = mesh.size[SW_SP] > 1 ? SW_ZIGZAG : SW_CONTIGUOUS;
    sw_rules_default(&o->rules, SW_ATTENTION_RING);
}

/* ---- What the folder holds ---- */

static float number(enum sw_stored_dtype dtype, const unsigned char *bytes)
{
    uint16_t half;
    float value;
    memcpy(&half, bytes, sizeof half);
    if (dtype == SW_STORED_BF16)
        return sw_bf16_to_float(half);
    if (dtype == SW_STORED_F16)
        return sw_fp16_to_float(half);
    assert_int_equal(dtype, SW_STORED_F32);
    memcpy(&value, bytes, sizeof value);
    return value;
}

/* Of a tensor of the placement, in the orientation of the state; malloc'ed. */
static float *read_tensor(const char *name, const struct sw_placement *placement,
                          const struct sw_stored_tensor *t)
{
    char end[128];
    snprintf(end, sizeof end, "/%s", placement->file[t->file].name);
    FILE *in = open_fixture(name, end);
    const int64_t rows = t->size[0], columns = t->ndim > 1 ? t->size[1] : 1;
    const int64_t elem_bytes = (int64_t)sw_stored_dtype_bytes(t->dtype);
    assert_int_equal(t->bytes, rows * columns * elem_bytes);
    unsigned char *bytes = malloc((size_t)t->bytes);
    float *values = malloc((size_t)(rows * columns) * sizeof *values);
    assert_non_null(bytes);
    assert_non_null(values);
    assert_int_equal(fseek(in, t->offset, SEEK_SET), 0);
    assert_int_equal(fread(bytes, 1, (size_t)t->bytes, in), t->bytes);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            values[t->transposed ? j * rows + i : i * columns + j] =
                number(t->dtype, bytes + (i * columns + j) * elem_bytes);
    free(bytes);
    fclose(in);
    return values;
}

static void read_tensors(const char *name, const struct sw_state *state,
                         const struct sw_placement *placement,
                         const struct sw_stored_tensor *tied_copy, struct loaded *out)
{
    assert_in_range(placement->tensor_count, 1, MAX_TENSORS);
    for (int32_t i = 0; i < placement->tensor_count; i++) {
        const struct sw_stored_tensor *from = &placement->tensor[i];
        struct tensor *t = &out->tensor[out->count++];
        snprintf(t->name, sizeof t->name, "%s", state->row[from->row].name);
        t->instance = from->instance;
        t->elems = from->size[0] * (from->ndim > 1 ? from->size[1] : 1);
        t->data = read_tensor(name, placement, from);
    }
    out->tied_copy = tied_copy->file >= 0;
    if (!out->tied_copy)
        return;
    float *head = read_tensor(name, placement, tied_copy);
    for (int32_t i = 0; i < out->count; i++)
        if (strcmp(out->tensor[i].name, "embedding") == 0)
            out->tied_copy_is_equal =
                memcmp(out->tensor[i].data, head, (size_t)out->tensor[i].elems * sizeof *head) == 0;
    free(head);
}

static void load(const char *name, struct loaded *out)
{
    char path[512];
    struct sw_error err = {0};
    struct sw_model_folder model = {0};
    struct sw_placement placement = {0};
    struct sw_stored_tensor tied_copy = {.file = -1};
    struct sw_program *program = NULL;
    struct sw_program_set *set = NULL;
    struct sw_program_options options;
    memset(out, 0, sizeof *out);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (sw_model_folder_open(path, false, &model, &err) != 0)
        fail_msg("%s: %s: %s", name, err.file, err.message);
    out->model = model.model;
    set_options(&options, &model.model, sw_mesh_make(1, 1, 1, 1));
    if (sw_program_compile(&options, SW_LAID_OUT, &program, &err) != 0 ||
        sw_program_set_single(program, options.kind, &set, &err) != 0)
        fail_msg("%s: %s", name, err.message);
    if (sw_model_folder_match(&model, &set->state, false, &placement, &tied_copy, &err) != 0)
        fail_msg("%s: %s: %s", name, err.file, err.message);
    read_tensors(name, &set->state, &placement, &tied_copy, out);
    sw_placement_free(&placement);
    sw_program_set_free(set);
    sw_model_folder_free(&model);
}

static void unload(struct loaded *loaded)
{
    for (int32_t i = 0; i < loaded->count; i++)
        free(loaded->tensor[i].data);
}

/* ---- Tests ---- */

static void give(void *context, const char *name, int32_t instance, float *values, int64_t elems)
{
    const struct loaded *loaded = context;
    for (int32_t i = 0; i < loaded->count; i++) {
        const struct tensor *t = &loaded->tensor[i];
        if (strcmp(t->name, name) != 0 || t->instance != instance)
            continue;
        if (t->elems != elems)
            break;
        memcpy(values, t->data, (size_t)elems * sizeof *values);
        return;
    }
    fprintf(stderr, "no parameter %s.%d of %lld\n", name, (int)instance, (long long)elems);
    abort(); /* on a rank's thread */
}

static void compare(const char *name, const struct loaded *loaded, const struct expected *e,
                    struct sw_mesh mesh)
{
    struct sw_program_options options;
    set_options(&options, &loaded->model, mesh);
    assert_int_equal(e->rows, options.global_batch);
    assert_int_equal(e->sequence, options.sequence_length);
    assert_int_equal(e->vocab, loaded->model.vocab_size);
    const char *const values[] = {"logits", NULL};
    const struct sw_harness harness = {.options = &options,
                                       .parameter = give,
                                       .parameter_context = (void *)(uintptr_t)loaded,
                                       .rows = e->token,
                                       .steps = 1,
                                       .values = values};
    struct sw_harness_result result;
    struct sw_error err = {0};
    if (sw_harness_run(&harness, &result, &err) != 0)
        fail_msg("%s: %s", name, err.message);
    const struct sw_harness_value *logits = sw_harness_find(&result, "logits");
    assert_int_equal(logits->elems, e->rows * e->sequence * e->vocab);
    const double far = sw_harness_difference(logits->data, e->logits, logits->elems);
    if (!(far <= TOLERANCE))
        fail_msg("%s: logits differ by %g of the largest", name, far);
    const double loss = fabs(result.loss[0] - e->loss) / e->loss;
    if (!(loss <= TOLERANCE))
        fail_msg("%s: the loss is %.9f, not %.9f", name, result.loss[0], e->loss);
    sw_harness_result_free(&result);
}

static void check(const char *name, const char *verdict)
{
    struct loaded loaded;
    struct expected e;
    load(name, &loaded);
    const bool is_copy = strstr(name, "_head") != NULL;
    if (loaded.tied_copy != is_copy)
        fail_msg("%s: a copy of the tied head is %s", name, is_copy ? "not found" : "found");
    if (is_copy && loaded.tied_copy_is_equal != (strcmp(verdict, "load") == 0))
        fail_msg("%s: the copy of the tied head is %s", name,
                 loaded.tied_copy_is_equal ? "equal" : "different");
    if (strcmp(verdict, "load") == 0) {
        read_expected(name, &e);
        compare(name, &loaded, &e, sw_mesh_make(1, 1, 1, 1));
        compare(name, &loaded, &e, sw_mesh_make(1, 2, 2, 2));
        free(e.logits);
        free(e.token);
    }
    unload(&loaded);
}

static void every_fixture(void **state)
{
    (void)state;
    FILE *in = open_fixture("fixtures", ".txt");
    char line[256], name[64], dtype[16], verdict[16];
    int32_t count = 0;
    for (; fgets(line, sizeof line, in) != NULL; count++) {
        assert_int_equal(sscanf(line, "%63s %15s %15s", name, dtype, verdict), 3);
        check(name, verdict);
    }
    fclose(in);
    assert_int_equal(count, 20);
}

/* Files that do not belong to the weights and go along with them. */
static void files_that_are_copied(void **state)
{
    (void)state;
    char path[512];
    struct sw_error err = {0};
    struct sw_model_folder model = {0};
    snprintf(path, sizeof path, "%s/llama_sharded", folder);
    if (sw_model_folder_open(path, false, &model, &err) != 0)
        fail_msg("%s", err.message);
    assert_int_equal(model.count, 4);
    static const char *const names[] = {"chat_template.jinja", "generation_config.json",
                                        "special_tokens_map.json", "tokenizer.json",
                                        "tokenizer_config.json"};
    const int32_t count = (int32_t)(sizeof names / sizeof names[0]);
    assert_int_equal(model.other_count, count);
    for (int32_t i = 0; i < count; i++) {
        bool found = false;
        for (int32_t j = 0; j < count; j++)
            found = found || strcmp(model.other[j], names[i]) == 0;
        if (!found)
            fail_msg("'%s' is not copied", names[i]);
    }
    sw_model_folder_free(&model);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        folder = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_fixture),
                                       cmocka_unit_test(files_that_are_copied)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
