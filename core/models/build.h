/* Builds a model's logical programs: the part of core/models for other rooms. Owns nothing. */
#ifndef SW_MODELS_BUILD_H
#define SW_MODELS_BUILD_H

#include "core/ir/builder.h"

/* Builds the options' forward, region by region: over whole sequences (train, evaluate), or over
 * sequences with a cache (prefill, decode, score). 0 or -1. */
int sw_build_sequence(struct sw_builder *b, struct sw_error *err); /* sequence.c */
int sw_build_cached(struct sw_builder *b, struct sw_error *err);   /* cached.c */

#endif
