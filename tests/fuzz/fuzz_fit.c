/* Any bytes as what `plan fit` reads: a table of runs, the metrics of a run, and collectives in a
 * table or as nccl-tests prints them. A mistake has its place; what is accepted can be priced, and
 * the links that are fitted to it are ones that a cluster may have. */
#include "planner/fit/fit.h"
#include "tests/fuzz/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char cluster_text[] =
    "name: c\nnodes: 4\naccelerators_per_node: 8\n"
    "accelerator: {name: a100-sxm-40gb, device: cuda, memory: 40 GB, peak: {bf16: 312 TFLOP/s, "
    "fp32: 19.5 TFLOP/s}, memory_bandwidth: 1.555 TB/s, compute_units: 108}\n"
    "links: [{name: nvlink, spans: 8, bandwidth: 300 GB/s, latency: 3 us}, {name: ib, spans: 32, "
    "bandwidth: 25 GB/s, latency: 6 us}]\n";
static const char model_text[] = "vocab_size: 256\nhidden_size: 64\nintermediate_size: 128\n"
                                 "num_hidden_layers: 2\nnum_attention_heads: 4\n";

static void check_error(const struct sw_error *err)
{
    fuzz_require(err->status == SW_BAD_INPUT, "no mistake of the user", err->message);
    fuzz_require_place(err->file, err->line, err->column, err->message);
}

static void add_config(struct sw_fit_set *set, const char *name, const char *text)
{
    struct sw_error err = {0};
    struct sw_config *config =
        sw_config_read_text(name, text, strlen(text), SW_CONFIG_UNKNOWN, NULL, NULL, 0, &err);
    fuzz_require(config != NULL && sw_config_error_count(config) == 0, "no description", name);
    fuzz_require(sw_fit_add_config(set, config, &err) == 0, "not added", err.message);
}

static void check_runs(const char *path)
{
    enum { FEW = 8 };
    struct sw_fit_set set = {0};
    struct sw_error err = {0};
    add_config(&set, "c.yaml", cluster_text);
    add_config(&set, "small.yaml", model_text);
    if (sw_fit_read_csv(&set, path, &err) != 0)
        check_error(&err);
    for (int32_t i = 0; i < set.count; i++) {
        const struct sw_fit_run *r = &set.run[i];
        fuzz_require_plain(r->skipped);
        fuzz_require_plain(r->note);
        fuzz_require(r->program == NULL || r->memory_bytes > 0, "a program without memory", path);
    }
    if (err.status == SW_OK && set.count <= FEW) {
        fuzz_require(sw_fit_predict(&set, NULL, NULL, &err) == 0, "not priced", err.message);
        for (int32_t i = 0; i < set.count; i++)
            fuzz_require(set.run[i].program == NULL || set.run[i].predicted > 0, "no price", path);
    }
    sw_fit_free(&set);
}

/* As in checks of a cluster's file: sizes ascend, shares are of 0 to 1. */
static void check_link(const struct sw_link_config *link)
{
    const struct sw_curve *curve = &link->efficiency;
    fuzz_require(isfinite(link->latency_s) && link->latency_s >= 0, "no latency", link->name);
    fuzz_require(curve->count >= 0 && curve->count <= SW_MAX_CURVE, "no curve", link->name);
    for (int32_t i = 0; i < curve->count; i++)
        fuzz_require(curve->point[i].size > (i > 0 ? curve->point[i - 1].size : 0) &&
                         isfinite(curve->point[i].size) && curve->point[i].fraction > 0 &&
                         curve->point[i].fraction <= 1,
                     "no efficiency", link->name);
}

static void check_collectives(const char *path)
{
    struct sw_fit_links links = {0};
    struct sw_error err = {0};
    struct sw_config *config = sw_config_read_text("c.yaml", cluster_text, strlen(cluster_text),
                                                   SW_CONFIG_CLUSTER, NULL, NULL, 0, &err);
    fuzz_require(config != NULL && sw_config_cluster(config) != NULL, "no cluster", "");
    if (sw_fit_read_collectives(&links, path, NULL, &err) != 0)
        check_error(&err);
    struct sw_cluster_config cluster = *sw_config_cluster(config);
    struct sw_collective_curves own[SW_MAX_LINKS];
    for (int32_t l = 0; l < cluster.link_count; l++) {
        sw_fit_link(&cluster, l, &links, -1, &own[l]);
        check_link(&cluster.link[l]);
    }
    for (int32_t i = 0; i < links.count; i++)
        fuzz_require(links.point[i].seconds > 0 && links.point[i].bytes > 0 &&
                         links.point[i].ranks >= 2,
                     "no measurement", path);
    sw_fit_links_free(&links);
    sw_config_free(config);
}

/* A plan of one rank, as sw_plan_write writes it. */
static char *small_plan(size_t *bytes)
{
    char run_text[2048], *text = NULL;
    struct sw_error err = {0};
    const struct sw_decision decision = {.mesh = sw_mesh_make(1, 1, 1, 1),
                                         .train.micro_batch_size = 1,
                                         .train.accumulation_steps = 1};
    const struct sw_plan_prediction prediction = {.step_seconds = 1};
    const uint64_t digests[SW_PROGRAM_KINDS] = {0};
    snprintf(run_text, sizeof run_text,
             "name: r\nsequence_length: 16\nglobal_batch_size: 1\ncluster:\n"
             "  name: c\n  nodes: 1\n  accelerators_per_node: 1\n  accelerator: {name: a, device: "
             "cpu, memory: 1 GB, peak: {fp32: 1 GFLOP/s}, memory_bandwidth: 1 GB/s}\n"
             "model: {vocab_size: 256, hidden_size: 64, intermediate_size: 128, "
             "num_hidden_layers: 2, num_attention_heads: 4}\n");
    struct sw_config *config = sw_config_read_text("r.yaml", run_text, strlen(run_text),
                                                   SW_CONFIG_RUN, NULL, NULL, 0, &err);
    FILE *out = open_memstream(&text, bytes);
    fuzz_require(out != NULL && config != NULL && sw_config_run(config) != NULL, "no run", "");
    fuzz_require(sw_plan_write(out, sw_config_run(config), NULL, &decision, &prediction, digests,
                               NULL, &err) == 0,
                 "no plan", err.message);
    fclose(out);
    sw_config_free(config);
    return text;
}

static void check_metrics(const char *path)
{
    struct sw_fit_set set = {0};
    struct sw_error err = {0};
    size_t bytes = 0;
    char *plan = small_plan(&bytes);
    fuzz_add_file("plan.yaml", plan, bytes);
    if (sw_fit_read_metrics(&set, "plan.yaml", path, &err) != 0)
        check_error(&err);
    else
        fuzz_require(set.count == 1 && isfinite(set.run[0].measured) && set.run[0].measured > 0,
                     "no measured time", path);
    sw_fit_free(&set);
    free(plan);
}

void fuzz_one(const uint8_t *data, size_t bytes)
{
    int32_t count;
    const char *path = fuzz_files(data, bytes, &count)->name;
    sw_fit_has_column(path, "busbw_GBps");
    check_runs(path);
    check_collectives(path);
    check_metrics(path);
}
