/* The program's text at every stage against golden files, and what compile refuses.
 * SW_UPDATE_GOLDEN=1 writes the files anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/ir/op.h"
#include "tests/support/recompute.h"
#include "tests/support/small_model.h"
#include "core/programs/program_set.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *golden_directory;

static struct sw_program_options small_model(struct sw_mesh mesh)
{
    struct sw_program_options o = sw_test_small_model(mesh);
    o.layout = SW_ZIGZAG;
    return o;
}

static char *print(const struct sw_program_options *o, enum sw_program_stage stage)
{
    struct sw_error err = {0};
    struct sw_program *program = NULL;
    if (sw_program_compile(o, stage, &program, &err) != 0)
        fail_msg("%s", err.message);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    sw_program_print(out, program, SW_CARRIER_HOST);
    fclose(out);
    sw_program_free(program);
    return text;
}

static void compare(const char *name, char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.txt", golden_directory, name);
    if (getenv("SW_UPDATE_GOLDEN") != NULL) {
        FILE *out = fopen(path, "w");
        assert_non_null(out);
        fputs(text, out);
        fclose(out);
    }
    FILE *in = fopen(path, "r");
    if (in == NULL)
        fail_msg("cannot open %s", path);
    char *line = NULL, *at = text;
    size_t capacity = 0;
    int number = 0;
    for (ssize_t n; (n = getline(&line, &capacity, in)) >= 0;) {
        number++;
        if (strncmp(at, line, (size_t)n) != 0)
            fail_msg("%s:%d: expected %.*s, got %.*s", path, number, (int)n - 1, line,
                     (int)strcspn(at, "\n"), at);
        at += n;
    }
    if (*at != '\0')
        fail_msg("%s: more text than expected: %.80s", path, at);
    free(line);
    fclose(in);
    free(text);
}

static void test_stages(void **state)
{
    (void)state;
    static const char *const names[] = {"logical", "differentiated", "partitioned", "scheduled",
                                        "laid_out"};
    struct sw_program_options o = small_model(sw_mesh_make(1, 2, 2, 2));
    for (int stage = SW_LOGICAL; stage <= SW_LAID_OUT; stage++)
        compare(names[stage], print(&o, (enum sw_program_stage)stage));
}

static void test_variants(void **state)
{
    (void)state;
    struct sw_program_options o = small_model(sw_mesh_make(2, 1, 2, 1));
    o.rules.axes[SW_L_RESIDUAL_SEQ] = (struct sw_axes){2, {SW_SP, SW_TP}};
    o.model.tied = true;
    o.recompute = sw_recompute_full();
    o.compute = SW_BF16_T;
    compare("megatron_sequence_parallel", print(&o, SW_SCHEDULED));
    o = small_model(sw_mesh_make(1, 1, 1, 4));
    sw_rules_default(&o.rules, SW_ATTENTION_ULYSSES);
    compare("ulysses", print(&o, SW_SCHEDULED));
    sw_rules_default(&o.rules, SW_ATTENTION_GATHER);
    o.recompute = sw_recompute_all(sw_test_values_before(NULL, "o"));
    compare("gather", print(&o, SW_SCHEDULED));
    o = small_model(sw_mesh_make(1, 2, 2, 1));
    o.recompute =
        (struct sw_recompute){sw_test_values(NULL, "n1, o, h"), 2, sw_test_values(NULL, "n1")};
    compare("partial", print(&o, SW_LAID_OUT));
    o = small_model(sw_mesh_make(1, 3, 1, 1)); /* 3 divides neither 32 nor 4 */
    compare("uneven", print(&o, SW_LAID_OUT));
}

/* A layer's values have the ordinals of the model, whatever the mesh: also those that only some
 * meshes make. */
