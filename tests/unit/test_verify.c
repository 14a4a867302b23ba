/* Programs of every mesh are whole after every pass, broken ones are found; a plan's programs share
 * one state; and no pass takes memory for granted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/ir/op.h"
#include "core/ir/serving.h"
#include "core/passes/passes.h"
#include "core/programs/compile.h"
#include "core/programs/program_set.h"
#include "tests/support/recompute.h"
#include "tests/support/share.h"
#include "tests/support/small_model.h"

#include <stdlib.h>
#include <string.h>

static struct sw_program_options model(struct sw_mesh mesh)
{
    struct sw_program_options o = sw_test_small_model(mesh);
    o.model.hidden_size = 64;
    o.model.intermediate_size = 96;
    o.model.heads = 8;
    o.model.head_dim = 16;
    o.global_batch = 16;
    o.layout = SW_ZIGZAG;
    return o;
}

/* Every parameter that a model of ours may have: 20. */
static void with_everything(struct sw_program_options *o)
{
    o->model.qkv_bias = o->model.output_bias = o->model.mlp_bias = o->model.qk_norm = true;
}

static struct sw_program *compile(const struct sw_program_options *o, enum sw_program_stage until)
{
    struct sw_error err = {0};
    struct sw_program *p = NULL;
    if (sw_program_compile(o, until, &p, &err) != 0)
        fail_msg("%s", err.message);
    return p;
}

/* ---- Whole programs ---- */

/* After each pass; how many. */
static int check_stages(const struct sw_program_options *o, int variant)
{
    int checked = 0;
    for (int stage = SW_LOGICAL; stage <= SW_LAID_OUT; stage++) {
        struct sw_error err = {0};
        struct sw_program *p = compile(o, (enum sw_program_stage)stage);
        if (sw_program_verify(p, &err) != 0)
            fail_msg("%s, variant %d, stage %d: %s", sw_program_kind_name(o->kind), variant, stage,
                     err.message);
        sw_program_free(p);
        checked++;
    }
    return checked;
}

static int check_mesh(const struct sw_mesh *mesh, void *context)
{
    int64_t *checked = context;
    for (int variant = 0; variant < 72; variant++) {
        struct sw_program_options o = model(*mesh);
        sw_rules_default(&o.rules, (enum sw_attention_strategy)(variant % 3));
        o.recompute = sw_test_recompute((uint32_t)(variant % 9 > 5 ? variant : variant / 3 % 3),
                                        &o.model, o.model.layers);
        o.kind = variant / 9 % 2 ? SW_PROGRAM_EVALUATE : SW_PROGRAM_TRAIN;
        o.compute = variant / 18 % 2 ? SW_BF16_T : SW_F32;
        o.reduce = o.compute;
        o.model.tied = variant / 36;
        if (variant % 2)
            with_everything(&o);
        if (variant % 5 == 0)
            o.rules.axes[SW_L_RESIDUAL_SEQ] = (struct sw_axes){2, {SW_SP, SW_TP}};
        if (sw_program_admits(&o, NULL, NULL) != SW_FITS)
            continue;
        *checked += check_stages(&o, variant);
    }
    return 0;
}

/* All its sizes. Returns how many, at least 2. */
static int check_sizes(const struct sw_program_options *o, int variant)
{
    int64_t rows[SW_SERVING_SIZES];
    const int32_t count = sw_serving_sizes(o, rows);
    struct sw_program_options one = *o;
    int checked = 0;
    for (int32_t i = 0; i < count; i++) {
        sw_serving_resize(&one, rows[i]);
        checked += check_stages(&one, variant) > 0;
    }
    return checked;
}

