/* reshard on random meshes, shapes and shardings: all ranks are simulated on integers (exact in
 * double), and the result must be the slice of the global array that the wanted sharding names. */
#include "core/sharding/reshard.h"
#include "core/sharding/reshard_internal.h"
#include "tests/support/simulated_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CASES = 6000 };

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int below(uint64_t *state, int n)
{
    return (int)(next_random(state) % (uint64_t)n);
}

struct trial {
    struct sw_mesh mesh;
    int64_t global[SW_MAX_DIMS], unit[SW_MAX_DIMS];
    int64_t size[SW_MAX_DIMS]; /* of it, what is no padding */
    struct sw_sharding from, to;
    uint64_t seed;
};

static void shuffle(uint64_t *rng, uint8_t order[SW_AXIS_COUNT])
{
    for (int i = 0; i < SW_AXIS_COUNT; i++)
        order[i] = (uint8_t)i;
    for (int i = SW_AXIS_COUNT - 1; i > 0; i--) {
        int j = below(rng, i + 1);
        uint8_t swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

static struct sw_mesh random_mesh(uint64_t *rng)
{
    static const int32_t sizes[] = {1, 2, 2, 2, 3, 4, 5, 6, 8};
    struct sw_mesh mesh;
    shuffle(rng, mesh.order);
    do {
        for (int a = 0; a < SW_AXIS_COUNT; a++)
            mesh.size[a] = sizes[below(rng, (int)(sizeof sizes / sizeof *sizes))];
    } while (sw_mesh_rank_count(&mesh) > MAX_RANKS);
    return mesh;
}

static struct sw_sharding random_sharding(uint64_t *rng, int ndim, sw_axis_set may_be_partial)
{
    struct sw_sharding sharding = {.spec.ndim = (uint8_t)ndim};
    uint8_t order[SW_AXIS_COUNT];
    shuffle(rng, order);
    for (int i = 0; i < SW_AXIS_COUNT; i++) {
        int place = below(rng, ndim + 2);
        if (place < ndim) {
            struct sw_axes *dim = &sharding.spec.dim[place];
            dim->axis[dim->count++] = order[i];
        } else if (place == ndim && (may_be_partial >> order[i] & 1)) {
            sharding.partial |= (sw_axis_set)(1u << order[i]);
        }
    }
    return sharding;
}

/* A sharding like `from` but for the end of one or two dimensions: the cases that programs have. */
static struct sw_sharding nearby_sharding(uint64_t *rng, struct sw_sharding from)
{
    struct sw_sharding to = from;
    int ndim = from.spec.ndim;
    if (below(rng, 2)) {
        struct sw_axes *dim = &to.spec.dim[below(rng, ndim)];
        if (dim->count > 0)
            dim->count--;
    }
    uint8_t order[SW_AXIS_COUNT];
    shuffle(rng, order);
    for (int i = 0; i < SW_AXIS_COUNT; i++) {
        struct sw_axes *dim = &to.spec.dim[below(rng, ndim)];
        unsigned bit = 1u << order[i];
        if (!(sw_spec_axes(&to.spec) & bit) && below(rng, 3) == 0) {
            to.partial &= (sw_axis_set)~bit;
            dim->axis[dim->count++] = order[i];
        } else if (below(rng, 3) == 0) {
            to.partial &= (sw_axis_set)~bit;
        }
    }
    return to;
}

static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t x = a, y = b;
    while (y != 0) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

static struct trial random_trial(uint64_t seed)
{
    uint64_t rng = seed;
    struct trial t = {.seed = seed, .mesh = random_mesh(&rng)};
    int ndim = 1 + below(&rng, SW_MAX_DIMS);
    t.from = random_sharding(&rng, ndim, 15);
    t.to = below(&rng, 2) ? nearby_sharding(&rng, t.from)
                          : random_sharding(&rng, ndim, t.from.partial);
    for (int d = 0; d < ndim; d++) {
        /* of a compound dimension the minor factors stay together */
        t.unit[d] = below(&rng, 4) == 0 ? 2 + below(&rng, 5) : 1;
        t.global[d] = t.unit[d] * (1 + below(&rng, 2)) *
                      common_multiple(sw_axes_size(&t.mesh, t.from.spec.dim[d]),
                                      sw_axes_size(&t.mesh, t.to.spec.dim[d]));
        t.size[d] = t.global[d];
    }
    return t;
}

/* The same with sizes that do not fill the shards, and leave some empty. */
static struct trial uneven_trial(uint64_t seed)
{
    struct trial t = random_trial(seed);
    uint64_t rng = ~seed;
    for (int d = 0; d < t.from.spec.ndim; d++)
        t.size[d] = below(&rng, 3) == 0 ? t.global[d] : 1 + below(&rng, (int)t.global[d]);
    return t;
}

/* Ranks' shards of `global` under `from`: over partial axes they hold random summands of it. */
static void make_shards(const struct trial *t, const struct array *global, struct array *shard)
{
    uint64_t rng = t->seed ^ 0x5eed;
    struct sw_axes partial = sw_axes_from_set(t->from.partial);
    int32_t summands = sw_axes_size(&t->mesh, partial);
    struct array rest = make_array(global->shape, SW_MAX_DIMS);
    struct array part = make_array(global->shape, SW_MAX_DIMS);
    memcpy(rest.data, global->data, (size_t)elems(global) * sizeof(double));
    int64_t local[SW_MAX_DIMS];
    int ndim = t->from.spec.ndim;
    assert_int_equal(sw_local_shape(&t->mesh, &t->from.spec, t->global, t->unit, local, NULL), 0);
    for (int32_t k = 0; k < summands; k++) {
        for (int64_t i = 0; i < elems(global); i++) {
            part.data[i] = k == summands - 1 ? rest.data[i] : below(&rng, 1000) - 500;
            rest.data[i] -= part.data[i];
        }
        for (int32_t r = 0; r < sw_mesh_rank_count(&t->mesh); r++) {
            if (sw_axes_index(&t->mesh, partial, r) != k)
                continue;
            shard[r] = make_array(local, ndim);
            sw_device_put(&t->mesh, &t->from.spec, t->size, t->global, sizeof(double), r, part.data,
                          shard[r].data);
        }
    }
    free(rest.data);
    free(part.data);
}

/* Summed over `to.partial`, every rank's shard is its part of the global array; ranks that differ
 * only along axes that `to` does not use hold the same. */
static void check_shards(const struct trial *t, const struct array *global,
                         const struct array *shard)
{
    struct sw_axes partial = sw_axes_from_set(t->to.partial);
    struct sw_axes unused =
        sw_axes_from_set(15u & ~(unsigned)(t->to.partial | sw_spec_axes(&t->to.spec)));
    struct array want = make_array(shard[0].shape, SW_MAX_DIMS);
    for (int32_t r = 0; r < sw_mesh_rank_count(&t->mesh); r++) {
        sw_device_put(&t->mesh, &t->to.spec, t->size, t->global, sizeof(double), r, global->data,
                      want.data);
        const struct array *twin = &shard[sw_axes_member(&t->mesh, unused, r, 0)];
        for (int64_t i = 0; i < elems(&want); i++) {
            double sum = 0;
            for (int32_t m = 0; m < sw_axes_size(&t->mesh, partial); m++)
                sum += shard[sw_axes_member(&t->mesh, partial, r, m)].data[i];
            assert_true(sum == want.data[i]);
            assert_true(shard[r].data[i] == twin->data[i]);
        }
    }
    free(want.data);
}

/* Elements received, from shapes alone. */
static double step_cost(const struct trial *t, const struct sw_sharding *before,
                        const struct sw_reshard_step *step)
{
    double in = 1, group = sw_axes_size(&t->mesh, step->axes);
    for (int d = 0; d < before->spec.ndim; d++)
        in *= (double)t->global[d] / sw_axes_size(&t->mesh, before->spec.dim[d]);
    switch (step->kind) {
    case SW_SLICE:
        return 0;
    case SW_ALL_GATHER:
        return in * group - in;
    case SW_ALL_REDUCE:
        return 2 * in * (group - 1) / group;
    default:
        return in * (group - 1) / group;
    }
}

static double plan_cost(const struct trial *t, const struct sw_reshard_step *steps, int count)
{
    struct sw_sharding now = sw_sharding_normalize(&t->mesh, t->from);
    double cost = 0;
    for (int i = 0; i < count; i++) {
        cost += step_cost(t, &now, &steps[i]);
        now = steps[i].after;
    }
    return cost;
}

/* Reduce everything, gather everything, slice. */
static double naive_cost(const struct trial *t)
{
    double local = 1, whole = 1, group = 1;
    for (int d = 0; d < t->from.spec.ndim; d++) {
        local *= (double)t->global[d] / sw_axes_size(&t->mesh, t->from.spec.dim[d]);
        whole *= (double)t->global[d];
    }
    group = sw_axes_size(&t->mesh, sw_axes_from_set(t->from.partial & ~t->to.partial & 15));
    return 2 * local * (group - 1) / group + whole - local;
}

/* `after` is what the shapes and the kind of the step say. */
static void check_after(const struct trial *t, const struct sw_reshard_step *step,
                        const struct array *shard, sw_axis_set partial_before)
{
    sw_axis_set reduced = step->kind == SW_REDUCE_SCATTER || step->kind == SW_ALL_REDUCE
                              ? sw_axes_set(step->axes)
                              : 0;
    assert_int_equal(step->after.partial, partial_before & ~reduced);
    int64_t local[SW_MAX_DIMS];
    assert_int_equal(sw_local_shape(&t->mesh, &step->after.spec, t->global, t->unit, local, NULL),
                     0);
    for (int d = 0; d < t->from.spec.ndim; d++)
        assert_int_equal(local[d], shard[0].shape[d]);
}

static void run_trial(const struct trial *t)
{
    struct sw_reshard_step steps[SW_RESHARD_MAX_STEPS];
    struct sw_error err = {0};
    int count = sw_reshard(&t->mesh, t->global, t->unit, &t->from, &t->to, steps, &err);
    if (count < 0)
        print_error("%s\n", err.message);
    assert_in_range(count, 0, SW_RESHARD_MAX_STEPS);
    struct array global = make_array(t->size, t->from.spec.ndim);
    for (int64_t i = 0; i < elems(&global); i++)
        global.data[i] = (double)(i * 7919 % 10007);
    struct array shard[MAX_RANKS];
    make_shards(t, &global, shard);
    struct sw_sharding now = sw_sharding_normalize(&t->mesh, t->from);
    struct sw_sharding goal = sw_sharding_normalize(&t->mesh, t->to);
    for (int i = 0; i < count; i++) {
        run_step(&t->mesh, &steps[i], shard);
        check_after(t, &steps[i], shard, now.partial);
        now = steps[i].after;
    }
    assert_true(sw_sharding_equal(&now, &goal));
    check_shards(t, &global, shard);
    for (int r = 0; r < sw_mesh_rank_count(&t->mesh); r++)
        free(shard[r].data);
    free(global.data);
}

static void print_trial(const struct trial *t, const struct sw_reshard_step *steps, int count)
{
    char a[64], b[128], c[128];
    print_error("seed %llu: mesh %s from %s to %s\n", (unsigned long long)t->seed,
                sw_mesh_format(&t->mesh, a, sizeof a), sw_sharding_format(&t->from, b, sizeof b),
                sw_sharding_format(&t->to, c, sizeof c));
    for (int i = 0; i < count; i++)
        print_error("  %s(%s) -> %s\n", sw_collective_name(steps[i].kind),
                    sw_axes_format(steps[i].axes, a, sizeof a),
                    sw_sharding_format(&steps[i].after, b, sizeof b));
}

static void result_is_slice_of_global(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct trial t = random_trial(seed);
        run_trial(&t);
    }
}

/* Padding is zero before, so it is zero after: nothing else comes into it, whatever is summed. */
static void padding_stays_zero(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct trial t = uneven_trial(seed);
        run_trial(&t);
    }
}

