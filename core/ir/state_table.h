/* The state as a table: tensors that outlive programs, row by row, the same on every rank
 * (programs/program_set.h). Plain data. */
#ifndef SW_STATE_TABLE_H
#define SW_STATE_TABLE_H

#include "core/ir/options.h"

struct sw_state_row {
    char name[SW_NAME_BYTES];
    enum sw_role role; /* parameter, optimizer or cache */
    enum sw_dtype dtype;
    enum sw_initial initial; /* SW_INITIAL_NORMAL: deviation is the model's initializer_range */
    bool decay;              /* true if weight decay applies */
    bool frozen;             /* true for a parameter that is not trained and has no moments */
    bool saved;              /* see struct sw_value */
    uint8_t origin;          /* see struct sw_value */
    bool scales;    /* true for scales f32 [outputs] of the row before, in 8 bits (quantize.h) */
    bool largest;   /* see struct sw_value */
    bool copy;      /* see struct sw_value */
    bool tiled;     /* see struct sw_value */
    uint8_t moment; /* see struct sw_value */
    const struct sw_parameter *parameter; /* NULL: cache */
    uint8_t ndim;
    uint8_t axis[SW_MAX_DIMS];   /* enum sw_logical */
    int64_t size[SW_MAX_DIMS];   /* global, of one instance */
    int64_t padded[SW_MAX_DIMS]; /* size that is split, as in struct sw_value */
    int64_t local[SW_MAX_DIMS];  /* shape of one rank's shard, with padding */
    struct sw_sharding sharding;
    int32_t stack;          /* instances, one for each layer; 1: not a layer's tensor */
    int64_t instance_bytes; /* bytes of a rank's shard of one instance; instance i begins at offset
                               + i * instance_bytes */
    int64_t offset;         /* in the arena */
};

struct sw_state {
    struct sw_state_row *row; /* [count], in the order of the arena */
    int32_t count;
    int64_t bytes, parameter_bytes, cache_bytes;
};

/* The scales of a row in 8 bits; NULL: it has none. */
const struct sw_state_row *sw_state_scales(const struct sw_state *state,
                                           const struct sw_state_row *row);

/* The row whose weights a row copies. NULL: it is no copy. */
const struct sw_state_row *sw_state_copied(const struct sw_state *state,
                                           const struct sw_state_row *row);

/* The row of that name; NULL: none. */
const struct sw_state_row *sw_state_find(const struct sw_state *state, const char *name);

/* Offset of a value that is a tensor of the state. -1 (SW_ENVIRONMENT): the state has no such name,
 * or its shape differs. */
int64_t sw_state_offset(const struct sw_state *state, const struct sw_value *value,
                        struct sw_error *err);

#endif
