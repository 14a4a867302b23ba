/* Memory of one rank over the step: live bytes in the arena at every op of the program, by kind.
 *
 * Read from the program's own layout, so the peak is never above its arena; the rest of the arena
 * is lost between buffers. Owns its arrays. */
#ifndef SW_BREAKDOWN_MEMORY_PROFILE_H
#define SW_BREAKDOWN_MEMORY_PROFILE_H

#include "core/ir/program.h"

enum sw_memory_kind {
    SW_MEMORY_PARAMETERS,
    SW_MEMORY_GRADIENTS, /* kept from micro-step to micro-step */
    SW_MEMORY_OPTIMIZER,
    SW_MEMORY_INPUTS,  /* tokens, labels, positions, the loss */
    SW_MEMORY_SAVED,   /* activations that forward keeps for backward, and other values that
                          cross regions */
    SW_MEMORY_WEIGHTS, /* copies of weights, gathered or cast */
    SW_MEMORY_ACTIVATIONS,
    SW_MEMORY_WORKSPACE,
    SW_MEMORY_KIND_COUNT
};
const char *sw_memory_kind_name(enum sw_memory_kind kind);

/* Parts of the state and of saved values, in bytes of one rank. */
struct sw_layer_memory {
    int64_t parameters, gradients, optimizer, saved;
};

struct sw_memory_profile {
    int32_t op_count;
    int64_t *live;       /* [op_count][SW_MEMORY_KIND_COUNT] */
    int64_t *live_total; /* [op_count] */
    int64_t peak_bytes;
    int32_t peak_op; /* first op at the peak */
    int64_t at_peak[SW_MEMORY_KIND_COUNT];
    int64_t most[SW_MEMORY_KIND_COUNT]; /* largest of each kind, at different times */
    int64_t arena_bytes, lost_bytes;    /* lost: arena - peak */
    int32_t layers;
    struct sw_layer_memory layer, outside; /* one layer; embedding, head and last norm */
};

/* The program must be laid out. Errors (SW_ENVIRONMENT): memory. Free with
 * sw_memory_profile_free, which accepts an empty one. */
int sw_memory_profile_make(const struct sw_program *program, struct sw_memory_profile *out,
                           struct sw_error *err);
void sw_memory_profile_free(struct sw_memory_profile *profile);

#endif
