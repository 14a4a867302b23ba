/* What a checkpoint holds: every tensor of the state, layer by layer, under the name and in the
 * orientation that Hugging Face's files have.
 *
 * A projection that programs read as x W (wq, wk, wv, w_gate, w_up: [in, out]) is stored
 * transposed, [out, in], as torch.nn.Linear has it; the others as they are. A parameter of three
 * dimensions is a stack of matrices (one for each expert), in files either one tensor of three
 * dimensions or, where its name has a second number, one tensor for each matrix. The optimizer's
 * moments have their parameter's name, shape and orientation, in files of their own; of those in
 * codes (base/blockwise.h) the largest of each block are a tensor of that name with ".most" behind
 * it. Projections of
 * one stored name (Phi-3's qkv_proj) are parts of one tensor there, row ranges in the order in
 * which they are listed, and so consecutive bytes. Pure values.
 */
#ifndef SW_CHECKPOINT_TENSORS_H
#define SW_CHECKPOINT_TENSORS_H

#include "core/ir/state_table.h"

enum { SW_STORED_NAME_BYTES = 80, SW_STORED_DIMS = 3 };

enum sw_stored_group { SW_STORED_MODEL, SW_STORED_EXP_AVG, SW_STORED_EXP_AVG_SQ, SW_STORED_GROUPS };

/* How numbers are stored. */
enum sw_stored_dtype {
    SW_STORED_F32,
    SW_STORED_BF16,
    SW_STORED_F16,
    SW_STORED_F64,
    SW_STORED_U8, /* codes of moments, no numbers: never converted */
    SW_STORED_DTYPES
};
size_t sw_stored_dtype_bytes(enum sw_stored_dtype dtype);
const char *sw_stored_dtype_name(enum sw_stored_dtype dtype); /* "F32", as safetensors has it */

/* One tensor of one layer: the instance of a row that it is, or is a part of, and its bytes' place.
 */
struct sw_stored_tensor {
    char name[SW_STORED_NAME_BYTES]; /* "model.layers.3.self_attn.q_proj.weight" */
    int32_t row, instance;           /* of the state */
    const char *tied; /* what files call a copy of it; NULL: there is none, or of a moment */
    enum sw_stored_group group;
    enum sw_stored_dtype dtype; /* in the file; may differ from the row's when loading */
    uint8_t ndim;               /* 1 to 3 */
    bool transposed;            /* size[] is the row's, exchanged */
    int64_t size[2];            /* of a matrix in the file, row-major; ndim 1: size[1] = 1 */
    int64_t block; /* numbers of a row of the file that an element of the state stands for: of
                      blocks of 4 bits 32, whose inputs are columns of the file; else 1 */
    /* of a matrix that is a part of a tensor of that name: its first row there, and the rows of all
     * parts, which lie one behind the other in the file; else 0 and 0 */
    int64_t first_row, fused_rows;
    /* of a row that is a stack of matrices: the first that this tensor has, and their number, which
     * is its leading dimension where ndim is 3; else 0 and 1 */
    int64_t first_matrix, matrices;
    int64_t bytes;
    int32_t file;   /* of the placement */
    int64_t offset; /* of the first byte, in the file (not: behind its header) */
};

/* Which rows of the state are listed: those that checkpoints have, or those that are read from
 * files of an origin (`SW_STORED_FROM + origin`). */
enum { SW_STORED_SAVED, SW_STORED_FROM };

/* Every such tensor of the state, the model's in the order of Hugging Face's modules (embedding,
 * layers, norm, head), then both moments of each in the same order. dtype is the row's; file -1,
 * offset 0: placement sets them. A tied head is not listed. *out is malloc'ed. Errors
 * (SW_ENVIRONMENT): memory; a parameter whose name has no counterpart. */
int sw_stored_tensors(const struct sw_state *state, int32_t which, struct sw_stored_tensor **out,
                      int32_t *count, struct sw_error *err);

/* The shape of the tensor of that name in its file; returns its number of dimensions. */
uint8_t sw_stored_shape(const struct sw_stored_tensor *tensor, int64_t shape[SW_STORED_DIMS]);

/* Bytes of the file that an element of the state stands for. */
static inline int64_t sw_stored_block_bytes(const struct sw_stored_tensor *tensor)
{
    return tensor->block * (int64_t)sw_stored_dtype_bytes(tensor->dtype);
}

/* True if the first dimension of the tensor's row counts matrices, or vectors: the row is a stack.
 */
static inline bool sw_stored_is_of_stack(const struct sw_stored_tensor *tensor,
                                         const struct sw_state_row *row)
{
    return tensor->ndim == SW_STORED_DIMS || tensor->ndim < row->ndim;
}

#endif
