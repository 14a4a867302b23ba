#include "core/program/checkpoint/tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint8_t bytes;
} dtypes[SW_STORED_DTYPES] = {[SW_STORED_F32] = {"F32", 4},
                              [SW_STORED_BF16] = {"BF16", 2},
                              [SW_STORED_F16] = {"F16", 2},
                              [SW_STORED_F64] = {"F64", 8}};

size_t sw_stored_dtype_bytes(enum sw_stored_dtype dtype)
{
    return dtypes[dtype].bytes;
}

const char *sw_stored_dtype_name(enum sw_stored_dtype dtype)
{
    return dtypes[dtype].name;
}

/* Before, in and behind the layers. */
enum part { BEFORE, LAYER, BEHIND, PARTS };

/* In the order of transformers' modules. */
static const struct spelling {
    const char *row, *stored; /* of a layer: behind "model.layers.N." */
    enum part part;
    bool transposed;
} spellings[] = {
    {"embedding", "model.embed_tokens.weight", BEFORE, false},
    {"wq", "self_attn.q_proj.weight", LAYER, true},
    {"bq", "self_attn.q_proj.bias", LAYER, false},
    {"wk", "self_attn.k_proj.weight", LAYER, true},
    {"bk", "self_attn.k_proj.bias", LAYER, false},
    {"wv", "self_attn.v_proj.weight", LAYER, true},
    {"bv", "self_attn.v_proj.bias", LAYER, false},
    {"wo", "self_attn.o_proj.weight", LAYER, false},
    {"bo", "self_attn.o_proj.bias", LAYER, false},
    {"q_norm", "self_attn.q_norm.weight", LAYER, false},
    {"k_norm", "self_attn.k_norm.weight", LAYER, false},
    {"w_gate", "mlp.gate_proj.weight", LAYER, true},
    {"b_gate", "mlp.gate_proj.bias", LAYER, false},
    {"w_up", "mlp.up_proj.weight", LAYER, true},
    {"b_up", "mlp.up_proj.bias", LAYER, false},
    {"w_down", "mlp.down_proj.weight", LAYER, false},
    {"b_down", "mlp.down_proj.bias", LAYER, false},
    {"attention_norm", "input_layernorm.weight", LAYER, false},
    {"mlp_norm", "post_attention_layernorm.weight", LAYER, false},
    {"final_norm", "model.norm.weight", BEHIND, false},
    {"head", "lm_head.weight", BEHIND, false},
};
enum { SPELLINGS = sizeof spellings / sizeof spellings[0] };

/* What the optimizer's rows are called before their parameter's name (differentiate.c). */
static const char *const prefixes[SW_STORED_GROUPS] = {
    [SW_STORED_MODEL] = "", [SW_STORED_EXP_AVG] = "adam_m ", [SW_STORED_EXP_AVG_SQ] = "adam_v "};

/* Which row of the state is which tensor of which group; -1: none. */
struct rows {
    int32_t of[SW_STORED_GROUPS][SPELLINGS];
};

static int find_row(const struct sw_state_row *row, int32_t *group, int32_t *spelling)
{
    for (*group = SW_STORED_GROUPS - 1; *group > SW_STORED_MODEL; --*group)
        if (strncmp(row->name, prefixes[*group], strlen(prefixes[*group])) == 0)
            break;
    for (*spelling = 0; *spelling < SPELLINGS; ++*spelling)
        if (strcmp(row->name + strlen(prefixes[*group]), spellings[*spelling].row) == 0)
            return 0;
    return -1;
}

static int find_rows(const struct sw_state *state, struct rows *rows, int32_t *count,
                     struct sw_error *err)
{
    int32_t group, spelling;
    for (group = 0; group < SW_STORED_GROUPS; group++)
        for (spelling = 0; spelling < SPELLINGS; spelling++)
            rows->of[group][spelling] = -1;
    *count = 0;
    for (int32_t i = 0; i < state->count; i++) {
        const struct sw_state_row *row = &state->row[i];
        if (row->role == SW_ROLE_CACHE) /* is of texts, not of the model */
            continue;
        if (find_row(row, &group, &spelling) != 0 || row->ndim > 2 || row->dtype == SW_I32)
            return sw_fail(err, SW_ENVIRONMENT,
                           "'%s' of the state has no counterpart in Hugging Face's files",
                           row->name);
        rows->of[group][spelling] = i;
        *count += row->stack;
    }
    return 0;
}

static struct sw_stored_tensor describe(const struct sw_state *state, int32_t index,
                                        int32_t instance, enum sw_stored_group group,
                                        const struct spelling *spelling)
{
    static const enum sw_stored_dtype stored[SW_DTYPE_COUNT] = {
        [SW_F32] = SW_STORED_F32, [SW_BF16_T] = SW_STORED_BF16, [SW_F64] = SW_STORED_F64};
    const struct sw_state_row *row = &state->row[index];
    struct sw_stored_tensor t = {.row = index,
                                 .instance = instance,
                                 .group = group,
                                 .dtype = stored[row->dtype],
                                 .ndim = row->ndim,
                                 .transposed = spelling->transposed,
                                 .file = -1};
    const bool of_layer = spelling->part == LAYER;
    t.size[0] = row->size[spelling->transposed ? 1 : 0];
    t.size[1] = row->ndim == 1 ? 1 : row->size[spelling->transposed ? 0 : 1];
    t.bytes = t.size[0] * t.size[1] * (int64_t)sw_stored_dtype_bytes(t.dtype);
    if (of_layer)
        snprintf(t.name, sizeof t.name, "model.layers.%" PRId32 ".%s", instance, spelling->stored);
    else
        snprintf(t.name, sizeof t.name, "%s", spelling->stored);
    return t;
}

/* The tensors of one part of one group: layer by layer. */
static int32_t list(const struct sw_state *state, const struct rows *rows,
                    enum sw_stored_group group, enum part part, struct sw_stored_tensor *out)
{
    int32_t count = 0;
    bool found = true;
    for (int32_t instance = 0; found; instance++) {
        found = false;
        for (int32_t s = 0; s < SPELLINGS; s++) {
            const int32_t row = rows->of[group][s];
            if (spellings[s].part != part || row < 0 || instance >= state->row[row].stack)
                continue;
            out[count++] = describe(state, row, instance, group, &spellings[s]);
            found = true;
        }
    }
    return count;
}

int sw_stored_tensors(const struct sw_state *state, struct sw_stored_tensor **out, int32_t *count,
                      struct sw_error *err)
{
    struct rows rows;
    int32_t most;
    if (find_rows(state, &rows, &most, err) != 0)
        return -1;
    struct sw_stored_tensor *tensors = malloc(((size_t)most + 1) * sizeof *tensors);
    if (tensors == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the tensors of a checkpoint");
    *count = 0;
    for (int32_t group = 0; group < SW_STORED_GROUPS; group++)
        for (int32_t part = 0; part < PARTS; part++)
            *count +=
                list(state, &rows, (enum sw_stored_group)group, (enum part)part, tensors + *count);
    *out = tensors;
    return 0;
}