/* Prefill that mixes, and its program of many rows: on a target that makes a row alike in both. */
static void check_mixing(const struct sw_program_options *usual, const struct sw_serving *serving,
                         int variant, int64_t checked[SW_PROGRAM_KINDS])
{
    struct sw_program_options training = *usual, o;
    struct sw_serving want = *serving;
    training.target.invariant_rows = 32;
    training.target.invariant_elems = INT32_MAX;
    want.chunk = 0;
    want.stream_weights = false;
    want.token_budget = 16 * sw_axes_size(&training.mesh, training.rules.axes[SW_L_BATCH]);
    if (sw_serving_has(&training, &want, SW_PROGRAM_READ) &&
        sw_serving_options(&training, &want, SW_PROGRAM_READ, &o, NULL) == 0 &&
        sw_program_admits(&o, NULL, NULL) == SW_FITS) {
        assert_true(o.serving.mixes);
        checked[SW_PROGRAM_READ] += check_sizes(&o, variant);
        assert_int_equal(sw_serving_options(&training, &want, SW_PROGRAM_PREFILL, &o, NULL), 0);
        assert_true(o.serving.mixes);
        checked[SW_PROGRAM_PREFILL] += check_sizes(&o, variant);
        assert_int_equal(sw_serving_options(&training, &want, SW_PROGRAM_DECODE, &o, NULL), 0);
        if (o.micro_batch_per_rank > 1)
            assert_true(check_sizes(&o, variant) > 1);
    }
}

/* The kinds of serving, as runs want them: every kind of cache, what is gathered, weights streamed.
 */
static int check_serving_mesh(const struct sw_mesh *mesh, void *context)
{
    static const enum sw_dtype caches[] = {SW_F32, SW_BF16_T, SW_I8};
    int64_t *checked = context;
    for (int variant = 0; variant < 24; variant++) {
        struct sw_program_options training = model(*mesh);
        const struct sw_serving want = {
            .max_batch = 5,
            .max_tokens = 40,
            .chunk = variant % 2 ? 16 : 7,
            .token_budget = variant % 5 * 40,
            .cache = caches[variant % 3],
            .stream_weights = variant / 6 % 2,
            .gathers = variant % 3 != 2 && variant / 3 % 2 ? SW_GATHER_KV : SW_GATHER_QUERIES};
        training.compute = want.cache == SW_F32 ? SW_F32 : SW_BF16_T;
        training.reduce = training.compute;
        training.model.tied = variant / 12;
        if (variant % 4 > 1)
            with_everything(&training);
        for (int kind = SW_PROGRAM_PREFILL; kind <= SW_PROGRAM_SCORE; kind++) {
            struct sw_program_options o;
            if (sw_serving_options(&training, &want, (enum sw_program_kind)kind, &o, NULL) == 0 &&
                sw_program_admits(&o, NULL, NULL) == SW_FITS)
                checked[kind] += check_stages(&o, variant);
        }
        check_mixing(&training, &want, variant, checked);
    }
    return 0;
}

static void every_pass_leaves_a_whole_program(void **state)
{
    (void)state;
    int64_t checked = 0;
    assert_int_equal(sw_mesh_enumerate(8, check_mesh, &checked), 0);
    assert_int_equal(sw_mesh_enumerate(6, check_mesh, &checked), 0); /* with padding */
    assert_true(checked > 2000);
    int64_t serving[SW_PROGRAM_KINDS] = {0};
    assert_int_equal(sw_mesh_enumerate(8, check_serving_mesh, serving), 0);
    assert_int_equal(sw_mesh_enumerate(6, check_serving_mesh, serving), 0);
    for (int kind = SW_PROGRAM_PREFILL; kind < SW_PROGRAM_KINDS; kind++)
        assert_true(serving[kind] > 1000);
}

/* ---- Broken programs ---- */

static int32_t find(const struct sw_program *p, enum sw_op_kind kind)
{
    for (int32_t i = 0; i < p->op_count; i++)
        if (p->ops[i].kind == kind)
            return i;
    fail_msg("no %s", sw_op_info(kind)->name);
    return -1;
}

