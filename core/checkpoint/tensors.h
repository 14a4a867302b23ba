/* Contents of a checkpoint: every tensor of the state, layer by layer, under the name and in the
 * orientation of Hugging Face's files.
 *
 * A projection that programs read as x W (wq, wk, wv, w_gate, w_up: [in, out]) is stored
 * transposed, [out, in], as in torch.nn.Linear; the others unchanged. A parameter of three
 * dimensions is a stack of matrices (one for each expert), in files either one tensor of three
 * dimensions or, if its name has a second number, one tensor for each matrix. The optimizer's
 * moments have their parameter's name, shape and orientation, in files of their own; for those in
 * codes (base/blockwise.h) the maxima of blocks are a tensor of that name plus ".most". Projections
 * of one stored name (Phi-3's qkv_proj) are parts of one tensor there, row ranges in listed order,
 * and so consecutive bytes. Pure values. */
#ifndef SW_CHECKPOINT_TENSORS_H
#define SW_CHECKPOINT_TENSORS_H

#include "core/ir/state_table.h"

enum { SW_STORED_NAME_BYTES = 80, SW_STORED_DIMS = 3 };

enum sw_stored_group { SW_STORED_MODEL, SW_STORED_EXP_AVG, SW_STORED_EXP_AVG_SQ, SW_STORED_GROUPS };

/* Type of stored numbers. */
enum sw_stored_dtype {
    SW_STORED_F32,
    SW_STORED_BF16,
    SW_STORED_F16,
    SW_STORED_F64,
    SW_STORED_U8, /* codes of moments: never converted */
    SW_STORED_DTYPES
};
size_t sw_stored_dtype_bytes(enum sw_stored_dtype dtype);
const char *sw_stored_dtype_name(enum sw_stored_dtype dtype); /* "F32", as safetensors has it */

/* One tensor of one layer: the row's instance that it is, or is part of, and the position of its
 * bytes. */
struct sw_stored_tensor {
    char name[SW_STORED_NAME_BYTES]; /* "model.layers.3.self_attn.q_proj.weight" */
    int32_t row, instance;           /* row of the state, and instance of the row */
    const char *tied;                /* name in files of its copy; NULL: none, or a moment */
    enum sw_stored_group group;
    enum sw_stored_dtype dtype; /* in the file; may differ from the row's when loading */
    uint8_t ndim;               /* 1 to 3 */
    bool transposed;            /* true if size[] has the row's sizes exchanged */
    int64_t size[2];            /* sizes of a matrix in the file, row-major; ndim 1: size[1] = 1 */
    int64_t block; /* numbers of a file's row in one element of the state: 32 for blocks of 4
                      bits, whose inputs are columns of the file; else 1 */
    /* for a matrix that is a part of a tensor of that name: its first row there, and the rows of
     * all parts, which are consecutive in the file; else 0 and 0 */
    int64_t first_row, fused_rows;
    /* for a row that is a stack of matrices: the first in this tensor, and their number, which is
     * its leading dimension if ndim is 3; else 0 and 1 */
    int64_t first_matrix, matrices;
    int64_t bytes;
    int32_t file;   /* index in the placement */
    int64_t offset; /* offset of the first byte in the file, header included */
};

/* Rows of the state to list: those in checkpoints, or those read from files of an origin
 * (`SW_STORED_FROM + origin`). */
enum { SW_STORED_SAVED, SW_STORED_FROM };

/* Lists these tensors of the state, the model's in the order of Hugging Face's modules (embedding,
 * layers, norm, head), then both moments of each in the same order. dtype is the row's; file -1,
 * offset 0: placement sets them. A tied head is not listed. *out is malloc'ed. Errors
 * (SW_ENVIRONMENT): memory; a parameter whose name has no counterpart. */
int sw_stored_tensors(const struct sw_state *state, int32_t which, struct sw_stored_tensor **out,
                      int32_t *count, struct sw_error *err);

/* The shape of the tensor of that name in its file; returns its number of dimensions. */
uint8_t sw_stored_shape(const struct sw_stored_tensor *tensor, int64_t shape[SW_STORED_DIMS]);

/* Bytes in the file of one element of the state. */
static inline int64_t sw_stored_block_bytes(const struct sw_stored_tensor *tensor)
{
    return tensor->block * (int64_t)sw_stored_dtype_bytes(tensor->dtype);
}

/* True if the tensor's row is a stack: its first dimension counts matrices, or vectors. */
static inline bool sw_stored_is_of_stack(const struct sw_stored_tensor *tensor,
                                         const struct sw_state_row *row)
{
    return tensor->ndim == SW_STORED_DIMS || tensor->ndim < row->ndim;
}

#endif
