/* Model directories, whoever wrote them: what is found in them, and every refusal with its text. */
#include "core/models/parameters.h"
#include "runner/checkpoint/model_index.h"
#include "tests/support/stacks.h"
#include "tests/unit/model_folder_support.h"

#define INDEX "model.safetensors.index.json"

/* A checkpoint of the options' state, with its optimizer, in several files. */
static void put_checkpoint(const char *name, const struct sw_program_options *options,
                           const struct sw_program_set *set, struct sw_placement *placement)
{
    char path[256], *index = NULL;
    assert_int_equal(sw_placement_make(&set->state, 1, placement, NULL), 0);
    put_placement(name, placement);
    put_config(name, &options->model);
    assert_int_equal(sw_model_index_json(placement, &index, NULL), 0);
    snprintf(path, sizeof path, "%s/" INDEX, name);
    put_text(path, index);
    free(index);
}

static struct sw_model_folder open_good(const char *name, bool optimizer)
{
    struct sw_model_folder out;
    struct sw_error err = {0};
    if (sw_model_folder_open(in_folder(name), optimizer, &out, &err) != 0)
        fail_msg("%s: %s", err.file, err.message);
    return out;
}

/* The message must be FOLDER/PLACE: error: WANTED. */
static void expect_message(const struct sw_error *err, const char *place, const char *wanted)
{
    char said[SW_ERROR_TEXT_BYTES], line[6000];
    snprintf(line, sizeof line, "%s: error: %s", in_folder(place), wanted);
    assert_string_equal(sw_error_format(err, NULL, said), line);
    assert_int_equal(err->status, SW_BAD_INPUT);
}

static void expect_unopened(const char *name, const char *place, const char *wanted)
{
    struct sw_model_folder out;
    struct sw_error err = {0};
    assert_int_equal(sw_model_folder_open(in_folder(name), true, &out, &err), -1);
    expect_message(&err, place, wanted);
    assert_null(out.path);
}

static void expect_unplaced(const char *name, const struct sw_program_set *set, bool optimizer,
                            const char *place, const char *wanted)
{
    struct sw_placement out;
    struct sw_error err = {0};
    struct sw_model_folder f = open_good(name, optimizer);
    assert_int_equal(sw_model_folder_match(&f, &set->state, optimizer, &out, NULL, &err), -1);
    expect_message(&err, place, wanted);
    assert_null(out.tensor);
    sw_model_folder_free(&f);
}

static void check_same(const struct sw_stored_tensor *a, const struct sw_stored_tensor *b)
{
    int64_t left[SW_STORED_DIMS], right[SW_STORED_DIMS];
    const uint8_t ndim = sw_stored_shape(a, left);
    assert_string_equal(a->name, b->name);
    assert_int_equal(ndim, sw_stored_shape(b, right));
    assert_memory_equal(left, right, ndim * sizeof left[0]);
    assert_true(a->row == b->row && a->instance == b->instance && a->tied == b->tied &&
                a->group == b->group && a->dtype == b->dtype && a->transposed == b->transposed &&
                a->first_matrix == b->first_matrix && a->matrices == b->matrices &&
                a->bytes == b->bytes && a->file == b->file && a->offset == b->offset);
}

/* What a placement says, a folder of its files says too. */
static void checkpoint_is_found(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct sw_program_options options = small_options(i % 2 != 0);
        struct sw_program_set *set = make_set(&options);
        struct sw_test_stacks stacks = {.count = 0};
        struct sw_placement made, found;
        if (i / 2 > 0) /* parameters of three dimensions, too */
            assert_true(sw_test_stack(i, &set->state, &set->state, &stacks) > 2);
        struct sw_stored_tensor copy;
        put_checkpoint("good", &options, set, &made);
        struct sw_model_folder f = open_good("good", true);
        assert_memory_equal(&f.model, &options.model, sizeof f.model);
        assert_int_equal(f.count, made.file_count);
        assert_string_equal(f.path, in_folder("good"));
        if (sw_model_folder_match(&f, &set->state, true, &found, &copy, NULL) != 0)
            fail_msg("not placed");
        assert_int_equal(copy.file, -1);
        assert_int_equal(found.file_count, made.file_count);
        assert_int_equal(found.tensor_count, made.tensor_count);
        for (int32_t n = 0; n < made.file_count; n++)
            assert_memory_equal(&found.file[n], &made.file[n], sizeof made.file[n]);
        for (int32_t n = 0; n < made.tensor_count; n++)
            check_same(&found.tensor[n], &made.tensor[n]);
        assert_int_equal(sw_placement_deal(&found, 3, NULL), 0);
        sw_placement_free(&found);
        /* without the optimizer, whether it was opened or not */
        assert_int_equal(sw_model_folder_match(&f, &set->state, false, &found, NULL, NULL), 0);
        assert_int_equal(found.tensor_count, made.tensor_count / 3);
        assert_int_equal(found.file_count, made.file_count / 3);
        sw_placement_free(&found);
        sw_model_folder_free(&f);
        f = open_good("good", false);
        assert_int_equal(f.count, made.file_count / 3);
        sw_model_folder_free(&f);
        sw_placement_free(&made);
        sw_program_set_free(set);
        remove_all("good");
    }
}