static void expect(const struct sw_program *p, const char *message)
{
    struct sw_error err = {0};
    assert_int_equal(sw_program_verify(p, &err), -1);
    if (strstr(err.message, message) == NULL)
        fail_msg("'%s' is not in '%s'", message, err.message);
}

static void broken_programs_are_found(void **state)
{
    (void)state;
    const struct sw_program_options o = model(sw_mesh_make(1, 2, 2, 2));
    struct sw_program *p = compile(&o, SW_SCHEDULED);
    struct sw_op *op = &p->ops[find(p, SW_OP_SWIGLU)];
    struct sw_ref *in = op->in;
    struct sw_ref kept = in[0];
    in[0].value = p->value_count;
    expect(p, "names a value that does not exist");
    in[0] = kept;
    in[0].shift = 1;
    expect(p, "has no such instance");
    in[0] = kept;
    assert_int_equal(sw_program_verify(p, NULL), 0);
    struct sw_value *value = &p->values[kept.value];
    value->ndim = 2;
    expect(p, "has another number of dimensions than its op's factors");
    value->ndim = 3;
    value->size[2]++;
    expect(p, "disagrees with another operand about a size");
    value->size[2]--;
    value->sharding.partial = 1u << SW_TP;
    expect(p, "is an unreduced sum");
    value->sharding.partial = 0;
    assert_int_equal(sw_program_verify(p, NULL), 0);
    value = &p->values[p->ops[find(p, SW_OP_LINEAR)].in[0].value];
    value->sharding.partial = 1u << SW_TP; /* a product of sums is no sum of products */
    expect(p, "is an unreduced sum");
    value->sharding.partial = 0;
    const int32_t loss = sw_program_output(p, "loss");
    p->values[loss].sharding.partial = 1u << SW_DP;
    expect(p, "is an unreduced sum");
    p->values[loss].sharding.partial = 0;
    op->out[0].value = kept.value; /* nobody makes what it made */
    expect(p, "is read and was not written");
    sw_program_free(p);
}

/* ---- Operands of attention that no model has yet ---- */

static int32_t input_of(struct sw_builder *b, const char *name, uint8_t ndim,
                        const struct sw_dim *dims)
{
    const int32_t value = sw_builder_value(b, name, SW_ROLE_INPUT, SW_I32, ndim, dims, 1);
    sw_builder_port(b, &b->program->inputs, name, value);
    return value;
}

/* Gives every attention of a logical program these pairs of operands. */
static void add_pairs(struct sw_builder *b, bool positions, bool segments)
{
    struct sw_program *p = b->program;
    const struct sw_dim batch = {SW_L_BATCH, p->micro_batch, 1, SW_SIZE_BATCH};
    const struct sw_dim queries[2] = {batch, {SW_L_ATTN_SEQ, p->sequence_length, 1, SW_SIZE_FIXED}};
    const struct sw_dim keys[1] = {{SW_L_KEY_SEQ, p->sequence_length, 1, SW_SIZE_FIXED}};
    const struct sw_dim all[2] = {batch, {SW_L_NONE, p->sequence_length, 1, SW_SIZE_FIXED}};
    const int32_t of[4] = {positions ? input_of(b, "q positions", 1, &queries[1]) : -1,
                           positions ? input_of(b, "k positions", 1, keys) : -1,
                           segments ? input_of(b, "q segments", 2, queries) : -1,
                           segments ? input_of(b, "k segments", 2, all) : -1};
    for (int32_t i = 0; i < p->op_count; i++) {
        if (p->ops[i].kind != SW_OP_ATTENTION)
            continue;
        p->ops[i].as.attention.positions = positions;
        p->ops[i].as.attention.segments = segments;
        for (int k = 0; k < 4; k++)
            if (of[k] >= 0)
                sw_builder_in(b, i, (struct sw_ref){of[k], SW_INDEX_FIXED, 0});
    }
}

