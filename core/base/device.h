/* What is known of each kind of device before it runs: what programs for it need and lack, what
 * prices, checks and scripts ask. One row a kind, whose word is in words.c; the running half of a
 * kind is its row in runner/rank/accelerator.c. Owns nothing. */
#ifndef SW_BASE_DEVICE_H
#define SW_BASE_DEVICE_H

#include "core/base/words.h"

#include <stdbool.h>

/* Who carries messages. */
enum sw_carrier {
    SW_CARRIER_HOST,   /* runner/collective/direct.c over MPI or threads: everything is packed */
    SW_CARRIER_QUEUED, /* runner/collective/nccl_calls.c: few, large rows go as they are */
    SW_CARRIER_COUNT
};

/* How a CPU's weights [k, n] of bf16 or 8 bits lie in tiles: panels of SW_TILE_COLUMNS columns, of
 * each its lines in pairs, of each pair the columns' two numbers side by side. k is a multiple of
 * SW_TILE_LINES, n of SW_TILE_COLUMNS, so that nothing is filled up. Of bf16 oneDNN calls it
 * BA16a32b2a. */
enum { SW_TILE_LINES = 32, SW_TILE_COLUMNS = 32 };

/* A CPU's products of a few rows: limits up to which they are batch invariant.
 * runner/device/cpu/streamed.c asserts them. */
enum { SW_CPU_INVARIANT_ROWS = 32, SW_CPU_INVARIANT_ELEMS = 1000000 };

/* What a program is compiled for. All zero: a device that needs and lacks nothing. */
struct sw_program_target {
    bool cudnn_attention;  /* attention also works in what cuDNN or its stand-in asks for, and */
    bool cache_ranges;     /* over a cache in partial results (core/ir/workspace.h) */
    bool quantized_panels; /* weights of 8 bits are widened in panels, too (the same header) */
    bool weight_tiles;     /* products read weights that lie in tiles (SW_TILE_LINES) */
    bool halos;  /* attention takes what a window reaches of other parts without a ring (ring.h) */
    bool pauses; /* a program may pause between two ops for another one */
    bool lacks_whole_cache; /* it has no attention over a whole cache, of keys that are gathered */
    /* Products of a program with so many rows at most, and so many elements of rows and of results,
     * make each row as those with fewer do, to the bit; 0: it goes by their number. Of programs of
     * single tokens (always_skinny of their traits) any number of rows, with so many elements each
     */
    int32_t invariant_rows, invariant_elems;
};

enum { SW_USUAL_ATTENTIONS = 3 };

/* Software that nobody measured on a chip: shares of peak of large products and attention, share of
 * the memory's bandwidth, seconds from one kernel's start to the next. */
struct sw_usual_software {
    double matmul;
    struct sw_usual_attention {
        double flops; /* of one kernel call, ascending; 0: there is no further point */
        double share;
    } attention[SW_USUAL_ATTENTIONS];
    double memory, launch_s;
    double own;         /* of what the chip's own matrix products reach */
    const char *source; /* what these rest on, for people */
    double band_low, band_high;
    /* Parameters below which the band is this one; 0: the same band for all models */
    double small_parameters, small_low, small_high;
    const char *small_source; /* why, for people */
};

/* Shares above which no kernel was measured: of the peak, products (where the chip's file tells
 * nothing) and attention; of the memory's bandwidth. */
struct sw_share_ceilings {
    double matmul, attention, memory;
};

/* Constants of prices that no description tells. */
struct sw_device_prices {
    double contention; /* how much slower compute is beside a collective: 0.19 is 19 % */
    double message_s;  /* of each message of a call but the first, whatever its length */
    /* Of what training's attention reaches on tensor cores, that over a cache of bf16 or int8 by
     * queries of bf16 does; in fp32 it does without them. 0: a cache is as anything else */
    double cache_share;
    /* Of a device that is filled tile by tile: the speed of tiles of results of 128 x 128 and of 64
     * x 64, of that of 256 x 128: smaller ones reuse their operands less */
    double middle_tile, small_tile;
    /* Products summed until a tile's pipeline is filled and drained: the depth where half of the
     * speed is reached. Of attention the head size where half of it is, and the block of queries
     * that the causal diagonal crosses, half of it in vain */
    double half_depth, half_head, diagonal_block;
};

struct sw_device_row {
    struct sw_program_target target;
    /* prices */
    struct sw_device_prices prices;
    bool tiled;            /* products fill it tile by tile: their shape decides the share */
    bool adds_apart;       /* an addend costs a pass of its own, not one inside the product */
    bool copies;           /* its cores carry messages inside a node: compute beside them waits */
    double host_bandwidth; /* bytes/s of copies to the host; 0: its memory is the host's */
    enum sw_carrier transport;               /* of its collectives */
    struct sw_usual_software usual, serving; /* serving.matmul 0: as `usual` */
    struct sw_share_ceilings ceilings;
    /* Of `serving` where not all of the chip's own kernels were measured: what it rests on then.
     * The band is that of `usual` */
    const char *serving_elsewhere;
    /* Bytes/s of a link in a node above which servers sum in two steps (every GPU reads every
     * other's memory over it) instead of a ring's */
    double direct_bandwidth;
    /* jobs */
    bool allocated;             /* schedulers hand them out by number */
    const char *container_flag; /* that lets apptainer's containers see it; NULL: none */
    bool untried;               /* never run on such hardware: whoever emits or submits is told */
};

/* Never NULL. */
const struct sw_device_row *sw_device_row(enum sw_device_kind kind);

#endif