static void test_layer_values(void **state)
{
    (void)state;
    static const int32_t meshes[][4] = {{1, 1, 1, 1}, {1, 2, 4, 1}, {2, 1, 2, 2}};
    char text[SW_VALUES_BYTES];
    for (int32_t i = 0; i < 6; i++) {
        const int32_t *mesh = meshes[i % 3];
        struct sw_program_options o = small_model(sw_mesh_make(mesh[0], mesh[1], mesh[2], mesh[3]));
        o.model.qkv_bias = o.model.qk_norm = o.model.mlp_bias = i >= 3;
        o.recompute.layers = i % 2; /* two regions of the same layers */
        o.recompute.values = sw_test_values(NULL, "n1");
        struct sw_program *p = NULL;
        assert_int_equal(sw_program_compile(&o, SW_SCHEDULED, &p, NULL), 0);
        assert_string_equal(
            sw_layer_values_format(p->layer_values, text),
            i < 3 ? "n1, q0, k0, v0, q1, k1, k2, v2, o, lse, y, n2, gate, up, h"
                  : "n1, q0, q0+b, k0, k0+b, v0, v0+b, qn, kn, q1, k1, k2, v2, o, lse, y, n2, "
                    "gate, gate+b, up, up+b, h");
        int32_t named = 0;
        for (int32_t v = 0; v < p->value_count; v++) {
            const int32_t ordinal = p->values[v].ordinal;
            if (ordinal < 0 || p->values[v].base != v)
                continue;
            const char *name = p->values[v].name;
            assert_non_null(strstr(name, sw_layer_value_name(ordinal)));
            named++;
        }
        assert_true(named >= (i < 3 ? 15 : 22) - 2); /* copies of kv heads are not made */
        sw_program_free(p);
    }
}

/* Made over the state, behind which its buffers lie. */
static void test_save(void **state)
{
    (void)state;
    struct sw_program_options o = small_model(sw_mesh_make(2, 2, 2, 1));
    struct sw_program_set *set = NULL, *other = NULL;
    struct sw_error err = {0};
    if (sw_program_set_compile(&o, &set, &err) != 0)
        fail_msg("%s", err.message);
    const struct sw_program *save = set->program[SW_PROGRAM_SAVE];
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    sw_program_print(out, save, SW_CARRIER_HOST);
    fclose(out);
    compare("save", text);

    assert_string_equal(sw_program_kind_name(SW_PROGRAM_SAVE), "save");
    assert_int_equal(save->regions[0].repeat, set->save.rounds);
    assert_ptr_equal(set->save.placement, &set->placement);
    assert_ptr_equal(set->save.state, &set->state);
    assert_int_equal(set->placement.ranks, 8);
    assert_int_equal(save->ops[0].workspace_bytes, 2 * set->save.chunk_bytes);
    assert_int_equal(save->ops[0].workspace_offset, set->state.bytes);
    assert_int_equal(save->arena_bytes, set->state.bytes + 2 * set->save.chunk_bytes);
    assert_true(set->arena_bytes >= save->arena_bytes);

    /* what is where is in the digest, though no line says it */
    const uint64_t digest = sw_program_digest(save);
    o.model.tied = true;
    assert_int_equal(sw_program_set_compile(&o, &other, NULL), 0);
    assert_true(sw_program_digest(other->program[SW_PROGRAM_SAVE]) != digest);
    uint64_t digests[SW_PROGRAM_KINDS];
    sw_program_set_digests(set, digests);
    assert_true(digests[SW_PROGRAM_SAVE] == digest);
    assert_int_equal(sw_program_set_differs(set, digests), SW_PROGRAM_KINDS);
    set->program[SW_PROGRAM_SAVE]->ops[0].as.snapshot.tables++;
    assert_int_equal(sw_program_set_differs(set, digests), SW_PROGRAM_SAVE);
    sw_program_set_free(other);
    sw_program_set_free(set);
}

static void test_forward_only_keeps_two_residuals(void **state)
{
    (void)state;
    struct sw_program_options o = small_model(sw_mesh_make(1, 2, 1, 2));
    o.kind = SW_PROGRAM_EVALUATE;
    o.logits = true;
    struct sw_program *program = NULL;
    assert_int_equal(sw_program_compile(&o, SW_LAID_OUT, &program, NULL), 0);
    assert_true(sw_program_output(program, "logits") >= 0);
    assert_int_equal(program->gradient_bytes, 0);
    for (int32_t v = 0; v < program->value_count; v++)
        if (strcmp(program->values[v].name, "x") == 0)
            assert_int_equal(program->values[v].slots, 2);
    sw_program_free(program);
}

