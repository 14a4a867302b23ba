/* adapter_config.json of PEFT: which modules of a model have an adapter, of which rank and scale.
 * What would change the result and is not known here is refused by its name. Owns what it read. */
#ifndef SW_ADAPTER_CONFIG_H
#define SW_ADAPTER_CONFIG_H

#include "core/base/error.h"
#include "core/base/lora.h"

#include <stddef.h>
#include <stdint.h>

struct json_t;
struct sw_adapter_config {
    struct json_t *root; /* the text; NULL: none was read */
    const char *base;    /* the model that it names, of `root`; "": none */
    int32_t rank;        /* of modules that rank_pattern does not name */
    double alpha;        /* likewise of alpha_pattern */
    bool rslora;
};

/* A text that anybody may have written; `path` for messages. Errors (SW_BAD_INPUT, at the file): no
 * JSON, a key that is missing or has a value that is not supported. SW_ENVIRONMENT: memory. */
int sw_adapter_config_parse(const char *path, const char *text, size_t bytes,
                            struct sw_adapter_config *out, struct sw_error *err);
/* FOLDER/adapter_config.json. Errors: as above; SW_ENVIRONMENT: it cannot be read. */
int sw_adapter_config_read(const char *folder, struct sw_adapter_config *out, struct sw_error *err);
void sw_adapter_config_free(struct sw_adapter_config *config); /* also a zeroed one */

/* The adapter of a module ("model.layers.0.self_attn.q_proj"): its rank, 0: it has none, and what
 * its product is multiplied by. Patterns are Python's regular expressions without look-around,
 * back references and counts, which the parser refuses. */
void sw_adapter_config_of(const struct sw_adapter_config *config, const char *module, int32_t *rank,
                          double *scale);
/* The first module of a model of so many layers in which a run's adapters differ; NULL: none. */
const char *sw_adapter_config_difference(const struct sw_adapter_config *config,
                                         const struct sw_lora *lora, int32_t layers,
                                         char buffer[240]);

/* Facts for adapter_config.json of a run's adapters. */
struct sw_adapter_facts {
    const char *base; /* path of the model; NULL: null */
    struct sw_lora lora;
    int32_t rank;                            /* of adapters that have no other */
    double alpha, alpha_of[SW_LORA_TARGETS]; /* 0: alpha */
    bool rslora;
};
/* The text, malloc'ed, with a newline, in keys that every version of PEFT knows. Errors:
 * SW_ENVIRONMENT. */
int sw_adapter_config_json(const struct sw_adapter_facts *facts, char **out, struct sw_error *err);

#endif
