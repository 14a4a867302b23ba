/* Data sheets of GPUs, by the names their driver gives. The figures equal those of
 * configs/accelerators, which names their sources; a test compares them. Owns nothing. */
#ifndef SW_DATA_SHEETS_H
#define SW_DATA_SHEETS_H

struct sw_data_sheet {
    const char *name;        /* "NVIDIA H200" */
    const char *config;      /* file in configs/accelerators with the sources */
    double bf16_flops;       /* FLOP/s, dense */
    double memory_bandwidth; /* bytes/s */
};

/* NULL: not known. Compares whole names: "NVIDIA H100 PCIe" is no other H100. */
const struct sw_data_sheet *sw_data_sheet_find(const char *name);

#endif
