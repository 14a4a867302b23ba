/* Retargeting: programs of one structure, changed from one mesh and its sizes to another. */
#ifndef SW_RETARGET_H
#define SW_RETARGET_H

#include "core/ir/options.h"

/* Key of a program's structure. The ops of a program depend on the axes that split values, not on
 * the axes' sizes, and on the values recomputed, not on the number of layers: options with one key
 * give programs that differ in sizes only. A search compiles one program for each key and retargets
 * it. Keys are compared as bytes. */
struct sw_program_key {
    struct sw_axes axes[SW_L_COUNT]; /* axes that split anything; first, since they differ most */
    struct sw_recompute recompute;   /* normal form; layers 0: as many as retargeting likes */
    const char *freeze, *no_decay;   /* compared as pointers: keys are compared within one run */
    uint8_t layout, compute, params, reduce, ring, moments, kind;
    bool keep_copy, guarded, logits, one_micro_step, kv_copies, split_kv, padded, table_rows;
    bool keep_gathered;
    uint8_t differs;             /* enum sw_differs */
    bool table_lies_where_used;  /* logical programs only: for others the axes tell */
    int32_t ways[SW_AXIS_COUNT]; /* 0: the shortest reshards between rules do not depend on
                                    these sizes */
    struct sw_program_target target;
    int64_t sequence_length, global_batch; /* 0: serving has no global batch */
    struct sw_model model;
    struct sw_lora lora;
    struct {
        struct sw_axes weights[SW_L_COUNT]; /* like `axes`, for weights */
        int64_t max_tokens, longest, ring_tokens, chunk;
        uint8_t cache, matrices;
        bool gathers_cache, mixes, tiles;
        /* sign of ways of embed - ways of a matrix's other dimension; of batch - seq, for scores: a
         * gather along two dimensions does the one with fewer ways first (reshard.c) */
        int8_t embed_wider[SW_L_COUNT], batch_wider;
    } serving;
};
void sw_program_structure(const struct sw_program_options *options, struct sw_program_key *out);
/* Makes a laid-out program the one that `options`, of the same structure, would give (same digest).
 * Errors (SW_UNMET): a size does not divide; the program must then be freed. */
int sw_program_retarget(struct sw_program *program, const struct sw_program_options *options,
                        struct sw_error *err);

/* First half of retargeting, for a search that rejects most meshes: sizes and shapes, which
 * determine time, and in arena_bytes a lower bound over all arrangements of the buffers. Offsets
 * are wrong until sw_program_assign_offsets. Errors: as sw_program_retarget. */
int sw_program_resize(struct sw_program *program, const struct sw_program_options *options,
                      struct sw_error *err);
/* Second half of retargeting. */
void sw_program_assign_offsets(struct sw_program *program);
/* Upper bound of the arena of a program with sizes, over all placements of its buffers. */
int64_t sw_program_most_bytes(const struct sw_program *program);

#endif
