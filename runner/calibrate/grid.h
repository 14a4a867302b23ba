/* Times a grid of sizes: each of its points again and again, a whole pass apart, with operands that
 * lie where no cache of a core holds them. What is timed is the caller's (products.h, attention.h).
 * Owns nothing that lasts. */
#ifndef SW_CALIBRATE_GRID_H
#define SW_CALIBRATE_GRID_H

#include "runner/calibrate/kernels.h"

/* What the op before made, weights of a layer and results move through as much memory as a last
 * cache may hold. What forward kept for backward was last touched a step ago: it moves through
 * more. */
enum {
    SW_GRID_NEAR_BYTES = 16 << 20,
    SW_GRID_FAR_BYTES = 64 << 20,
    SW_GRID_RESULT_BYTES = 32 << 20
};

/* Where the next call's operands or results are. */
struct sw_grid_region {
    char *memory;
    int64_t bytes, at;
};
struct sw_grid_memory {
    struct sw_device *device;
    struct sw_grid_region near, far, results;
    double clock; /* seconds that reading it takes */
};

/* Errors (SW_ENVIRONMENT): memory, the device's; sw_grid_memory_free in either case. */
int sw_grid_memory_make(struct sw_grid_memory *memory, struct sw_device *device,
                        enum sw_dtype dtype, struct sw_error *err);
void sw_grid_memory_free(struct sw_grid_memory *memory);

/* The next [size...] of a region: at its beginning again where it ends. */
struct sw_tensor sw_grid_tensor(struct sw_grid_region *region, enum sw_dtype dtype, uint8_t ndim,
                                const int64_t size[4]);
/* What is taken next, `bytes` in all with SW_ARENA_ALIGNMENT for each piece, lies in one piece of
 * the region: nothing of one call lies on another part of it. bytes <= those of the region. */
void sw_grid_keep_together(struct sw_grid_region *region, int64_t bytes);
/* The next bytes of a region. */
void *sw_grid_take(struct sw_grid_region *region, int64_t bytes);

/* Runs a call once. *seconds: the compute thread at work. Errors: the device's. */
int sw_grid_call(const struct sw_grid_memory *memory, const struct sw_call *call, double *seconds,
                 struct sw_error *err);

/* What is timed. A size is of the grid's rows, columns and depth, as m, n and k. */
struct sw_grid_source {
    void *context;
    /* The grid without shares; of the side that costs, the first `levels` sizes. */
    void (*sizes)(const void *context, int32_t levels, struct sw_products *out);
    double (*flops)(const void *context, const struct sw_product *size);
    int (*run)(void *context, const struct sw_product *size, double *seconds, struct sw_error *err);
    int32_t levels;           /* at most */
    struct sw_product middle; /* whose rate tells how many can be afforded */
};

/* Collective over `world`; every rank gets the sums over all ranks. Takes about `seconds`, with
 * fewer levels where all would take longer, and at least two. Errors: the source's, the
 * collectives'. */
int sw_grid_time(const struct sw_grid_source *source, struct sw_comm *world, double seconds,
                 struct sw_grid_rates *rates, struct sw_error *err);

/* Points of a grid, and one of them, in the order of shares. */
int32_t sw_products_points(const struct sw_products *grid);
struct sw_product sw_products_point(const struct sw_products *grid, int32_t i);
/* How well a grid's points tell others: the median of how far off each point is that has neighbours
 * on a side, were it left out and interpolated between them as prices are (core/cost/products.c),
 * over sides; *count: how many there are. 0: none. */
double sw_grid_left_out(const struct sw_products *grid, int32_t *count);

#endif
