/* A small fp32 model for tests of programs that are not run; they change what they need. */
#ifndef SW_TEST_SMALL_MODEL_H
#define SW_TEST_SMALL_MODEL_H

#include "core/programs/compile.h"

#include <string.h>

static inline struct sw_program_options sw_test_small_model(struct sw_mesh mesh)
{
    struct sw_program_options o;
    memset(&o, 0, sizeof o);
    o.model.vocab_size = 64;
    o.model.hidden_size = 32;
    o.model.intermediate_size = 48;
    o.model.layers = 3;
    o.model.heads = 4;
    o.model.kv_heads = 2;
    o.model.head_dim = 8;
    o.model.rope.theta = 10000;
    o.model.rms_norm_eps = 1e-5;
    o.sequence_length = 32;
    o.global_batch = 4;
    o.micro_batch_per_rank = 1;
    o.compute = o.params = o.reduce = SW_F32;
    o.mesh = mesh;
    sw_rules_default(&o.rules, SW_ATTENTION_RING);
    return o;
}

#endif
