/* The collectives of a program are those that an expert would write: the table in
 * docs/architecture.md, Sharding, counted. A coalesced all_reduce of several operands is one op;
 * every op over axes of more than one rank counts. */
#include "core/ir/messages.h"
#include "core/ir/op.h"
#include "core/programs/compile.h"
#include "core/ir/walk.h"
#include "tests/support/recompute.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

struct counts {
    int32_t all_gather, reduce_scatter, all_reduce, all_to_all, ring_hops;
};

/* Per iteration of each region. */
struct expected {
    struct counts embed, layer, head, head_backward, layer_backward, embed_backward, update;
};

static const struct sw_axes sp_tp = {2, {SW_SP, SW_TP}};

static struct sw_program_options make_options(struct sw_mesh mesh,
                                              enum sw_attention_strategy strategy)
{
    struct sw_program_options o = {
        .model.vocab_size = 64,
        .model.hidden_size = 32,
        .model.intermediate_size = 48,
        .model.layers = 3,
        .model.heads = 8,
        .model.kv_heads = 4,
        .model.head_dim = 4,
        .model.rope.theta = 10000.0,
        .model.rms_norm_eps = 1e-5,
        .sequence_length = 32,
        .global_batch = 8,
        .micro_batch_per_rank = 8 / (mesh.size[SW_DP] * mesh.size[SW_FSDP]),
        .compute = SW_F32,
        .params = SW_F32,
        .reduce = SW_F32,
        .mesh = mesh,
        .layout = mesh.size[SW_SP] > 1 ? SW_ZIGZAG : SW_CONTIGUOUS,
    };
    sw_rules_default(&o.rules, strategy);
    return o;
}

static struct sw_program *compile(const struct sw_program_options *options)
{
    struct sw_program *program = NULL;
    struct sw_error err = {0};
    if (sw_program_compile(options, SW_LAID_OUT, &program, &err) != 0)
        fail_msg("%s", err.message);
    return program;
}

static const struct sw_region *find_region(const struct sw_program *p, const char *name)
{
    for (int32_t r = 0; r < p->region_count; r++)
        if (strcmp(p->regions[r].name, name) == 0)
            return &p->regions[r];
    fail_msg("the program has no region '%s'", name);
    return NULL;
}

static struct counts count(const struct sw_program *p, const char *name)
{
    const struct sw_region *region = find_region(p, name);
    struct counts c = {0};
    for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
        const struct sw_op *op = &p->ops[i];
        if (sw_op_is_collective((enum sw_op_kind)op->kind))
            assert_true(sw_axes_size(&p->mesh, op->axes) > 1);
        c.all_gather += op->kind == SW_OP_ALL_GATHER;
        c.reduce_scatter += op->kind == SW_OP_REDUCE_SCATTER;
        c.all_reduce += op->kind == SW_OP_ALL_REDUCE;
        c.all_to_all += op->kind == SW_OP_ALL_TO_ALL;
        if (op->kind == SW_OP_ATTENTION || op->kind == SW_OP_ATTENTION_GRAD)
            c.ring_hops += sw_axes_size(&p->mesh, op->axes) - 1;
    }
    return c;
}

static int32_t compare(const struct sw_program *p, const char *name, struct counts expected)
{
    const struct counts c = count(p, name);
    if (memcmp(&c, &expected, sizeof c) == 0)
        return 0;
    print_error("%s: %d all_gather, %d reduce_scatter, %d all_reduce, %d all_to_all, %d hops; "
                "expected %d, %d, %d, "
                "%d, %d\n",
                name, c.all_gather, c.reduce_scatter, c.all_reduce, c.all_to_all, c.ring_hops,
                expected.all_gather, expected.reduce_scatter, expected.all_reduce,
                expected.all_to_all, expected.ring_hops);
    return 1;
}

