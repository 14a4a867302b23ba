/* A good run with any settings of it replaced, each line one as after --set: whatever the reader
 * accepts is searched for meshes, and no number of what is found is out of its range. */
#include "planner/search/search.h"
#include "tests/fuzz/support.h"

#include <math.h>
#include <string.h>

enum { SETTINGS = 12, SETTING_BYTES = 160 };

static const char base[] =
    "name: r\nsequence_length: 64\nglobal_batch_size: 8\n"
    "model: {vocab_size: 256, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, "
    "num_attention_heads: 4, num_key_value_heads: 2}\n"
    "cluster:\n  name: c\n  nodes: 2\n  accelerators_per_node: 4\n"
    "  accelerator: {name: a, device: cuda, memory: 80 GB, peak: {bf16: 312 TFLOP/s, fp32: 19.5 "
    "TFLOP/s}, memory_bandwidth: 1.5 TB/s}\n"
    "  links: [{name: in, spans: 4, bandwidth: 300 GB/s, latency: 3 us}, {name: out, spans: 8, "
    "bandwidth: 25 GB/s, latency: 6 us}]\n";

static void check_error(const struct sw_error *err)
{
    fuzz_require(err->status == SW_BAD_INPUT || err->status == SW_UNMET, "no mistake of the user",
                 err->message);
    fuzz_require_place(err->file, err->line, err->column, err->message);
}

static void check_mesh(const struct sw_run_config *run, const struct sw_candidate *c, bool fits)
{
    const struct sw_memory *m = &c->memory;
    fuzz_require((c->reason == SW_FITS) == fits, "out of order", c->detail);
    fuzz_require_plain(c->detail);
    fuzz_require_plain(c->help);
    if (!fits)
        return;
    fuzz_require(sw_mesh_rank_count(&c->decision.mesh) ==
                     run->cluster.nodes * run->cluster.accelerators_per_node,
                 "a mesh of other accelerators", "");
    fuzz_require(m->parameters > 0 && m->gradients > 0 && m->optimizer > 0 && m->activations > 0 &&
                     m->workspace >= 0 &&
                     m->arena == m->parameters + m->gradients + m->optimizer + m->activations +
                                     m->workspace &&
                     m->total == m->arena + m->reserved && m->total <= m->limit,
                 "memory that is none", "");
    fuzz_require(isfinite(c->cost.step_seconds) && c->cost.step_seconds > 0 &&
                     isfinite(c->tokens_per_second) && c->tokens_per_second >= 0 &&
                     isfinite(c->mfu) && c->mfu >= 0,
                 "a time that is none", "");
}

static void check_search(const struct sw_run_config *run)
{
    struct sw_search search = {0};
    struct sw_error err = {0};
    if (sw_search_run(run, SW_FOR_TRAIN, SW_EVERY_ROW, &search, &err) != 0) {
        check_error(&err);
        return;
    }
    fuzz_require(search.count > 0 && search.feasible <= search.count, "no mesh", "");
    for (int32_t i = 0; i < search.count; i++)
        check_mesh(run, &search.mesh[i], i < search.feasible);
    fuzz_require(search.feasible > 0 || search.mesh[0].detail[0] != '\0', "no reason", "");
    sw_search_free(&search);
}

void fuzz_one(const uint8_t *data, size_t bytes)
{
    int32_t files, count = 0;
    char text[SETTINGS][SETTING_BYTES];
    struct sw_override settings[SETTINGS];
    struct sw_error err = {0};
    for (const char *at = fuzz_files(data, bytes, &files)->text; *at != '\0' && count < SETTINGS;) {
        const size_t length = strcspn(at, "\n");
        if (length > 0 && length < SETTING_BYTES) {
            memcpy(text[count], at, length);
            text[count][length] = '\0';
            settings[count].text = text[count];
            count++;
        }
        at += length + (at[length] == '\n');
    }
    struct sw_config *config = sw_config_read_text("run.yaml", base, sizeof base - 1, SW_CONFIG_RUN,
                                                   NULL, settings, count, &err);
    fuzz_require(config != NULL, "no memory", err.message);
    const struct sw_run_config *run = sw_config_run(config);
    /* a search takes milliseconds for each of the meshes that many accelerators have */
    if (run != NULL && (int64_t)run->cluster.nodes * run->cluster.accelerators_per_node <= 4096)
        check_search(run);
    sw_config_free(config);
}