/* The op's pair is there, named so, and nothing else is behind it. */
static void expect_pairs(const struct sw_program *p, enum sw_op_kind kind, bool positions,
                         bool segments)
{
    const struct sw_op *op = &p->ops[find(p, kind)];
    const int32_t own = kind == SW_OP_ATTENTION ? 3 : 6;
    const int32_t first = sw_attention_operand(op, SW_ATTENTION_POSITIONS),
                  second = sw_attention_operand(op, SW_ATTENTION_SEGMENTS);
    assert_int_equal(first, positions ? own : -1);
    assert_int_equal(second, segments ? own + 2 * positions : -1);
    assert_int_equal(op->n_in, own + 2 * positions + 2 * segments);
    for (int k = 0; k < 2; k++) {
        const char *const names[2][2] = {{"q positions", "k positions"},
                                         {"q segments", "k segments"}};
        if (positions)
            assert_string_equal(p->values[op->in[first + k].value].name, names[0][k]);
        if (segments)
            assert_string_equal(p->values[op->in[second + k].value].name, names[1][k]);
    }
}

static char *text_of(const struct sw_program *p)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    sw_program_print(out, p, SW_CARRIER_HOST);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* Through all passes, on a mesh. */
static uint64_t lower_with_pairs(const struct sw_program_options *o, bool positions, bool segments)
{
    struct sw_error err = {0};
    struct sw_program *p = compile(o, SW_LOGICAL), *lowered = NULL;
    struct sw_builder b = {.program = p, .options = o, .region = -1};
    add_pairs(&b, positions, segments);
    assert_false(b.failed);
    if (sw_program_verify(p, &err) != 0 || sw_differentiate(&b, &err) != 0)
        fail_msg("%s", err.message);
    p->stage = SW_DIFFERENTIATED;
    sw_program_retarget_logical(p, o);
    if (sw_program_verify(p, &err) != 0 || sw_partition(p, &lowered, &err) != 0 ||
        sw_program_number_names(lowered, &err) != 0 || sw_program_verify(lowered, &err) != 0 ||
        sw_schedule(lowered, &err) != 0 || sw_program_verify(lowered, &err) != 0 ||
        sw_layout(lowered, NULL, &err) != 0 || sw_program_verify(lowered, &err) != 0)
        fail_msg("%s", err.message);
    expect_pairs(lowered, SW_OP_ATTENTION, positions, segments);
    expect_pairs(lowered, SW_OP_ATTENTION_GRAD, positions, segments);
    char *text = text_of(lowered);
    assert_true((strstr(text, ") sequence segments head_dim") != NULL) == (segments && !positions));
    assert_true((strstr(text, " positions segments head_dim") != NULL) == (segments && positions));
    free(text);
    const uint64_t digest = sw_program_digest(lowered);
    struct sw_op *op = &lowered->ops[find(lowered, SW_OP_ATTENTION_GRAD)];
    op->n_in--; /* without its last operand */
    expect(lowered, positions || segments ? "attention_grad of 'layer backward' has"
                                          : "has 5 operands and 3 results, its form");
    op->n_in++;
    op->as.attention.segments = !segments;
    expect(lowered, "results, its form 'bqh,bkh,bkh,bqh,bqh,bqh");
    sw_program_free(lowered);
    sw_program_free(p);
    return digest;
}

static void attention_takes_positions_and_segments(void **state)
{
    (void)state;
    for (int variant = 0; variant < 18; variant++) {
        struct sw_program_options o =
            model(variant / 3 % 2 ? sw_mesh_make(1, 2, 2, 2) : sw_mesh_make(2, 1, 1, 4));
        uint64_t digests[4];
        sw_rules_default(&o.rules, (enum sw_attention_strategy)(variant % 3));
        o.recompute = sw_test_recompute((uint32_t)(variant / 6), &o.model, o.model.layers);
        if (sw_program_admits(&o, NULL, NULL) != SW_FITS)
            fail_msg("variant %d is not admitted", variant);
        for (int i = 0; i < 4; i++)
            digests[i] = lower_with_pairs(&o, i & 1, i >> 1);
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < i; j++)
                assert_true(digests[i] != digests[j]);
    }
}