static void check(const struct sw_program_options *options, const struct expected *e)
{
    struct sw_program *p = compile(options);
    int32_t wrong = 0;
    wrong += compare(p, "embed", e->embed);
    wrong += compare(p, "layer", e->layer);
    wrong += compare(p, "head", e->head);
    wrong += compare(p, "head backward", e->head_backward);
    wrong += compare(p, "layer backward", e->layer_backward);
    wrong += compare(p, "embed backward", e->embed_backward);
    wrong += compare(p, "update", e->update);
    if (wrong != 0)
        sw_program_print(stderr, p, SW_CARRIER_HOST);
    sw_program_free(p);
    assert_int_equal(wrong, 0);
}

/* Operands of one role that collectives of that kind over exactly these axes have in a region. */
static int32_t operands(const struct sw_program *p, const char *name, enum sw_op_kind kind,
                        sw_axis_set axes, enum sw_role role)
{
    const struct sw_region *region = find_region(p, name);
    int32_t found = 0;
    for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
        const struct sw_op *op = &p->ops[i];
        if (op->kind != kind || sw_axes_set(op->axes) != axes)
            continue;
        for (uint16_t j = 0; j < op->n_in; j++)
            found += p->values[op->in[j].value].role == role;
    }
    return found;
}

enum { DP = 1 << SW_DP, FSDP = 1 << SW_FSDP, TP = 1 << SW_TP, SP = 1 << SW_SP };

/* ---- The table ---- */

static void test_one_rank(void **state)
{
    (void)state;
    const struct sw_program_options o = make_options(sw_mesh_make(1, 1, 1, 1), SW_ATTENTION_RING);
    const struct expected e = {{0}, {0}, {0}, {0}, {0}, {0}, {0}};
    check(&o, &e);
}

/* update: norms and loss together, then the squares. The same where weights and the batch do not
 * divide. */
static void test_fsdp(void **state)
{
    (void)state;
    const struct expected e = {
        .embed = {.all_gather = 1},
        .layer = {.all_gather = 7},
        .head = {.all_gather = 1},
        .head_backward = {.all_gather = 1, .reduce_scatter = 1},
        .layer_backward = {.all_gather = 7, .reduce_scatter = 7},
        .embed_backward = {.reduce_scatter = 1},
        .update = {.all_reduce = 2},
    };
    for (int32_t ways = 3; ways <= 7; ways++) {
        struct sw_program_options o = make_options(sw_mesh_make(1, ways, 1, 1), SW_ATTENTION_RING);
        o.micro_batch_per_rank = (o.global_batch + ways - 1) / ways;
        check(&o, &e);
    }
}

/* The head's all_gather is of each token's (max, sum, label's logit). */
static void test_tp(void **state)
{
    (void)state;
    const struct sw_program_options o = make_options(sw_mesh_make(1, 1, 4, 1), SW_ATTENTION_RING);
    const struct expected e = {
        .embed = {.all_reduce = 1},
        .layer = {.all_reduce = 2},
        .head = {.all_gather = 1},
        .head_backward = {.all_reduce = 1},
        .layer_backward = {.all_reduce = 2},
        .update = {.all_reduce = 1},
    };
    check(&o, &e);
}

static void test_tp_residual_seq(void **state)
{
    (void)state;
    struct sw_program_options o = make_options(sw_mesh_make(1, 1, 4, 1), SW_ATTENTION_RING);
    assert_int_equal(sw_rules_set(&o.rules, "residual_seq", sp_tp, NULL), 0);
    const struct expected e = {
        .embed = {.reduce_scatter = 1},
        .layer = {.all_gather = 2, .reduce_scatter = 2},
        .head = {.all_gather = 2},
        .head_backward = {.all_gather = 1, .reduce_scatter = 1},
        .layer_backward = {.all_gather = 4, .reduce_scatter = 2},
        .embed_backward = {.all_gather = 1},
        .update = {.all_reduce = 2},
    };
    check(&o, &e);
    struct sw_program *p = compile(&o);
    assert_int_equal(operands(p, "update", SW_OP_ALL_REDUCE, TP, SW_ROLE_GRADIENT), 3);
    sw_program_free(p);
}

