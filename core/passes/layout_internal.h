/* Shared by layout_structure.c (what follows from a program's ops alone, found once and kept with
 * the program) and layout.c (what follows from its sizes: a search lays the same ops out for
 * hundreds of meshes). Nothing else includes this. */
#ifndef SW_LAYOUT_INTERNAL_H
#define SW_LAYOUT_INTERNAL_H

#include "core/passes/passes.h"

struct block {
    int64_t bytes, offset; /* of one that is placed */
    int32_t first, last;
    int32_t value; /* -1: workspace of `op` */
    int32_t op;
    int32_t from, to; /* the regions it is alive in, inclusive */
    int32_t group;
};

/* Blocks that are as large as one another on every mesh. */
struct group {
    int64_t key;                 /* of group_key */
    int32_t previous;            /* another of the same hash, or -1 */
    int32_t count;               /* how many there are */
    int32_t value, op;           /* of the first of them */
    int64_t needed_bytes, bytes; /* bytes: aligned */
    /* as long as the order of placement is being found: a group of this size, where its next goes
     */
    int32_t same, cursor;
};

/* When a block is alive: all of it that sizes are added up by, since a search does so for thousands
 * of meshes with programs that no cache holds. */
struct alive {
    int32_t first, end, group; /* end: behind the last op */
};

struct occupied {
    int64_t offset, end;
    int32_t first, last;
};

/* By offset. Behind them one that no gap lies behind. */
struct occupied_list {
    struct occupied *at;
    int32_t count;
    int32_t stop;  /* where the last search for a gap ended: all from there lie behind the gap */
    int64_t floor; /* below, all is taken throughout the region, by blocks that are not listed */
};

/* Most values are split like many others: each shape is worked out once. */
struct shape {
    int32_t like;         /* the first value that has it */
    int32_t previous;     /* another of the same hash, or -1 */
    int32_t first, count; /* its values, in by_shape */
    bool tiles;           /* some of them may lie in tiles */
    bool known;           /* all of its values have these: */
    int64_t size[SW_MAX_DIMS], padded[SW_MAX_DIMS], local[SW_MAX_DIMS];
    int64_t slot_bytes;
    int32_t split[SW_MAX_DIMS]; /* in how many parts a dimension is */
};

/* Kept with the program. */
struct sw_lifetimes {
    struct block *blocks; /* [block_count]: by first use; without a size for now: op's workspace */
    struct alive *alive;  /* [block_count]: of each */
    int32_t block_count;
    struct group *groups; /* [group_count]: by their first block */
    int32_t group_count;
    int32_t *kept; /* [kept_count]: values that last from step to step, as they lie in the arena */
    int32_t kept_count;
    struct shape *shapes; /* [shape_count]: by their first value */
    int32_t shape_count;
    int32_t *shape_of;    /* [value_count] */
    int32_t *by_shape;    /* [value_count]: the values, shape by shape */
    int32_t *first_equal; /* [op_count]: the first op that costs the same */
    int32_t *symbolic;    /* [symbolic_count]: ops with attributes that follow from sizes */
    int32_t symbolic_count;
    bool *started;                        /* [value_count]: some op touches it */
    int64_t state_bytes, workspace_bytes; /* of all that is kept; of the largest workspace */
    /* scratch */
    int32_t *order;   /* [block_count]: in which they are placed */
    int32_t *by_size; /* [group_count]: as placed last; the next time differs little */
    struct occupied_list *occupied;    /* [region_count]: the blocks alive in that region */
    struct occupied *occupied_storage; /* of those lists */
    int64_t *change;                   /* [op_count + 2] */
};

/* Fills program->lifetimes and its values' slots. Errors: memory. */
int sw_layout_find_structure(struct sw_program *program, struct sw_error *err);

#endif
