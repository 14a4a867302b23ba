#include "core/programs/program_set.h"

#include "core/base/hash.h"
#include "core/passes/passes.h"
#include "core/checkpoint/snapshot.h"

#include <stdlib.h>
#include <string.h>

struct sw_program *sw_program_set_size(const struct sw_program_set *set, enum sw_program_kind kind,
                                       int32_t size)
{
    return size == 0 ? set->program[kind] : set->fewer[kind][size - 1];
}

/* The rows of what a laid-out program's own state is. */
static int collect(const struct sw_program *p, struct sw_state *state, struct sw_error *err)
{
    state->row = calloc((size_t)p->value_count + 1, sizeof *state->row);
    if (state->row == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the state");
    for (int32_t role = 0; role < SW_ROLE_COUNT; role++)
        for (int32_t v = 0; v < p->value_count; v++) {
            const struct sw_value *value = &p->values[v];
            if ((int32_t)value->role != role || !sw_role_is_state(value->role) ||
                !sw_program_is_stored(p, v))
                continue;
            struct sw_state_row *row = &state->row[state->count++];
            memcpy(row->name, value->name, sizeof row->name);
            row->role = value->role;
            row->dtype = value->dtype;
            row->initial = (enum sw_initial)value->initial;
            row->decay = value->decay;
            row->frozen = value->frozen;
            row->saved = value->saved;
            row->origin = value->origin;
            row->scales = value->scales;
            row->largest = value->largest;
            row->copy = value->copy;
            row->tiled = value->tiled;
            row->moment = value->moment;
            row->parameter = value->parameter;
            row->ndim = value->ndim;
            memcpy(row->axis, value->axis, sizeof row->axis);
            memcpy(row->size, value->size, sizeof row->size);
            memcpy(row->padded, value->padded, sizeof row->padded);
            memcpy(row->local, value->local, sizeof row->local);
            row->sharding = value->sharding;
            row->stack = value->stack;
            row->instance_bytes = value->slot_bytes;
            row->offset = value->offset;
        }
    state->parameter_bytes = p->parameter_bytes;
    state->cache_bytes = p->cache_bytes;
    state->bytes = p->parameter_bytes + p->optimizer_bytes + p->cache_bytes;
    return 0;
}

/* Arena of the largest size of a program; 0: the set has none of that kind. */
static int64_t most_arena_bytes(const struct sw_program_set *set, enum sw_program_kind kind)
{
    int64_t most = 0;
    for (int32_t size = 0; size < SW_SERVING_SIZES; size++) {
        const struct sw_program *p = sw_program_set_size(set, kind, size);
        if (p != NULL && p->arena_bytes > most)
            most = p->arena_bytes;
    }
    return most;
}

static void set_arena(struct sw_program_set *set, bool interleaves)
{
    set->arena_bytes = set->state.bytes;
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++) {
        const int64_t most = most_arena_bytes(set, (enum sw_program_kind)k);
        if (set->program[k] != NULL)
            set->tokens_per_step = set->program[k]->tokens_per_step;
        if (most > set->arena_bytes && !(interleaves && k == SW_PROGRAM_DECODE))
            set->arena_bytes = most;
    }
    if (!interleaves || set->program[SW_PROGRAM_DECODE] == NULL)
        return;
    set->decode_shift_bytes = sw_serving_decode_shift(set->arena_bytes, set->state.bytes);
    set->arena_bytes = set->decode_shift_bytes + most_arena_bytes(set, SW_PROGRAM_DECODE);
}

int sw_program_set_single(struct sw_program *program, enum sw_program_kind kind,
                          struct sw_program_set **out, struct sw_error *err)
{
    struct sw_program_set *set = calloc(1, sizeof *set);
    if (set == NULL) {
        sw_program_free(program);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the programs");
    }
    program->kind = kind;
    set->program[kind] = program;
    if (collect(program, &set->state, err) != 0) {
        sw_program_set_free(set);
        return -1;
    }
    set_arena(set, false);
    *out = set;
    return 0;
}

