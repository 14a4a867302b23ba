#include "runner/calibrate/grid.h"

#include "core/base/clock.h"
#include "core/base/number.h"
#include "runner/calibrate/fill.h"
#include "runner/calibrate/links.h"
#include "runner/calibrate/timer.h"
#include "runner/collective/comm.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PASSES = 15, MIN_PASSES = 3 };

/* ---- Memory ---- */

static int make_region(struct sw_device *device, struct sw_grid_region *region, int64_t bytes,
                       enum sw_dtype dtype, struct sw_error *err)
{
    *region = (struct sw_grid_region){device->vtable->allocate(device, (size_t)bytes), bytes, 0};
    if (region->memory == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for products to be timed");
    return sw_calibrate_fill(device, region->memory, bytes, dtype, err);
}

int sw_grid_memory_make(struct sw_grid_memory *memory, struct sw_device *device,
                        enum sw_dtype dtype, struct sw_error *err)
{
    *memory = (struct sw_grid_memory){.device = device, .clock = sw_timer_clock()};
    return make_region(device, &memory->near, SW_GRID_NEAR_BYTES, dtype, err) != 0 ||
                   make_region(device, &memory->far, SW_GRID_FAR_BYTES, dtype, err) != 0 ||
                   make_region(device, &memory->results, SW_GRID_RESULT_BYTES, SW_F32, err) != 0
               ? -1
               : 0;
}

void sw_grid_memory_free(struct sw_grid_memory *memory)
{
    struct sw_grid_region *const regions[] = {&memory->near, &memory->far, &memory->results};
    for (size_t i = 0; i < sizeof regions / sizeof *regions; i++)
        if (regions[i]->memory != NULL)
            memory->device->vtable->release(memory->device, regions[i]->memory);
}

void sw_grid_keep_together(struct sw_grid_region *region, int64_t bytes)
{
    assert(bytes <= region->bytes);
    if (region->at + bytes > region->bytes)
        region->at = 0;
}

void *sw_grid_take(struct sw_grid_region *region, int64_t bytes)
{
    bytes = sw_align(bytes, SW_ARENA_ALIGNMENT);
    if (region->at + bytes > region->bytes)
        region->at = 0;
    void *here = region->memory + region->at;
    region->at += bytes;
    return here;
}

struct sw_tensor sw_grid_tensor(struct sw_grid_region *region, enum sw_dtype dtype, uint8_t ndim,
                                const int64_t size[4])
{
    struct sw_tensor t = {.dtype = dtype, .ndim = ndim, .elems = 1};
    for (uint8_t d = 0; d < ndim; d++) {
        t.size[d] = t.global[d] = size[d];
        t.elems *= size[d];
    }
    t.data = sw_grid_take(region, t.elems * (int64_t)sw_dtype_bytes(dtype));
    return t;
}

int sw_grid_call(const struct sw_grid_memory *memory, const struct sw_call *call, double *seconds,
                 struct sw_error *err)
{
    struct sw_device *device = memory->device;
    const double begin = sw_clock_busy();
    if (device->vtable->run[call->op->kind](device, call, err) != 0 ||
        device->vtable->synchronize(device, err) != 0)
        return -1;
    const double took = sw_clock_busy() - begin - memory->clock;
    *seconds = took > 0 ? took : 0;
    return 0;
}

/* ---- Points ---- */

struct sw_product sw_products_point(const struct sw_products *grid, int32_t i)
{
    return (struct sw_product){.m = grid->row[i / (grid->columns * grid->depths)],
                               .n = grid->column[i / grid->depths % grid->columns],
                               .k = grid->depth[i % grid->depths]};
}

int32_t sw_products_points(const struct sw_products *grid)
{
    return grid->rows * grid->columns * grid->depths;
}

/* Error of the point interpolated between its neighbours on a side of `size`, `stride` points
 * apart. */
static double left_out(const double *share, const double *size, int32_t stride)
{
    const double way = log(size[0] / size[-1]) / log(size[1] / size[-1]);
    return fabs(((1 - way) * share[-stride] + way * share[stride]) / share[0] - 1);
}

double sw_grid_left_out(const struct sw_products *grid, int32_t *count)
{
    double errors[3 * SW_GRID_POINTS];
    const int32_t points = sw_products_points(grid);
    const struct {
        const double *size;
        int32_t count, stride;
    } sides[3] = {{grid->row, grid->rows, grid->columns * grid->depths},
                  {grid->column, grid->columns, grid->depths},
                  {grid->depth, grid->depths, 1}};
    *count = 0;
    for (int32_t i = 0; i < points && points <= SW_GRID_POINTS; i++)
        for (int32_t s = 0; s < 3; s++) {
            const int32_t at = i / sides[s].stride % sides[s].count;
            if (at > 0 && at < sides[s].count - 1)
                errors[(*count)++] = left_out(&grid->share[i], &sides[s].size[at], sides[s].stride);
        }
    qsort(errors, (size_t)*count, sizeof *errors, sw_compare_doubles);
    return *count > 0 ? errors[*count / 2] : 0;
}

static double flops_of(const struct sw_grid_source *source, const struct sw_products *grid)
{
    double sum = 0;
    for (int32_t i = 0; i < sw_products_points(grid); i++) {
        const struct sw_product s = sw_products_point(grid, i);
        sum += source->flops(source->context, &s);
    }
    return sum;
}

/* Chooses the affordable number of levels from the middle size's rate. */
static int find_levels(const struct sw_grid_source *source, struct sw_comm *world, double seconds,
                       int32_t *levels, struct sw_error *err)
{
    struct sw_products grid;
    double took = 0;
    for (int32_t i = 0; i < 2; i++) /* the first creates the kernel */
        if (source->run(source->context, &source->middle, &took, err) != 0)
            return -1;
    double rate =
        source->flops(source->context, &source->middle) / (took > 1e-9 ? took : 1e-9) / world->size;
    if (sw_calibrate_sum(world, &rate, 1, err) != 0)
        return -1;
    *levels = source->levels;
    source->sizes(source->context, *levels, &grid);
    while (*levels > 2 && flops_of(source, &grid) * (1 + MIN_PASSES) / rate > seconds)
        source->sizes(source->context, --*levels, &grid);
    return 0;
}

/* Runs every point once. */
static int pass(const struct sw_grid_source *source, const struct sw_products *grid,
                double *samples, struct sw_error *err)
{
    for (int32_t i = 0; i < sw_products_points(grid); i++) {
        const struct sw_product s = sw_products_point(grid, i);
        if (source->run(source->context, &s, &samples[(size_t)i * MAX_PASSES], err) != 0)
            return -1;
    }
    return 0;
}

/* A point's samples lie a whole pass apart: a short disturbance affects one, and the median ignores
 * it. */
int sw_grid_time(const struct sw_grid_source *source, struct sw_comm *world, double seconds,
                 struct sw_grid_rates *rates, struct sw_error *err)
{
    double samples[SW_GRID_POINTS * MAX_PASSES];
    struct sw_products grid;
    int32_t levels, passes = 0;
    memset(rates, 0, sizeof *rates);
    if (find_levels(source, world, seconds, &levels, err) != 0)
        return -1;
    source->sizes(source->context, levels, &grid);
    if (pass(source, &grid, samples, err) != 0 || /* creates the kernels */
        (world->size > 1 && world->vtable->barrier(world, err) != 0))
        return -1;
    const double wall = sw_clock_now(), busy = sw_clock_busy();
    while (passes < MAX_PASSES && (passes < MIN_PASSES || sw_clock_now() - wall < seconds))
        if (pass(source, &grid, samples + passes++, err) != 0)
            return -1;
    rates->wall_seconds = sw_clock_now() - wall;
    rates->busy_seconds = sw_clock_busy() - busy;
    rates->levels = levels;
    for (int32_t i = 0; i < sw_products_points(&grid); i++) {
        double *of_point = samples + (size_t)i * MAX_PASSES;
        qsort(of_point, (size_t)passes, sizeof *of_point, sw_compare_doubles);
        rates->seconds[i] = of_point[passes / 2];
        rates->missed += rates->seconds[i] > 0 ? 0 : 1;
    }
    return sw_calibrate_sum(world, (double *)rates, sizeof *rates / sizeof(double), err);
}
