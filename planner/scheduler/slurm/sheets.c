#include "planner/scheduler/slurm/sheets.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define NVLINK(gbps, launch, latency, curve)                                                       \
    {                                                                                              \
        "nvlink", gbps, launch, latency, curve                                                     \
    }
#define PORT(gbps)                                                                                 \
    {                                                                                              \
        "infiniband", gbps, NULL, "6 us", "nccl-network.yaml"                                      \
    }

/* The links of the named files of configs/clusters, where their sources stand; a test compares. */
static const struct sw_sheet sheets[] = {
    {"a100-sxm-40gb", sw_sheet_a100_sxm_40gb_yaml, "dgx-a100-40gb-16x8.yaml",
     NVLINK("300 GB/s", "8 us", "0.95 us", "nccl-nvlink-a100.yaml"), PORT("200 Gb/s")},
    {"a100-sxm-80gb", sw_sheet_a100_sxm_80gb_yaml, "dgx-a100-16x8.yaml",
     NVLINK("300 GB/s", "8 us", "0.95 us", "nccl-nvlink-a100.yaml"), PORT("200 Gb/s")},
    {"b200-sxm-180gb", sw_sheet_b200_sxm_180gb_yaml, "dgx-b200-8x8.yaml",
     NVLINK("900 GB/s", "6.6 us", "1.3 us", "nccl-nvlink-b200.yaml"), PORT("400 Gb/s")},
    {"h100-pcie-80gb",
     sw_sheet_h100_pcie_80gb_yaml,
     "h100-pcie-4x4.yaml",
     {"pcie", "64 GB/s", NULL, "5.7 us", NULL},
     {NULL, NULL, NULL, NULL, NULL}},
    {"h100-sxm-80gb", sw_sheet_h100_sxm_80gb_yaml, "h100-8x8.yaml",
     NVLINK("450 GB/s", "4.5 us", "0.81 us", "nccl-nvlink-h100.yaml"), PORT("400 Gb/s")},
    {"h200-sxm-141gb", sw_sheet_h200_sxm_141gb_yaml, "h200-16x8.yaml",
     NVLINK("450 GB/s", "4.5 us", "0.81 us", "nccl-nvlink-h100.yaml"), PORT("400 Gb/s")},
    {"l40s-48gb",
     sw_sheet_l40s_48gb_yaml,
     "l40s-pcie-1x8.yaml",
     {"pcie", "32 GB/s", "3.74 us", "1.37 us", "nccl-pcie-l40s.yaml"},
     {NULL, NULL, NULL, NULL, NULL}},
    {"mi300x-192gb",
     sw_sheet_mi300x_192gb_yaml,
     "mi300x-8x8.yaml",
     {"infinity-fabric", "448 GB/s", NULL, "4 us", "nccl-nvlink.yaml"},
     {"roce", "400 Gb/s", NULL, "6 us", "nccl-network.yaml"}},
    {"cpu-core",
     sw_sheet_cpu_core_yaml,
     "playground.yaml",
     {"shared-memory", "4 GB/s", NULL, "2 us", NULL},
     {NULL, NULL, NULL, NULL, NULL}},
    {NULL, NULL, NULL, {NULL, NULL, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}},
};

/* Words of a type's name, or of it and a node's features: all of `has` (ending with NULL) make it
 * this sheet. The first row that fits counts. */
