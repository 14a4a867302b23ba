/* Each kind of device as known before it runs: needs and limits of its programs, and figures for
 * prices, checks and scripts. One row a kind, whose word is in words.c; runner/rank/accelerator.c
 * has the row that runs it. Owns nothing. */
#ifndef SW_BASE_DEVICE_H
#define SW_BASE_DEVICE_H

#include "core/base/words.h"

#include <stdbool.h>

/* Carriers of messages. */
enum sw_carrier {
    SW_CARRIER_HOST,   /* runner/collective/direct.c over MPI or threads: packs everything */
    SW_CARRIER_QUEUED, /* runner/collective/nccl_calls.c: sends a few large rows unpacked */
    SW_CARRIER_COUNT
};

/* Tiles of a CPU's weights [k, n] in bf16 or 8 bits: panels of SW_TILE_COLUMNS columns, in each the
 * lines in pairs, in each pair the columns' two numbers side by side. k is a multiple of
 * SW_TILE_LINES, n of SW_TILE_COLUMNS, so there is no padding. For bf16 oneDNN's name is
 * BA16a32b2a. */
enum { SW_TILE_LINES = 32, SW_TILE_COLUMNS = 32 };

/* A CPU's products of a few rows: limits up to which they are batch invariant.
 * runner/device/cpu/streamed.c asserts them. */
enum { SW_CPU_INVARIANT_ROWS = 32, SW_CPU_INVARIANT_ELEMS = 1000000 };

/* Device that a program is compiled for. All zero: one without special needs or limits. */
struct sw_program_target {
    bool cudnn_attention;   /* true if attention needs workspace of cuDNN or its stand-in */
    bool cache_ranges;      /* true if attention over a cache makes partial results
                               (core/ir/workspace.h) */
    bool quantized_panels;  /* true if weights in 8 bits are widened in panels (the same header) */
    bool weight_tiles;      /* true if products read weights in tiles (SW_TILE_LINES) */
    bool halos;             /* true if halos replace the ring of a window (ring.h) */
    bool pauses;            /* true if a program may pause between two ops for another one */
    bool lacks_whole_cache; /* true if it lacks attention over a whole cache of gathered keys */
    /* Limits of batch-invariant products: with at most so many rows, and elements of rows and of
     * results, each row has the same bits as with fewer rows; 0: never. In programs of single
     * tokens (always_skinny of their traits) any number of rows, with at most so many elements
     * each */
    int32_t invariant_rows, invariant_elems;
};

enum { SW_USUAL_ATTENTIONS = 3 };

/* Default rates of unmeasured software on a chip: shares of peak of large products and attention,
 * share of the memory's bandwidth, seconds from one kernel's start to the next. */
struct sw_usual_software {
    double matmul;
    struct sw_usual_attention {
        double flops; /* flops of one kernel call, ascending; 0: no further point */
        double share;
    } attention[SW_USUAL_ATTENTIONS];
    double memory, launch_s;
    double own;         /* share of the speed of the chip's own matrix products */
    const char *source; /* source of these, for people */
    double band_low, band_high;
    /* Parameters below which a model has this band; 0: one band for all models */
    double small_parameters, small_low, small_high;
    const char *small_source; /* reason, for people */
};

/* Upper limits of shares, by measured kernels: of the peak, products (if the chip's file has none)
 * and attention; of the memory's bandwidth. */
struct sw_share_ceilings {
    double matmul, attention, memory;
};

/* Constants of prices that no description has. */
struct sw_device_prices {
    double contention; /* slowdown of compute beside a collective: 0.19 is 19 % */
    double message_s;  /* seconds of each message of a call but the first, for any length */
    /* Speed of attention over a cache of bf16 or int8 with queries of bf16, as a share of
     * training's attention on tensor cores; fp32 does not use these. 0: a cache is read like other
     * memory */
    double cache_share;
    /* Devices filled by tiles: speed of tiles of 128 x 128 and of 64 x 64 results, relative to 256
     * x 128: smaller tiles reuse operands less */
    double middle_tile, small_tile;
    /* Depth of products at which a tile reaches half of its speed, as its pipeline is filled and
     * drained; head size at which attention does; and the block of queries crossed by the causal
     * diagonal, half of whose work is wasted */
    double half_depth, half_head, diagonal_block;
};

struct sw_device_row {
    struct sw_program_target target;
    /* prices */
    struct sw_device_prices prices;
    bool tiled;            /* true if products fill it by tiles: their shape decides the share */
    bool adds_apart;       /* true if an addend costs a pass of its own, not one inside the
                              product */
    bool copies;           /* true if its cores carry messages inside a node, so that compute
                              waits */
    double host_bandwidth; /* bytes/s of copies to the host; 0: it uses the host's memory */
    enum sw_carrier transport;               /* carrier of its collectives */
    struct sw_usual_software usual, serving; /* serving.matmul 0: as `usual` */
    struct sw_share_ceilings ceilings;
    /* Source of `serving` if some of the chip's own kernels were not measured. The band is that of
     * `usual` */
    const char *serving_elsewhere;
    /* Bytes/s of a link in a node above which servers sum in two steps (every GPU reads all others'
     * memory over it) instead of in rings */
    double direct_bandwidth;
    /* jobs */
    bool allocated;             /* true if schedulers assign them by number */
    const char *container_flag; /* option that gives apptainer's containers access; NULL: none */
    bool untried;               /* true if never run on such hardware: emitting and submitting
                                   say so */
};

/* Never NULL. */
const struct sw_device_row *sw_device_row(enum sw_device_kind kind);

#endif