/* Two layers or two hundred: the same ops. */
static void test_cost_of_compiling_is_that_of_one_layer(void **state)
{
    (void)state;
    struct sw_program_options o = small_model(sw_mesh_make(1, 2, 2, 2));
    struct sw_program *few = NULL, *many = NULL;
    assert_int_equal(sw_program_compile(&o, SW_LAID_OUT, &few, NULL), 0);
    o.model.layers = 200;
    assert_int_equal(sw_program_compile(&o, SW_LAID_OUT, &many, NULL), 0);
    assert_int_equal(few->op_count, many->op_count);
    assert_int_equal(few->value_count, many->value_count);
    assert_true(many->arena_bytes > 30 * few->arena_bytes);
    sw_program_free(few);
    sw_program_free(many);
}

static void add_digests(FILE *out, const char *name, const struct sw_program_options *o,
                        const struct sw_serving *serving)
{
    struct sw_program_set *set = NULL;
    struct sw_error err = {0};
    uint64_t digests[SW_PROGRAM_KINDS];
    const uint32_t kinds = 1u << SW_PROGRAM_PREFILL | 1u << SW_PROGRAM_DECODE;
    if ((serving == NULL ? sw_program_set_compile(o, &set, &err)
                         : sw_program_set_compile_serving(o, serving, kinds, &set, &err)) != 0)
        fail_msg("%s", err.message);
    sw_program_set_digests(set, digests);
    for (int k = 0; k < SW_PROGRAM_KINDS; k++)
        if (set->program[k] != NULL)
            fprintf(out, "%s %s %016" PRIx64 "\n", name, sw_program_kind_name(k), digests[k]);
    sw_program_set_free(set);
}

/* A plan that was written stays good: a kind of op, a role, a type or an attribute that is added
 * changes no program without it. Whoever changes these digests refuses all plans there are. */
static void test_digests_last(void **state)
{
    (void)state;
    struct sw_program_options o = small_model(sw_mesh_make(1, 2, 2, 2));
    const struct sw_serving serving = {
        .max_batch = 4, .max_tokens = 64, .chunk = 16, .cache = SW_I8};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    add_digests(out, "ring", &o, NULL);
    add_digests(out, "cache", &o, &serving);
    o.compute = SW_BF16_T;
    sw_rules_default(&o.rules, SW_ATTENTION_ULYSSES);
    add_digests(out, "ulysses", &o, NULL);
    assert_int_equal(fclose(out), 0);
    compare("digests", text);
}

/* Texts of up to 24 tokens, of a model whose lists part at 32: a cache that chunks of 20 make
 * longer, which those of another mesh might not, has the same list. */
static void test_longrope_goes_by_texts(void **state)
{
    (void)state;
    struct sw_program_options o = small_model(sw_mesh_make(1, 1, 1, 1)), serves;
    o.model.rope.scaling = SW_ROPE_LONGROPE;
    o.model.rope.original_positions = 32;
    for (int32_t i = 0; i < SW_ROPE_MOST_PAIRS; i++) {
        o.model.short_divisors[i] = 2;
        o.model.long_divisors[i] = 3;
    }
    for (int64_t most = 24; most <= 33; most += 9) {
        struct sw_program *p = NULL;
        const struct sw_serving serving = {
            .max_batch = 1, .max_tokens = most, .chunk = 20, .cache = SW_F32};
        assert_int_equal(sw_serving_options(&o, &serving, SW_PROGRAM_PREFILL, &serves, NULL), 0);
        assert_int_equal(serves.serving.max_tokens, 40);
        assert_int_equal(sw_program_compile(&serves, SW_LAID_OUT, &p, NULL), 0);
        assert_true(p->rope_divisors[0] == (most == 24 ? 2 : 3));
        sw_program_free(p);
    }
}