/* Plans the files of a checkpoint of the set's state, and the exchange that fills them. */
static int add_save(const struct sw_program_options *options, struct sw_program_set *set,
                    struct sw_error *err)
{
    const int32_t ranks = sw_mesh_rank_count(&options->mesh);
    const int64_t transients = set->arena_bytes - set->state.bytes; /* transients of training */
    if (sw_placement_make(&set->state, ranks, &set->placement, err) != 0 ||
        sw_exchange_make(&set->state, &set->placement, &options->mesh, false,
                         sw_exchange_chunk_bytes(&set->placement, transients), &set->save,
                         err) != 0)
        return -1;
    if (sw_build_snapshot(options, &set->save, &set->program[SW_PROGRAM_SAVE], err) != 0)
        return -1;
    return sw_program_verify(set->program[SW_PROGRAM_SAVE], err);
}

int sw_program_set_compile(const struct sw_program_options *options, struct sw_program_set **out,
                           struct sw_error *err)
{
    struct sw_program_options one = *options;
    struct sw_program *train = NULL;
    struct sw_program_set *set = NULL;
    one.kind = SW_PROGRAM_TRAIN;
    if (sw_program_compile(&one, SW_LAID_OUT, &train, err) != 0 ||
        sw_program_set_single(train, SW_PROGRAM_TRAIN, &set, err) != 0)
        return -1;
    one.kind = SW_PROGRAM_EVALUATE;
    if (sw_program_compile(&one, SW_SCHEDULED, &set->program[SW_PROGRAM_EVALUATE], err) != 0 ||
        sw_layout(set->program[SW_PROGRAM_EVALUATE], &set->state, err) != 0 ||
        add_save(options, set, err) != 0) {
        sw_program_set_free(set);
        return -1;
    }
    set_arena(set, false);
    *out = set;
    return 0;
}

/* A program of serving that passes the one or the other, and the bytes that a rank sends in it. */
static int compile_passing(const struct sw_program_options *training, const struct sw_serving *want,
                           enum sw_program_kind kind, enum sw_prefill_gather gathers,
                           int64_t bytes[SW_GATHER_KINDS], struct sw_program **out,
                           struct sw_error *err)
{
    struct sw_program_options options;
    struct sw_serving one = *want;
    one.gathers = gathers;
    if (sw_serving_options(training, &one, kind, &options, err) != 0 ||
        sw_program_compile(&options, SW_SCHEDULED, out, err) != 0)
        return -1;
    if (sw_layout_measure(*out, NULL, NULL, err) != 0) {
        sw_program_free(*out);
        *out = NULL;
        return -1;
    }
    bytes[gathers] = sw_program_sent_bytes(*out);
    return 0;
}

/* Its sizes of fewer rows, over the state that is there. */
static int add_sizes(const struct sw_program_options *training, const struct sw_serving *want,
                     enum sw_program_kind kind, struct sw_program_set *set, struct sw_error *err)
{
    struct sw_program_options options;
    int64_t rows[SW_SERVING_SIZES];
    if (sw_serving_options(training, want, kind, &options, err) != 0)
        return -1;
    const int32_t count = sw_serving_sizes(&options, rows);
    for (int32_t i = 1; i < count; i++) {
        struct sw_program **one = &set->fewer[kind][i - 1];
        sw_serving_resize(&options, rows[i]);
        if (sw_program_compile(&options, SW_SCHEDULED, one, err) != 0 ||
            sw_layout(*one, &set->state, err) != 0)
            return -1;
    }
    return 0;
}

/* Compiles a serving program in the wanted way of gathering, or in the one that sends less. */
static int compile_serving(const struct sw_program_options *training, const struct sw_serving *want,
                           enum sw_program_kind kind, enum sw_prefill_gather *gathers,
                           int64_t bytes[SW_GATHER_KINDS], struct sw_program **out,
                           struct sw_error *err)
{
    struct sw_program *both[SW_GATHER_KINDS] = {NULL};
    const bool may = kind != SW_PROGRAM_DECODE && sw_serving_may_gather_kv(training, want);
    memset(bytes, 0, SW_GATHER_KINDS * sizeof *bytes);
    if (compile_passing(training, want, kind, SW_GATHER_QUERIES, bytes, &both[SW_GATHER_QUERIES],
                        err) != 0)
        return -1;
    if (may &&
        compile_passing(training, want, kind, SW_GATHER_KV, bytes, &both[SW_GATHER_KV], err) != 0) {
        sw_program_free(both[SW_GATHER_QUERIES]);
        return -1;
    }
    *gathers =
        may && (want->gathers == SW_GATHER_KV || (want->gathers == SW_GATHER_FEWEST &&
                                                  bytes[SW_GATHER_KV] < bytes[SW_GATHER_QUERIES]))
            ? SW_GATHER_KV
            : SW_GATHER_QUERIES;
    *out = both[*gathers];
    both[*gathers] = NULL;
    for (int32_t i = 0; i < SW_GATHER_KINDS; i++)
        sw_program_free(both[i]);
    return 0;
}

