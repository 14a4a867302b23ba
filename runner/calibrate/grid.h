/* Times a grid of sizes: each point repeatedly, a whole pass apart, with operands outside a core's
 * caches. The caller runs the points (products.h, attention.h). Owns nothing lasting. */
#ifndef SW_CALIBRATE_GRID_H
#define SW_CALIBRATE_GRID_H

#include "runner/calibrate/kernels.h"

/* The previous op's output, a layer's weights and results cycle through memory as large as a
 * last-level cache (near); what forward kept for backward was last touched a step ago and cycles
 * through more (far). */
enum {
    SW_GRID_NEAR_BYTES = 16 << 20,
    SW_GRID_FAR_BYTES = 64 << 20,
    SW_GRID_RESULT_BYTES = 32 << 20
};

/* Memory that successive calls' operands or results cycle through. */
struct sw_grid_region {
    char *memory;
    int64_t bytes, at;
};
struct sw_grid_memory {
    struct sw_device *device;
    struct sw_grid_region near, far, results;
    double clock; /* seconds to read it */
};

/* Errors (SW_ENVIRONMENT): memory, the device's; sw_grid_memory_free in either case. */
int sw_grid_memory_make(struct sw_grid_memory *memory, struct sw_device *device,
                        enum sw_dtype dtype, struct sw_error *err);
void sw_grid_memory_free(struct sw_grid_memory *memory);

/* Next [size...] of a region, from its beginning again at the end. */
struct sw_tensor sw_grid_tensor(struct sw_grid_region *region, enum sw_dtype dtype, uint8_t ndim,
                                const int64_t size[4]);
/* Places the next allocations, `bytes` in all (SW_ARENA_ALIGNMENT for each), contiguously, so that
 * no call's operands overlap. bytes <= the region's. */
void sw_grid_keep_together(struct sw_grid_region *region, int64_t bytes);
/* Next bytes of a region. */
void *sw_grid_take(struct sw_grid_region *region, int64_t bytes);

/* Runs a call once. *seconds: busy time of the compute thread. Errors: the device's. */
int sw_grid_call(const struct sw_grid_memory *memory, const struct sw_call *call, double *seconds,
                 struct sw_error *err);

/* A grid to be timed. A size is the grid's row, column and depth, as m, n and k. */
struct sw_grid_source {
    void *context;
    /* Grid without shares; the first `levels` sizes of the expensive side. */
    void (*sizes)(const void *context, int32_t levels, struct sw_products *out);
    double (*flops)(const void *context, const struct sw_product *size);
    int (*run)(void *context, const struct sw_product *size, double *seconds, struct sw_error *err);
    int32_t levels;           /* maximum */
    struct sw_product middle; /* its rate tells how many levels are affordable */
};

/* Collective over `world`; every rank gets the sums over all ranks. Takes about `seconds`, with
 * fewer levels (at least two) if all would take longer. Errors: the source's, the collectives'. */
int sw_grid_time(const struct sw_grid_source *source, struct sw_comm *world, double seconds,
                 struct sw_grid_rates *rates, struct sw_error *err);

/* Number of points in a grid; below, point i, in the order of shares. */
int32_t sw_products_points(const struct sw_products *grid);
struct sw_product sw_products_point(const struct sw_products *grid, int32_t i);
/* Interpolation error of a grid: the median over points and sides of a point's error if it were
 * left out and interpolated between its neighbours, as prices are (core/cost/products.c). *count:
 * number of such errors; 0: none. */
double sw_grid_left_out(const struct sw_products *grid, int32_t *count);

#endif
