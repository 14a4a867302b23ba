/* From a model to its logical programs: what core/models has for others. Owns nothing. */
#ifndef SW_MODELS_BUILD_H
#define SW_MODELS_BUILD_H

#include "core/ir/builder.h"

/* Forward of the builder's options, region by region: of whole sequences (train, evaluate), or of
 * texts that go on (prefill, decode, score). 0 or -1. */
int sw_build_sequence(struct sw_builder *b, struct sw_error *err); /* sequence.c */
int sw_build_cached(struct sw_builder *b, struct sw_error *err);   /* cached.c */

#endif
