#include "core/base/lora.h"

#include <math.h>
#include <string.h>

const char *const sw_lora_names[SW_LORA_TARGETS + 1] = {
    "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", NULL};

const char *const sw_lora_modules[SW_LORA_TARGETS] = {
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};

int32_t sw_lora_find(const char *name, size_t bytes)
{
    for (int32_t i = 0; i < SW_LORA_TARGETS; i++) {
        const char *const known[2] = {sw_lora_names[i], sw_lora_modules[i]};
        for (int32_t k = 0; k < 2; k++)
            if (strlen(known[k]) == bytes && memcmp(known[k], name, bytes) == 0)
                return i;
    }
    return -1;
}

bool sw_lora_is_set(const struct sw_lora *lora)
{
    for (int32_t i = 0; i < SW_LORA_TARGETS; i++)
        if (lora->rank[i] > 0)
            return true;
    return false;
}

double sw_lora_scale(double alpha, int32_t rank, bool rslora)
{
    return alpha / (rslora ? sqrt((double)rank) : (double)rank);
}
