#include "core/sharding/sequence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static void check_order(enum sw_sequence_layout layout, int32_t shards, const int *want, int length)
{
    for (int j = 0; j < length; j++)
        assert_int_equal(sw_sequence_position(layout, length, shards, j), want[j]);
}

static void contiguous_is_identity(void **state)
{
    (void)state;
    for (int64_t j = 0; j < 24; j++)
        assert_int_equal(sw_sequence_position(SW_CONTIGUOUS, 24, 4, j), j);
}

static void zigzag_pairs_first_with_last(void **state)
{
    (void)state;
    static const int two[] = {0, 1, 6, 7, 2, 3, 4, 5};
    static const int three[] = {0, 1, 10, 11, 2, 3, 8, 9, 4, 5, 6, 7};
    check_order(SW_ZIGZAG, 2, two, 8);
    check_order(SW_ZIGZAG, 3, three, 12);
}

static void one_shard_is_identity_in_both(void **state)
{
    (void)state;
    for (int64_t j = 0; j < 7; j++) {
        assert_int_equal(sw_sequence_position(SW_ZIGZAG, 7, 1, j), j);
        assert_int_equal(sw_sequence_position(SW_CONTIGUOUS, 7, 1, j), j);
    }
}

static void chunks(void **state)
{
    (void)state;
    assert_int_equal(sw_sequence_chunk(SW_CONTIGUOUS, 24, 4), 6);
    assert_int_equal(sw_sequence_chunk(SW_ZIGZAG, 24, 4), 3);
    assert_int_equal(sw_sequence_chunk(SW_CONTIGUOUS, 24, 1), 24);
    assert_int_equal(sw_sequence_chunk(SW_ZIGZAG, 24, 1), 24);
    assert_int_equal(sw_sequence_chunk(SW_ZIGZAG, (int64_t)1 << 40, 1 << 10), (int64_t)1 << 29);
}

/* Every position once; positions are consecutive within a chunk; causal work is equal on all ranks.
 */
static void zigzag_is_balanced_permutation(void **state)
{
    (void)state;
    for (int32_t shards = 2; shards <= 16; shards++) {
        int64_t length = (int64_t)shards * 2 * 5, local = length / shards;
        char *seen = calloc((size_t)length, 1);
        assert_non_null(seen);
        int64_t work_of_first = 0;
        for (int32_t rank = 0; rank < shards; rank++) {
            int64_t work = 0;
            for (int64_t j = rank * local; j < (rank + 1) * local; j++) {
                int64_t position = sw_sequence_position(SW_ZIGZAG, length, shards, j);
                assert_in_range(position, 0, length - 1);
                assert_int_equal(seen[position]++, 0);
                work += position + 1;
                if (j % sw_sequence_chunk(SW_ZIGZAG, length, shards) != 0)
                    assert_int_equal(position,
                                     sw_sequence_position(SW_ZIGZAG, length, shards, j - 1) + 1);
            }
            work_of_first = rank == 0 ? work : work_of_first;
            assert_int_equal(work, work_of_first);
        }
        free(seen);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contiguous_is_identity),
        cmocka_unit_test(zigzag_pairs_first_with_last),
        cmocka_unit_test(one_shard_is_identity_in_both),
        cmocka_unit_test(chunks),
        cmocka_unit_test(zigzag_is_balanced_permutation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
