/* Programs of one structure, made for one another's mesh and sizes. */
#ifndef SW_RETARGET_H
#define SW_RETARGET_H

#include "core/ir/options.h"

/* Which ops a program has depends on what is split over which axes, not on how many ways, and on
 * what is made again, not in how many layers: options of the same structure give programs that
 * differ in sizes only. A search compiles one program for
 * each structure it meets and retargets it. Keys are compared as bytes. */
struct sw_program_key {
    struct sw_axes axes[SW_L_COUNT]; /* those that split anything; first, since they differ most */
    struct sw_recompute recompute;   /* normal; layers 0: as many as retargeting likes */
    const char *freeze, *no_decay;   /* as pointers: keys that are compared are of one run */
    uint8_t layout, compute, params, reduce, ring, moments, kind;
    bool keep_copy, guarded, logits, one_micro_step, kv_copies, split_kv, padded, table_rows;
    bool keep_gathered;
    uint8_t differs;             /* enum sw_differs */
    bool table_lies_where_used;  /* of logical programs alone: of others the axes say it */
    int32_t ways[SW_AXIS_COUNT]; /* 0: values go from rule to rule one way, whatever these are */
    struct sw_program_target target;
    int64_t sequence_length, global_batch; /* serving has no batch to be divided by: 0 */
    struct sw_model model;
    struct sw_lora lora;
    struct {
        struct sw_axes weights[SW_L_COUNT]; /* as `axes` */
        int64_t max_tokens, longest, ring_tokens, chunk;
        uint8_t cache, matrices;
        bool gathers_cache, mixes, tiles;
        /* of what is gathered along two dimensions the one with fewer ways goes first (reshard.c):
         * the sign of ways of embed - of a matrix's other; of batch - of seq, of scores */
        int8_t embed_wider[SW_L_COUNT], batch_wider;
    } serving;
};
void sw_program_structure(const struct sw_program_options *options, struct sw_program_key *out);
/* Makes a laid-out program the one that `options`, of the structure it was compiled for, would give
 * (same digest). Errors (SW_UNMET): something does not divide; the program is then to be freed. */
int sw_program_retarget(struct sw_program *program, const struct sw_program_options *options,
                        struct sw_error *err);

/* The first half of that, for a search that rejects most: sizes and shapes, on which time depends,
 * and in arena_bytes a bound that no arrangement of the buffers can go below. Offsets are wrong
 * until sw_program_assign_offsets. Errors: as sw_program_retarget. */
int sw_program_resize(struct sw_program *program, const struct sw_program_options *options,
                      struct sw_error *err);
/* The second half. */
void sw_program_assign_offsets(struct sw_program *program);
/* Of a program with sizes: what the arena is at most, wherever its buffers come to lie. */
int64_t sw_program_most_bytes(const struct sw_program *program);

#endif
