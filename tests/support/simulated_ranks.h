/* Collectives on simulated ranks' shards, defined independently of the library. Numbers are
 * integers, exact in double. */
#ifndef SW_TEST_SIMULATED_RANKS_H
#define SW_TEST_SIMULATED_RANKS_H

#include "core/sharding/reshard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_RANKS = 16 };

struct array {
    int64_t shape[SW_MAX_DIMS]; /* unused dimensions are 1 */
    double *data;
};

static inline int64_t elems(const struct array *a)
{
    return a->shape[0] * a->shape[1] * a->shape[2] * a->shape[3];
}

static inline struct array make_array(const int64_t *shape, int ndim)
{
    struct array a = {.shape = {1, 1, 1, 1}};
    for (int d = 0; d < ndim; d++)
        a.shape[d] = shape[d];
    a.data = calloc((size_t)elems(&a), sizeof *a.data);
    assert_non_null(a.data);
    return a;
}

static inline void unravel(const struct array *a, int64_t i, int64_t x[SW_MAX_DIMS])
{
    for (int d = SW_MAX_DIMS - 1; d >= 0; d--) {
        x[d] = i % a->shape[d];
        i /= a->shape[d];
    }
}

static inline double at(const struct array *a, const int64_t x[SW_MAX_DIMS])
{
    int64_t i = 0;
    for (int d = 0; d < SW_MAX_DIMS; d++) {
        assert_in_range(x[d], 0, a->shape[d] - 1);
        i = i * a->shape[d] + x[d];
    }
    return a->data[i];
}

/* An element of rank `rank` after the step. */
static inline double element_after(const struct sw_mesh *mesh, const struct sw_reshard_step *step,
                                   const struct array *before, int32_t rank, const int64_t *shape,
                                   const int64_t x[SW_MAX_DIMS])
{
    int32_t group = sw_axes_size(mesh, step->axes);
    int32_t own = sw_axes_index(mesh, step->axes, rank);
    int64_t y[SW_MAX_DIMS];
    memcpy(y, x, sizeof y);
    int32_t member = 0;
    double sum = 0;
    switch (step->kind) {
    case SW_SLICE:
        y[step->dim] += own * shape[step->dim];
        return at(&before[rank], y);
    case SW_ALL_GATHER:
        member = (int32_t)(x[step->dim] / before[rank].shape[step->dim]);
        y[step->dim] %= before[rank].shape[step->dim];
        return at(&before[sw_axes_member(mesh, step->axes, rank, member)], y);
    case SW_ALL_TO_ALL:
        member = (int32_t)(x[step->dim] / before[rank].shape[step->dim]);
        y[step->dim] %= before[rank].shape[step->dim];
        y[step->dim_to] += own * shape[step->dim_to];
        return at(&before[sw_axes_member(mesh, step->axes, rank, member)], y);
    case SW_REDUCE_SCATTER:
        y[step->dim] += own * shape[step->dim];
        /* fall through */
    case SW_ALL_REDUCE:
        for (; member < group; member++)
            sum += at(&before[sw_axes_member(mesh, step->axes, rank, member)], y);
        return sum;
    }
    fail();
    return 0;
}

static inline void run_step(const struct sw_mesh *mesh, const struct sw_reshard_step *step,
                            struct array *shard)
{
    struct array after[MAX_RANKS];
    int32_t ranks = sw_mesh_rank_count(mesh);
    int32_t group = sw_axes_size(mesh, step->axes);
    assert_true(group > 1);
    int64_t shape[SW_MAX_DIMS];
    memcpy(shape, shard[0].shape, sizeof shape);
    if (step->kind == SW_SLICE || step->kind == SW_REDUCE_SCATTER) {
        assert_int_equal(shape[step->dim] % group, 0);
        shape[step->dim] /= group;
    } else if (step->kind == SW_ALL_GATHER || step->kind == SW_ALL_TO_ALL) {
        shape[step->dim] *= group;
    }
    if (step->kind == SW_ALL_TO_ALL) {
        assert_int_equal(shape[step->dim_to] % group, 0);
        shape[step->dim_to] /= group;
    }
    for (int32_t r = 0; r < ranks; r++) {
        after[r] = make_array(shape, SW_MAX_DIMS);
        for (int64_t i = 0; i < elems(&after[r]); i++) {
            int64_t x[SW_MAX_DIMS];
            unravel(&after[r], i, x);
            after[r].data[i] = element_after(mesh, step, shard, r, shape, x);
        }
    }
    for (int32_t r = 0; r < ranks; r++) {
        free(shard[r].data);
        shard[r] = after[r];
    }
}

#endif