static void test_dp(void **state)
{
    (void)state;
    const struct sw_program_options o = make_options(sw_mesh_make(4, 1, 1, 1), SW_ATTENTION_RING);
    /* one for each matrix, where its gradient is complete; one for all norms and the loss */
    const struct expected e = {.head_backward = {.all_reduce = 1},
                               .layer_backward = {.all_reduce = 7},
                               .embed_backward = {.all_reduce = 1},
                               .update = {.all_reduce = 1}};
    check(&o, &e);
    struct sw_program *p = compile(&o);
    assert_int_equal(operands(p, "layer backward", SW_OP_ALL_REDUCE, DP, SW_ROLE_GRADIENT), 7);
    assert_int_equal(operands(p, "update", SW_OP_ALL_REDUCE, DP, SW_ROLE_GRADIENT), 3);
    sw_program_free(p);
}

static void test_sp(void **state)
{
    (void)state;
    const struct sw_program_options o = make_options(sw_mesh_make(1, 1, 1, 4), SW_ATTENTION_RING);
    const struct expected e = {
        .embed = {.all_gather = 1},
        .layer = {.all_gather = 7, .ring_hops = 3},
        .head = {.all_gather = 1},
        .head_backward = {.all_gather = 1, .reduce_scatter = 1},
        .layer_backward = {.all_gather = 7, .reduce_scatter = 7, .ring_hops = 3},
        .embed_backward = {.reduce_scatter = 1},
        .update = {.all_reduce = 2},
    };
    check(&o, &e);
}

/* shards over dp; update: norms and loss over all three, squares over (fsdp, sp) */
static void test_dp_fsdp_sp(void **state)
{
    (void)state;
    const struct sw_program_options o = make_options(sw_mesh_make(2, 2, 1, 2), SW_ATTENTION_RING);
    const struct expected e = {
        .embed = {.all_gather = 1},
        .layer = {.all_gather = 7, .ring_hops = 1},
        .head = {.all_gather = 1},
        .head_backward = {.all_gather = 1, .reduce_scatter = 1, .all_reduce = 1},
        .layer_backward = {.all_gather = 7, .reduce_scatter = 7, .all_reduce = 7, .ring_hops = 1},
        .embed_backward = {.reduce_scatter = 1, .all_reduce = 1},
        /* norms and the loss over all; the squares of the norm */
        .update = {.all_reduce = 1 + 1},
    };
    check(&o, &e);
    struct sw_program *p = compile(&o);
    assert_int_equal(operands(p, "layer", SW_OP_ALL_GATHER, FSDP | SP, SW_ROLE_PARAMETER), 7);
    assert_int_equal(
        operands(p, "layer backward", SW_OP_REDUCE_SCATTER, FSDP | SP, SW_ROLE_ACTIVATION), 7);
    assert_int_equal(operands(p, "layer backward", SW_OP_ALL_REDUCE, DP, SW_ROLE_GRADIENT), 7);
    assert_int_equal(operands(p, "update", SW_OP_ALL_REDUCE, DP | FSDP | SP, SW_ROLE_GRADIENT), 3);
    sw_program_free(p);
}

/* Embedding and head, 131,072 x 32, gathered whole and their gradients scattered: the runs of bytes
 * that a member's block is at most, and whether any is packed on its way through NCCL. */
