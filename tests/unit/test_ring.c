/* Hops of rings (core/ir/ring.h): blocks simulated as they are sent, and what ops, prices and
 * executors were told before there was one function. test_ring COUNT SEED */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/number.h"
#include "core/ir/ring.h"
#include "core/programs/compile.h"
#include "tests/support/small_model.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 48 };

static int32_t draws = 300;
static uint64_t seed = 42;

static uint64_t draw(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}

/* A ring of rings, or one; blocks of any length, few of which are whole pieces. */
static struct sw_ring_blocks any_ring(void)
{
    const int32_t inner = 1 + (int32_t)draw(8), rings = inner == 1 ? 1 : 1 + (int32_t)draw(6);
    return (struct sw_ring_blocks){.ranks = rings == 1 ? 1 + (int32_t)draw(MOST) : inner * rings,
                                   .rings = rings,
                                   .travel_bytes = 1 + (int64_t)draw(4000),
                                   .sum_bytes = draw(2) ? 1 + (int64_t)draw(6000) : 0};
}

/* Ends of one or two chunks of each rank in its place; of a window of one token nothing travels. */
static struct sw_ring_blocks any_halos(void)
{
    const int64_t bytes = draw(4) > 0 ? 1 + (int64_t)draw(4000) : 0;
    return (struct sw_ring_blocks){.ranks = 2 + (int32_t)draw(MOST - 1),
                                   .rings = 1,
                                   .halos = 1 + (int32_t)draw(2),
                                   .travel_bytes = bytes,
                                   .sum_bytes = draw(2) ? 2 * bytes : 0};
}

/* A block is where it began, and each hop moves it as messages say: a rank has at hand what hops
 * say, and each block once. */
static void blocks_go_where_hops_say(void **state)
{
    (void)state;
    for (int32_t i = 0; i < draws; i++) {
        const struct sw_ring_blocks ring = any_ring();
        const int32_t n = ring.ranks, inner = n / ring.rings;
        int32_t at_hand[MOST], first[MOST], arriving[MOST], coming[MOST];
        bool met[MOST][MOST] = {{false}};
        for (int32_t r = 0; r < n; r++)
            at_hand[r] = first[r] = r;
        for (int32_t hop = 0; hop < n; hop++) {
            for (int32_t r = 0; r < n; r++) {
                const struct sw_ring_hop h = sw_ring_hop(&ring, r, hop);
                const struct sw_ring_message *near = &h.keys[SW_HOP_WITHIN],
                                             *far = &h.keys[SW_HOP_ACROSS];
                assert_int_equal(h.owner, at_hand[r]);
                assert_int_equal(h.round * inner + h.at, hop);
                assert_true(h.attends && !met[r][h.owner]);
                met[r][h.owner] = true;
                if (near->bytes > 0)
                    arriving[near->to] = at_hand[r];
                if (far->bytes > 0)
                    coming[far->to] = first[r];
            }
            for (int32_t r = 0; r < n; r++) {
                const struct sw_ring_hop h = sw_ring_hop(&ring, r, hop);
                if (h.keys[SW_HOP_WITHIN].bytes > 0)
                    at_hand[r] = arriving[r];
                else if (hop < n - 1) /* a round ends: that which came from the ring before */
                    at_hand[r] = first[r] = coming[r];
            }
        }
    }
}

