/* State outlives programs: the table of named tensors that do (parameters, optimizer moments), and
 * the programs of a plan over it.
 *
 * The state lies first in the arena; each program has transients of its own behind it. So the arena
 * is the state and the largest transients, known before anything runs, and going from one program
 * to another moves nothing. Sizes in bytes of one rank. */
#ifndef SW_PROGRAM_SET_H
#define SW_PROGRAM_SET_H

#include "core/checkpoint/exchange.h"
#include "core/ir/serving.h"
#include "core/programs/compile.h"

/* The programs of a plan. */
struct sw_program_set {
    struct sw_state state;
    struct sw_program *program[SW_PROGRAM_KINDS];
    /* serving programs with fewer rows, in the order of sw_serving_sizes from its second on; NULL
     * behind the last */
    struct sw_program *fewer[SW_PROGRAM_KINDS][SW_SERVING_SIZES - 1];
    int64_t arena_bytes;
    int64_t tokens_per_step;
    /* bytes added to the layout's offsets of the transients of `decode`, which then lie past those
     * of all other programs, so that `decode` can run inside a call of these; 0 unless serving
     * interleaves */
    int64_t decode_shift_bytes;
    /* serving: operands that prefill gathers, and bytes that a rank sends for a chunk in either
     * way; 0: that way does not exist */
    enum sw_prefill_gather gathers;
    int64_t chunk_bytes[SW_GATHER_KINDS];
    /* program `save`: files of a checkpoint, which all ranks of the mesh write, and the exchange
     * that brings the state there; both refer to this set. Zero without that program */
    struct sw_placement placement;
    struct sw_exchange save;
};

/* Compiles all programs of `options` (their `kind` is not looked at). *out is the caller's, free
 * with sw_program_set_free. Errors: as sw_program_compile. */
int sw_program_set_compile(const struct sw_program_options *options, struct sw_program_set **out,
                           struct sw_error *err);
/* Compiles the serving programs in the bit set `kinds` (1 << SW_PROGRAM_DECODE ...), over one state
 * of weights and cache. training: as for sw_serving_options. Makes no `save`. */
int sw_program_set_compile_serving(const struct sw_program_options *training,
                                   const struct sw_serving *want, uint32_t kinds,
                                   struct sw_program_set **out, struct sw_error *err);
void sw_program_set_free(struct sw_program_set *set); /* may be NULL */
/* The program of that kind and size (index of sw_serving_sizes, 0: all rows); NULL: the set has
 * none. */
struct sw_program *sw_program_set_size(const struct sw_program_set *set, enum sw_program_kind kind,
                                       int32_t size);
/* Makes a set of one laid-out program over its own state, without `save`, for tests and
 * measurements. The set owns the program, also on failure. */
int sw_program_set_single(struct sw_program *program, enum sw_program_kind kind,
                          struct sw_program_set **out, struct sw_error *err);

/* Lists the axes of all collectives, each list once, without axes of one rank; returns the count.
 */
int32_t sw_program_set_axes(const struct sw_program_set *set, struct sw_axes out[SW_MESH_GROUPS]);

/* sw_program_digest of each kind's programs, with those of fewer rows mixed in; 0: the set has none
 * of that kind. */
void sw_program_set_digests(const struct sw_program_set *set, uint64_t out[SW_PROGRAM_KINDS]);
/* The first program of the set with another digest; SW_PROGRAM_KINDS: none. Kinds that it has not
 * are not looked at. */
enum sw_program_kind sw_program_set_differs(const struct sw_program_set *set,
                                            const uint64_t digest[SW_PROGRAM_KINDS]);

#endif
