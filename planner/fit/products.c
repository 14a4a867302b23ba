/* Builds the grid of a chip's matrix products from a table of measured ones. */
#include "planner/fit/grid.h"
#include "planner/fit/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Number of sizes on each side: more hardly help the sizes between. */
enum { ROWS = 9, SIDES = 4 };

/* ---- Reading ---- */

bool sw_fit_has_products(const char *path)
{
    return sw_fit_has_column(path, "m") && sw_fit_has_column(path, "n") &&
           sw_fit_has_column(path, "k") && sw_fit_has_column(path, "latency_us");
}

static int add(struct sw_fit_products *all, const struct sw_fit_product *point,
               struct sw_error *err)
{
    void *room = sw_fit_room(all->point, all->count, &all->capacity, sizeof *all->point, err);
    if (room == NULL)
        return -1;
    all->point = room;
    all->point[all->count++] = *point;
    return 0;
}

static int read_product(const struct sw_fit_table *t, struct sw_fit_product *p,
                        struct sw_error *err)
{
    double micros;
    if (sw_fit_number(t, "m", &p->size.m, err) != 0 ||
        sw_fit_number(t, "n", &p->size.n, err) != 0 ||
        sw_fit_number(t, "k", &p->size.k, err) != 0 ||
        sw_fit_number(t, "latency_us", &micros, err) != 0)
        return -1;
    p->seconds = micros * 1e-6;
    p->place = sw_fit_place(t, "latency_us");
    snprintf(p->accelerator, sizeof p->accelerator, "%s", sw_fit_cell(t, "accelerator"));
    if (p->size.m >= 1 && p->size.n >= 1 && p->size.k >= 1 && p->seconds > 0 &&
        p->size.m * p->size.n * p->size.k < 1e30)
        return 0;
    return sw_fit_fail_row(t, err,
                           "a product needs m, n and k of at least 1 and a latency_us above 0");
}

int sw_fit_read_products(struct sw_fit_products *all, const char *path, struct sw_error *err)
{
    const int32_t before = all->count;
    struct sw_fit_table *t = sw_fit_table_open(path, err);
    int read = -1;
    while (t != NULL && (read = sw_fit_table_next(t, err)) > 0) {
        struct sw_fit_product p = {.seconds = 0};
        if (read_product(t, &p, err) != 0 || add(all, &p, err) != 0)
            break;
    }
    if (read == 0 && all->count == before)
        read = sw_fit_no_rows(t, err);
    sw_fit_table_close(t);
    return read == 0 ? 0 : -1;
}

void sw_fit_products_free(struct sw_fit_products *all)
{
    free(all->point);
    *all = (struct sw_fit_products){.count = 0};
}

/* ---- The grid ---- */

static bool is_of(const struct sw_fit_product *p, const struct sw_accelerator_config *chip)
{
    return p->accelerator[0] == '\0' || strcmp(p->accelerator, chip->name) == 0;
}

/* Share of the least time that peak and bandwidth allow (struct sw_products). */
static double share_of(const struct sw_fit_product *p, const struct sw_accelerator_config *chip)
{
    const struct sw_product *s = &p->size;
    const double computing = 2 * s->m * s->n * s->k / chip->peak_bf16_flops;
    const double moving = 2 * (s->m * s->k + s->k * s->n + s->m * s->n) / chip->memory_bandwidth;
    return (computing > moving ? computing : moving) / p->seconds;
}

