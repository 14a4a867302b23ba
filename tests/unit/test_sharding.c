#include "core/sharding/sharding.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#define AXES(n, ...) ((struct sw_axes){.count = (n), .axis = {__VA_ARGS__}})

static void normalize_drops_axes_of_size_one(void **state)
{
    (void)state;
    struct sw_mesh mesh = sw_mesh_make(1, 2, 1, 4);
    struct sw_sharding given = {
        .spec = {.ndim = 2, .dim = {AXES(2, SW_DP, SW_FSDP), AXES(1, SW_SP)}},
        .partial = 1 << SW_TP};
    struct sw_sharding want = {.spec = {.ndim = 2, .dim = {AXES(1, SW_FSDP), AXES(1, SW_SP)}}};
    struct sw_sharding normal = sw_sharding_normalize(&mesh, given);
    assert_true(sw_sharding_equal(&normal, &want));
    assert_false(sw_sharding_equal(&given, &want));
    assert_int_equal(sw_spec_axes(&given.spec), 1 << SW_DP | 1 << SW_FSDP | 1 << SW_SP);
}

static void equality_minds_order_partial_and_ndim(void **state)
{
    (void)state;
    struct sw_sharding a = {.spec = {.ndim = 1, .dim = {AXES(2, SW_FSDP, SW_SP)}}};
    struct sw_sharding b = {.spec = {.ndim = 1, .dim = {AXES(2, SW_SP, SW_FSDP)}}};
    struct sw_sharding c = a, d = a;
    c.partial = 1 << SW_TP;
    d.spec.ndim = 2;
    assert_true(sw_sharding_equal(&a, &a));
    assert_false(sw_sharding_equal(&a, &b));
    assert_false(sw_sharding_equal(&a, &c));
    assert_false(sw_spec_equal(&a.spec, &d.spec));
}

static void local_shape_divides(void **state)
{
    (void)state;
    struct sw_mesh mesh = sw_mesh_make(2, 3, 4, 1);
    struct sw_partition_spec spec = {.ndim = 3,
                                     .dim = {AXES(2, SW_DP, SW_FSDP), AXES(0, 0), AXES(1, SW_TP)}};
    const int64_t global[] = {12, 5, 64}, unit[] = {1, 1, 16};
    int64_t local[3];
    assert_int_equal(sw_local_shape(&mesh, &spec, global, unit, local, NULL), 0);
    assert_int_equal(local[0], 2);
    assert_int_equal(local[1], 5);
    assert_int_equal(local[2], 16);
}

static void local_shape_names_what_does_not_divide(void **state)
{
    (void)state;
    struct sw_mesh mesh = sw_mesh_make(2, 3, 4, 1);
    struct sw_partition_spec spec = {.ndim = 2, .dim = {AXES(2, SW_DP, SW_FSDP), AXES(1, SW_TP)}};
    const int64_t first[] = {8, 64}, second[] = {12, 96}, unit[] = {1, 16};
    int64_t local[2];
    struct sw_error err = {0};
    assert_int_equal(sw_local_shape(&mesh, &spec, first, NULL, local, &err), -1);
    assert_string_equal(err.message, "dimension 0 of size 8 is not divisible by dp,fsdp 6");
    assert_int_equal(err.status, SW_UNMET);
    struct sw_error heads = {0};
    assert_int_equal(sw_local_shape(&mesh, &spec, second, NULL, local, &heads), 0);
    assert_int_equal(sw_local_shape(&mesh, &spec, second, unit, local, &heads), -1);
    assert_string_equal(heads.message,
                        "dimension 1 of size 96 is not divisible by tp 4 in whole units of 16");
}

static void offsets_follow_major_to_minor(void **state)
{
    (void)state;
    struct sw_mesh mesh = sw_mesh_make(2, 3, 4, 1);
    struct sw_partition_spec spec = {.ndim = 2, .dim = {AXES(2, SW_FSDP, SW_DP), AXES(1, SW_TP)}};
    const int64_t global[] = {12, 8};
    for (int32_t rank = 0; rank < 24; rank++) {
        int32_t c[SW_AXIS_COUNT];
        int64_t offset[2];
        sw_mesh_coordinate(&mesh, rank, c);
        sw_shard_offset(&mesh, &spec, global, rank, offset);
        assert_int_equal(offset[0], 2 * (c[SW_FSDP] * 2 + c[SW_DP]));
        assert_int_equal(offset[1], 2 * c[SW_TP]);
    }
}

/* Element by element against the definition, for every way to split four dimensions by one axis
 * each. */