static void latest_and_other_files_are_found(void **state)
{
    (void)state;
    struct sw_program_options options = small_options(true);
    struct sw_program_set *set = make_set(&options);
    struct sw_placement made;
    put_checkpoint("run/step-000500", &options, set, &made);
    put_text("run/step-000500/tokenizer.json", "{}");
    put_text("run/step-000500/tokenizer.model", "x");
    put_text("run/step-000500/merges.txt", "x");
    put_text("run/step-000500/README.md", "x");
    put_text("run/step-000500/chat_template.jinja", "x");
    put_text("run/step-000500/additional_chat_templates/rag.jinja", "x");
    put_text("run/step-000500/additional_chat_templates/README.md", "x");
    assert_int_equal(mkdir(in_folder("run/step-000500/tokenizer"), 0777), 0);
    assert_int_equal(symlink("step-000500", in_folder("run/latest")), 0);
    struct sw_model_folder f = open_good("run", false);
    assert_string_equal(f.path, in_folder("run/latest"));
    assert_int_equal(f.other_count, 5);
    assert_string_equal(f.other[0], "chat_template.jinja");
    assert_string_equal(f.other[1], "merges.txt");
    assert_string_equal(f.other[2], "tokenizer.json");
    assert_string_equal(f.other[3], "tokenizer.model");
    assert_string_equal(f.other[4], "additional_chat_templates/rag.jinja");
    sw_model_folder_free(&f);
    sw_placement_free(&made);
    sw_program_set_free(set);
    remove_all("run");
}

static void what_is_no_model_is_refused(void **state)
{
    (void)state;
    const struct sw_program_options options = small_options(true);
    expect_unopened("m", "m",
                    "No such file or directory; a Hugging Face model directory or a checkpoint is "
                    "needed");
    put_text("m", "x");
    expect_unopened("m", "m",
                    "is not a folder; a Hugging Face model directory or a checkpoint is needed");
    remove_all("m");
    put_text("m/README.md", "");
    expect_unopened("m", "m",
                    "has no config.json; a Hugging Face model directory or a checkpoint is needed");
    put_text("m/config.json", "{\"architectures\": [\"GPT2LMHeadModel\"]}");
    expect_unopened("m", "m/config.json:1:20",
                    "the architecture 'GPT2LMHeadModel' is not supported: learned positions, "
                    "LayerNorm and GELU; supported: LlamaForCausalLM, MistralForCausalLM, "
                    "Qwen2ForCausalLM, Qwen3ForCausalLM, Olmo2ForCausalLM, GraniteForCausalLM, "
                    "Gemma3ForCausalLM, Gemma2ForCausalLM, Olmo3ForCausalLM, "
                    "Phi3ForCausalLM");
    put_text("m/config.json", "{");
    expect_unopened(
        "m", "m/config.json:1:2",
        "not valid JSON: the text ends within a value; check the quotes, brackets and commas "
        "before this place");
    put_config("m", &options.model);
    expect_unopened("m", "m", "has neither model.safetensors nor model.safetensors.index.json");
    put_text("m/pytorch_model.bin", "");
    expect_unopened("m", "m",
                    "has no model.safetensors, only 'pytorch_model.bin', which can run code when "
                    "it is read; convert it to safetensors");
    put_text("m/model.safetensors", "");
    expect_unopened("m", "m/model.safetensors",
                    "has 0 bytes, and a safetensors file begins with 8; it is cut off or not a "
                    "safetensors file");
    remove_all("m");
}