static void test_digest(void **state)
{
    (void)state;
    struct sw_program_options o = small_model(sw_mesh_make(1, 2, 2, 2));
    struct sw_program *a = NULL, *b = NULL, *c = NULL;
    assert_int_equal(sw_program_compile(&o, SW_LAID_OUT, &a, NULL), 0);
    assert_int_equal(sw_program_compile(&o, SW_LAID_OUT, &b, NULL), 0);
    o.model.rope.theta = 20000;
    assert_int_equal(sw_program_compile(&o, SW_LAID_OUT, &c, NULL), 0);
    assert_true(sw_program_digest(a) == sw_program_digest(b));
    assert_true(sw_program_digest(a) != sw_program_digest(c));
    sw_program_free(a);
    sw_program_free(b);
    sw_program_free(c);
}

static void refuse(struct sw_program_options o, enum sw_reject reason, const char *detail,
                   const char *help)
{
    char got_detail[256], got_help[256];
    assert_int_equal(sw_program_admits(&o, got_detail, got_help), reason);
    assert_string_equal(got_detail, detail);
    assert_string_equal(got_help, help);
    struct sw_program *program = NULL;
    struct sw_error err = {0};
    assert_int_equal(sw_program_compile(&o, SW_LAID_OUT, &program, &err), -1);
    assert_int_equal(err.status, SW_UNMET);
}

static void test_refusals(void **state)
{
    (void)state;
    refuse(small_model(sw_mesh_make(1, 8, 1, 1)), SW_REJECT_BATCH,
           "global_batch_size 4 is smaller than fsdp 8",
           "use a batch of at least 8 sequences, or more tp or sp");
    struct sw_program_options o = small_model(sw_mesh_make(3, 1, 1, 1));
    o.micro_batch_per_rank = 3;
    refuse(o, SW_REJECT_BATCH,
           "micro_batch_size 3 is more than the 2 sequences that a rank has in a step",
           "use micro_batch_size 1 or 2");
    refuse(small_model(sw_mesh_make(1, 1, 3, 1)), SW_REJECT_HEADS,
           "num_attention_heads 4 is not divisible by tp 3", "use tp 1, 2 or 4");
    o = small_model(sw_mesh_make(1, 1, 3, 1));
    o.model.heads = o.model.kv_heads = 3;
    assert_int_equal(sw_rules_set(&o.rules, "act_embed", (struct sw_axes){1, {SW_TP}}, NULL), 0);
    refuse(o, SW_REJECT_HIDDEN, "hidden_size 32 is not divisible by tp 3",
           "use tp 1, 2, 4, 8, 16 or 32");
    o = small_model(sw_mesh_make(1, 1, 6, 1));
    o.model.heads = 12;
    o.model.kv_heads = 4;
    refuse(o, SW_REJECT_KV_HEADS, "num_key_value_heads 4 and tp 6 must divide one another",
           "use tp 1, 2 or 4, or a multiple of 4 that divides the 12 heads");
    o = small_model(sw_mesh_make(1, 1, 1, 4));
    o.sequence_length = 36;
    refuse(o, SW_REJECT_SEQUENCE,
           "sequence_length 36 is not divisible by 2 x sp 4, as the zigzag layout needs",
           "use a sequence_length that is a multiple of 8, or layout: contiguous");
    o = small_model(sw_mesh_make(1, 1, 1, 1));
    o.model.hidden_size = 1 << 24;
    o.model.intermediate_size = 1 << 26;
    o.sequence_length = o.global_batch = o.micro_batch_per_rank = 1 << 30;
    refuse(o, SW_REJECT_SEQUENCE,
           "hidden_size 16777216 with sequence_length 1073741824 and micro_batch_size 1073741824 "
           "needs more memory than any machine has",
           "use a smaller model, a shorter sequence or a smaller micro_batch_size");
}

/* Ops of that kind in the program of a mesh; the last one in *op. */
static int32_t count_kind(struct sw_mesh mesh, enum sw_op_kind kind, struct sw_op *op)
{
    const struct sw_program_options o = small_model(mesh);
    struct sw_error err = {0};
    struct sw_program *program = NULL;
    int32_t count = 0;
    if (sw_program_compile(&o, SW_LAID_OUT, &program, &err) != 0)
        fail_msg("%s", err.message);
    for (int32_t i = 0; i < program->op_count; i++)
        if (program->ops[i].kind == kind) {
            *op = program->ops[i];
            count++;
        }
    sw_program_free(program);
    return count;
}