static void cost_is_never_above_naive(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct trial t = random_trial(seed);
        struct sw_reshard_step steps[SW_RESHARD_MAX_STEPS];
        int count = sw_reshard(&t.mesh, t.global, t.unit, &t.from, &t.to, steps, NULL);
        double cost = plan_cost(&t, steps, count), naive = naive_cost(&t);
        if (cost > naive * (1 + 1e-9))
            print_trial(&t, steps, count);
        assert_true(cost <= naive * (1 + 1e-9));
    }
}

/* The plans that are written down without a search are as cheap and as short as the search's. */
static void shortcuts_equal_search(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct trial t = random_trial(seed);
        struct sw_reshard_step steps[SW_RESHARD_MAX_STEPS], searched[SW_RESHARD_MAX_STEPS];
        int count = sw_reshard(&t.mesh, t.global, t.unit, &t.from, &t.to, steps, NULL);
        struct sw_reshard_problem problem = {.mesh = &t.mesh,
                                             .global = t.global,
                                             .unit = t.unit,
                                             .from = sw_sharding_normalize(&t.mesh, t.from),
                                             .to = sw_sharding_normalize(&t.mesh, t.to)};
        int search_count = sw_reshard_search(&problem, searched);
        double cost = plan_cost(&t, steps, count);
        double least = plan_cost(&t, searched, search_count);
        if (cost > least * (1 + 1e-9) || search_count != count) {
            print_trial(&t, steps, count);
            print_trial(&t, searched, search_count);
        }
        assert_true(cost <= least * (1 + 1e-9));
        assert_int_equal(count, search_count);
    }
}