static void wrong_indexes_are_refused(void **state)
{
    (void)state;
    const struct sw_program_options options = small_options(true);
    static const char a[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}";
    put_config("m", &options.model);
    put_text("m/" INDEX, "{\"weight_map\": {\"a\": \"x.safetensors\", \"b\": \"y.safetensors\"}}");
    expect_unopened("m", "m/x.safetensors",
                    "is missing, and model.safetensors.index.json names it; copy the whole model");
    put_tensors("m/x.safetensors", a, 1);
    put_tensors("m/y.safetensors", a, 1);
    expect_unopened("m", "m/y.safetensors", "tensor 'a' is in 'x.safetensors', too");
    put_tensors("m/y.safetensors", "{}", 0);
    expect_unopened("m", "m/" INDEX, "tensor 'b' is not in 'y.safetensors'");
    put_text("m/" INDEX, "{\"weight_map\": {\"a\": \"y.safetensors\", \"b\": \"x.safetensors\"}}");
    expect_unopened("m", "m/" INDEX, "tensor 'a' is not in 'y.safetensors'");
    static const struct {
        const char *text, *place, *wanted;
    } cases[] = {
        {"", ":1:1", "not valid JSON: the text ends within a value"},
        {"{\"weight_map\": {},\n \"weight_map\": {}}", ":2:2", "not valid JSON: a duplicate key"},
        {"[]", "", "has no 'weight_map' of tensors to files"},
        {"{\"weight_map\": {}}", "", "has no 'weight_map' of tensors to files"},
        {"{\"weight_map\": {\"a\": 1}}", "", "tensor 'a' has no file name"},
        {"{\"weight_map\": {\"a\": \"../x\"}}", "",
         "tensor 'a' is in '../x', which is not the name of a file beside the index"},
        {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", "",
         "tensor 'a' is in '/etc/passwd', which is not the name of a file beside the index"},
        {"{\"weight_map\": {\"a\\n\": \"\"}}", "",
         "tensor 'a?' is in '', which is not the name of a file beside the index"},
        {"{\"weight_map\": {\"a\": \"x\\u001b[m\"}}", "",
         "tensor 'a' is in 'x?[m', which is not the name of a file beside the index"},
        {"{\"weight_map\": {\"a\": \"pytorch_model-1.bin\"}}", "",
         "tensor 'a' is in 'pytorch_model-1.bin', which is not a safetensors file; convert it to "
         "safetensors"},
        {"{\"weight_map\": {\"\": \"x\"}}", "",
         "'' is not the name of a tensor: it has 0 bytes, of 1 to 255"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char place[100];
        snprintf(place, sizeof place, "m/" INDEX "%s", cases[i].place);
        put_text("m/" INDEX, cases[i].text);
        expect_unopened("m", place, cases[i].wanted);
    }
    remove_all("m");
}

/* ---- Placing ---- */

/* The header of a single file with the state's tensors, each as change() leaves it. */
struct change {
    const char *name, *info; /* dtype and shape; NULL: left out */
    const char *add;         /* one more tensor, of 8 zeros; NULL: none */
};

static void put_single(const struct sw_program_set *set, const struct change *change)
{
    struct sw_stored_tensor *tensor = NULL;
    int32_t count = 0;
    int64_t at = 0;
    char *header = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&header, &bytes);
    assert_non_null(out);
    assert_int_equal(sw_stored_tensors(&set->state, SW_STORED_SAVED, &tensor, &count, NULL), 0);
    fputc('{', out);
    for (int32_t i = 0; i < count && tensor[i].group == SW_STORED_MODEL; i++) {
        const struct sw_stored_tensor *t = &tensor[i];
        const bool changed = change->name != NULL && strcmp(t->name, change->name) == 0;
        if (changed && change->info == NULL)
            continue;
        fprintf(out, "%s\"%s\":{", at > 0 ? "," : "", t->name);
        if (changed)
            fputs(change->info, out);
        else if (t->ndim == 1)
            fprintf(out, "\"dtype\":\"F32\",\"shape\":[%d]", (int)t->size[0]);
        else
            fprintf(out, "\"dtype\":\"F32\",\"shape\":[%d,%d]", (int)t->size[0], (int)t->size[1]);
        fprintf(out, ",\"data_offsets\":[%d,%d]}", (int)at, (int)(at + t->bytes));
        at += t->bytes;
    }
    if (change->add != NULL) {
        fprintf(out, ",\"%s\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                change->add, (int)at, (int)at + 8);
        at += 8;
    }
    fputc('}', out);
    assert_int_equal(fclose(out), 0);
    put_tensors("m/model.safetensors", header, (size_t)at);
    free(header);
    free(tensor);
}

static void wrong_tensors_are_refused(void **state)
{
    (void)state;
    const struct sw_program_options options = small_options(true);
    struct sw_program_set *set = make_set(&options);
    put_config("m", &options.model);
    static const struct {
        struct change change;
        const char *place, *wanted; /* NULL: accepted */
    } cases[] = {
        {{NULL, NULL, NULL}, "", NULL},
        {{"model.norm.weight", NULL, NULL}, "", "no file holds the tensor 'model.norm.weight'"},
        {{"model.norm.weight", "\"dtype\":\"F32\",\"shape\":[2,4]", NULL},
         "/model.safetensors",
         "tensor 'model.norm.weight' has the shape [2, 4], not [8]"},
        {{"model.norm.weight", "\"dtype\":\"I32\",\"shape\":[8]", NULL},
         "/model.safetensors",
         "tensor 'model.norm.weight' holds I32; only F32, BF16, F16 and F64 can be read"},
        {{"model.norm.weight", "\"dtype\":\"F64\",\"shape\":[4]", NULL},
         "/model.safetensors",
         "tensor 'model.norm.weight' has the shape [4], not [8]"},
        {{"model.layers.1.mlp.up_proj.weight", "\"dtype\":\"F32\",\"shape\":[8,12]", NULL},
         "/model.safetensors",
         "tensor 'model.layers.1.mlp.up_proj.weight' has the shape [8, 12], not [12, 8]"},
        {{NULL, NULL, "transformer.h.0.attn.c_attn.weight"},
         "/model.safetensors",
         "tensor 'transformer.h.0.attn.c_attn.weight' is not part of this Llama model"},
        {{NULL, NULL, "model.layers.2.input_layernorm.weight"},
         "/model.safetensors",
         "tensor 'model.layers.2.input_layernorm.weight' is not part of this Llama model"},
        {{NULL, NULL, "model.layers.0.self_attn.q_proj.bias"},
         "/model.safetensors",
         "tensor 'model.layers.0.self_attn.q_proj.bias' is not part of this Llama model"},
        {{NULL, NULL, "a\\u001b[2J\\nb"},
         "/model.safetensors",
         "tensor 'a?[2J?b' is not part of this Llama model"},
        {{NULL, NULL, "model.layers.0.self_attn.rotary_emb.inv_freq"}, "", NULL},
        {{NULL, NULL, "model.rotary_emb.inv_freq"}, "", NULL},
        {{NULL, NULL, "model.layers.0.self_attn.masked_bias"}, "", NULL},
        {{NULL, NULL, "lm_head.weight"},
         "/model.safetensors",
         "tensor 'lm_head.weight' holds I64; only F32, BF16, F16 and F64 can be read"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char place[100];
        snprintf(place, sizeof place, "m%s", cases[i].place);
        put_single(set, &cases[i].change);
        if (cases[i].wanted != NULL) {
            expect_unplaced("m", set, false, place, cases[i].wanted);
            continue;
        }
        struct sw_model_folder f = open_good("m", false);
        struct sw_placement out;
        assert_int_equal(sw_model_folder_match(&f, &set->state, false, &out, NULL, NULL), 0);
        sw_placement_free(&out);
        sw_model_folder_free(&f);
    }
    sw_program_set_free(set);
    remove_all("m");
}

static void tied_copy_is_told(void **state)
{
    (void)state;
    const struct sw_program_options options = small_options(true), untied = small_options(false);
    struct sw_program_set *set = make_set(&options), *other = make_set(&untied);
    struct sw_placement out;
    struct sw_stored_tensor copy;
    put_config("m", &options.model);
    put_single(other, &(struct change){NULL, NULL, NULL}); /* with lm_head.weight */
    struct sw_model_folder f = open_good("m", false);
    assert_int_equal(sw_model_folder_match(&f, &set->state, false, &out, &copy, NULL), 0);
    const struct sw_stored_tensor *embedding = &out.tensor[0];
    const struct sw_safetensor *head = &f.file[0].header.tensor[f.file[0].header.count - 1];
    assert_string_equal(head->name, "lm_head.weight");
    assert_string_equal(copy.name, "lm_head.weight");
    assert_string_equal(embedding->name, "model.embed_tokens.weight");
    assert_int_equal(copy.file, 0);
    assert_int_equal(copy.row, embedding->row);
    assert_int_equal(copy.dtype, SW_STORED_F32);
    assert_int_equal(copy.offset, head->begin);
    assert_int_equal(copy.bytes, head->bytes);
    assert_int_equal(copy.size[0], 16);
    assert_int_equal(copy.size[1], 8);
    assert_int_equal(out.tensor_count, f.file[0].header.count - 1);
    sw_placement_free(&out);
    sw_model_folder_free(&f);
    /* and the other way round it is missing */
    put_single(set, &(struct change){NULL, NULL, NULL});
    expect_unplaced("m", other, false, "m", "no file holds the tensor 'lm_head.weight'");
    sw_program_set_free(set);
    sw_program_set_free(other);
    remove_all("m");
}

static void optimizer_must_be_whole(void **state)
{
    (void)state;
    struct sw_program_options options = small_options(true);
    struct sw_program_set *set = make_set(&options);
    struct sw_placement made;
    put_checkpoint("m", &options, set, &made);
    assert_int_equal(made.file_count, 3);
    put_tensors("m/optimizer/exp_avg-00002-of-00002.safetensors",
                "{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4);
    expect_unplaced("m", set, true, "m/optimizer/exp_avg-00002-of-00002.safetensors",
                    "tensor 'x' is not part of this Llama model");
    put_tensors("m/optimizer/exp_avg-00002-of-00002.safetensors",
                "{\"model.norm.weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                4);
    expect_unopened("m", "m/optimizer/exp_avg-00002-of-00002.safetensors",
                    "tensor 'model.norm.weight' is in "
                    "'optimizer/exp_avg-00001-of-00001.safetensors', too");
    remove_all("m/optimizer/exp_avg-00002-of-00002.safetensors");
    remove_all("m/optimizer/exp_avg_sq-00001-of-00001.safetensors");
    expect_unplaced("m", set, true, "m",
                    "no file optimizer/exp_avg_sq-* holds the tensor 'model.embed_tokens.weight'; "
                    "if it was frozen, freeze it again");
    remove_all("m/optimizer");
    expect_unplaced("m", set, true, "m",
                    "no file optimizer/exp_avg-* holds the tensor 'model.embed_tokens.weight'; "
                    "if it was frozen, freeze it again");
    sw_placement_free(&made);
    sw_program_set_free(set);
    remove_all("m");
}

/* Saved with a parameter trained, read with it frozen, and the other way round. */
static void freeze_must_be_the_same(void **state)
{
    (void)state;
    struct sw_program_options trained = small_options(true), frozen = trained;
    frozen.freeze = "model.norm";
    struct sw_program_set *with = make_set(&trained), *without = make_set(&frozen);
    struct sw_placement made;
    put_checkpoint("m", &trained, with, &made);
    expect_unplaced("m", without, true, "m/optimizer/exp_avg-00001-of-00001.safetensors",
                    "tensor 'model.norm.weight' was trained, and 'freeze' names it now; use the "
                    "'freeze' that the checkpoint was saved with");
    sw_placement_free(&made);
    remove_all("m");
    put_checkpoint("m", &frozen, without, &made);
    expect_unplaced("m", with, true, "m",
                    "no file optimizer/exp_avg-* holds the tensor 'model.norm.weight'; if it was "
                    "frozen, freeze it again");
    sw_placement_free(&made);
    remove_all("m");
    sw_program_set_free(with);
    sw_program_set_free(without);
}

static void index_looks_like_this(void **state)
{
    (void)state;
    static const struct sw_index_entry entry[] = {{"a", "x.safetensors"}, {"b", "y.safetensors"}};
    char *text = NULL;
    assert_int_equal(sw_model_index_write(entry, 2, 12, &text, NULL), 0);
    assert_string_equal(text, "{\n"
                              "  \"metadata\": {\n"
                              "    \"total_size\": 12\n"
                              "  },\n"
                              "  \"weight_map\": {\n"
                              "    \"a\": \"x.safetensors\",\n"
                              "    \"b\": \"y.safetensors\"\n"
                              "  }\n"
                              "}\n");
    struct sw_model_index index;
    assert_int_equal(sw_model_index_parse("i", text, strlen(text), &index, NULL), 0);
    assert_int_equal(index.count, 2);
    assert_string_equal(index.tensor[1].name, "b");
    assert_string_equal(index.file[index.tensor[1].file], "y.safetensors");
    sw_model_index_free(&index);
    free(text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoint_is_found),
        cmocka_unit_test(latest_and_other_files_are_found),
        cmocka_unit_test(what_is_no_model_is_refused),
        cmocka_unit_test(wrong_indexes_are_refused),
        cmocka_unit_test(wrong_tensors_are_refused),
        cmocka_unit_test(tied_copy_is_told),
        cmocka_unit_test(freeze_must_be_the_same),
        cmocka_unit_test(optimizer_must_be_whole),
        cmocka_unit_test(index_looks_like_this),
    };
    return run_in_folder(tests, sizeof tests / sizeof tests[0], argc > 1 ? argv[1] : ".",
                         "model_folder");
}