/* Over a cache slots say positions: no form of it has segments. */
static void attention_over_a_cache_has_no_segments(void **state)
{
    (void)state;
    struct sw_program_options training = model(sw_mesh_make(1, 2, 2, 2)), o;
    const struct sw_serving want = {.max_batch = 4, .max_tokens = 64, .chunk = 16};
    assert_int_equal(sw_serving_options(&training, &want, SW_PROGRAM_PREFILL, &o, NULL), 0);
    struct sw_program *p = compile(&o, SW_LAID_OUT);
    struct sw_op *op = &p->ops[find(p, SW_OP_ATTENTION)];
    assert_int_equal(op->as.attention.keys, SW_KEYS_CACHE_PART);
    assert_int_equal(sw_attention_operand(op, SW_ATTENTION_SEGMENTS), -1);
    op->as.attention.keys = SW_KEYS_SEQUENCE; /* slots are no sequence's */
    expect(p, "has 4 operands and 2 results, its form 'bqh,bkh,bkh->bqh,bqh'");
    sw_program_free(p);
}

/* The weights that a step reads would stay as they were. */
static void a_parameter_written_without_its_copy_is_found(void **state)
{
    (void)state;
    struct sw_program_options o = model(sw_mesh_make(1, 2, 1, 2));
    o.compute = SW_BF16_T;
    o.keep_copy = true;
    struct sw_program *p = compile(&o, SW_LAID_OUT);
    int32_t copies = 0, casts = 0;
    for (int32_t i = 0; i < p->op_count; i++) {
        struct sw_op *op = &p->ops[i];
        casts += op->kind == SW_OP_CAST && p->values[op->in[0].value].role == SW_ROLE_PARAMETER;
        if (op->kind != SW_OP_ADAMW || op->n_out == 3)
            continue;
        assert_int_equal(op->out[3].value, op->out[0].value + 1);
        assert_int_equal(p->values[op->out[3].value].dtype, SW_BF16_T);
        op->n_out--;
        expect(p, "is written without its copy");
        op->n_out++;
        copies++;
    }
    assert_int_equal(sw_program_verify(p, NULL), 0);
    assert_int_equal(copies, 8); /* seven of a layer and the head */
    assert_int_equal(casts, 1);  /* the embedding, which is gathered to be looked up */
    sw_program_free(p);
}

/* A gathered weight has its padding, the activation has none: only whole are they alike. */
static void padding_that_is_split_is_found(void **state)
{
    (void)state;
    const struct sw_program_options o = model(sw_mesh_make(1, 3, 1, 1));
    struct sw_program *p = compile(&o, SW_SCHEDULED);
    struct sw_value *x = &p->values[p->ops[find(p, SW_OP_LINEAR)].in[0].value];
    assert_int_equal(sw_program_verify(p, NULL), 0);
    x->sharding.spec.dim[2] = (struct sw_axes){1, {SW_FSDP}};
    expect(p, "is split along what another operand pads otherwise");
    sw_program_free(p);
}

/* ---- More parameters than any list had room for ---- */

static void the_gradient_norm_is_over_all_parameters(void **state)
{
    (void)state;
    struct sw_program_options o = model(sw_mesh_make(2, 2, 1, 2));
    with_everything(&o);
    struct sw_program *p = compile(&o, SW_LAID_OUT);
    int32_t parameters = 0;
    for (int32_t v = 0; v < p->value_count; v++)
        parameters += p->values[v].role == SW_ROLE_PARAMETER && p->values[v].alias < 0;
    assert_int_equal(parameters, 21);
    assert_int_equal(p->ops[find(p, SW_OP_GRAD_NORM)].n_in, parameters);
    sw_program_free(p);
}

