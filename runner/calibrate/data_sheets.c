#include "runner/calibrate/data_sheets.h"

#include <stddef.h>
#include <string.h>

static const struct sw_data_sheet sheets[] = {
    {"NVIDIA A100-SXM4-40GB", "a100-sxm-40gb.yaml", 312e12, 1.555e12},
    {"NVIDIA A100-SXM4-80GB", "a100-sxm-80gb.yaml", 312e12, 2.039e12},
    {"NVIDIA H100 PCIe", "h100-pcie-80gb.yaml", 756e12, 2.0e12},
    {"NVIDIA H100 80GB HBM3", "h100-sxm-80gb.yaml", 989e12, 3.35e12},
    {"NVIDIA H200", "h200-sxm-141gb.yaml", 989e12, 4.8e12},
    {"NVIDIA B200", "b200-sxm-180gb.yaml", 2250e12, 8e12},
    {"NVIDIA L40S", "l40s-48gb.yaml", 362e12, 864e9},
};

const struct sw_data_sheet *sw_data_sheet_find(const char *name)
{
    for (size_t i = 0; i < sizeof sheets / sizeof sheets[0]; i++)
        if (strcmp(sheets[i].name, name) == 0)
            return &sheets[i];
    return NULL;
}
