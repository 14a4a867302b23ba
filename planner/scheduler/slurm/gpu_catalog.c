#include "planner/scheduler/slurm/gpu_catalog.h"

#include <stddef.h>
#include <string.h>

#define NVLINK(gbps, launch, latency, curve)                                                       \
    {                                                                                              \
        "nvlink", gbps, launch, latency, curve                                                     \
    }
#define PORT(gbps)                                                                                 \
    {                                                                                              \
        "infiniband", gbps, NULL, "6 us", "nccl-network.yaml"                                      \
    }

/* Links of the named files of configs/clusters, which have the sources; a test compares. */
static const struct sw_catalog_entry entries[] = {
    {"a100-sxm-40gb", sw_sheet_a100_sxm_40gb_yaml, "dgx-a100-40gb-16x8.yaml",
     NVLINK("300 GB/s", "8 us", "0.95 us", "nccl-nvlink-a100.yaml"), PORT("200 Gb/s")},
    {"a100-sxm-80gb", sw_sheet_a100_sxm_80gb_yaml, "dgx-a100-16x8.yaml",
     NVLINK("300 GB/s", "8 us", "0.95 us", "nccl-nvlink-a100.yaml"), PORT("200 Gb/s")},
    {"a40-48gb",
     sw_sheet_a40_48gb_yaml,
     "a40-pcie-8x4.yaml",
     {"pcie", "32 GB/s", "3.74 us", "1.37 us", "nccl-pcie-l40s.yaml"},
     {NULL, NULL, NULL, NULL, NULL}},
    {"b200-sxm-180gb", sw_sheet_b200_sxm_180gb_yaml, "dgx-b200-8x8.yaml",
     NVLINK("900 GB/s", "6.6 us", "1.3 us", "nccl-nvlink-b200.yaml"), PORT("400 Gb/s")},
    {"b300-sxm-270gb", sw_sheet_b300_sxm_270gb_yaml, "dgx-b300-8x8.yaml",
     NVLINK("900 GB/s", "6.6 us", "1.3 us", "nccl-nvlink-b200.yaml"), PORT("800 Gb/s")},
    {"gh200-96gb",
     sw_sheet_gh200_96gb_yaml,
     "gh200-16x4.yaml",
     NVLINK("450 GB/s", "4.5 us", "0.81 us", "nccl-nvlink-h100.yaml"),
     {"slingshot", "200 Gb/s", NULL, "6 us", "nccl-network.yaml"}},
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
    {"mi250x-64gb",
     sw_sheet_mi250x_64gb_yaml,
     "mi250x-16x8.yaml",
     {"infinity-fabric", "50 GB/s", NULL, "4 us", "nccl-nvlink.yaml"},
     {"slingshot", "100 Gb/s", NULL, "6 us", "nccl-network.yaml"}},
    {"mi355x-288gb",
     sw_sheet_mi355x_288gb_yaml,
     "mi355x-8x8.yaml",
     {"infinity-fabric", "535.5 GB/s", NULL, "4 us", "nccl-nvlink.yaml"},
     {"roce", "400 Gb/s", NULL, "6 us", "nccl-network.yaml"}},
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

const struct sw_catalog_entry *sw_catalog_find(const char *name)
{
    for (const struct sw_catalog_entry *s = entries; name != NULL && s->name != NULL; s++)
        if (strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

const char *sw_catalog_curve(const char *file)
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

const struct sw_catalog_entry *sw_catalog_core(void)
{
    return sw_catalog_find("cpu-core");
}

const struct sw_catalog_entry *sw_catalog(void)
{
    return entries;
}
