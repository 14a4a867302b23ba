/* Shared by layout_structure.c (properties of a program's ops alone, found once and kept with the
 * program) and layout.c (properties of its sizes: a search lays out the same ops for hundreds of
 * meshes). Included nowhere else. */
#ifndef SW_LAYOUT_INTERNAL_H
#define SW_LAYOUT_INTERNAL_H

#include "core/passes/passes.h"

struct block {
    int64_t bytes, offset; /* bytes and offset of a placed block */
    int32_t first, last;
    int32_t value; /* -1: workspace of `op` */
    int32_t op;
    int32_t from, to; /* first and last region in which it is alive, inclusive */
    int32_t group;
};

/* Blocks that have equal sizes on every mesh. */
struct group {
    int64_t key;                 /* from group_key */
    int32_t previous;            /* previous group of the same hash, or -1 */
    int32_t count;               /* number of blocks */
    int32_t value, op;           /* those of the first block */
    int64_t needed_bytes, bytes; /* bytes: aligned */
    /* during the search for the order of placement: a group of this size, and the index of its next
     * block */
    int32_t same, cursor;
};

/* Lifetime of a block, with just the members that sizes are added up by: a search does so for
 * thousands of meshes, with programs larger than any cache. */
struct alive {
    int32_t first, end, group; /* end: behind the last op that uses it */
};

struct occupied {
    int64_t offset, end;
    int32_t first, last;
};

/* Sorted by offset. The last one has no gap behind it. */
struct occupied_list {
    struct occupied *at;
    int32_t count;
    int32_t stop;  /* end of the last search for a gap: all from there on lie behind the gap */
    int64_t floor; /* all below is taken throughout the region, by blocks outside the list */
};

/* Many values have equal shapes: each shape is computed once. */
struct shape {
    int32_t like;         /* first value of the shape */
    int32_t previous;     /* previous shape of the same hash, or -1 */
    int32_t first, count; /* its values: a range of by_shape */
    bool tiles;           /* true if some of them may be stored in tiles */
    bool known;           /* true if the members below hold for all of its values: */
    int64_t size[SW_MAX_DIMS], padded[SW_MAX_DIMS], local[SW_MAX_DIMS];
    int64_t slot_bytes;
    int32_t split[SW_MAX_DIMS]; /* number of parts of each dimension */
};

/* Kept with the program. */
struct sw_lifetimes {
    struct block *blocks; /* [block_count]: by first use; an op's workspace that has no size
                             yet, too */
    struct alive *alive;  /* [block_count]: lifetime of each */
    int32_t block_count;
    struct group *groups; /* [group_count]: by their first block */
    int32_t group_count;
    int32_t *kept; /* [kept_count]: values that last from step to step, in the order of the arena */
    int32_t kept_count;
    struct shape *shapes; /* [shape_count]: by their first value */
    int32_t shape_count;
    int32_t *shape_of;    /* [value_count] */
    int32_t *by_shape;    /* [value_count]: values grouped by shape */
    int32_t *first_equal; /* [op_count]: first op of equal cost */
    int32_t *symbolic;    /* [symbolic_count]: ops with attributes that depend on sizes */
    int32_t symbolic_count;
    bool *started;                        /* [value_count]: true once an op has touched it */
    int64_t state_bytes, workspace_bytes; /* bytes of all kept values; of the largest workspace */
    /* scratch */
    int32_t *order;   /* [block_count]: order of placement */
    int32_t *by_size; /* [group_count]: order of the last placement, as the next differs little */
    struct occupied_list *occupied;    /* [region_count]: blocks alive in each region */
    struct occupied *occupied_storage; /* memory of those lists */
    int64_t *change;                   /* [op_count + 2] */
};

/* Fills program->lifetimes and its values' slots. Errors: memory. */
int sw_layout_find_structure(struct sw_program *program, struct sw_error *err);

#endif
