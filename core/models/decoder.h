/* A dense decoder for any kind of program. Internal to core/models.
 *
 * Weights, layers and embedding stand once in decoder.c. Programs differ in their site: the
 * positions of tokens, how attention reads keys and values and where these are kept, and the use of
 * the last layer's output. sequence.c is the site of whole sequences (train, evaluate), cached.c
 * that of sequences with a cache (prefill, decode, score). */
#ifndef SW_MODELS_DECODER_H
#define SW_MODELS_DECODER_H

#include "core/models/build.h"
#include "core/passes/passes.h"
#include "core/models/model.h"

enum sw_decoder_weight {
#define SW_MATRIX(KIND, ...) SW_W_##KIND,
#define SW_VECTOR SW_MATRIX
#define SW_ADAPTER SW_MATRIX
#include "core/models/weights.def"
    SW_DECODER_WEIGHTS
};

struct sw_decoder {
    struct sw_builder *b;
    struct sw_sizes sizes;
    int32_t w[SW_DECODER_WEIGHTS]; /* values; -1: the model has none */
    struct sw_dim batch, seq;      /* dimensions of a micro-step's tokens */
    struct sw_dim residual[3];     /* [batch, residual_seq, act_embed] */
    int32_t x;                     /* the residual stream, carried from layer to layer */
    int32_t positions;             /* positions of tokens, for rope */
    bool slots;                    /* true if positions are those of slots (core/ir/serving.h) */
    /* Attention of the site: from q, k (rotated) and v, before kv heads are copied, to the output
     * projection's input; n instances. */
    int32_t (*attend)(struct sw_decoder *d, int32_t q, int32_t k, int32_t v, int32_t n);
    void *site; /* data of the site */
};

void sw_decoder_begin(struct sw_builder *b, struct sw_decoder *out);
/* Adds the parameters. dtype: type of embedding and head; of_layers: of the other matrices (8 bits:
 * with scales); output_width: second dimension of the output projection; trained: true if all are
 * trained but those that the options freeze. Adapters have the options' `params` if trained, else
 * `dtype`. */
void sw_decoder_weights(struct sw_decoder *d, enum sw_dtype dtype, enum sw_dtype of_layers,
                        struct sw_dim output_width, bool trained);
/* Adds the embedding of `tokens` and all layers; d->x is then the last value `x`. */
void sw_decoder_layers(struct sw_decoder *d, int32_t tokens);
/* Norm, in the open region, of the last layer's output or another value shaped as `dims`, with the
 * logits' divisor. */
int32_t sw_decoder_final_norm(struct sw_decoder *d, struct sw_ref x, const struct sw_dim dims[3]);
static inline struct sw_ref sw_decoder_output(const struct sw_decoder *d)
{
    return (struct sw_ref){d->x, SW_INDEX_FIXED, (int16_t)d->b->program->layers};
}
/* Appends lm_head or lm_head_stats of n and labels, with their first result; returns the op. */
int32_t sw_decoder_head(struct sw_decoder *d, enum sw_op_kind kind, int32_t n, int32_t labels,
                        int32_t *stats);
/* Factor of attention's scores. */
double sw_decoder_score_scale(const struct sw_model *model);
/* Window of the layer that is being built (ops.def); 0: it sees all positions, as does a window at
 * least as long as the program's longest sequence. */
int64_t sw_decoder_window(const struct sw_decoder *d);
/* Adds an input to the program. */
int32_t sw_decoder_input(struct sw_builder *b, const char *name, enum sw_dtype dtype, uint8_t ndim,
                         const struct sw_dim *dims);

#endif