/* What the search minimizes is the number of elements received. */
static void cost_counts_received_elements(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        struct trial t = random_trial(seed);
        struct sw_reshard_step steps[SW_RESHARD_MAX_STEPS];
        int count = sw_reshard(&t.mesh, t.global, t.unit, &t.from, &t.to, steps, NULL);
        struct sw_sharding now = sw_sharding_normalize(&t.mesh, t.from);
        double ranks = sw_mesh_rank_count(&t.mesh), whole = 1;
        for (int d = 0; d < t.from.spec.ndim; d++)
            whole *= (double)t.global[d];
        for (int i = 0; i < count; i++) {
            double units = sw_reshard_step_cost(&t.mesh, &now, &steps[i]);
            double want = step_cost(&t, &now, &steps[i]);
            assert_true(units == (double)(int64_t)units);
            assert_true(units * whole / (ranks * ranks) - want <= want * 1e-12);
            assert_true(want - units * whole / (ranks * ranks) <= want * 1e-12);
            now = steps[i].after;
        }
    }
}

static void same_input_same_steps(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        struct trial t = random_trial(seed);
        struct sw_reshard_step a[SW_RESHARD_MAX_STEPS], b[SW_RESHARD_MAX_STEPS];
        memset(a, 0x55, sizeof a);
        memset(b, 0xaa, sizeof b);
        int count = sw_reshard(&t.mesh, t.global, t.unit, &t.from, &t.to, a, NULL);
        assert_int_equal(sw_reshard(&t.mesh, t.global, t.unit, &t.from, &t.to, b, NULL), count);
        for (int i = 0; i < count; i++) {
            assert_int_equal(a[i].kind, b[i].kind);
            assert_true(sw_axes_equal(a[i].axes, b[i].axes));
            assert_int_equal(a[i].dim, b[i].dim);
            assert_int_equal(a[i].dim_to, b[i].dim_to);
            assert_true(sw_sharding_equal(&a[i].after, &b[i].after));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(result_is_slice_of_global),     cmocka_unit_test(padding_stays_zero),
        cmocka_unit_test(cost_is_never_above_naive),     cmocka_unit_test(shortcuts_equal_search),
        cmocka_unit_test(cost_counts_received_elements), cmocka_unit_test(same_input_same_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