/* Both ends of each message agree on its bytes, and messages to one rank do not cross. */
static void messages_have_two_ends(void **state)
{
    (void)state;
    for (int32_t i = 0; i < draws; i++) {
        const struct sw_ring_blocks ring = draw(3) == 0 ? any_halos() : any_ring();
        const int32_t n = ring.ranks;
        for (int32_t hop = 0; hop <= sw_ring_hops(&ring); hop++)
            for (int32_t r = 0; r < n; r++) {
                const struct sw_ring_hop mine = sw_ring_hop(&ring, r, hop);
                for (int k = 0; k < 2 * SW_HOP_WAYS; k++) {
                    const int way = k % SW_HOP_WAYS;
                    const struct sw_ring_message *m =
                        k < SW_HOP_WAYS ? &mine.keys[way] : &mine.sums[way];
                    assert_true(m->to >= 0 && m->to < n && m->from >= 0 && m->from < n);
                    const struct sw_ring_hop to = sw_ring_hop(&ring, m->to, hop);
                    const struct sw_ring_message *theirs =
                        k < SW_HOP_WAYS ? &to.keys[way] : &to.sums[way];
                    assert_int_equal(theirs->from, r);
                    assert_int_equal(theirs->bytes, m->bytes);
                    assert_int_equal(theirs->first, m->first);
                }
            }
    }
}

/* Of each rank, whose own chunks and what comes beside them are all that a window reaches, once
 * each; a rank sends what others get. */
static void halos_are_what_a_window_reaches(void **state)
{
    (void)state;
    enum { MOST_LENGTH = 12 * MOST };
    for (int32_t i = 0; i < draws; i++) {
        const int32_t ranks = 2 + (int32_t)draw(5), zigzag = (int32_t)draw(2);
        const int64_t chunk = 1 + (int64_t)draw(12), halo = 1 + (int64_t)draw((uint64_t)chunk);
        const int64_t part = chunk * (1 + zigzag), length = part * ranks;
        const enum sw_sequence_layout layout = zigzag ? SW_ZIGZAG : SW_CONTIGUOUS;
        const struct sw_ring_blocks ring = {
            .ranks = ranks, .rings = 1, .halos = 1 + zigzag, .travel_bytes = halo, .sum_bytes = 8};
        for (int32_t rank = 0; rank < ranks; rank++) {
            int32_t met[MOST_LENGTH] = {0};
            for (int64_t k = 0; k < part; k++)
                met[sw_sequence_position(layout, length, ranks, rank * part + k)]++;
            for (int32_t hop = 1; hop < sw_ring_hops(&ring); hop++) {
                const struct sw_ring_hop h = sw_ring_hop(&ring, rank, hop);
                const int64_t first = sw_ring_halo_position(ranks, rank, hop - 1, halo, chunk);
                for (int64_t k = 0; k < halo && first != INT64_MAX; k++) {
                    const int64_t end = (hop == 1 ? 0 : chunk) + chunk - halo + k; /* its owner's */
                    assert_int_equal(
                        sw_sequence_position(layout, length, ranks, h.owner * part + end),
                        first + k);
                    met[first + k]++;
                }
            }
            for (int64_t k = 0; k < part; k++) {
                const int64_t q = sw_sequence_position(layout, length, ranks, rank * part + k);
                for (int64_t j = q > halo ? q - halo : 0; j <= q; j++)
                    assert_int_equal(met[j], 1);
            }
        }
        assert_int_equal(sw_ring_sum(&ring).bytes, (1 + zigzag) * (halo + 8));
    }
}

