#include "tests/unit/collective_reference.h"

#include "core/ir/workspace_collective.h"
#include "runner/collective/call.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FENCE_BYTES = 64, FENCE = 0xa5 };

static uint64_t mix(uint64_t x) /* splitmix64 */
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

int32_t reference_random_below(struct reference_random *random, int32_t below)
{
    random->state = mix(random->state);
    return (int32_t)((random->state >> 16) % (uint64_t)below);
}

/* To the nearest number with 8 significant bits, ties to even. */
static double round_bf16(double value)
{
    int exponent;
    const double fraction = frexp(value, &exponent);
    return ldexp(nearbyint(ldexp(fraction, 8)), exponent - 8);
}

static double round_to(enum sw_dtype dtype, double value)
{
    return dtype == SW_BF16_T ? round_bf16(value) : dtype == SW_F32 ? (double)(float)value : value;
}

static double load(enum sw_dtype dtype, const void *data, int64_t i)
{
    if (dtype == SW_F32)
        return ((const float *)data)[i];
    if (dtype == SW_F64)
        return ((const double *)data)[i];
    if (dtype == SW_I32)
        return ((const int32_t *)data)[i];
    if (sw_dtype_bytes(dtype) == 1)
        return ((const int8_t *)data)[i];
    const uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void store(enum sw_dtype dtype, void *data, int64_t i, double value)
{
    if (dtype == SW_F32) {
        ((float *)data)[i] = (float)value;
    } else if (dtype == SW_F64) {
        ((double *)data)[i] = value;
    } else if (dtype == SW_I32) {
        ((int32_t *)data)[i] = (int32_t)value;
    } else if (sw_dtype_bytes(dtype) == 1) {
        ((int8_t *)data)[i] = (int8_t)value;
    } else { /* exact: the value was rounded before */
        const float wide = (float)value;
        uint32_t bits;
        memcpy(&bits, &wide, sizeof bits);
        ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
    }
}

/* What rank holds at element i of an operand: fractions whose sums are rounded. */
static double held(const struct reference_case *c, int32_t rank, int32_t operand, int64_t i)
{
    const uint64_t h = mix(mix(mix(c->seed ^ (uint64_t)rank) ^ (uint64_t)operand) ^ (uint64_t)i);
    const double value = (double)(int64_t)(h >> 40) - 8388608.0; /* 24 bits */
    return sw_dtype_bytes(c->dtype) == 1 ? floor(value / 65536)
           : c->dtype == SW_I32          ? floor(value / 64)
                                         : round_to(c->dtype, value / 4095.0);
}

/* Members of each group on every node, where that is one number; else all. */
static int32_t members_of_nodes(const struct reference_case *c, const struct sw_mesh *mesh)
{
    const int32_t group = sw_axes_size(mesh, c->axes), ranks = sw_mesh_rank_count(mesh);
    int32_t first = 0;
    for (int32_t rank = 0; c->node_ranks > 0 && rank < ranks; rank++) {
        int32_t members = 0;
        for (int32_t i = 0; i < group; i++)
            members +=
                sw_axes_member(mesh, c->axes, rank, i) / c->node_ranks == rank / c->node_ranks;
        if (first > 0 && members != first)
            return group;
        first = members;
    }
    return first > 1 ? first : group;
}

/* In the dtype the sums are made in, in member order: of each node's members, then of nodes. */
static double sum_held(const struct reference_case *c, const struct sw_mesh *mesh, int32_t rank,
                       int32_t operand, int64_t i)
{
    const int32_t group = sw_axes_size(mesh, c->axes), each = members_of_nodes(c, mesh);
    const int32_t node_ranks = each < group ? c->node_ranks : sw_mesh_rank_count(mesh);
    const bool wide = c->dtype == SW_F64 || c->dtype == SW_I32;
    double sum = 0;
    for (int32_t node = 0; node * node_ranks < sw_mesh_rank_count(mesh); node++) {
        double of_node = 0;
        for (int32_t member = 0; member < group; member++) {
            const int32_t other = sw_axes_member(mesh, c->axes, rank, member);
            if (other / node_ranks == node) {
                of_node += held(c, other, operand, i);
                of_node = wide ? of_node : (double)(float)of_node;
            }
        }
        sum += round_to(c->dtype, of_node);
        sum = wide ? sum : (double)(float)sum;
    }
    return round_to(c->dtype, sum);
}

/* The input's shape with the stack as leading dimension, if there is one. Returns ndim. */
static int full_shape(const struct reference_case *c, int32_t operand,
                      int64_t shape[SW_MAX_DIMS + 1])
{
    int ndim = 0;
    if (c->stack > 1)
        shape[ndim++] = c->stack;
    for (int d = 0; d < c->ndim; d++)
        shape[ndim++] = c->local[d] + (d == 0 ? operand : 0);
    return ndim;
}

static int64_t elems_of(const int64_t *shape, int ndim)
{
    int64_t elems = 1;
    for (int d = 0; d < ndim; d++)
        elems *= shape[d];
    return elems;
}

static int64_t flat(const int64_t *index, const int64_t *shape, int ndim)
{
    int64_t at = 0;
    for (int d = 0; d < ndim; d++)
        at = at * shape[d] + index[d];
    return at;
}

/* What this rank must have at element i of its output. */
static double expected(const struct reference_case *c, const struct sw_mesh *mesh, int32_t rank,
                       int32_t operand, int64_t i)
{
    const int32_t group = sw_axes_size(mesh, c->axes), me = sw_axes_index(mesh, c->axes, rank);
    if (c->kind == SW_ALL_REDUCE)
        return sum_held(c, mesh, rank, operand, i);
    int64_t in[SW_MAX_DIMS + 1], out[SW_MAX_DIMS + 1], index[SW_MAX_DIMS + 1] = {0};
    const int ndim = full_shape(c, operand, in), shifted = c->stack > 1;
    const int dim = c->dim + shifted, dim_to = c->dim_to + shifted;
    memcpy(out, in, sizeof out);
    if (c->kind == SW_REDUCE_SCATTER)
        out[dim] /= group;
    else
        out[dim] *= group;
    if (c->kind == SW_ALL_TO_ALL)
        out[dim_to] /= group;
    for (int d = ndim - 1; d >= 0; d--) {
        index[d] = i % out[d];
        i /= out[d];
    }
    if (c->kind == SW_REDUCE_SCATTER) {
        index[dim] += me * out[dim];
        return sum_held(c, mesh, rank, operand, flat(index, in, ndim));
    }
    const int32_t member = (int32_t)(index[dim] / in[dim]);
    index[dim] %= in[dim];
    if (c->kind == SW_ALL_TO_ALL)
        index[dim_to] += me * out[dim_to];
    return held(c, sw_axes_member(mesh, c->axes, rank, member), operand, flat(index, in, ndim));
}

struct reference_case reference_case_random(struct reference_random *random,
                                            const struct sw_mesh *mesh, bool large)
{
    struct reference_case c = {.count = 1, .stack = 1};
    static const enum sw_collective kinds[] = {SW_ALL_GATHER, SW_REDUCE_SCATTER, SW_ALL_REDUCE,
                                               SW_ALL_TO_ALL};
    c.kind = kinds[reference_random_below(random, 4)];
    const bool sums = c.kind == SW_REDUCE_SCATTER || c.kind == SW_ALL_REDUCE;
    c.dtype = (enum sw_dtype)reference_random_below(random, sums ? SW_I8 : SW_I4); /* of numbers */
    c.seed = random->state;
    /* A group: any axes in any order. */
    const int32_t axes = reference_random_below(random, SW_AXIS_COUNT) + 1;
    sw_axis_set used = 0;
    while (c.axes.count < axes) {
        const uint8_t axis = (uint8_t)reference_random_below(random, SW_AXIS_COUNT);
        if ((used & (1u << axis)) == 0)
            c.axes.axis[c.axes.count++] = axis;
        used |= (sw_axis_set)(1u << axis);
    }
    const int32_t group = sw_axes_size(mesh, c.axes);
    const int least = c.kind == SW_ALL_TO_ALL ? 2 : 1;
    c.ndim = least + reference_random_below(random, SW_MAX_DIMS - least + 1);
    for (int d = 0; d < c.ndim; d++)
        c.local[d] = 1 + reference_random_below(random, 4);
    if (large)
        c.local[reference_random_below(random, c.ndim)] *= 3001;
    c.dim = reference_random_below(random, c.ndim);
    do
        c.dim_to = reference_random_below(random, c.ndim);
    while (c.kind == SW_ALL_TO_ALL && c.dim_to == c.dim);
    if (c.kind == SW_REDUCE_SCATTER)
        c.local[c.dim] *= group;
    if (c.kind == SW_ALL_TO_ALL)
        c.local[c.dim_to] *= group;
    if (reference_random_below(random, 4) == 0)
        c.stack = 1 + reference_random_below(random, 3);
    if (c.kind == SW_ALL_REDUCE) {
        c.count = reference_random_below(random, 2)
                      ? 1
                      : 1 + reference_random_below(random, SW_COLLECTIVE_MAX_OPERANDS);
        c.in_place = reference_random_below(random, 2);
    }
    return c;
}

void reference_case_format(const struct reference_case *c, char *buffer, size_t buffer_bytes)
{
    char axes[64];
    snprintf(buffer, buffer_bytes,
             "%s over %s of %d x %s [%lld, %lld, %lld, %lld] (ndim %d, dim %d, to %d, stack %d, "
             "seed %llx)",
             sw_collective_name(c->kind), sw_axes_format(c->axes, axes, sizeof axes), (int)c->count,
             sw_dtype_name(c->dtype), (long long)c->local[0], (long long)c->local[1],
             (long long)c->local[2], (long long)c->local[3], c->ndim, c->dim, c->dim_to,
             (int)c->stack, (unsigned long long)c->seed);
}

/* Memory that ends where it must, with a fence behind. */
static unsigned char *fenced(int64_t bytes)
{
    unsigned char *memory =
        aligned_alloc(SW_ARENA_ALIGNMENT, (size_t)(bytes + FENCE_BYTES + SW_ARENA_ALIGNMENT - 1) /
                                              SW_ARENA_ALIGNMENT * SW_ARENA_ALIGNMENT);
    if (memory != NULL)
        memset(memory, FENCE, (size_t)(bytes + FENCE_BYTES));
    return memory;
}

static bool fence_broken(const unsigned char *memory, int64_t bytes)
{
    for (int i = 0; i < FENCE_BYTES; i++)
        if (memory[bytes + i] != FENCE)
            return true;
    return false;
}

static int64_t planned_workspace(const struct reference_case *c, const struct sw_mesh *mesh)
{
    static const uint8_t op_kinds[] = {[SW_SLICE] = SW_OP_SLICE,
                                       [SW_ALL_GATHER] = SW_OP_ALL_GATHER,
                                       [SW_REDUCE_SCATTER] = SW_OP_REDUCE_SCATTER,
                                       [SW_ALL_REDUCE] = SW_OP_ALL_REDUCE,
                                       [SW_ALL_TO_ALL] = SW_OP_ALL_TO_ALL};
    struct sw_value values[SW_COLLECTIVE_MAX_OPERANDS];
    struct sw_ref refs[SW_COLLECTIVE_MAX_OPERANDS];
    memset(values, 0, sizeof values);
    struct sw_op op = {.kind = op_kinds[c->kind],
                       .n_in = (uint16_t)c->count,
                       .in = refs,
                       .axes = c->axes,
                       .as.move = {c->dim, c->dim_to}};
    for (int32_t i = 0; i < c->count; i++) {
        values[i].dtype = c->dtype;
        values[i].ndim = (uint8_t)c->ndim;
        values[i].stack = c->stack;
        memcpy(values[i].local, c->local, sizeof values[i].local);
        values[i].local[0] += i;
        refs[i] = (struct sw_ref){i, c->stack > 1 ? SW_INDEX_WHOLE : SW_INDEX_LAYER, 0};
    }
    const struct sw_program program = {.mesh = *mesh, .values = values, .value_count = c->count};
    return sw_workspace_collective(&program, &op);
}

static void release(struct reference_run *run)
{
    for (int32_t i = 0; i < run->c.count; i++) {
        if (run->out[i] != run->in[i])
            free(run->out[i]);
        free(run->in[i]);
    }
    free(run->workspace);
}

/* For who looks at the memory himself: of a communicator that queues, until it is there. */
static int wait_here(struct sw_comm *comm, uint64_t ticket, struct sw_error *err)
{
    const int result = comm->vtable->wait(comm, ticket, err);
    return result == 0 && comm->queued ? comm->vtable->settle(comm, err) : result;
}

int reference_begin(struct reference_run *run, struct sw_comm *comm, const struct reference_case *c,
                    struct sw_error *err)
{
    *run = (struct reference_run){.c = *c};
    const int32_t group = sw_axes_size(&comm->mesh, c->axes);
    const int64_t element = (int64_t)sw_dtype_bytes(c->dtype);
    int64_t shape[SW_MAX_DIMS + 1];
    const int ndim = full_shape(c, 0, shape), shifted = c->stack > 1;
    sw_collective_call_shape(&run->call, c->kind, ndim, shape, c->dim + shifted,
                             c->dim_to + shifted);
    run->call.axes = c->axes;
    run->call.dtype = c->dtype;
    run->call.count = c->count;
    run->call.waited_next = c->waited_next;
    run->workspace_bytes = planned_workspace(c, &comm->mesh);
    bool enough = (run->workspace = fenced(run->workspace_bytes)) != NULL;
    for (int32_t i = 0; i < c->count; i++) {
        (void)full_shape(c, i, shape);
        const int64_t elems = elems_of(shape, ndim);
        run->out_elems[i] = c->kind == SW_ALL_GATHER       ? elems * group
                            : c->kind == SW_REDUCE_SCATTER ? elems / group
                                                           : elems;
        run->in[i] = fenced(elems * element);
        run->out[i] = c->in_place ? run->in[i] : fenced(run->out_elems[i] * element);
        enough = enough && run->in[i] != NULL && run->out[i] != NULL;
        for (int64_t e = 0; enough && e < elems; e++)
            store(c->dtype, run->in[i], e, held(c, comm->rank, i, e));
        run->call.in[i] = run->in[i];
        run->call.out[i] = run->out[i];
        run->call.elems[i] = elems;
    }
    run->call.workspace = run->workspace_bytes > 0 ? run->workspace : NULL;
    if (!enough)
        (void)sw_fail(err, SW_ENVIRONMENT, "out of memory");
    if (!enough || comm->vtable->start(comm, &run->call, &run->ticket, err) != 0) {
        release(run);
        return -1;
    }
    return 0;
}

/* Whether an operand that is not reduced in place is still what the rank held: others may read it
 * later. Of a large one a part, as of results. */
static bool input_changed(const struct reference_run *run, int32_t rank, int32_t operand)
{
    const int64_t elems = run->call.elems[operand], step = elems > 1 << 16 ? 61 : 1;
    for (int64_t e = 0; !run->c.in_place && e < elems; e += step)
        if (load(run->c.dtype, run->in[operand], e) != held(&run->c, rank, operand, e))
            return true;
    return false;
}

int reference_end(struct reference_run *run, struct sw_comm *comm, struct sw_error *err)
{
    const struct reference_case *c = &run->c;
    const int64_t element = (int64_t)sw_dtype_bytes(c->dtype);
    int result = wait_here(comm, run->ticket, err);
    char text[256];
    reference_case_format(c, text, sizeof text);
    for (int32_t i = 0; i < c->count && result == 0; i++) {
        /* Of a large result a part, spread over all rows and messages: 61 divides no size used
         * here. */
        const int64_t step = run->out_elems[i] > 1 << 16 ? 61 : 1;
        for (int64_t e = 0; e < run->out_elems[i] && result == 0; e += step) {
            const double want = expected(c, &comm->mesh, comm->rank, i, e);
            const double have = load(c->dtype, run->out[i], e);
            if (have != want)
                result =
                    sw_fail(err, SW_UNMET, "rank %d: %s: operand %d [%lld] is %.17g, not %.17g",
                            (int)comm->rank, text, (int)i, (long long)e, have, want);
        }
        if (result == 0 && input_changed(run, comm->rank, i))
            result = sw_fail(err, SW_UNMET, "rank %d: %s: wrote to operand %d", (int)comm->rank,
                             text, (int)i);
        if (fence_broken(run->out[i], run->out_elems[i] * element) ||
            fence_broken(run->in[i], run->call.elems[i] * element))
            result = sw_fail(err, SW_UNMET, "rank %d: %s: wrote past operand %d", (int)comm->rank,
                             text, (int)i);
    }
    if (fence_broken(run->workspace, run->workspace_bytes))
        result = sw_fail(err, SW_UNMET, "rank %d: %s: wrote past its %lld bytes of workspace",
                         (int)comm->rank, text, (long long)run->workspace_bytes);
    release(run);
    return result;
}

static unsigned char ring_byte(int32_t rank, size_t i)
{
    return (unsigned char)mix((uint64_t)rank * 1000003u + i);
}

int reference_ring(struct sw_comm *comm, struct sw_axes axes, size_t bytes, struct sw_error *err)
{
    const int32_t group = sw_axes_size(&comm->mesh, axes);
    const int32_t index = sw_axes_index(&comm->mesh, axes, comm->rank);
    unsigned char *block[2] = {malloc(bytes), malloc(bytes)};
    int result = 0;
    if (block[0] == NULL || block[1] == NULL)
        result = sw_fail(err, SW_ENVIRONMENT, "out of memory");
    for (size_t i = 0; i < bytes && result == 0; i++)
        block[0][i] = ring_byte(comm->rank, i);
    for (int32_t hop = 1; hop <= group && result == 0; hop++) {
        uint64_t ticket;
        unsigned char *from = block[(hop + 1) % 2], *to = block[hop % 2];
        result = comm->vtable->shift(comm, axes, from, to, bytes, &ticket, err);
        if (result == 0)
            result = wait_here(comm, ticket, err);
        const int32_t origin =
            sw_axes_member(&comm->mesh, axes, comm->rank, (index - hop + group) % group);
        for (size_t i = 0; i < bytes && result == 0; i++)
            if (to[i] != ring_byte(origin, i))
                result = sw_fail(err, SW_UNMET, "rank %d: hop %d: byte %zu is not rank %d's",
                                 (int)comm->rank, (int)hop, i, (int)origin);
    }
    free(block[0]);
    free(block[1]);
    return result;
}

/* One message out and one in, of a permutation that every rank knows. */
struct message {
    int32_t to, from;
    size_t sends, receives;
    unsigned char *out, *in;
    uint64_t ticket;
};

enum { MESSAGES = 4, MESSAGE_ROUNDS = 10, MESH_MAX = 64 };

static void message_draw(struct message *m, struct reference_random *random, int32_t rank,
                         int32_t ranks, int32_t most)
{
    int32_t to[MESH_MAX];
    for (int32_t i = 0; i < ranks; i++)
        to[i] = i;
    for (int32_t i = ranks - 1; i > 0; i--) {
        const int32_t j = reference_random_below(random, i + 1), swapped = to[i];
        to[i] = to[j];
        to[j] = swapped;
    }
    *m = (struct message){0};
    for (int32_t i = 0; i < ranks; i++) {
        const int32_t kind = reference_random_below(random, 8);
        const size_t bytes =
            kind < 2 ? 0 : (size_t)reference_random_below(random, kind == 7 ? most + 1 : 300);
        if (i == rank) {
            m->to = bytes > 0 ? to[i] : -7; /* not looked at */
            m->sends = bytes;
        }
        if (to[i] == rank) {
            m->from = bytes > 0 ? i : 1 << 20;
            m->receives = bytes;
        }
    }
}

static int message_start(struct message *m, struct sw_comm *comm, uint64_t seed,
                         struct sw_error *err)
{
    m->out = fenced((int64_t)m->sends);
    m->in = fenced((int64_t)m->receives);
    if (m->out == NULL || m->in == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory");
    for (size_t i = 0; i < m->sends; i++)
        m->out[i] = ring_byte(comm->rank, seed + i);
    return comm->vtable->transfer(comm, m->to, m->sends > 0 ? m->out : NULL, m->sends, m->from,
                                  m->receives > 0 ? m->in : NULL, m->receives, &m->ticket, err);
}

static int message_check(const struct message *m, struct sw_comm *comm, uint64_t seed,
                         struct sw_error *err)
{
    if (wait_here(comm, m->ticket, err) != 0)
        return -1;
    for (size_t i = 0; i < m->receives; i++)
        if (m->in[i] != ring_byte(m->from, seed + i))
            return sw_fail(err, SW_UNMET, "rank %d: byte %zu of %zu is not rank %d's",
                           (int)comm->rank, i, m->receives, (int)m->from);
    if (fence_broken(m->in, (int64_t)m->receives))
        return sw_fail(err, SW_UNMET, "rank %d: wrote past a message of %zu bytes", (int)comm->rank,
                       m->receives);
    return 0;
}

int reference_transfers(struct sw_comm *comm, uint64_t seed, int32_t most, struct sw_error *err)
{
    struct reference_random random = {seed};
    int result = comm->size <= MESH_MAX ? 0 : sw_fail(err, SW_BAD_INPUT, "too many ranks");
    for (int round = 0; round < MESSAGE_ROUNDS && result == 0; round++) {
        struct message messages[MESSAGES] = {{0}};
        struct reference_run beside = {0};
        bool begun = false;
        for (int i = 0; i < MESSAGES && result == 0; i++) {
            message_draw(&messages[i], &random, comm->rank, comm->size, most);
            result = message_start(&messages[i], comm, seed + (uint64_t)i, err);
            if (result == 0 && i == 1) {
                const struct reference_case c = reference_case_random(&random, &comm->mesh, false);
                result = reference_begin(&beside, comm, &c, err);
                begun = result == 0;
            }
        }
        if (begun && reference_end(&beside, comm, err) != 0)
            result = -1;
        for (int i = MESSAGES - 1; i >= 0 && result == 0; i--)
            result = message_check(&messages[i], comm, seed + (uint64_t)i, err);
        for (int i = 0; i < MESSAGES && result == 0; i++) { /* else under way, perhaps */
            free(messages[i].out);
            free(messages[i].in);
        }
    }
    return result;
}
