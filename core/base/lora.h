/* Adapters of low rank beside the projections of a frozen model (LoRA; Hu et al. 2021): a
 * projection y = x W becomes x W + scale (x A) B, with A [inputs, rank] and B [rank, outputs].
 * Names follow PEFT. Plain values without padding, so that two can be compared as bytes. */
#ifndef SW_LORA_H
#define SW_LORA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Files of an adapter, as PEFT writes them. */
#define SW_ADAPTER_CONFIG "adapter_config.json"
#define SW_ADAPTER_FILE "adapter_model.safetensors"

/* Projections of a layer, in the order of a layer. */
enum sw_lora_target {
    SW_LORA_Q,
    SW_LORA_K,
    SW_LORA_V,
    SW_LORA_O,
    SW_LORA_GATE,
    SW_LORA_UP,
    SW_LORA_DOWN,
    SW_LORA_TARGETS
};

struct sw_lora {
    double scale[SW_LORA_TARGETS]; /* alpha / rank, for rslora alpha / sqrt(rank); 0: no adapter */
    int32_t rank[SW_LORA_TARGETS]; /* 0: no adapter */
    int32_t base; /* enum sw_dtype of the layers' frozen matrices; embedding and head have at
                     least the bits of bf16 */
};

/* "q_proj"; ends with NULL. */
extern const char *const sw_lora_names[SW_LORA_TARGETS + 1];
/* "self_attn.q_proj": name inside a layer. */
extern const char *const sw_lora_modules[SW_LORA_TARGETS];
/* The target with that name of `bytes` characters, q_proj or self_attn.q_proj; -1: none. */
int32_t sw_lora_find(const char *name, size_t bytes);
/* true if any projection has an adapter */
bool sw_lora_is_set(const struct sw_lora *lora);
/* alpha / rank, for rslora alpha / sqrt(rank) (Kalajdzievski 2023). */
double sw_lora_scale(double alpha, int32_t rank, bool rslora);

#endif