/* Contributions of hundreds of micro-steps would be rounded away in bf16. */
static void micro_steps_are_summed_in_fp32(void **state)
{
    (void)state;
    for (int one = 0; one <= 1; one++) {
        struct sw_program_options o = model(sw_mesh_make(2, 2, 1, 1));
        o.reduce = SW_BF16_T;
        o.micro_batch_per_rank = one ? 4 : 1;
        struct sw_program *p = compile(&o, SW_LAID_OUT);
        int32_t contributions = 0;
        for (int32_t v = 0; v < p->value_count; v++)
            if (p->values[v].role == SW_ROLE_GRADIENT)
                assert_int_equal(p->values[v].dtype, one ? SW_BF16_T : SW_F32);
        for (int32_t i = 0; i < p->op_count; i++)
            if (sw_op_is_collective(p->ops[i].kind) &&
                sw_op_collective(p->ops[i].kind) == SW_REDUCE_SCATTER) {
                contributions++; /* on the wire they are as asked for */
                assert_int_equal(p->values[p->ops[i].in[0].value].dtype, SW_BF16_T);
            }
        assert_int_equal(p->accumulation_steps, one ? 1 : 4);
        assert_true(contributions >= 7);
        sw_program_free(p);
    }
}

/* ---- State ---- */

static int check_set(const struct sw_mesh *mesh, void *context)
{
    (void)context;
    for (int variant = 0; variant < 12; variant++) {
        struct sw_program_options o = model(*mesh);
        struct sw_program_set *set = NULL;
        struct sw_error err = {0};
        sw_rules_default(&o.rules, (enum sw_attention_strategy)(variant % 3));
        o.recompute = sw_recompute_full();
        o.compute = variant / 3 % 2 ? SW_BF16_T : SW_F32;
        o.keep_copy = variant % 2; /* of bf16 */
        o.model.tied = variant / 6;
        with_everything(&o);
        if (sw_program_admits(&o, NULL, NULL) != SW_FITS)
            continue;
        if (sw_program_set_compile(&o, &set, &err) != 0)
            fail_msg("%s", err.message);
        const struct sw_program *train = set->program[SW_PROGRAM_TRAIN],
                                *evaluate = set->program[SW_PROGRAM_EVALUATE],
                                *save = set->program[SW_PROGRAM_SAVE];
        if (sw_program_verify(save, &err) != 0)
            fail_msg("%s", err.message);
        /* what the search looks at is the whole arena */
        assert_int_equal(set->arena_bytes, train->arena_bytes);
        assert_true(evaluate->arena_bytes <= train->arena_bytes);
        assert_true(save->arena_bytes <= train->arena_bytes);
        int64_t end = 0;
        for (int32_t i = 0; i < set->state.count; i++) {
            const struct sw_state_row *row = &set->state.row[i];
            assert_true(row->offset >= end); /* nothing lies on anything */
            end = row->offset + row->instance_bytes * row->stack;
            assert_true((row->initial == SW_INITIAL_NORMAL) ==
                        (row->role == SW_ROLE_PARAMETER && row->ndim == 2 && !row->copy));
            assert_true(row->copy == (sw_state_copied(&set->state, row) != NULL));
            assert_true(row->role == SW_ROLE_PARAMETER || row->initial == SW_INITIAL_ZEROS);
        }
        assert_true(end <= set->state.bytes);
        /* transients of each program lie behind it; parameters lie where the state has them */
        const struct sw_program *const programs[] = {train, evaluate, save};
        for (int k = 0; k < 3; k++)
            for (int32_t v = 0; v < programs[k]->value_count; v++) {
                const struct sw_value *value = &programs[k]->values[v];
                if (!sw_program_is_stored(programs[k], v))
                    continue;
                if (sw_role_is_state(value->role))
                    assert_int_equal(value->offset,
                                     sw_state_find(&set->state, value->name)->offset);
                else
                    assert_true(value->offset >= set->state.bytes);
            }
        assert_int_equal(evaluate->gradient_bytes, 0);
        sw_program_set_free(set);
    }
    return 0;
}

