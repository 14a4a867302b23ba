/* The state as a table: what outlives programs, row by row, as every rank has it
 * (programs/program_set.h). Plain data. */
#ifndef SW_STATE_TABLE_H
#define SW_STATE_TABLE_H

#include "core/ir/options.h"

struct sw_state_row {
    char name[SW_NAME_BYTES];
    enum sw_role role; /* parameter, optimizer or cache */
    enum sw_dtype dtype;
    enum sw_initial initial;              /* normal: of the model's initializer_range */
    bool decay;                           /* weight decay applies */
    bool frozen;                          /* of a parameter: it is not trained, has no moments */
    bool saved;                           /* as in struct sw_value */
    uint8_t origin;                       /* as in struct sw_value */
    bool scales;                          /* f32 [outputs], of the one in 8 bits: quantize.h */
    bool largest;                         /* as in struct sw_value */
    bool copy;                            /* as in struct sw_value */
    bool tiled;                           /* as in struct sw_value */
    uint8_t moment;                       /* as in struct sw_value */
    const struct sw_parameter *parameter; /* NULL: of the cache */
    uint8_t ndim;
    uint8_t axis[SW_MAX_DIMS];   /* enum sw_logical */
    int64_t size[SW_MAX_DIMS];   /* global, of one instance */
    int64_t padded[SW_MAX_DIMS]; /* what is split, as in struct sw_value */
    int64_t local[SW_MAX_DIMS];  /* of one rank's shard, with its padding */
    struct sw_sharding sharding;
    int32_t stack;          /* instances, one for each layer; 1: not of a layer */
    int64_t instance_bytes; /* of one rank's shard of one; instance i lies at offset + i of these */
    int64_t offset;         /* in the arena */
};

struct sw_state {
    struct sw_state_row *row; /* [count], as they lie in the arena */
    int32_t count;
    int64_t bytes, parameter_bytes, cache_bytes;
};

/* The scales of a row in 8 bits; NULL: it has none. */
const struct sw_state_row *sw_state_scales(const struct sw_state *state,
                                           const struct sw_state_row *row);

/* The row of whose weights a row is the copy. NULL: it is none. */
const struct sw_state_row *sw_state_copied(const struct sw_state *state,
                                           const struct sw_state_row *row);

/* The row of that name; NULL: none. */
const struct sw_state_row *sw_state_find(const struct sw_state *state, const char *name);

/* Where a value of a program lies, which is a tensor of the state. -1 (SW_ENVIRONMENT): the state
 * has none of that name, or it looks otherwise. */
int64_t sw_state_offset(const struct sw_state *state, const struct sw_value *value,
                        struct sw_error *err);

#endif