/* As executors, prices and traffic had it, each by itself, before. */
static void hops_are_what_they_were(void **state)
{
    (void)state;
    for (int32_t i = 0; i < draws; i++) {
        const struct sw_ring_blocks b = any_ring();
        const int32_t n = b.ranks, inner = n / b.rings;
        const struct sw_ring_sum sum = sw_ring_sum(&b);
        int64_t keys = 0, sums = 0;
        int32_t sends = 0;
        for (int32_t hop = 0; hop <= n; hop++) {
            const struct sw_ring_hop h = sw_ring_hop(&b, (int32_t)draw((uint64_t)n), hop);
            const int64_t k = h.keys[0].bytes + h.keys[1].bytes,
                          s = h.sums[0].bytes + h.sums[1].bytes;
            keys += k;
            sums += s;
            sends += k + s > 0;
            assert_true(h.alike >= 1 && hop + h.alike <= n + 1);
            for (int32_t j = 1; j < h.alike; j++) {
                const struct sw_ring_hop like = sw_ring_hop(&b, 0, hop + j);
                assert_int_equal(like.keys[0].bytes + like.keys[1].bytes, k);
                assert_int_equal(like.sums[0].bytes + like.sums[1].bytes, s);
                assert_true(like.attends == h.attends);
            }
            if (hop == n)
                continue;
            assert_int_equal(h.keys[SW_HOP_WITHIN].bytes,
                             hop % inner < inner - 1 ? b.travel_bytes : 0);
            if (b.rings > 1 && hop / inner < b.rings - 1) {
                const int64_t piece = sw_align((b.travel_bytes + inner - 1) / inner, 256);
                const int64_t left = b.travel_bytes - piece * (hop % inner);
                assert_int_equal(h.keys[SW_HOP_ACROSS].bytes, left < 0       ? 0
                                                              : left < piece ? left
                                                                             : piece);
            }
        }
        assert_int_equal(keys, b.travel_bytes * (n - 1));
        assert_int_equal(sums, n == 1 ? 0 : b.sum_bytes * (n + (b.rings > 1 ? b.rings : 0)));
        assert_int_equal(sum.bytes, keys + sums);
        assert_int_equal(sum.attends, n);
        assert_int_equal(sum.sends, sends);
        if (b.rings == 1 && n > 1)
            assert_int_equal(sends, b.sum_bytes > 0 ? n : n - 1);
    }
}

/* Every rank of a program's ring sends what the op says. */
static int check_mesh(const struct sw_mesh *mesh, void *context)
{
    int32_t *checked = context;
    for (int variant = 0; variant < 8; variant++) {
        struct sw_error err = {0};
        struct sw_program *p = NULL;
        struct sw_program_options o = sw_test_small_model(*mesh);
        o.model.heads = o.model.kv_heads = 8;
        o.global_batch = 8;
        o.layout = variant % 2 ? SW_ZIGZAG : SW_CONTIGUOUS;
        o.ring = variant / 2 % 2 ? SW_BF16_T : SW_F32;
        o.inner_ring = variant / 4 * 2;
        o.target.halos = true;
        o.model.sliding_window = variant % 3 == 0 ? 1 + variant % 4 : 0;
        if (sw_program_admits(&o, NULL, NULL) != SW_FITS)
            continue;
        if (sw_program_compile(&o, SW_LAID_OUT, &p, &err) != 0)
            fail_msg("%s", err.message);
        for (int32_t i = 0; i < p->op_count; i++) {
            struct sw_ring_blocks ring;
            if (!sw_op_is_ring(&p->ops[i]))
                continue;
            sw_ring_blocks_of(p, &p->ops[i], &ring);
            assert_int_equal(ring.ranks, mesh->size[SW_SP]);
            for (int32_t rank = 0; rank < ring.ranks; rank++) {
                int64_t bytes = 0;
                for (int32_t hop = 0; hop <= sw_ring_hops(&ring); hop++) {
                    const struct sw_ring_hop h = sw_ring_hop(&ring, rank, hop);
                    for (int way = 0; way < SW_HOP_WAYS; way++)
                        bytes += h.keys[way].bytes + h.sums[way].bytes;
                }
                assert_int_equal(bytes, sw_op_communication_bytes(p, &p->ops[i]));
                ++*checked;
            }
        }
        sw_program_free(p);
    }
    return 0;
}

static void ops_send_what_their_hops_carry(void **state)
{
    (void)state;
    int32_t checked = 0;
    assert_int_equal(sw_mesh_enumerate(8, check_mesh, &checked), 0);
    assert_true(checked > 500);
}

int main(int argc, char **argv)
{
    draws = argc > 1 ? atoi(argv[1]) : draws;
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : seed;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_go_where_hops_say),
        cmocka_unit_test(halos_are_what_a_window_reaches),
        cmocka_unit_test(messages_have_two_ends),
        cmocka_unit_test(hops_are_what_they_were),
        cmocka_unit_test(ops_send_what_their_hops_carry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
