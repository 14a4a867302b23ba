/* A dense decoder, whatever it is for. Internal to core/models.
 *
 * Weights, layers and embedding stand in decoder.c once; what programs differ in is their site:
 * which positions tokens have, how attention reads keys and values and where these are kept, and
 * what becomes of the last layer's output. sequence.c is that of whole sequences (train, evaluate),
 * cached.c that of texts that go on (prefill, decode, score). */
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
    struct sw_dim batch, seq;      /* of the tokens of a micro-step */
    struct sw_dim residual[3];     /* [batch, residual_seq, act_embed] */
    int32_t x;                     /* the residual stream, carried from layer to layer */
    int32_t positions;             /* of tokens, as rope takes them */
    bool slots;                    /* they are those of slots (core/ir/serving.h) */
    /* The site's: from q, k (rotated) and v, without copies of kv heads, to what the output
     * projection takes; n instances. */
    int32_t (*attend)(struct sw_decoder *d, int32_t q, int32_t k, int32_t v, int32_t n);
    void *site; /* the site's own */
};

void sw_decoder_begin(struct sw_builder *b, struct sw_decoder *out);
/* The parameters: `dtype` of embedding and head, `of_layers` of the other matrices (of 8 bits: with
 * scales), `output_width` the second dimension of the output projection; trained: all but those
 * that the options say are frozen; else none. Adapters have the options' `params` where they are
 * trained, else `dtype`. */
void sw_decoder_weights(struct sw_decoder *d, enum sw_dtype dtype, enum sw_dtype of_layers,
                        struct sw_dim output_width, bool trained);
/* Embedding of `tokens` and all layers; the value `x` stands in d->x. */
void sw_decoder_layers(struct sw_decoder *d, int32_t tokens);
/* Norm of the last layer's output, in the open region, or of another value shaped as `dims`, by the
 * logits' divisor. */
int32_t sw_decoder_final_norm(struct sw_decoder *d, struct sw_ref x, const struct sw_dim dims[3]);
static inline struct sw_ref sw_decoder_output(const struct sw_decoder *d)
{
    return (struct sw_ref){d->x, SW_INDEX_FIXED, (int16_t)d->b->program->layers};
}
/* lm_head or lm_head_stats of n against labels, with their first result; returns the op. */
int32_t sw_decoder_head(struct sw_decoder *d, enum sw_op_kind kind, int32_t n, int32_t labels,
                        int32_t *stats);
/* Factor of attention's scores. */
double sw_decoder_score_scale(const struct sw_model *model);
/* The window of the layer that is being built (ops.def); 0: it sees all, as one does that is no
 * shorter than the longest text of the program. */
int64_t sw_decoder_window(const struct sw_decoder *d);
/* An input of the program. */
int32_t sw_decoder_input(struct sw_builder *b, const char *name, enum sw_dtype dtype, uint8_t ndim,
                         const struct sw_dim *dims);

#endif
