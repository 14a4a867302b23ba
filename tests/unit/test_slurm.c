/* What is read from Slurm's texts and what a cluster file is made of; controllers are asked in
 * tests/cluster. */
#include "core/config/config.h"
#include "core/schema/edit.h"
#include "planner/scheduler/slurm/accounting.h"
#include "planner/scheduler/slurm/controller.h"
#include "planner/scheduler/slurm/admit.h"
#include "planner/scheduler/slurm/client.h"
#include "planner/scheduler/slurm/import.h"
#include "planner/scheduler/slurm/script.h"
#include "planner/scheduler/slurm/waits.h"
#include "planner/scheduler/scheduler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Lists of hosts ---- */

static void expands_to(const char *text, int32_t count, const char *first, const char *last,
                       const char *compressed)
{
    struct sw_hosts hosts = {0};
    struct sw_error err = {0};
    assert_int_equal(sw_hosts_expand(text, &hosts, &err), 0);
    sw_hosts_sort(&hosts);
    assert_int_equal(hosts.count, count);
    char *again = sw_hosts_compress(&hosts);
    assert_string_equal(again, compressed);
    if (count > 0) {
        assert_string_equal(hosts.name[0], first);
        assert_string_equal(hosts.name[count - 1], last);
        assert_true(sw_hosts_contain(&hosts, first) && sw_hosts_contain(&hosts, last));
    }
    assert_false(sw_hosts_contain(&hosts, "nobody"));
    /* what was compressed means the same */
    struct sw_hosts twice = {0};
    assert_int_equal(sw_hosts_expand(again, &twice, &err), 0);
    sw_hosts_sort(&twice);
    assert_int_equal(sw_hosts_common(&hosts, &twice), count);
    assert_int_equal(twice.count, count);
    sw_hosts_free(&twice);
    sw_hosts_free(&hosts);
    free(again);
}

static void lists_of_hosts(void **state)
{
    (void)state;
    expands_to("gpu[0-3,7],login1", 6, "gpu0", "login1", "gpu[0-3,7],login1");
    expands_to("gpu[0-9999]", 10000, "gpu0", "gpu9999", "gpu[0-9999]");
    expands_to("n[008-011]", 4, "n008", "n011", "n[008-011]");
    expands_to("n[8-11],n2", 5, "n2", "n11", "n[2,8-11]");
    expands_to("rack[0-1]n[01-02]", 4, "rack0n01", "rack1n02", "rack0n[01-02],rack1n[01-02]");
    expands_to("n1-ib,n2-ib,n1-ib", 2, "n1-ib", "n2-ib", "n[1-2]-ib");
    expands_to("a,b", 2, "a", "b", "a,b");
    expands_to("0", 1, "0", "0", "0");
    expands_to("(null)", 0, NULL, NULL, "");
    expands_to("", 0, NULL, NULL, "");
    expands_to(NULL, 0, NULL, NULL, "");
}

static void lists_that_are_none(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "gpu[0-3",        "gpu[3-0]", "gpu[]x[", "gpu[a-b]", "gpu[1-]",
        "gpu[0-9999999]", "[",        ",",       "gpu[1 2]", "n[0-99][0-99][0-99][0-99]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sw_hosts hosts = {0};
        struct sw_error err = {0};
        if (sw_hosts_expand(bad[i], &hosts, &err) == 0)
            fail_msg("'%s' is taken", bad[i]);
        assert_int_equal(err.status, SW_BAD_INPUT);
        sw_hosts_free(&hosts);
    }
}

static void shared_hosts_are_counted(void **state)
{
    (void)state;
    struct sw_hosts a = {0}, b = {0};
    struct sw_error err = {0};
    assert_int_equal(sw_hosts_expand("n[0-9],x", &a, &err), 0);
    assert_int_equal(sw_hosts_expand("n[5-20],y", &b, &err), 0);
    sw_hosts_sort(&a);
    sw_hosts_sort(&b);
    assert_int_equal(sw_hosts_common(&a, &b), 5);
    sw_hosts_free(&a);
    sw_hosts_free(&b);
}

/* ---- gres ---- */