static void device_put_and_gather(void **state)
{
    (void)state;
    struct sw_mesh mesh = {.size = {2, 2, 3, 2}, .order = {SW_TP, SW_SP, SW_DP, SW_FSDP}};
    const int64_t global[] = {4, 6, 2, 6};
    static uint16_t data[4 * 6 * 2 * 6], back[4 * 6 * 2 * 6], shard[4 * 6 * 2 * 6];
    for (size_t i = 0; i < sizeof data / sizeof *data; i++)
        data[i] = (uint16_t)(i * 7 + 1);
    for (unsigned split = 0; split < 16; split++) {
        static const uint8_t axis[] = {SW_DP, SW_TP, SW_SP, SW_FSDP};
        struct sw_partition_spec spec = {.ndim = 4};
        int64_t local[4], offset[4];
        for (unsigned d = 0; d < 4; d++)
            spec.dim[d] = split >> d & 1 ? AXES(1, axis[d]) : AXES(0, 0);
        assert_int_equal(sw_local_shape(&mesh, &spec, global, NULL, local, NULL), 0);
        memset(back, 0, sizeof back);
        for (int32_t rank = 0; rank < 24; rank++) {
            sw_shard_offset(&mesh, &spec, global, rank, offset);
            sw_device_put(&mesh, &spec, global, NULL, sizeof *data, rank, data, shard);
            const uint16_t *at = shard;
            for (int64_t a = 0; a < local[0]; a++)
                for (int64_t b = 0; b < local[1]; b++)
                    for (int64_t c = 0; c < local[2]; c++)
                        for (int64_t d = 0; d < local[3]; d++)
                            assert_int_equal(
                                *at++,
                                data[(((a + offset[0]) * 6 + b + offset[1]) * 2 + c + offset[2]) *
                                         6 +
                                     d + offset[3]]);
            sw_gather(&mesh, &spec, global, NULL, sizeof *data, rank, shard, back);
        }
        assert_memory_equal(back, data, sizeof data);
    }
}

/* 10 rows on 4 ways are 3, 3, 3 and 1; 64 on 48 are two for each of 32 ranks and none for 16. */
static void uneven_shards(void **state)
{
    (void)state;
    assert_int_equal(sw_padded_size(10, 4), 12);
    assert_int_equal(sw_padded_size(12, 4), 12);
    assert_int_equal(sw_padded_size(10, 1), 10);
    assert_int_equal(sw_padded_size(1, 7), 7);
    assert_int_equal(sw_padded_size(64, 48), 96);
    assert_int_equal(sw_shard_owned(10, 0, 3), 3);
    assert_int_equal(sw_shard_owned(10, 9, 3), 1);
    assert_int_equal(sw_shard_owned(64, 62, 2), 2);
    assert_int_equal(sw_shard_owned(64, 64, 2), 0);
    assert_int_equal(sw_shard_owned(64, 94, 2), 0);
}

/* Every row has one owner, in order; the rest of a shard is zero, and gathering leaves it out. */
static void uneven_device_put_and_gather(void **state)
{
    (void)state;
    enum { ROWS = 7, COLUMNS = 3 };
    for (int32_t fsdp = 1; fsdp <= 6; fsdp++)
        for (int32_t sp = 1; sp <= 3; sp++)
            for (int transposed = 0; transposed < 2; transposed++) {
                struct sw_mesh mesh = sw_mesh_make(2, fsdp, 1, sp);
                struct sw_partition_spec spec = {.ndim = 2};
                spec.dim[transposed] = AXES(2, SW_FSDP, SW_SP);
                const int64_t stored = sw_padded_size(ROWS, (int64_t)fsdp * sp);
                const int64_t local = stored / (fsdp * sp);
                const int64_t size[] = {transposed ? COLUMNS : ROWS, transposed ? ROWS : COLUMNS};
                const int64_t padded[] = {transposed ? COLUMNS : stored,
                                          transposed ? stored : COLUMNS};
                uint16_t data[ROWS * COLUMNS], back[ROWS * COLUMNS] = {0}, shard[ROWS * COLUMNS];
                int64_t owned = 0;
                for (int i = 0; i < ROWS * COLUMNS; i++)
                    data[i] = (uint16_t)(i + 1);
                for (int32_t rank = 0; rank < sw_mesh_rank_count(&mesh); rank++) {
                    int64_t start[2];
                    sw_shard_offset(&mesh, &spec, padded, rank, start);
                    memset(shard, 0xff, sizeof shard);
                    sw_device_put(&mesh, &spec, size, padded, sizeof *data, rank, data, shard);
                    for (int64_t i = 0; i < local; i++)
                        for (int64_t j = 0; j < COLUMNS; j++) {
                            const int64_t row = start[transposed] + i;
                            const int64_t at = transposed ? j * ROWS + row : row * COLUMNS + j;
                            assert_int_equal(shard[transposed ? j * local + i : i * COLUMNS + j],
                                             row < ROWS ? data[at] : 0);
                        }
                    sw_gather(&mesh, &spec, size, padded, sizeof *data, rank, shard, back);
                    owned += sw_shard_owned(ROWS, start[transposed], local);
                }
                assert_int_equal(owned, 2 * ROWS); /* dp has a copy */
                assert_memory_equal(back, data, sizeof data);
            }
}

static void format(void **state)
{
    (void)state;
    struct sw_sharding sharding = {
        .spec = {.ndim = 3, .dim = {AXES(2, SW_DP, SW_FSDP), AXES(1, SW_SP), AXES(0, 0)}},
        .partial = 1 << SW_TP};
    struct sw_sharding scalar = {.partial = 0};
    char text[64], tiny[6];
    assert_string_equal(sw_sharding_format(&sharding, text, sizeof text),
                        "[(dp,fsdp), sp, -] partial(tp)");
    assert_string_equal(sw_sharding_format(&sharding, tiny, sizeof tiny), "[(dp,");
    assert_string_equal(sw_sharding_format(&scalar, text, sizeof text), "[]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normalize_drops_axes_of_size_one),
        cmocka_unit_test(equality_minds_order_partial_and_ndim),
        cmocka_unit_test(local_shape_divides),
        cmocka_unit_test(local_shape_names_what_does_not_divide),
        cmocka_unit_test(offsets_follow_major_to_minor),
        cmocka_unit_test(device_put_and_gather),
        cmocka_unit_test(uneven_shards),
        cmocka_unit_test(uneven_device_put_and_gather),
        cmocka_unit_test(format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
