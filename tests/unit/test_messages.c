/* How many messages the collectives of ordinary programs are (core/ir/messages.h): large
 * models on every kind of mesh, with what each strategy of attention exchanges. */
#include "core/ir/messages.h"
#include "core/programs/program_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct shape {
    const char *name;
    int64_t vocab, hidden, intermediate;
    int32_t layers, heads, kv_heads, head_dim;
    bool tied;
};
static const struct shape shapes[] = {
    {"1b", 128256, 2048, 8192, 16, 32, 8, 64, true},
    {"7b", 32000, 4096, 11008, 32, 32, 32, 128, false},
    {"8b", 128256, 4096, 14336, 32, 32, 8, 128, false},
    {"70b", 128256, 8192, 28672, 80, 64, 8, 128, false},
};

static struct sw_program_options options_of(const struct shape *s, struct sw_mesh mesh,
                                            enum sw_attention_strategy strategy, int64_t micro)
{
    struct sw_program_options o = {
        .model.vocab_size = s->vocab,
        .model.hidden_size = s->hidden,
        .model.intermediate_size = s->intermediate,
        .model.layers = s->layers,
        .model.heads = s->heads,
        .model.kv_heads = s->kv_heads,
        .model.head_dim = s->head_dim,
        .model.rope.theta = 500000.0,
        .model.rms_norm_eps = 1e-5,
        .model.tied = s->tied,
        .sequence_length = 8192,
        .global_batch = micro * mesh.size[SW_DP] * mesh.size[SW_FSDP],
        .micro_batch_per_rank = micro,
        .compute = SW_BF16_T,
        .params = SW_F32,
        .reduce = SW_F32,
        .mesh = mesh,
        .layout = SW_ZIGZAG,
        .recompute = sw_recompute_none(),
    };
    sw_rules_default(&o.rules, strategy);
    return o;
}

/* Collectives of a program with more messages than there may be, printed. */
static int count_many(const struct sw_program *p, const char *name, enum sw_carrier transport)
{
    int many = 0;
    for (int32_t i = 0; i < p->op_count; i++) {
        const struct sw_op *op = &p->ops[i];
        if (!sw_op_is_collective(op->kind))
            continue;
        const struct sw_collective_blocks blocks = sw_collective_blocks(p, op);
        const struct sw_collective_route route =
            sw_collective_route(transport, sw_op_collective(op->kind), &blocks);
        if (route.messages <= SW_MESSAGES_MOST)
            continue;
        char mesh[64];
        printf("%s on %s: %s of %s: %lld messages to each, %lld and %lld rows of %lld bytes\n",
               name, sw_mesh_format(&p->mesh, mesh, sizeof mesh), sw_op_info(op->kind)->name,
               p->values[op->in[0].value].name, (long long)route.messages,
               (long long)blocks.send_rows, (long long)blocks.receive_rows,
               (long long)blocks.block_bytes);
        many++;
    }
    return many;
}

static void test_ordinary_programs(void **state)
{
    (void)state;
    static const int32_t meshes[][4] = {{1, 8, 1, 1},   {8, 1, 1, 1}, {1, 1, 8, 1},  {1, 1, 1, 8},
                                        {1, 2, 2, 2},   {2, 2, 2, 1}, {1, 64, 1, 1}, {1, 8, 8, 1},
                                        {1, 512, 1, 1}, {2, 4, 1, 8}, {1, 8, 2, 4},  {1, 16, 8, 4}};
    int many = 0, programs = 0;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (size_t m = 0; m < sizeof meshes / sizeof meshes[0]; m++)
            for (int strategy = SW_ATTENTION_RING; strategy <= SW_ATTENTION_ULYSSES; strategy++)
                for (int64_t micro = 1; micro <= 4; micro += 3) {
                    const struct sw_mesh mesh =
                        sw_mesh_make(meshes[m][0], meshes[m][1], meshes[m][2], meshes[m][3]);
                    const struct sw_program_options o =
                        options_of(&shapes[s], mesh, (enum sw_attention_strategy)strategy, micro);
                    struct sw_program *p = NULL;
                    struct sw_error err = {0};
                    if (sw_program_admits(&o, NULL, NULL) != SW_FITS)
                        continue;
                    if (sw_program_compile(&o, SW_LAID_OUT, &p, &err) != 0)
                        fail_msg("%s", err.message);
                    many += count_many(p, shapes[s].name, SW_CARRIER_QUEUED);
                    programs++;
                    sw_program_free(p);
                }
    assert_int_equal(many, 0);
    assert_true(programs > 60);
}

/* The rule by itself: rows as they are, rows packed, pieces of what the workspace holds. */
static void test_routes(void **state)
{
    (void)state;
    struct sw_collective_blocks b = {
        .group = 8, .send_rows = 1, .receive_rows = 1, .block_bytes = 1 << 20, .operands = 1};
    struct sw_collective_route r = sw_collective_route(SW_CARRIER_QUEUED, SW_ALL_GATHER, &b);
    assert_false(r.packed);
    assert_int_equal(r.messages, 1);
    b.receive_rows = 128256;
    b.block_bytes = 128256 * 1024;
    b.workspace_bytes = 32 << 20;
    r = sw_collective_route(SW_CARRIER_QUEUED, SW_ALL_GATHER, &b);
    assert_true(r.packed);
    assert_int_equal(r.piece_bytes, 4 << 20);
    assert_int_equal(r.messages, 32);
    b.receive_rows = 32; /* of 4 MiB: nothing to gain */
    b.block_bytes = 32 * (4 << 20);
    r = sw_collective_route(SW_CARRIER_QUEUED, SW_ALL_GATHER, &b);
    assert_false(r.packed);
    assert_int_equal(r.messages, 32);
    b.send_rows = 256, b.receive_rows = 4; /* cut differently on either side: never as they are */
    r = sw_collective_route(SW_CARRIER_QUEUED, SW_ALL_TO_ALL, &b);
    assert_true(r.packed);
    assert_int_equal(r.piece_bytes, 2 << 20);
    b = (struct sw_collective_blocks){.group = 4, .send_rows = 1, .receive_rows = 1, .operands = 9};
    r = sw_collective_route(SW_CARRIER_QUEUED, SW_ALL_REDUCE, &b);
    assert_int_equal(r.messages, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ordinary_programs),
                                       cmocka_unit_test(test_routes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