static void gpus_of_a_node(void **state)
{
    (void)state;
    struct sw_slurm_gpus g = sw_slurm_parse_gpus("gpu:h100:8(S:0-1)");
    assert_int_equal(g.types, 1);
    assert_int_equal(g.total, 8);
    assert_string_equal(g.of[0].type, "h100");
    g = sw_slurm_parse_gpus("nvme:2,gpu:h100:4(S:0,2),gpu:a100:2,shard:16");
    assert_int_equal(g.types, 2);
    assert_int_equal(g.total, 6);
    assert_string_equal(g.of[1].type, "a100");
    assert_int_equal(g.of[1].count, 2);
    g = sw_slurm_parse_gpus("gpu:8");
    assert_int_equal(g.total, 8);
    assert_string_equal(g.of[0].type, "");
    assert_int_equal(sw_slurm_parse_gpus("gpu").total, 1);
    assert_int_equal(sw_slurm_parse_gpus("gpu:v100").total, 1);
    assert_int_equal(sw_slurm_parse_gpus("gpu:0").total, 0);
    assert_int_equal(sw_slurm_parse_gpus("license:4").types, 0);
    assert_int_equal(sw_slurm_parse_gpus(NULL).types, 0);
}

/* Names as sites' scripts, nvml and rocm-smi write them. want: the sheet, "?" before what assumes
 * something; "": none; "slice": none, and it is a slice. */
static void types_of_gpus(void **state)
{
    (void)state;
    static const struct {
        const char *type, *want;
    } rows[] = {
        {"h100", "?h100-sxm-80gb"},
        {"H100", "?h100-sxm-80gb"},
        {"nvidia_h100", "?h100-sxm-80gb"},
        {"h100-80", "?h100-sxm-80gb"},
        {"h100_80gb", "?h100-sxm-80gb"},
        {"H100_SXM5", "h100-sxm-80gb"},
        {"h100sxm", "h100-sxm-80gb"},
        {"h100sxm5", "h100-sxm-80gb"},
        {"h100_sxm", "h100-sxm-80gb"},
        {"hgxh100", "h100-sxm-80gb"},
        {"dgx-h100", "h100-sxm-80gb"},
        {"nvidia_h100_80gb_hbm3", "h100-sxm-80gb"},
        {"NVIDIA-H100-80GB-HBM3", "h100-sxm-80gb"},
        {"h100-sxm-80gb", "h100-sxm-80gb"},
        {"nvidia_h100_pcie", "h100-pcie-80gb"},
        {"h100pcie", "h100-pcie-80gb"},
        {"h100-pci-e", "h100-pcie-80gb"},
        {"H100.PCIe.80GB", "h100-pcie-80gb"},
        {"nvidia_h100_nvl", ""},
        {"h100nvl", ""},
        {"h100-nvl", ""},
        {"h100_94gb", ""},
        {"h100-94", ""},
        {"h100-96", ""},
        {"h100_96gb", ""},
        {"h100-64", ""},
        {"h100-47", "slice"},
        {"h100_47gb", "slice"},
        {"h100_40g", "slice"},
        {"h100_1g.10gb", "slice"},
        {"nvidia_h100_80gb_hbm3_1g.10gb", "slice"},
        {"h100_3g.40gb", "slice"},
        {"h100-mig", "slice"},
        {"mig-1g.12gb", "slice"},
        {"1g.10gb", "slice"},
        {"2g.20gb", "slice"},
        {"3g20gb", "slice"},
        {"a100_3g", "slice"},
        {"gh200", "?gh200-96gb"},
        {"nvidia_gh200_480gb", "gh200-96gb"},
        {"nvidia_gh200_120gb", "gh200-96gb"},
        {"gh200-96", "gh200-96gb"},
        {"nvidia_gh200_144g_hbm3e", ""},
        {"a100", "?a100-sxm-80gb"},
        {"A100", "?a100-sxm-80gb"},
        {"nvidia_a100", "?a100-sxm-80gb"},
        {"a100x4", "?a100-sxm-80gb"},
        {"gpuA100x4", "?a100-sxm-80gb"},
        {"nvidia_a100-sxm4-80gb", "a100-sxm-80gb"},
        {"nvidia_a100-sxm4-40gb", "a100-sxm-40gb"},
        {"a100sxm4-40gb", "a100-sxm-40gb"},
        {"a100-40", "?a100-sxm-40gb"},
        {"A100_40", "?a100-sxm-40gb"},
        {"a100_80g", "?a100-sxm-80gb"},
        {"A100_80GB", "?a100-sxm-80gb"},
        {"A100.80gb", "?a100-sxm-80gb"},
        {"a100-sxm-64gb", ""},
        {"nvidia_a100_80gb_pcie", ""},
        {"nvidia_a100-pcie-40gb", ""},
        {"a100pcie", ""},
        {"a100_10g", "slice"},
        {"a100_20g", "slice"},
        {"a100-20", "slice"},
        {"a100_1g.10gb", "slice"},
        {"a100_1g.5gb", "slice"},
        {"a100_7g.80gb", "slice"},
        {"nvidia_a100_3g.20gb", "slice"},
        {"nvidia_h200", "h200-sxm-141gb"},
        {"h200_141gb", "h200-sxm-141gb"},
        {"nvidia_h200_nvl", ""},
        {"h200-71", "slice"},
        {"h200_1g.18gb", "slice"},
        {"nvidia_b200", "b200-sxm-180gb"},
        {"b200_180gb", "b200-sxm-180gb"},
        {"nvidia_b300_sxm6_ac", "b300-sxm-270gb"},
        {"b300", "b300-sxm-270gb"},
        {"mi355x", "mi355x-288gb"},
        {"gb300", ""},
        {"gb200", ""},
        {"nvidia_gb200", ""},
        {"nvidia_l40s", "l40s-48gb"},
        {"l40s-48", "l40s-48gb"},
        {"l40", ""},
        {"l4", ""},
        {"NVIDIA_A40", "a40-48gb"},
        {"a40-48g", "a40-48gb"},
        {"a400", ""},
        {"nvidia_rtx_a4000", ""},
        {"nvidia_rtx_a6000", ""},
        {"nvidia_a16", ""},
        {"mi300x", "mi300x-192gb"},
        {"amd_instinct_mi300x_oam", "mi300x-192gb"},
        {"mi300a", ""},
        {"mi250x", "mi250x-64gb"},
        {"amd_instinct_mi250x", "mi250x-64gb"},
        {"mi250", "?mi250x-64gb"},
        {"mi210", ""},
        {"v100", ""},
        {"tesla_v100-sxm2-32gb", ""},
        {"a100l", ""},
        {"tesla", ""},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct sw_catalog_match match = sw_catalog_match(rows[i].type, NULL);
        const bool slice = sw_catalog_is_slice(rows[i].type);
        char got[64];
        snprintf(got, sizeof got, "%s%s", match.assumed != NULL ? "?" : "",
                 match.sheet != NULL ? match.sheet->name
                 : slice             ? "slice"
                                     : "");
        if (strcmp(got, rows[i].want) != 0)
            fail_msg("'%s' means '%s', not '%s'", rows[i].type, got, rows[i].want);
        assert_int_equal(slice, strcmp(rows[i].want, "slice") == 0);
    }
    assert_string_equal(sw_catalog_match("h100_96gb", NULL).near, "h100-sxm-96gb-hbm2e-500w");
    assert_string_equal(sw_catalog_match("nvidia_gb200", NULL).near, "gb200-186gb");
}

