/* Any text as adapter_config.json. A refusal is one line; what is accepted gives every module a
 * rank and a scale that are numbers, and is not different from what it says itself. */
#include "runner/checkpoint/adapter_config.h"
#include "tests/fuzz/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LAYERS = 3 };

static void check_modules(const struct sw_adapter_config *config)
{
    struct sw_lora lora = {.base = 0};
    char module[64], difference[240];
    bool alike = true;
    for (int32_t layer = 0; layer < LAYERS; layer++)
        for (int32_t t = 0; t < SW_LORA_TARGETS; t++) {
            int32_t rank;
            double scale;
            snprintf(module, sizeof module, "model.layers.%d.%s", (int)layer, sw_lora_modules[t]);
            sw_adapter_config_of(config, module, &rank, &scale);
            fuzz_require(rank >= 0 && rank <= 65536, "a rank that is none", module);
            fuzz_require(isfinite(scale), "a scale that is none", module);
            fuzz_require(rank > 0 || scale == 0, "a scale of no adapter", module);
            if (layer == 0) {
                lora.rank[t] = rank;
                lora.scale[t] = scale;
            }
            alike = alike && lora.rank[t] == rank && lora.scale[t] == scale;
        }
    const char *other = sw_adapter_config_difference(config, &lora, LAYERS, difference);
    fuzz_require((other == NULL) == alike, "it differs from itself", other != NULL ? other : "");
    if (other != NULL)
        fuzz_require_plain(other);
}

void fuzz_one(const uint8_t *data, size_t bytes)
{
    struct sw_adapter_config config;
    struct sw_error err = {0};
    if (sw_adapter_config_parse("f", (const char *)data, bytes, &config, &err) == 0) {
        fuzz_require(config.rank > 0 && config.base != NULL, "nothing", "");
        check_modules(&config);
        sw_adapter_config_free(&config);
        return;
    }
    fuzz_require(err.status == SW_BAD_INPUT, "no mistake of the file", err.message);
    fuzz_require(strcmp(err.file, "f") == 0, "another place", err.file);
    fuzz_require(err.message[0] != '\0' && strlen(err.message) < 400, "no message", err.message);
    fuzz_require_plain(err.message);
}