int sw_program_set_compile_serving(const struct sw_program_options *training,
                                   const struct sw_serving *want, uint32_t kinds,
                                   struct sw_program_set **out, struct sw_error *err)
{
    struct sw_program_set *set = NULL;
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++) {
        struct sw_program *program = NULL;
        int64_t bytes[SW_GATHER_KINDS];
        enum sw_prefill_gather gathers;
        if ((kinds >> k & 1u) == 0 || !sw_serving_has(training, want, (enum sw_program_kind)k))
            continue;
        if (compile_serving(training, want, (enum sw_program_kind)k, &gathers, bytes, &program,
                            err) != 0)
            goto fail;
        if (set == NULL) {
            if (sw_layout(program, NULL, err) != 0) {
                sw_program_free(program);
                return -1;
            }
            if (sw_program_set_single(program, (enum sw_program_kind)k, &set, err) != 0)
                return -1;
        } else {
            set->program[k] = program;
            if (sw_layout(program, &set->state, err) != 0)
                goto fail;
        }
        if (k == SW_PROGRAM_PREFILL) {
            set->gathers = gathers;
            memcpy(set->chunk_bytes, bytes, sizeof bytes);
        }
        if (add_sizes(training, want, (enum sw_program_kind)k, set, err) != 0)
            goto fail;
    }
    if (set == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "no program of serving was asked for");
    set_arena(set, sw_serving_interleaves(training, want));
    *out = set;
    return 0;
fail:
    sw_program_set_free(set);
    return -1;
}

void sw_program_set_digests(const struct sw_program_set *set, uint64_t out[SW_PROGRAM_KINDS])
{
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++)
        out[k] = set->program[k] != NULL ? sw_program_digest(set->program[k]) : 0;
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++)
        for (int32_t i = 0; i < SW_SERVING_SIZES - 1 && set->fewer[k][i] != NULL; i++)
            out[k] = sw_hash_mix(out[k]) ^ sw_program_digest(set->fewer[k][i]);
}

enum sw_program_kind sw_program_set_differs(const struct sw_program_set *set,
                                            const uint64_t digest[SW_PROGRAM_KINDS])
{
    uint64_t mine[SW_PROGRAM_KINDS];
    int32_t k = 0;
    sw_program_set_digests(set, mine);
    while (k < SW_PROGRAM_KINDS && (set->program[k] == NULL || mine[k] == digest[k]))
        k++;
    return (enum sw_program_kind)k;
}

void sw_program_set_free(struct sw_program_set *set)
{
    if (set == NULL)
        return;
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++)
        for (int32_t size = 0; size < SW_SERVING_SIZES; size++)
            sw_program_free(sw_program_set_size(set, (enum sw_program_kind)k, size));
    sw_exchange_free(&set->save);
    sw_placement_free(&set->placement);
    free(set->state.row);
    free(set);
}

static int32_t add_axes(struct sw_axes axes, struct sw_axes *out, int32_t count)
{
    if (axes.count == 0)
        return count;
    for (int32_t i = 0; i < count; i++)
        if (sw_axes_equal(out[i], axes))
            return count;
    out[count] = axes;
    return count + 1;
}

/* There are no more lists of distinct axes than there is room for. */
int32_t sw_program_set_axes(const struct sw_program_set *set, struct sw_axes out[SW_MESH_GROUPS])
{
    int32_t count = 0;
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++) {
        const struct sw_program *p = set->program[k];
        for (int32_t i = 0; p != NULL && i < p->op_count; i++)
            count = add_axes(sw_axes_effective(&p->mesh, p->ops[i].axes), out, count);
    }
    return count;
}