/* Sets the grid's points from the table, the better of two alike; true if every one is set. */
static bool fill(const struct sw_accelerator_config *chip, const struct sw_fit_products *all,
                 struct sw_products *grid)
{
    const int32_t count = grid->rows * grid->columns * grid->depths;
    memset(grid->share, 0, sizeof grid->share);
    for (int32_t i = 0; i < all->count; i++) {
        const struct sw_fit_product *p = &all->point[i];
        const int32_t r = sw_fit_side_index(grid->row, grid->rows, p->size.m),
                      n = sw_fit_side_index(grid->column, grid->columns, p->size.n),
                      k = sw_fit_side_index(grid->depth, grid->depths, p->size.k);
        if (!is_of(p, chip) || r < 0 || n < 0 || k < 0)
            continue;
        double *share = &grid->share[(r * grid->columns + n) * grid->depths + k];
        const double here = share_of(p, chip);
        *share = here > *share ? (here < 1 ? here : 1) : *share;
    }
    for (int32_t i = 0; i < count; i++)
        if (grid->share[i] == 0)
            return false;
    return grid->rows > 1 && grid->columns > 1 && grid->depths > 1;
}

int sw_fit_products_errors(const struct sw_accelerator_config *chip,
                           const struct sw_fit_products *all, const struct sw_products *grid,
                           struct sw_fit_summary *out, struct sw_error *err)
{
    double *errors = malloc(((size_t)all->count + 1) * sizeof *errors);
    *out = (struct sw_fit_summary){.count = 0};
    if (errors == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while summing up");
    for (int32_t i = 0; i < all->count; i++) {
        const struct sw_fit_product *p = &all->point[i];
        const struct sw_product *s = &p->size;
        if (!is_of(p, chip) || (sw_fit_side_index(grid->row, grid->rows, s->m) >= 0 &&
                                sw_fit_side_index(grid->column, grid->columns, s->n) >= 0 &&
                                sw_fit_side_index(grid->depth, grid->depths, s->k) >= 0))
            continue;
        errors[out->count++] =
            share_of(p, chip) / sw_cost_products_share(grid, s->m, s->n, s->k) - 1;
    }
    sw_fit_errors_sum(errors, out->count, out);
    free(errors);
    return 0;
}

int sw_fit_products(const struct sw_accelerator_config *chip, const struct sw_fit_products *all,
                    struct sw_products *out, struct sw_error *err)
{
    bool any = false;
    *out = (struct sw_products){.rows = 0};
    for (int32_t i = 0; i < all->count; i++) {
        const struct sw_product *s = &all->point[i].size;
        if (!is_of(&all->point[i], chip))
            continue;
        any = true;
        const double least = 2 * s->m * s->n * s->k / chip->peak_bf16_flops;
        if (least > all->point[i].seconds)
            return sw_fail_at(err, SW_BAD_INPUT, all->point[i].place,
                              "a product of %g x %g x %g takes %.4g us at the peak of %s and not "
                              "less; give microseconds of one, and check the accelerator's peak",
                              s->m, s->k, s->n, least * 1e6, chip->name);
        if (!sw_fit_side_insert(out->row, &out->rows, SW_MAX_PRODUCT_ROWS, s->m) ||
            !sw_fit_side_insert(out->column, &out->columns, SW_MAX_PRODUCT_SIDES, s->n) ||
            !sw_fit_side_insert(out->depth, &out->depths, SW_MAX_PRODUCT_SIDES, s->k))
            return sw_fail_at(
                err, SW_BAD_INPUT, all->point[i].place,
                "more sizes of products than the %d rows, %d columns and %d depths that "
                "a grid has; leave some out",
                SW_MAX_PRODUCT_ROWS, SW_MAX_PRODUCT_SIDES, SW_MAX_PRODUCT_SIDES);
    }
    if (!any) {
        out->rows = 0;
        return 0;
    }
    if (!fill(chip, all, out))
        return sw_fail(
            err, SW_BAD_INPUT,
            "the products of %.60s are not a full grid: each m needs every n, and each n every "
            "k, at least two of each",
            chip->name);
    sw_fit_side_spread(out->row, &out->rows, ROWS);
    sw_fit_side_spread(out->column, &out->columns, SIDES);
    sw_fit_side_spread(out->depth, &out->depths, SIDES);
    (void)fill(chip, all, out);
    return 0;
}