/* Features tell what the type leaves open, and nodes of other accelerators apart. */
static void features_of_nodes(void **state)
{
    (void)state;
    static const struct {
        const char *type, *features, *known;
        bool assumed;
    } rows[] = {
        {"a100", "gpu,a100,hbm40g", "a100-sxm-40gb", true},
        {"a100", "gpu,a100,hbm80g", "a100-sxm-80gb", true},
        {"a100", "gpu80,amd", "a100-sxm-80gb", true},
        {"a100", "gpu40,sxm4", "a100-sxm-40gb", false},
        {"a100", "vram80,sxm4", "a100-sxm-80gb", false},
        {"a100", "a100-40g", "a100-sxm-40gb", true},
        {"a100", "GPU_SKU:A100_SXM4,GPU_MEM:40GB", "a100-sxm-40gb", false},
        {"a100", "nvme", "a100-sxm-80gb", true},
        {"a100", "mem512g,el9", "a100-sxm-80gb", true},
        {"nvidia_a100-sxm4-40gb", "hbm80g", "a100-sxm-40gb", false},
        {"", "v100,nvme", "v100", false},
        {"", "v100-32gb", "v100 32", false},
        {"", "h100,sxm", "h100-sxm-80gb", false},
        {"", "CPU_GEN:RME,GPU_GEN:HPR,GPU_SKU:H100_SXM5,GPU_MEM:80GB", "h100-sxm-80gb", false},
        {"", "GPU_MEM:80GB,GPU_SKU:H100_PCIE", "h100-pcie-80gb", false},
        {"h100", "pcie", "h100-pcie-80gb", false},
        {"h100", "nvl", "h100 nvl", false},
        {"h100", "GPU_MEM:94GB", "h100 94", false},
        {"gpu", "l40s,ib", "l40s-48gb", false},
        {"", "nvme", "", false},
        {"", NULL, "", false},
        {"1g.5gb", "a100", "1g.5gb", false},
        {"h100-47", "h100,sxm", "h100-47", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct sw_catalog_match match = sw_catalog_match(rows[i].type, rows[i].features);
        if (strcmp(match.known, rows[i].known) != 0 || (match.assumed != NULL) != rows[i].assumed)
            fail_msg("'%s' with '%s': %s, assumed %s", rows[i].type,
                     rows[i].features != NULL ? rows[i].features : "", match.known,
                     match.assumed != NULL ? match.assumed : "nothing");
    }
}

/* The table of sheets says what the shipped files say. */
static void sheets_are_the_shipped_ones(void **state)
{
    (void)state;
    for (const struct sw_catalog_entry *s = sw_catalog(); s->name != NULL; s++) {
        char path[256];
        struct sw_error err = {0};
        double value = 0;
        struct sw_config *accelerator = sw_config_read_text(
            "sheet", s->text, strlen(s->text), SW_CONFIG_ACCELERATOR, &sw_launchers, NULL, 0, &err);
        assert_non_null(sw_config_accelerator(accelerator));
        assert_string_equal(sw_config_accelerator(accelerator)->name, s->name);
        snprintf(path, sizeof path, "configs/clusters/%s", s->cluster);
        struct sw_config *config =
            sw_config_read(path, SW_CONFIG_CLUSTER, &sw_launchers, NULL, 0, &err);
        const struct sw_cluster_config *cluster = sw_config_cluster(config);
        if (cluster == NULL)
            fail_msg("%s cannot be read", path);
        assert_string_equal(cluster->accelerator.name, s->name);
        const struct sw_catalog_link *links[] = {&s->inside, &s->network};
        for (size_t i = 0; i < 2; i++) {
            bool found = links[i]->name == NULL;
            for (int32_t k = 0; k < cluster->link_count && !found; k++) {
                const struct sw_link_config *link = &cluster->link[k];
                if (strcmp(link->name, links[i]->name) != 0)
                    continue;
                found = true;
                assert_int_equal(sw_quantity_parse(links[i]->bandwidth, 'b', &value, &err), 0);
                assert_true(fabs(value - link->bandwidth) <= 1e-9 * value);
                value = 0;
                if (links[i]->launch != NULL)
                    assert_int_equal(sw_quantity_parse(links[i]->launch, 's', &value, &err), 0);
                assert_true(fabs(value - link->launch_s) <= 1e-9 * value);
                assert_int_equal(sw_quantity_parse(links[i]->latency, 's', &value, &err), 0);
                assert_true(fabs(value - link->latency_s) <= 1e-9 * value);
                assert_int_equal(links[i]->curve != NULL, link->efficiency_path != NULL);
            }
            if (!found)
                fail_msg("%s has no link '%s'", path, links[i]->name);
        }
        sw_config_free(config);
        sw_config_free(accelerator);
    }
}

/* ---- Editing a YAML file ---- */

static void becomes(const char *text, const char *path, const char *value, const char *expected)
{
    struct sw_error err = {0};
    char *out = sw_yaml_set(text, path, value, &err);
    if (out == NULL)
        fail_msg("%s", err.message);
    assert_string_equal(out, expected);
    free(out);
}

static void single_values_change(void **state)
{
    (void)state;
    becomes("# c\nnodes: 8 # eight\nb: 2\n", "nodes", "16", "# c\nnodes: 16 # eight\nb: 2\n");
    becomes("nodes: '8'\n", "nodes", "9", "nodes: 9\n");
    becomes("name: é✓ # ü\nnodes: 8\n", "nodes", "9", "name: é✓ # ü\nnodes: 9\n");
    becomes("\xef\xbb\xbfnodes: 8\n", "nodes", "9", "\xef\xbb\xbfnodes: 9\n");
    becomes("a: 1\r\nnodes: 8\r\nb: 2\r\n", "nodes", "9", "a: 1\r\nnodes: 9\r\nb: 2\r\n");
    becomes("slurm: {partition: gpu, time: '1:00:00'} # x\n", "slurm.time", "'2:00:00'",
            "slurm: {partition: gpu, time: '2:00:00'} # x\n");
    becomes("slurm: {partition: gpu } # x\n", "slurm.time", "9",
            "slurm: {partition: gpu, time: 9 } # x\n");
    becomes("slurm: {}\n", "slurm.time", "9", "slurm: {time: 9}\n");
    becomes("slurm:\n", "slurm.time", "9", "slurm: {time: 9}\n");
    becomes("slurm:\nb: 2\n", "slurm.time", "9", "slurm: {time: 9}\nb: 2\n");
    becomes("slurm:\n  # why\n  partition: gpu # p\n\n# end\nb: 2\n", "slurm.time", "9",
            "slurm:\n  # why\n  partition: gpu # p\n  time: 9\n\n# end\nb: 2\n");
    becomes("a: 1\nlinks:\n  - {x: 1}\n  - {x: 2,\n     y: 3} # last\n", "nodes", "8",
            "a: 1\nlinks:\n  - {x: 1}\n  - {x: 2,\n     y: 3} # last\nnodes: 8\n");
    becomes("a: 1", "slurm.time", "9", "a: 1\nslurm: {time: 9}");
    becomes("t: |\n  long\n  text\n", "n", "1", "t: |\n  long\n  text\nn: 1\n");
    becomes("{\"a\": 1}", "n", "2", "{\"a\": 1, n: 2}");
}

static void what_cannot_be_set(void **state)
{
    (void)state;
    static const struct {
        const char *text, *path;
    } rows[] = {{"slurm: 3\n", "slurm.time"},
                {"slurm: [1]\n", "slurm.time"},
                {"slurm: {a: 1}\n", "slurm"},
                {"- 1\n", "nodes"},
                {"a: [\n", "a"},
                {"", "a"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sw_error err = {0};
        if (sw_yaml_set(rows[i].text, rows[i].path, "1", &err) != NULL)
            fail_msg("row %zu is set", i);
        assert_int_equal(err.status, SW_BAD_INPUT);
    }
    struct sw_error err = {0};
    char *value = sw_yaml_get("a: {b: 'x y'}\n", "a.b", &err);
    assert_string_equal(value, "x y");
    free(value);
    assert_null(sw_yaml_get("a: {b: 1}\n", "a", &err));
    assert_null(sw_yaml_get("a: {b: 1}\n", "a.c", &err));
    assert_null(sw_yaml_get("a: 1\n", "a.c", &err));
    assert_int_equal(err.status, SW_OK);
}

/* ---- Accounting ---- */

static void limits_of_accounts(void **state)
{
    (void)state;
    struct sw_slurm_accounting a = {.known = true, .default_account = "research"};
    struct sw_error err = {0};
    assert_int_equal(
        sw_slurm_accounting_read_qos(
            "normal||\nshort|02:00:00|node=4,gres/gpu=32\nlong|7-00:00:00|\n", &a, &err),
        0);
    assert_int_equal(sw_slurm_accounting_read_associations(
                         "research||normal,short|1-00:00:00|node=8\nresearch|gpu|long||\n"
                         "other||normal||\n",
                         false, &a, &err),
                     0);
    assert_int_equal(a.qos_count, 3);
    assert_int_equal(a.association_count, 3);
    assert_true(isinf(sw_slurm_find_qos(&a, "normal")->limits.max_time));
    assert_true(sw_slurm_find_qos(&a, "short")->limits.max_time == 7200);
    const char *most = sw_slurm_find_qos(&a, "short")->limits.tres[SW_LIMIT_JOB];
    assert_int_equal(sw_slurm_limit_of(most, "node"), 4);
    assert_int_equal(sw_slurm_limit_of(most, "gres/gpu"), 32);
    assert_int_equal(sw_slurm_limit_of(most, "cpu"), -1);
    assert_int_equal(sw_slurm_limit_of("node=0,mem=1.50G,cpu=2", "node"), 0);
    assert_int_equal(sw_slurm_limit_of("node=0,mem=1.50G,cpu=2", "mem"), 1536);
    assert_int_equal(sw_slurm_limit_of("gres/gpu:h100=4,gres/gpu=8", "gres/gpu"), 8);
    assert_int_equal(sw_slurm_limit_of("gres/gpu:h100=4", "gres/gpu"), -1);
    assert_true(sw_slurm_find_qos(&a, "long")->limits.max_time == 7 * 86400);
    assert_null(sw_slurm_find_qos(&a, "shor"));
    assert_string_equal(sw_slurm_find_association(&a, NULL, "gpu")->qos, "long");
    assert_int_equal(
        sw_slurm_limit_of(sw_slurm_find_association(&a, NULL, "cpu")->limits.tres[SW_LIMIT_JOB],
                          "node"),
        8);
    assert_string_equal(sw_slurm_find_association(&a, "other", "gpu")->qos, "normal");
    assert_null(sw_slurm_find_association(&a, "nobody", "gpu"));
    assert_true(sw_slurm_list_has("normal,short", "short"));
    assert_false(sw_slurm_list_has("normal,shorter", "short"));
    sw_slurm_accounting_free(&a);
}

/* ---- Scripts ---- */

static void has_option(const struct sw_job_request *request, const char *name, const char *value)
{
    const char *found = sw_job_request_get(request, name);
    if ((found == NULL) != (value == NULL) || (value != NULL && strcmp(found, value) != 0))
        fail_msg("%s is '%s', not '%s'", name, found != NULL ? found : "(none)",
                 value != NULL ? value : "(none)");
}

static void directives_of_a_script(void **state)
{
    (void)state;
    struct sw_job_request request = {0}, other = {0};
    struct sw_error err = {0};
    const char *script = "#!/bin/bash\n# a comment\n#SBATCH --nodes=4 --exclusive\n"
                         "#SBATCH --output=\"/a b/%%j \\\"x\\\".out\" # no option\n"
                         "#SBATCH -p gpu -t2:00:00\n\n#SBATCH\t--comment='it is'\n"
                         "#SBATCHES --qos=no\nset -e\n#SBATCH --account=late\n";
    assert_int_equal(sw_slurm_request_read(script, &request, &err), 0);
    has_option(&request, "nodes", "4");
    has_option(&request, "exclusive", "");
    has_option(&request, "output", "/a b/%%j \"x\".out");
    has_option(&request, "partition", "gpu");
    has_option(&request, "time", "2:00:00");
    has_option(&request, "comment", "it is");
    has_option(&request, "qos", NULL);
    has_option(&request, "account", NULL);
    assert_int_equal(sw_job_request_vary(&request, "partition", NULL, &other, &err), 0);
    has_option(&other, "partition", NULL);
    has_option(&other, "nodes", "4");
    sw_job_request_free(&other);
    assert_int_equal(sw_job_request_vary(&request, "nodes", "2", &other, &err), 0);
    has_option(&other, "nodes", "2");
    assert_int_equal(other.count, request.count);
    sw_job_request_free(&other);
    sw_job_request_free(&request);
}

/* ---- Waits ---- */

static void quantiles(void **state)
{
    (void)state;
    double values[] = {50, 10, 40, 20, 30, 0, 60, 70, 80, 90, 100};
    const struct sw_quantiles q = sw_quantiles_of(values, 11);
    assert_int_equal(q.count, 11);
    assert_true(q.low == 10 && q.median == 50 && q.high == 90);
    double one[] = {7};
    const struct sw_quantiles p = sw_quantiles_of(one, 1);
    assert_true(p.low == 7 && p.median == 7 && p.high == 7);
    assert_int_equal(sw_quantiles_of(NULL, 0).count, 0);
}

static void waits_of_like_jobs(void **state)
{
    (void)state;
    struct sw_waits waits = {0};
    struct sw_error err = {0};
    const char *text = "gpu|4|02:00:00|2026-11-20T10:00:00|2026-11-20T10:10:00\n"
                       "gpu|8|04:00:00|2026-11-20T10:00:00|2026-11-20T10:20:00\n"
                       "gpu|16|04:00:00|2026-11-20T10:00:00|2026-11-20T11:00:00\n"
                       "gpu|4|1-00:00:00|2026-11-20T10:00:00|2026-11-20T12:00:00\n"
                       "cpu|4|02:00:00|2026-11-20T10:00:00|2026-11-20T10:00:00\n"
                       "gpu|4|UNLIMITED|2026-11-20T10:00:00|2026-11-20T10:01:00\n"
                       "gpu|4|02:00:00|Unknown|2026-11-20T10:01:00\n"
                       "gpu|4|02:00:00|2026-11-20T10:00:00|Unknown\n"
                       "nonsense\n";
    assert_int_equal(sw_waits_read(text, &waits, &err), 0);
    assert_int_equal(waits.count, 6);
    struct sw_quantiles q = sw_waits_like(&waits, "gpu", 4, 7200);
    assert_int_equal(q.count, 2);
    assert_true(q.median == 900);
    q = sw_waits_like(&waits, "gpu", 8, 14400);
    assert_int_equal(q.count, 3);
    assert_true(q.median == 1200);
    assert_int_equal(sw_waits_like(&waits, "gpu", 4, INFINITY).count, 1);
    assert_int_equal(sw_waits_like(&waits, "none", 4, 7200).count, 0);
    sw_waits_free(&waits);
}

/* ---- Limits of accounts before a submission ---- */

static void accounts_that_may(void **state)
{
    (void)state;
    struct sw_slurm_nodes nodes = {
        .cpus = 96, .memory_mb = 1000, .gres = "gpu:h100:8", .usable = true};
    struct sw_slurm_partition partition = {
        .name = "gpu", .is_default = true, .up = true, .max_time = INFINITY, .qos = "normal,short"};
    struct sw_error err = {0};
    assert_int_equal(sw_hosts_expand("n[0-7]", &nodes.hosts, &err), 0);
    assert_int_equal(sw_hosts_expand("n[0-7]", &partition.hosts, &err), 0);
    sw_hosts_sort(&nodes.hosts);
    sw_hosts_sort(&partition.hosts);
    const struct sw_slurm_facts facts = {
        .nodes = &nodes, .nodes_count = 1, .partition = &partition, .partition_count = 1};
    struct sw_slurm_accounting accounting = {.known = true, .default_account = "research"};
    assert_int_equal(sw_slurm_accounting_read_qos("normal||\nshort|02:00:00|node=2\nlong||\n",
                                                  &accounting, &err),
                     0);
    assert_int_equal(sw_slurm_accounting_read_associations("research||normal,short|1-00:00:00|\n",
                                                           false, &accounting, &err),
                     0);
    static const struct {
        const char *name, *value, *why;
    } rows[] = {
        {"qos", "normal", ""},
        {"qos", "nosuch", "qos 'nosuch' may not use partition gpu: normal,short may"},
        {"qos", "short",
         "4 nodes asked for, but MaxTRES of qos short is 2: it would wait for ever"},
        {"account", "maths",
         "you have no account 'maths' for partition gpu; see 'sacctmgr show assoc'"},
        {"time", "2-00:00:00",
         "its time limit is more than the 24.0 h of account research: it would wait for ever"},
        {"time", "1-00:00:00", ""},
        {"gpus-per-node", "H100:8", ""},
        {"gpus-per-node", "9", "4 nodes with GPUs '9' asked for, but partition gpu has 0"},
        {"nodes", "9", "9 nodes asked for, but partition gpu has 8"},
        {"mem", "4096T", "4 nodes with 4294967296 MB of memory asked for, but partition gpu has 0"},
        {"mem", "9223372036854775807T",
         "4 nodes with 9223372036853727232 MB of memory asked for, but partition gpu has 0"},
        {"mem", "1000M", ""},
        {"dependency", "afterok:17,afterany:18",
         "it depends on job 18, which the controller does not know (any more)"},
        {"dependency", "afterok:17+30,singleton", ""},
    };
    struct sw_queued_job of_queue[] = {{.id = "17", .number = 17, .state = "RUNNING"}};
    const struct sw_queued_jobs queue = {.job = of_queue, .count = 1};
    /* what the controller does not hold jobs to is no reason */
    static const struct {
        const char *enforced, *name, *value;
        bool good;
    } held[] = {
        {"none", "time", "2-00:00:00", true},
        {"nojobs,nosteps", "qos", "short", true},
        {"associations", "qos", "short", true},
        {"associations,qos", "qos", "short", true},
        {"associations,limits", "qos", "short", false},
        {"associations,limits,safe", "time", "2-00:00:00", false},
        {"safe", "time", "2-00:00:00", false},
        {"all", "qos", "short", false},
        {"none", "account", "maths", true},
        {"associations", "account", "maths", false},
        {"wckeys", "account", "maths", false},
        {"associations,limits", "qos", "nosuch", false}, /* the partition's own list */
    };
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
        struct sw_job_request request = {0};
        char why[256];
        assert_int_equal(sw_job_request_add(&request, "nodes", "4", &err), 0);
        assert_int_equal(sw_job_request_add(&request, held[i].name, held[i].value, &err), 0);
        sw_slurm_accounting_enforce(held[i].enforced, &accounting);
        if (sw_slurm_admits(&request, &facts, &accounting, &queue, why) != held[i].good)
            fail_msg("%s, %s %s: '%s'", held[i].enforced, held[i].name, held[i].value, why);
        sw_job_request_free(&request);
    }
    partition.qos = NULL;
    for (int32_t enforced = 0; enforced < 2; enforced++) {
        struct sw_job_request request = {0};
        char why[256];
        assert_int_equal(sw_job_request_add(&request, "qos", "nosuch", &err), 0);
        sw_slurm_accounting_enforce(enforced ? "associations,limits,qos" : "associations,limits",
                                    &accounting);
        assert_int_equal(sw_slurm_admits(&request, &facts, &accounting, &queue, why), !enforced);
        sw_job_request_free(&request);
    }
    partition.qos = "normal,short";
    sw_slurm_accounting_enforce("", &accounting);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sw_job_request request = {0};
        char why[256];
        assert_int_equal(sw_job_request_add(&request, "nodes", "4", &err), 0);
        assert_int_equal(sw_job_request_add(&request, rows[i].name, rows[i].value, &err), 0);
        const bool good = sw_slurm_admits(&request, &facts, &accounting, &queue, why);
        assert_string_equal(why, rows[i].why);
        assert_int_equal(good, rows[i].why[0] == '\0');
        sw_job_request_free(&request);
    }
    sw_slurm_accounting_free(&accounting);
    sw_hosts_free(&nodes.hosts);
    sw_hosts_free(&partition.hosts);
}

