/* Facts about a node before a run: memory, disk, GPUs. Needs neither a GPU nor its tools; what
 * cannot be found is unknown. */
#ifndef SW_PREFLIGHT_FACTS_H
#define SW_PREFLIGHT_FACTS_H

#include <stdint.h>

struct sw_node_facts {
    int64_t memory_bytes;     /* free on the host; -1: unknown */
    int64_t disk_bytes;       /* free for the run's folder; -1: unknown, 0: not writable */
    int32_t gpus;             /* listed by nvidia-smi; -1: no nvidia-smi */
    int64_t gpu_memory_bytes; /* least free memory of a GPU; -1: unknown */
    double gpu_clock_hz;      /* the slowest GPU's maximum; 0: unknown */
    char driver[32];          /* "": unknown */
};

/* folder: the run's output. Takes at most a few seconds. */
void sw_node_facts_find(const char *folder, struct sw_node_facts *out);

/* text: nvidia-smi's csv without units, a line "memory.free [MiB], clocks.max.sm [MHz],
 * driver_version" per GPU. */
void sw_node_facts_parse(const char *text, struct sw_node_facts *out);

#endif
