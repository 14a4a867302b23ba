/* Which accelerator a gres type means, its data sheet (a file of configs/accelerators, built in),
 * and the links that machines with it usually have. */
#ifndef SW_SLURM_GPU_CATALOG_H
#define SW_SLURM_GPU_CATALOG_H

#include <stdbool.h>

/* The files themselves, each a text. */
extern const char sw_sheet_a100_sxm_40gb_yaml[], sw_sheet_a100_sxm_80gb_yaml[],
    sw_sheet_a40_48gb_yaml[], sw_sheet_b200_sxm_180gb_yaml[], sw_sheet_b300_sxm_270gb_yaml[],
    sw_sheet_mi355x_288gb_yaml[], sw_sheet_gh200_96gb_yaml[], sw_sheet_mi250x_64gb_yaml[],
    sw_sheet_cpu_core_yaml[], sw_sheet_h100_pcie_80gb_yaml[], sw_sheet_h100_sxm_80gb_yaml[],
    sw_sheet_h200_sxm_141gb_yaml[], sw_sheet_l40s_48gb_yaml[], sw_sheet_mi300x_192gb_yaml[];

/* Of configs/curves. */
extern const char sw_curve_nccl_network_yaml[], sw_curve_nccl_nvlink_yaml[],
    sw_curve_nccl_nvlink_a100_yaml[], sw_curve_nccl_nvlink_b200_yaml[],
    sw_curve_nccl_nvlink_h100_yaml[], sw_curve_nccl_pcie_l40s_yaml[];
/* The text of such a file by its name; NULL: none is built in. */
const char *sw_catalog_curve(const char *file);

/* As a cluster file says it, so that nothing is rounded. */
struct sw_catalog_link {
    const char *name; /* NULL: not known */
    const char *bandwidth;
    const char *launch; /* NULL: none is said */
    const char *latency;
    const char *curve; /* file of configs/curves; NULL: none was measured */
};

struct sw_catalog_entry {
    const char *name;    /* of the accelerator: "h100-sxm-80gb" */
    const char *text;    /* its file */
    const char *cluster; /* file of configs/clusters that the links are those of */
    struct sw_catalog_link inside, network; /* of a node, between nodes */
};

enum { SW_CATALOG_KNOWN = 96 };

/* Meaning of a gres type as administrators write them or nvml reports them ("h100", "h100-47",
 * "nvidia_a100-sxm4-80gb", "H100_PCIe"), with the features of its nodes (list, may be NULL) where
 * the type leaves something open. */
struct sw_catalog_match {
    const struct sw_catalog_entry *sheet; /* NULL: none that is shipped */
    const char *assumed; /* what nothing says, for people ("SXM", "80 GB"); NULL: all is said */
    const char *near;    /* file of configs/accelerators that may be it, "NAME"; NULL: none */
    char known[SW_CATALOG_KNOWN]; /* the same text for the same accelerators */
};
struct sw_catalog_match sw_catalog_match(const char *type, const char *features);
/* True if the type is a slice of an accelerator (MIG: "1g.10gb", "a100_10g", "h100-47"). */
bool sw_catalog_is_slice(const char *type);
/* The sheet of that name; NULL: none is shipped. */
const struct sw_catalog_entry *sw_catalog_find(const char *name);
/* One processor core. */
const struct sw_catalog_entry *sw_catalog_core(void);
/* All of them, ending with one without a name. */
const struct sw_catalog_entry *sw_catalog(void);

#endif
