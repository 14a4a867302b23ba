/* State outlives programs: the table of named tensors that do (parameters, optimizer moments), and
 * the programs of a plan over it.
 *
 * The state lies first in the arena; each program has transients of its own behind it. So the arena
 * is the state and the largest transients, known before anything runs, and going from one program
 * to another moves nothing. Sizes in bytes of one rank. */
#ifndef SW_STATE_H
#define SW_STATE_H

#include "core/program/program.h"

struct sw_state_row {
    char name[SW_NAME_BYTES];
    enum sw_role role; /* parameter or optimizer */
    enum sw_dtype dtype;
    enum sw_initial initial; /* normal: of the model's initializer_range */
    bool decay;              /* weight decay applies */
    uint8_t ndim;
    uint8_t axis[SW_MAX_DIMS];  /* enum sw_logical */
    int64_t size[SW_MAX_DIMS];  /* global, of one instance */
    int64_t local[SW_MAX_DIMS]; /* of one rank's shard */
    struct sw_sharding sharding;
    int32_t stack;          /* instances, one for each layer; 1: not of a layer */
    int64_t instance_bytes; /* of one rank's shard of one; instance i lies at offset + i of these */
    int64_t offset;         /* in the arena */
};

struct sw_state {
    struct sw_state_row *row; /* [count], as they lie in the arena */
    int32_t count;
    int64_t bytes, parameter_bytes;
};

/* The programs of a plan. */
struct sw_program_set {
    struct sw_state state;
    struct sw_program *program[SW_PROGRAM_KINDS];
    int64_t arena_bytes;
    int64_t tokens_per_step;
};

/* Compiles all programs of `options` (their `kind` is not looked at). *out is the caller's, free
 * with sw_program_set_free. Errors: as sw_program_compile. */
int sw_program_set_compile(const struct sw_program_options *options, struct sw_program_set **out,
                           struct sw_error *err);
void sw_program_set_free(struct sw_program_set *set); /* may be NULL */
/* A set of one laid-out program, over its own state; the program becomes the set's, also on
 * failure. For tests and measurements. */
int sw_program_set_single(struct sw_program *program, enum sw_program_kind kind,
                          struct sw_program_set **out, struct sw_error *err);

/* sw_program_digest of each of its programs; 0: the set has none of that kind. */
void sw_program_set_digests(const struct sw_program_set *set, uint64_t out[SW_PROGRAM_KINDS]);
/* The first program with another digest; SW_PROGRAM_KINDS: none. */
enum sw_program_kind sw_program_set_differs(const struct sw_program_set *set,
                                            const uint64_t digest[SW_PROGRAM_KINDS]);

/* The row of that name; NULL: none. */
const struct sw_state_row *sw_state_find(const struct sw_state *state, const char *name);

/* Where a value of a program lies, which is a tensor of the state. -1 (SW_ENVIRONMENT): the state
 * has none of that name, or it looks otherwise. */
int64_t sw_state_offset(const struct sw_state *state, const struct sw_value *value,
                        struct sw_error *err);

#endif
