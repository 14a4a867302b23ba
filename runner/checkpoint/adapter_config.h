/* PEFT's adapter_config.json: modules with adapters, their ranks and scales. Refuses by name any
 * key that would change the result and is not supported. Owns what it reads. */
#ifndef SW_ADAPTER_CONFIG_H
#define SW_ADAPTER_CONFIG_H

#include "core/base/error.h"
#include "core/base/lora.h"

#include <stddef.h>
#include <stdint.h>

struct json_t;
struct sw_adapter_config {
    struct json_t *root; /* the JSON; NULL: none */
    const char *base;    /* name of its base model, inside `root`; "": none */
    int32_t rank;        /* for modules not in rank_pattern */
    double alpha;        /* for modules not in alpha_pattern */
    bool rslora;
};

/* Parses untrusted text; `path` for messages. Errors (SW_BAD_INPUT, at the file): no JSON, a key
 * that is missing or has an unsupported value. SW_ENVIRONMENT: memory. */
int sw_adapter_config_parse(const char *path, const char *text, size_t bytes,
                            struct sw_adapter_config *out, struct sw_error *err);
/* Reads FOLDER/adapter_config.json. Errors: as above; SW_ENVIRONMENT: not readable. */
int sw_adapter_config_read(const char *folder, struct sw_adapter_config *out, struct sw_error *err);
void sw_adapter_config_free(struct sw_adapter_config *config); /* may be zeroed */

/* Adapter of a module ("model.layers.0.self_attn.q_proj"): rank, 0 if it has none, and factor of
 * its product. Patterns are Python's regular expressions; the parser refuses look-around, back
 * references and counts. */
void sw_adapter_config_of(const struct sw_adapter_config *config, const char *module, int32_t *rank,
                          double *scale);
/* First module, in a model of `layers` layers, with an adapter other than the run's; NULL: none. */
const char *sw_adapter_config_difference(const struct sw_adapter_config *config,
                                         const struct sw_lora *lora, int32_t layers,
                                         char buffer[240]);

/* Contents of adapter_config.json for a run's adapters. */
struct sw_adapter_facts {
    const char *base; /* path of the base model; NULL: null */
    struct sw_lora lora;
    int32_t rank;                            /* default of all adapters */
    double alpha, alpha_of[SW_LORA_TARGETS]; /* 0: alpha */
    bool rslora;
};
/* Makes the text, malloc'ed, with a newline, in keys that every PEFT version knows. Errors:
 * SW_ENVIRONMENT. */
int sw_adapter_config_json(const struct sw_adapter_facts *facts, char **out, struct sw_error *err);

#endif