/* Logits are made once where the head is whole, twice where it is gathered or in shards. */
static void test_logits_once(void **state)
{
    (void)state;
    const struct sw_mesh whole[] = {sw_mesh_make(1, 1, 1, 1), sw_mesh_make(4, 1, 1, 1)};
    const struct sw_mesh split[] = {sw_mesh_make(1, 2, 1, 1), sw_mesh_make(1, 1, 2, 1),
                                    sw_mesh_make(1, 1, 1, 2)};
    struct sw_op op = {0};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        assert_int_equal(count_kind(whole[i], SW_OP_LM_HEAD_STATS, &op), 0);
        assert_int_equal(count_kind(whole[i], SW_OP_LM_HEAD_LOSS, &op), 0);
        assert_int_equal(count_kind(whole[i], SW_OP_LM_HEAD_GRAD, &op), 1);
        assert_int_equal(op.n_in - (op.as.gradient.adds ? 1 : 0), 3);
        assert_int_equal(op.n_out, 4);
    }
    for (size_t i = 0; i < sizeof split / sizeof split[0]; i++) {
        assert_int_equal(count_kind(split[i], SW_OP_LM_HEAD_STATS, &op), 1);
        assert_int_equal(count_kind(split[i], SW_OP_LM_HEAD_GRAD, &op), 1);
        assert_int_equal(op.n_in - (op.as.gradient.adds ? 1 : 0), 4);
        assert_int_equal(op.n_out, 2);
    }
}

/* With several micro-steps what makes the whole of a weight's gradient adds it to the sum itself;
 * where the gradient is scattered first, only what is left of it is added. */
static void test_gradients_added_by_makers(void **state)
{
    (void)state;
    static const enum sw_op_kind makers[] = {SW_OP_LINEAR_DW, SW_OP_LM_HEAD_GRAD,
                                             SW_OP_EMBEDDING_GRAD};
    const struct {
        struct sw_mesh mesh;
        bool adds;
    } cases[] = {{sw_mesh_make(1, 1, 1, 1), true},
                 {sw_mesh_make(2, 1, 1, 1), true},
                 {sw_mesh_make(1, 1, 2, 1), true},
                 {sw_mesh_make(1, 2, 1, 1), false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t k = 0; k < sizeof makers / sizeof makers[0]; k++) {
            struct sw_op op = {0};
            assert_true(count_kind(cases[i].mesh, makers[k], &op) > 0);
            if (op.as.gradient.adds != cases[i].adds)
                fail_msg("case %zu: %s does%s add", i, sw_op_info(makers[k])->name,
                         op.as.gradient.adds ? "" : " not");
        }
}

static void test_rules(void **state)
{
    (void)state;
    struct sw_rules rules;
    struct sw_error err = {0};
    sw_rules_default(&rules, SW_ATTENTION_RING);
    assert_int_equal(
        sw_rules_set(&rules, "residual_seq", (struct sw_axes){2, {SW_SP, SW_TP}}, &err), 0);
    assert_int_equal(rules.axes[SW_L_RESIDUAL_SEQ].count, 2);
    assert_int_equal(sw_rules_set(&rules, "residual_sequ", (struct sw_axes){0}, &err), -1);
    assert_string_equal(err.message,
                        "unknown logical axis 'residual_sequ'; did you mean 'residual_seq'?");
}

int main(int argc, char **argv)
{
    golden_directory = argc > 1 ? argv[1] : "tests/unit/golden";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_layer_values),
        cmocka_unit_test(test_save),
        cmocka_unit_test(test_forward_only_keeps_two_residuals),
        cmocka_unit_test(test_cost_of_compiling_is_that_of_one_layer),
        cmocka_unit_test(test_digest),
        cmocka_unit_test(test_longrope_goes_by_texts),
        cmocka_unit_test(test_digests_last),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_logits_once),
        cmocka_unit_test(test_gradients_added_by_makers),
        cmocka_unit_test(test_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