static const struct rule {
    const char *sheet; /* NULL: known, and none is shipped */
    const char *has[3];
    const char *assumed;
} rules[] = {
    {NULL, {"pcie", "a100"}, NULL},
    {"a100-sxm-40gb", {"a100", "40gb"}, NULL},
    {"a100-sxm-40gb", {"a100", "40"}, NULL},
    {"a100-sxm-80gb", {"a100", "80gb"}, NULL},
    {"a100-sxm-80gb", {"a100", "80"}, NULL},
    {"a100-sxm-40gb", {"a100", "hbm40g"}, NULL},
    {"a100-sxm-80gb", {"a100", "hbm80g"}, NULL},
    {"a100-sxm-40gb", {"a100", "40g"}, NULL},
    {"a100-sxm-80gb", {"a100", "80g"}, NULL},
    {"a100-sxm-80gb", {"a100"}, "80 GB (others have 40 GB)"},
    {"b200-sxm-180gb", {"b200"}, NULL},
    {"h100-pcie-80gb", {"h100", "pcie"}, NULL},
    {NULL, {"h100", "nvl"}, NULL},
    {NULL, {"h100", "96gb"}, NULL},
    {NULL, {"h100", "94gb"}, NULL},
    {NULL, {"h100", "64gb"}, NULL},
    {"h100-sxm-80gb", {"h100", "sxm"}, NULL},
    {"h100-sxm-80gb", {"h100", "hbm3"}, NULL},
    {"h100-sxm-80gb", {"h100"}, "SXM (others are PCIe cards)"},
    {NULL, {"h200", "nvl"}, NULL},
    {"h200-sxm-141gb", {"h200"}, NULL},
    {"l40s-48gb", {"l40s"}, NULL},
    {"mi300x-192gb", {"mi300x"}, NULL},
    {NULL, {"gb300"}, NULL},
    {NULL, {"gb200"}, NULL},
    {NULL, {"gh200"}, NULL},
    {NULL, {"b300"}, NULL},
    {NULL, {"l40"}, NULL},
    {NULL, {"a40"}, NULL},
    {NULL, {"a30"}, NULL},
    {NULL, {"v100"}, NULL},
    {NULL, {"p100"}, NULL},
    {NULL, {"t4"}, NULL},
    {NULL, {"mi250x"}, NULL},
    {NULL, {"mi250"}, NULL},
};

/* Whether a word stands in the name, between anything but letters and digits; "sxm" is also the
 * beginning of "sxm4" and "sxm5". */
static bool has_word(const char *name, const char *word)
{
    const size_t length = strlen(word);
    for (const char *p = name; *p != '\0'; p++) {
        if ((p != name && isalnum((unsigned char)p[-1])) || strncasecmp(p, word, length) != 0)
            continue;
        if (!isalnum((unsigned char)p[length]) || strcmp(word, "sxm") == 0)
            return true;
    }
    return false;
}

static bool fits(const struct rule *rule, const char *name)
{
    for (size_t i = 0; i < 3 && rule->has[i] != NULL; i++)
        if (!has_word(name, rule->has[i]))
            return false;
    return true;
}

static const struct sw_sheet *find(const char *name)
{
    for (const struct sw_sheet *s = sheets; name != NULL && s->name != NULL; s++)
        if (strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

bool sw_sheet_is_slice(const char *type)
{
    for (const char *p = type; *p != '\0'; p++)
        if (isdigit((unsigned char)p[0]) && p[1] == 'g' && p[2] == '.')
            return true;
    return false;
}

static const struct rule *find_rule(const char *name)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (fits(&rules[i], name))
            return &rules[i];
    return NULL;
}

struct sw_sheet_match sw_sheet_match(const char *type, const char *features)
{
    char both[1024];
    if (sw_sheet_is_slice(type))
        return (struct sw_sheet_match){.known = type};
    const struct rule *rule = find_rule(type);
    if (rule == NULL || rule->assumed != NULL) {
        snprintf(both, sizeof both, "%.200s,%.800s", type, features != NULL ? features : "");
        const struct rule *told = find_rule(both);
        rule = told != NULL ? told : rule;
    }
    if (rule == NULL)
        return (struct sw_sheet_match){.known = type};
    const struct sw_sheet *sheet = find(rule->sheet);
    return (struct sw_sheet_match){.sheet = sheet,
                                   .assumed = rule->assumed,
                                   .known = sheet != NULL ? sheet->name : rule->has[0]};
}

const char *sw_sheet_curve(const char *file)
{
    static const struct {
        const char *file, *text;
    } curves[] = {{"nccl-network.yaml", sw_curve_nccl_network_yaml},
                  {"nccl-nvlink.yaml", sw_curve_nccl_nvlink_yaml},
                  {"nccl-nvlink-a100.yaml", sw_curve_nccl_nvlink_a100_yaml},
                  {"nccl-nvlink-b200.yaml", sw_curve_nccl_nvlink_b200_yaml},
                  {"nccl-nvlink-h100.yaml", sw_curve_nccl_nvlink_h100_yaml},
                  {"nccl-pcie-l40s.yaml", sw_curve_nccl_pcie_l40s_yaml}};
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++)
        if (strcmp(curves[i].file, file) == 0)
            return curves[i].text;
    return NULL;
}

const struct sw_sheet *sw_sheet_of_core(void)
{
    return find("cpu-core");
}

const struct sw_sheet *sw_sheets(void)
{
    return sheets;
}