static int64_t runs_of_tables(const struct sw_program_options *o, bool *packed)
{
    struct sw_program *p = compile(o);
    int64_t most = 0;
    int32_t found = 0;
    *packed = false;
    for (int32_t i = 0; i < p->op_count; i++) {
        const struct sw_op *op = &p->ops[i];
        const bool moves = op->kind == SW_OP_ALL_GATHER || op->kind == SW_OP_REDUCE_SCATTER;
        if (!moves || p->values[op->in[0].value].size[0] != o->model.vocab_size)
            continue;
        const struct sw_collective_blocks blocks = sw_collective_blocks(p, op);
        const struct sw_collective_route route =
            sw_collective_route(SW_CARRIER_QUEUED, sw_op_collective(op->kind), &blocks);
        found++;
        most = blocks.send_rows > most ? blocks.send_rows : most;
        most = blocks.receive_rows > most ? blocks.receive_rows : most;
        *packed |= route.packed;
    }
    assert_int_equal(found, 5); /* the head's in either direction */
    sw_program_free(p);
    return most;
}

/* Where fsdp, sp and tp divide the vocabulary tables lie by rows: each message is in one piece. */
static void test_tables_lie_by_rows(void **state)
{
    (void)state;
    static const struct {
        int32_t size[SW_AXIS_COUNT];
        int64_t vocab;
        bool rows;
    } cases[] = {{{1, 4, 1, 1}, 1 << 17, true},
                 {{1, 2, 4, 1}, 1 << 17, true},
                 {{2, 2, 1, 2}, 1 << 17, true},
                 {{1, 4, 1, 1}, (1 << 17) + 2, false},
                 {{1, 2, 2, 1}, (1 << 17) + 2, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int32_t *size = cases[i].size;
        struct sw_program_options o =
            make_options(sw_mesh_make(size[0], size[1], size[2], size[3]), SW_ATTENTION_RING);
        o.model.vocab_size = cases[i].vocab;
        bool packed;
        const int64_t runs = runs_of_tables(&o, &packed);
        assert_int_equal(runs, cases[i].rows ? 1 : cases[i].vocab / size[SW_TP]);
        assert_true(packed == !cases[i].rows);
    }
}

/* Gathers of tables and scatters of their gradients. */
static int32_t moves_of_tables(const struct sw_program_options *o)
{
    struct sw_program *p = compile(o);
    int32_t found = 0;
    for (int32_t i = 0; i < p->op_count; i++) {
        const struct sw_op *op = &p->ops[i];
        found += sw_op_is_collective(op->kind) && op->kind != SW_OP_ALL_REDUCE &&
                 p->values[op->in[0].value].size[0] == o->model.vocab_size;
    }
    sw_program_free(p);
    return found;
}

/* A run's rules of `vocab` and of `embed` hold for embedding and head, unless it has one of their
 * rows itself, in whatever order it names them. */
static void test_tables_follow_vocab_and_embed(void **state)
{
    (void)state;
    static const struct {
        int32_t size[SW_AXIS_COUNT];
        const char *rule[2];
        struct sw_axes axes[2];
        int32_t moves;
    } cases[] = {{{1, 8, 1, 1}, {"embed"}, {{0}}, 0},
                 {{1, 4, 1, 2}, {"embed"}, {{0}}, 0},
                 {{1, 1, 4, 1}, {"vocab"}, {{0}}, 0},
                 {{1, 4, 1, 1}, {"vocab", "embed"}, {{1, {SW_TP}}, {2, {SW_SP, SW_FSDP}}}, 5},
                 {{1, 4, 1, 1}, {"embed", "table"}, {{0}, {1, {SW_FSDP}}}, 5},
                 {{1, 4, 1, 1}, {"table", "embed"}, {{1, {SW_FSDP}}, {0}}, 5},
                 {{1, 1, 4, 1}, {"table", "vocab"}, {{1, {SW_TP}}, {0}}, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int32_t *size = cases[i].size;
        struct sw_program_options o =
            make_options(sw_mesh_make(size[0], size[1], size[2], size[3]), SW_ATTENTION_RING);
        o.model.vocab_size = 1 << 17;
        for (int r = 0; r < 2 && cases[i].rule[r] != NULL; r++)
            assert_int_equal(sw_rules_set(&o.rules, cases[i].rule[r], cases[i].axes[r], NULL), 0);
        assert_int_equal(moves_of_tables(&o), cases[i].moves);
    }
}

static int32_t casts_of_embedding(const struct sw_program_options *o)
{
    struct sw_program *p = compile(o);
    int32_t found = 0;
    for (int32_t i = 0; i < p->op_count; i++)
        found += p->ops[i].kind == SW_OP_CAST &&
                 strcmp(p->values[p->ops[i].in[0].value].name, "embedding") == 0;
    sw_program_free(p);
    return found;
}

/* The embedding is cast to be looked up where it is gathered, so that bf16 travels; else rows are
 * rounded as they are looked up. Where it is the head, too, that casts it for its products. */
static void test_lookups_cast_no_table(void **state)
{
    (void)state;
    static const struct {
        int32_t size[SW_AXIS_COUNT];
        bool tied, whole; /* embed: [] */
        int32_t casts;
    } cases[] = {{{1, 1, 1, 1}, false, false, 0}, {{2, 1, 2, 1}, false, false, 0},
                 {{1, 2, 2, 1}, false, false, 1}, {{1, 2, 2, 1}, false, true, 0},
                 {{1, 1, 1, 2}, false, false, 1}, {{2, 1, 2, 1}, true, false, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int32_t *size = cases[i].size;
        struct sw_program_options o =
            make_options(sw_mesh_make(size[0], size[1], size[2], size[3]), SW_ATTENTION_RING);
        o.model.vocab_size = 1 << 17;
        o.model.tied = cases[i].tied;
        o.compute = SW_BF16_T;
        if (cases[i].whole)
            assert_int_equal(sw_rules_set(&o.rules, "embed", (struct sw_axes){0}, NULL), 0);
        assert_int_equal(casts_of_embedding(&o), cases[i].casts);
    }
}

/* ---- How sp attends ---- */

/* 7 weights, and k and v; backward again, and dk and dv */
static void test_strategy_gather(void **state)
{
    (void)state;
    const struct sw_program_options o = make_options(sw_mesh_make(1, 1, 1, 4), SW_ATTENTION_GATHER);
    const struct expected e = {
        .embed = {.all_gather = 1},
        .layer = {.all_gather = 9},
        .head = {.all_gather = 1},
        .head_backward = {.all_gather = 1, .reduce_scatter = 1},
        .layer_backward = {.all_gather = 9, .reduce_scatter = 9},
        .embed_backward = {.reduce_scatter = 1},
        .update = {.all_reduce = 2},
    };
    check(&o, &e);
}

static void test_strategy_ulysses(void **state)
{
    (void)state;
    const struct sw_program_options o =
        make_options(sw_mesh_make(1, 1, 1, 4), SW_ATTENTION_ULYSSES);
    const struct expected e = {
        .embed = {.all_gather = 1},
        .layer = {.all_gather = 7, .all_to_all = 4},
        .head = {.all_gather = 1},
        .head_backward = {.all_gather = 1, .reduce_scatter = 1},
        .layer_backward = {.all_gather = 7, .reduce_scatter = 7, .all_to_all = 4},
        .embed_backward = {.reduce_scatter = 1},
        .update = {.all_reduce = 2},
    };
    check(&o, &e);
}

/* ---- Micro-steps and recomputation ---- */

/* Micro-steps reduce-scatter; what crosses dp does so once per step: in the last micro-step, beside
 * the rest of backward, or in the update. */
static void test_accumulation(void **state)
{
    (void)state;
    struct sw_program_options o = make_options(sw_mesh_make(2, 2, 1, 2), SW_ATTENTION_RING);
    o.micro_batch_per_rank = 1; /* 2 micro-steps */
    struct sw_program *p = compile(&o);
    assert_int_equal(p->accumulation_steps, 2);
    double crossing = 0;
    for (int32_t r = 0; r < p->region_count; r++) {
        const struct sw_region *region = &p->regions[r];
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
            const struct sw_op *op = &p->ops[i];
            const bool crosses =
                sw_op_is_collective((enum sw_op_kind)op->kind) && (sw_axes_set(op->axes) & DP) != 0;
            if (crosses)
                assert_true(region->phase == SW_PHASE_UPDATE || op->last_micro_step);
            else
                assert_false(op->last_micro_step);
            crossing += crosses ? sw_walk_count(p, region, op) : 0;
        }
    }
    /* 7 matrices of each layer, head, embedding; norms and the loss together */
    assert_true(crossing == 7 * o.model.layers + 2 + 1);
    assert_int_equal(operands(p, "layer backward", SW_OP_ALL_REDUCE, DP, SW_ROLE_GRADIENT), 7);
    assert_int_equal(operands(p, "update", SW_OP_ALL_REDUCE, DP | FSDP | SP, SW_ROLE_GRADIENT), 3);
    assert_int_equal(count(p, "layer backward").reduce_scatter, 7);
    assert_int_equal(count(p, "layer backward").all_gather, 7);
    sw_program_free(p);
}

/* What is scattered and then reduced over dp is so in one go: the stream has the reduction before
 * compute waits for what was scattered, and the line is not idle until it has woken. */
static void test_reduced_once_behind_its_scatter(void **state)
{
    (void)state;
    const struct sw_program_options o = make_options(sw_mesh_make(2, 2, 1, 2), SW_ATTENTION_RING);
    struct sw_program *p = compile(&o);
    assert_int_equal(p->accumulation_steps, 1);
    int32_t reduced = 0, under_way = 0, most = 0;
    for (int32_t i = 1; i < p->op_count; i++) {
        const struct sw_op *op = &p->ops[i], *from = op;
        if (op->last_micro_step) {
            do { /* no wait for it between */
                from--;
                assert_true(from->kind != SW_OP_WAIT || from->in[0].value != op->in[0].value);
            } while (from > p->ops && (from->n_out == 0 || from->out[0].value != op->in[0].value));
            assert_int_equal(from->kind, SW_OP_REDUCE_SCATTER);
            reduced++;
            under_way++;
        }
        for (int32_t j = 0; j < i && op->kind == SW_OP_WAIT; j++)
            under_way -= p->ops[j].last_micro_step && p->ops[j].out[0].value == op->in[0].value;
        most = under_way > most ? under_way : most;
    }
    assert_int_equal(reduced, 7 + 2); /* a layer's matrices, head, embedding */
    assert_in_range(most, 1,
                    5); /* workspaces: two in a region, the last of each until the update */
    sw_program_free(p);
}

/* What is recomputed shares the gathers of its layer's backward; what was reduced over tp is
 * reduced again. */
static void test_recompute(void **state)
{
    (void)state;
    for (uint8_t level = 1; level <= 2; level++) {
        struct sw_program_options o = make_options(sw_mesh_make(1, 4, 1, 1), SW_ATTENTION_RING);
        o.recompute = sw_test_recompute(level, &o.model, o.model.layers);
        struct sw_program *p = compile(&o);
        assert_int_equal(count(p, "layer").all_gather, 7);
        assert_int_equal(count(p, "layer backward").all_gather, 7);
        assert_int_equal(count(p, "layer backward").reduce_scatter, 7);
        sw_program_free(p);
    }
    struct sw_program_options o = make_options(sw_mesh_make(1, 1, 4, 1), SW_ATTENTION_RING);
    o.recompute = sw_recompute_full();
    struct sw_program *p = compile(&o);
    assert_int_equal(count(p, "layer backward").all_reduce, 3);
    sw_program_free(p);
}

/* Some values in two of three layers: both regions' gathers are those of any layer, and what is
 * reduced over dp is so in both, once for each layer. */
static void test_recompute_partly(void **state)
{
    (void)state;
    struct sw_program_options o = make_options(sw_mesh_make(1, 4, 1, 1), SW_ATTENTION_RING);
    o.recompute = (struct sw_recompute){.values = sw_layer_values_all(), .layers = 2};
    struct sw_program *p = compile(&o);
    const struct counts layer = {.all_gather = 7},
                        backward = {.all_gather = 7, .reduce_scatter = 7};
    int32_t wrong = compare(p, "first layers", layer) + compare(p, "last layers", layer) +
                    compare(p, "first layers backward", backward) +
                    compare(p, "last layers backward", backward);
    sw_program_free(p);
    o = make_options(sw_mesh_make(4, 1, 1, 1), SW_ATTENTION_RING);
    o.recompute = (struct sw_recompute){.values = sw_test_values(&o.model, "n1, h"), .layers = 2};
    p = compile(&o);
    wrong += compare(p, "first layers backward", (struct counts){.all_reduce = 7}) +
             compare(p, "last layers backward", (struct counts){.all_reduce = 7}) +
             compare(p, "update", (struct counts){.all_reduce = 1});
    sw_program_free(p);
    o = make_options(sw_mesh_make(1, 1, 4, 1), SW_ATTENTION_RING);
    o.recompute = (struct sw_recompute){
        .values = sw_layer_values_without(sw_layer_values_all(), sw_test_values(&o.model, "y")),
        .layers = 2};
    p = compile(&o); /* y is kept: nothing is reduced again for it */
    wrong += compare(p, "first layers backward", (struct counts){.all_reduce = 2});
    sw_program_free(p);
    assert_int_equal(wrong, 0);
}

/* A tied table gets its gradient from the head and the embedding, and is reduced over dp once. */
static void test_tied(void **state)
{
    (void)state;
    struct sw_program_options o = make_options(sw_mesh_make(2, 2, 1, 1), SW_ATTENTION_RING);
    o.model.tied = true;
    struct sw_program *p = compile(&o);
    assert_int_equal(count(p, "embed").all_gather, 1);
    assert_int_equal(count(p, "head").all_gather, 1);
    assert_int_equal(count(p, "head backward").reduce_scatter, 1);
    assert_int_equal(count(p, "embed backward").reduce_scatter, 1);
    assert_int_equal(operands(p, "head backward", SW_OP_ALL_REDUCE, DP, SW_ROLE_GRADIENT), 0);
    assert_int_equal(operands(p, "layer backward", SW_OP_ALL_REDUCE, DP, SW_ROLE_GRADIENT), 7);
    assert_int_equal(operands(p, "embed backward", SW_OP_ALL_REDUCE, DP, SW_ROLE_GRADIENT), 1);
    sw_program_free(p);
}

/* A program costs the same for 3 layers and for 200. */
static void test_size_does_not_grow(void **state)
{
    (void)state;
    struct sw_program_options o = make_options(sw_mesh_make(1, 2, 2, 2), SW_ATTENTION_RING);
    struct sw_program *few = compile(&o);
    o.model.layers = 200;
    struct sw_program *many = compile(&o);
    assert_int_equal(few->op_count, many->op_count);
    assert_int_equal(few->value_count, many->value_count);
    sw_program_free(few);
    sw_program_free(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_fsdp),
        cmocka_unit_test(test_tp),
        cmocka_unit_test(test_tp_residual_seq),
        cmocka_unit_test(test_dp),
        cmocka_unit_test(test_sp),
        cmocka_unit_test(test_dp_fsdp_sp),
        cmocka_unit_test(test_tables_lie_by_rows),
        cmocka_unit_test(test_tables_follow_vocab_and_embed),
        cmocka_unit_test(test_lookups_cast_no_table),
        cmocka_unit_test(test_strategy_gather),
        cmocka_unit_test(test_strategy_ulysses),
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_reduced_once_behind_its_scatter),
        cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_recompute_partly),
        cmocka_unit_test(test_tied),
        cmocka_unit_test(test_size_does_not_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