static void programs_share_one_state(void **state)
{
    (void)state;
    assert_int_equal(sw_mesh_enumerate(8, check_set, NULL), 0);
    struct sw_program_options o = model(sw_mesh_make(1, 1, 1, 1)), other = o;
    struct sw_program_set *set = NULL, *wide = NULL;
    struct sw_error err = {0};
    assert_int_equal(sw_program_set_compile(&o, &set, NULL), 0);
    other.params = SW_BF16_T;
    assert_int_equal(sw_program_set_compile(&other, &wide, NULL), 0);
    uint64_t digests[SW_PROGRAM_KINDS];
    sw_program_set_digests(set, digests);
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++)
        assert_true(digests[k] ==
                    (sw_program_traits((enum sw_program_kind)k)->state == SW_STATE_TRAINING
                         ? sw_program_digest(set->program[k])
                         : 0));
    assert_int_equal(sw_program_set_differs(set, digests), SW_PROGRAM_KINDS);
    assert_int_equal(sw_program_set_differs(wide, digests), SW_PROGRAM_TRAIN);
    digests[SW_PROGRAM_EVALUATE]++;
    assert_int_equal(sw_program_set_differs(set, digests), SW_PROGRAM_EVALUATE);
    const struct sw_program *p = wide->program[SW_PROGRAM_TRAIN];
    int32_t v = 0;
    while (strcmp(p->values[v].name, "wq") != 0)
        v++;
    assert_int_equal(sw_state_offset(&set->state, &p->values[v], &err), -1);
    assert_string_equal(err.message, "'wq' of the state has another shape or sharding");
    struct sw_value stranger = p->values[v];
    memcpy(stranger.name, "wz", 3);
    memset(&err, 0, sizeof err);
    assert_int_equal(sw_state_offset(&set->state, &stranger, &err), -1);
    assert_string_equal(err.message, "the state has no 'wz'");
    sw_program_set_free(set);
    sw_program_set_free(wide);
}

/* ---- Memory ---- */

/* The linker sends the program's allocations here; the one numbered `refused` fails. */
static int64_t allocations, refused = -1;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);

static bool is_refused(void)
{
    return allocations++ == refused;
}

void *__wrap_malloc(size_t bytes)
{
    return is_refused() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return is_refused() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    return is_refused() ? NULL : __real_realloc(memory, bytes);
}

static void running_out_of_memory_is_an_error(void **state)
{
    (void)state;
    struct sw_program_options o = model(sw_mesh_make(2, 1, 2, 2));
    with_everything(&o);
    int64_t failures = 0;
    for (int64_t n = 0;; n += sw_test_share()) {
        struct sw_program_set *set = NULL;
        struct sw_error err = {0};
        allocations = 0;
        refused = n;
        const int status = sw_program_set_compile(&o, &set, &err);
        refused = -1;
        sw_program_set_free(status == 0 ? set : NULL);
        if (n >= allocations) /* it took that many, and none failed */
            break;
        if (status != 0) { /* giving memory back may fail and nothing is lost */
            assert_int_equal(err.status, SW_ENVIRONMENT);
            assert_non_null(strstr(err.message, "out of memory"));
            failures++;
        }
    }
    assert_true(failures > 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pass_leaves_a_whole_program),
        cmocka_unit_test(broken_programs_are_found),
        cmocka_unit_test(attention_takes_positions_and_segments),
        cmocka_unit_test(attention_over_a_cache_has_no_segments),
        cmocka_unit_test(a_parameter_written_without_its_copy_is_found),
        cmocka_unit_test(padding_that_is_split_is_found),
        cmocka_unit_test(the_gradient_norm_is_over_all_parameters),
        cmocka_unit_test(micro_steps_are_summed_in_fp32),
        cmocka_unit_test(programs_share_one_state),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
