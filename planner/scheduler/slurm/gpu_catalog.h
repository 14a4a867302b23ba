/* The accelerator of a gres type, with its data sheet (a file of configs/accelerators, built in),
 * and the usual links of machines with it. */
#ifndef SW_SLURM_GPU_CATALOG_H
#define SW_SLURM_GPU_CATALOG_H

#include <stdbool.h>

/* Texts of the files. */
extern const char sw_sheet_a100_sxm_40gb_yaml[], sw_sheet_a100_sxm_80gb_yaml[],
    sw_sheet_a40_48gb_yaml[], sw_sheet_b200_sxm_180gb_yaml[], sw_sheet_b300_sxm_270gb_yaml[],
    sw_sheet_mi355x_288gb_yaml[], sw_sheet_gh200_96gb_yaml[], sw_sheet_mi250x_64gb_yaml[],
    sw_sheet_cpu_core_yaml[], sw_sheet_h100_pcie_80gb_yaml[], sw_sheet_h100_sxm_80gb_yaml[],
    sw_sheet_h200_sxm_141gb_yaml[], sw_sheet_l40s_48gb_yaml[], sw_sheet_mi300x_192gb_yaml[];

/* Files of configs/curves. */
extern const char sw_curve_nccl_network_yaml[], sw_curve_nccl_nvlink_yaml[],
    sw_curve_nccl_nvlink_a100_yaml[], sw_curve_nccl_nvlink_b200_yaml[],
    sw_curve_nccl_nvlink_h100_yaml[], sw_curve_nccl_pcie_l40s_yaml[];
/* The text of such a file by its name; NULL: not built in. */
const char *sw_catalog_curve(const char *file);

/* Texts as in a cluster file, so that nothing is rounded. */
struct sw_catalog_link {
    const char *name; /* NULL: unknown */
    const char *bandwidth;
    const char *launch; /* NULL: not given */
    const char *latency;
    const char *curve; /* file of configs/curves; NULL: not measured */
};

struct sw_catalog_entry {
    const char *name;                       /* accelerator's name: "h100-sxm-80gb" */
    const char *text;                       /* its file */
    const char *cluster;                    /* file of configs/clusters with the same links */
    struct sw_catalog_link inside, network; /* inside a node, between nodes */
};

enum { SW_CATALOG_KNOWN = 96 };

/* Accelerator for a gres type as administrators write it or nvml reports it ("h100", "h100-47",
 * "nvidia_a100-sxm4-80gb", "H100_PCIe"), with the features of its nodes (list, may be NULL) where
 * the type is ambiguous. */
struct sw_catalog_match {
    const struct sw_catalog_entry *sheet; /* NULL: none shipped */
    const char *assumed; /* property that is assumed, for people ("SXM", "80 GB"); NULL: none */
    const char *near;    /* file of configs/accelerators that may fit, "NAME"; NULL: none */
    char known[SW_CATALOG_KNOWN]; /* equal texts for equal accelerators */
};
struct sw_catalog_match sw_catalog_match(const char *type, const char *features);
/* True if the type is a slice of an accelerator (MIG: "1g.10gb", "a100_10g", "h100-47"). */
bool sw_catalog_is_slice(const char *type);
/* The sheet of that name; NULL: not shipped. */
const struct sw_catalog_entry *sw_catalog_find(const char *name);
/* One processor core. */
const struct sw_catalog_entry *sw_catalog_core(void);
/* All entries, ending with one without a name. */
const struct sw_catalog_entry *sw_catalog(void);

#endif