/* Slurm's commands know their controller, and nothing of a job or profile around plan. */
static void commands_have_a_clean_environment(void **state)
{
    (void)state;
    static const char *const argv[] = {"env", NULL}, *const none[] = {"sbatch-that-is-not", NULL};
    static const char *const gone[] = {"SBATCH_PARTITION", "SLURM_JOB_ID", "SALLOC_QOS",
                                       "SRUN_DEBUG", "SLURM_CONFIG"};
    static const char *const there[] = {"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"};
    struct sw_process_result r;
    struct sw_error err = {0};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        setenv(gone[i], "gone", 1);
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        setenv(there[i], "there", 1);
    assert_int_equal(sw_slurm_process(argv, NULL, 10, &r, &err), 0);
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        assert_null(strstr(r.out, gone[i]));
        unsetenv(gone[i]);
    }
    for (size_t i = 0; i < sizeof there / sizeof *there; i++) {
        char line[64];
        snprintf(line, sizeof line, "\n%s=there\n", there[i]);
        assert_non_null(strstr(r.out, line));
        unsetenv(there[i]);
    }
    assert_non_null(strstr(r.out, "SLURM_TIME_FORMAT=standard\n"));
    sw_process_free(&r);
    assert_int_equal(sw_slurm_process(none, NULL, 1, &r, &err), -1);
    assert_string_equal(err.message, "there is no 'sbatch-that-is-not' on this machine; do this "
                                     "where Slurm's commands are (Debian: slurm-client)");
    sw_process_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_hosts),
        cmocka_unit_test(lists_that_are_none),
        cmocka_unit_test(shared_hosts_are_counted),
        cmocka_unit_test(gpus_of_a_node),
        cmocka_unit_test(types_of_gpus),
        cmocka_unit_test(features_of_nodes),
        cmocka_unit_test(sheets_are_the_shipped_ones),
        cmocka_unit_test(single_values_change),
        cmocka_unit_test(what_cannot_be_set),
        cmocka_unit_test(limits_of_accounts),
        cmocka_unit_test(directives_of_a_script),
        cmocka_unit_test(quantiles),
        cmocka_unit_test(waits_of_like_jobs),
        cmocka_unit_test(accounts_that_may),
        cmocka_unit_test(commands_have_a_clean_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
