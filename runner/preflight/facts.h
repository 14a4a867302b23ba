/* What a node says of itself before a run: memory, disk, GPUs. Nothing here needs a GPU or its
 * tools; what cannot be found out is left as unknown. */
#ifndef SW_PREFLIGHT_FACTS_H
#define SW_PREFLIGHT_FACTS_H

#include <stdint.h>

struct sw_node_facts {
    int64_t memory_bytes; /* that is free on the host; -1: unknown */
    int64_t disk_bytes;   /* that may be written to the run's folder; -1: unknown, 0: it cannot */
    int32_t gpus;         /* that nvidia-smi lists; -1: there is no nvidia-smi */
    int64_t gpu_memory_bytes; /* free on the GPU with the least; -1: unknown */
    double gpu_clock_hz;      /* the most that the slowest GPU may run at; 0: unknown */
    char driver[32];          /* "": unknown */
};

/* folder: where the run writes. Takes at most a few seconds. */
void sw_node_facts_find(const char *folder, struct sw_node_facts *out);

/* A line of "memory.free [MiB], clocks.max.sm [MHz], driver_version" a GPU, as nvidia-smi's csv
 * without units has it. */
void sw_node_facts_parse(const char *text, struct sw_node_facts *out);

#endif
