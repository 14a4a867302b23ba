/* Builds the grids of a chip's attention over a cache from a table of measured kernels (shares: see
 * struct sw_accelerator_config). */
#include "planner/fit/grid.h"
#include "planner/fit/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Number of sizes on each side: for lengths, as many as a grid can have. Below the first length,
 * times are kernels' starts. */
enum {
    ROWS = 10,
    LENGTHS = SW_MAX_PRODUCT_SIDES,
    HEAD_SIZES = 2,
    LEAST_LENGTH = 64,
    MOST_SIZES = 64
};

/* Traffic of keys and values while a prompt is read: read, written to the cache, and read by
 * attention, at three quarters of the memory's rate. Of 0 to 6 times, in halves, 4 to 5 leave the
 * least difference between numbers of kv heads on all four chips of the table. */
static const double moved_while_read = 3 / 0.75;

static const char *const phase_words[SW_FIT_ATTENTION_PHASES] = {"prefill", "decode"};

bool sw_fit_has_attention(const char *path)
{
    return sw_fit_has_column(path, "phase") && sw_fit_has_column(path, "kv_heads") &&
           sw_fit_has_column(path, "head_dim") && sw_fit_has_column(path, "latency_us");
}

static int add(struct sw_fit_attention *all, const struct sw_fit_kernel *point,
               struct sw_error *err)
{
    void *room = sw_fit_room(all->point, all->count, &all->capacity, sizeof *all->point, err);
    if (room == NULL)
        return -1;
    all->point = room;
    all->point[all->count++] = *point;
    return 0;
}

/* Reports all missing columns of the header at once. */
static int check_columns(const struct sw_fit_table *t, struct sw_error *err)
{
    static const char *const needed[] = {"phase", "batch",    "tokens",   "cached",
                                         "heads", "kv_heads", "head_dim", "latency_us"};
    char missing[128] = "";
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!sw_fit_table_has(t, needed[i]))
            snprintf(missing + strlen(missing), sizeof missing - strlen(missing), "%s%s",
                     missing[0] != '\0' ? ", " : "", needed[i]);
    if (missing[0] == '\0')
        return 0;
    return sw_fail_at(err, SW_BAD_INPUT, sw_fit_place(t, ""),
                      "a table of attention lacks columns: %s", missing);
}

static int read_kernel(const struct sw_fit_table *t, struct sw_fit_kernel *k, struct sw_error *err)
{
    double batch, tokens, cached, heads, kv_heads, micros;
    const char *phase = sw_fit_cell(t, "phase");
    if (sw_fit_number(t, "batch", &batch, err) != 0 ||
        sw_fit_number(t, "tokens", &tokens, err) != 0 ||
        sw_fit_number(t, "cached", &cached, err) != 0 ||
        sw_fit_number(t, "heads", &heads, err) != 0 ||
        sw_fit_number(t, "kv_heads", &kv_heads, err) != 0 ||
        sw_fit_number(t, "head_dim", &k->size.k, err) != 0 ||
        sw_fit_number(t, "latency_us", &micros, err) != 0)
        return -1;
    snprintf(k->accelerator, sizeof k->accelerator, "%s", sw_fit_cell(t, "accelerator"));
    k->decodes = strcmp(phase, phase_words[SW_FIT_DECODE]) == 0;
    k->kv_heads = batch * kv_heads;
    k->size.m = k->decodes ? k->kv_heads : batch * heads;
    k->size.n = k->decodes ? cached + tokens : tokens;
    k->seconds = micros * 1e-6;
    k->place = sw_fit_place(t, "latency_us");
    if ((k->decodes || strcmp(phase, phase_words[SW_FIT_PREFILL]) == 0) && k->size.m >= 1 &&
        k->size.n >= 1 && k->size.k >= 1 && k->kv_heads >= 1 && k->seconds > 0 &&
        k->size.m * k->size.n * k->size.k < 1e30 && (k->decodes ? tokens == 1 : cached == 0))
        return 0;
    return sw_fit_fail_row(t, err,
                           "attention needs phase prefill with nothing cached, or decode with one "
                           "token, sizes of at least 1 and a latency_us above 0");
}

int sw_fit_read_attention(struct sw_fit_attention *all, const char *path, struct sw_error *err)
{
    const int32_t before = all->count;
    struct sw_fit_table *t = sw_fit_table_open(path, err);
    int read = t != NULL && check_columns(t, err) == 0 ? 1 : -1;
    while (read > 0 && (read = sw_fit_table_next(t, err)) > 0) {
        struct sw_fit_kernel k;
        if (read_kernel(t, &k, err) != 0 || add(all, &k, err) != 0)
            break;
    }
    if (read == 0 && all->count == before)
        read = sw_fit_no_rows(t, err);
    sw_fit_table_close(t);
    return read == 0 ? 0 : -1;
}

void sw_fit_attention_free(struct sw_fit_attention *all)
{
    free(all->point);
    *all = (struct sw_fit_attention){.count = 0};
}

/* ---- The grids ---- */

static bool is_of(const struct sw_fit_kernel *k, const struct sw_accelerator_config *chip,
                  enum sw_fit_phase phase)
{
    return k->decodes == (phase == SW_FIT_DECODE) && k->size.n >= LEAST_LENGTH &&
           (k->accelerator[0] == '\0' || strcmp(k->accelerator, chip->name) == 0);
}

/* Seconds outside of the grid: of a prompt's keys and values. */
static double apart(const struct sw_fit_kernel *k, const struct sw_accelerator_config *chip)
{
    return k->decodes ? 0
                      : moved_while_read * 4 * k->kv_heads * k->size.n * k->size.k /
                            chip->memory_bandwidth;
}

/* Seconds at a share of 1. */
static double least(const struct sw_fit_kernel *k, const struct sw_accelerator_config *chip)
{
    const struct sw_product *s = &k->size;
    return k->decodes ? 4 * s->m * s->n * s->k / chip->memory_bandwidth
                      : 2 * s->m * s->n * s->n * s->k / chip->peak_bf16_flops;
}

static int32_t point_of(const struct sw_products *grid, const struct sw_product *s)
{
    const int32_t r = sw_fit_side_index(grid->row, grid->rows, s->m),
                  n = sw_fit_side_index(grid->column, grid->columns, s->n),
                  k = sw_fit_side_index(grid->depth, grid->depths, s->k);
    return r < 0 || n < 0 || k < 0 ? -1 : (r * grid->columns + n) * grid->depths + k;
}

/* Sets each point to the geometric mean of its measurements. Sizes that did not fit into memory
 * take the share of the largest of the same length that did, whose kernel is as full; false:
 * none. */
static bool fill(const struct sw_accelerator_config *chip, enum sw_fit_phase phase,
                 const struct sw_fit_attention *all, struct sw_products *grid)
{
    const int32_t below = grid->columns * grid->depths, count = grid->rows * below;
    int32_t measured[ROWS * LENGTHS * HEAD_SIZES] = {0};
    memset(grid->share, 0, sizeof grid->share);
    for (int32_t i = 0; i < all->count; i++) {
        const struct sw_fit_kernel *k = &all->point[i];
        const int32_t at = is_of(k, chip, phase) ? point_of(grid, &k->size) : -1;
        const double seconds = k->seconds - apart(k, chip);
        if (at < 0 || seconds <= 0)
            continue;
        grid->share[at] += log(least(k, chip) / seconds);
        measured[at]++;
    }
    for (int32_t i = 0; i < count; i++) {
        if (measured[i] == 0 && i < below)
            return false;
        const double share =
            measured[i] > 0 ? exp(grid->share[i] / measured[i]) : grid->share[i - below];
        grid->share[i] = share < 1 ? share : 1;
    }
    return grid->rows > 1 && grid->columns > 1;
}

/* Rejects times that beat the peak. Decode may find keys and values in a cache, which is less than
 * ten times as fast as the memory. */
static int check_times(const struct sw_accelerator_config *chip, enum sw_fit_phase phase,
                       const struct sw_fit_attention *all, struct sw_error *err)
{
    const double most = phase == SW_FIT_DECODE ? 10 : 1;
    for (int32_t i = 0; i < all->count; i++) {
        const struct sw_fit_kernel *k = &all->point[i];
        if (is_of(k, chip, phase) && least(k, chip) > most * k->seconds)
            return sw_fail_at(err, SW_BAD_INPUT, k->place,
                              "attention of %g heads of %g over %g tokens takes %.4g us at the %s "
                              "of %s and not less; give microseconds of one call, and check the "
                              "accelerator's %s",
                              k->size.m, k->size.k, k->size.n, least(k, chip) / most * 1e6,
                              phase == SW_FIT_DECODE ? "tenfold memory_bandwidth" : "peak",
                              chip->name, phase == SW_FIT_DECODE ? "memory_bandwidth" : "peak");
    }
    return 0;
}

static int find_sides(const struct sw_accelerator_config *chip, enum sw_fit_phase phase,
                      const struct sw_fit_attention *all, struct sw_products *out,
                      struct sw_error *err)
{
    double side[3][MOST_SIZES];
    int32_t count[3] = {0, 0, 0};
    for (int32_t i = 0; i < all->count; i++) {
        const struct sw_product *s = &all->point[i].size;
        if (is_of(&all->point[i], chip, phase) &&
            (!sw_fit_side_insert(side[0], &count[0], MOST_SIZES, s->m) ||
             !sw_fit_side_insert(side[1], &count[1], MOST_SIZES, s->n) ||
             !sw_fit_side_insert(side[2], &count[2], HEAD_SIZES, s->k)))
            return sw_fail_at(err, SW_BAD_INPUT, all->point[i].place,
                              "more sizes of attention than %d heads, %d lengths and %d head "
                              "sizes; leave some out",
                              MOST_SIZES, MOST_SIZES, HEAD_SIZES);
    }
    if (count[0] == 0)
        return 0;
    sw_fit_side_spread(side[0], &count[0], ROWS);
    sw_fit_side_spread(side[1], &count[1], LENGTHS);
    memcpy(out->row, side[0], (size_t)count[0] * sizeof *side[0]);
    memcpy(out->column, side[1], (size_t)count[1] * sizeof *side[1]);
    memcpy(out->depth, side[2], (size_t)count[2] * sizeof *side[2]);
    out->rows = count[0];
    out->columns = count[1];
    out->depths = count[2];
    return 0;
}

int sw_fit_attention(const struct sw_accelerator_config *chip, enum sw_fit_phase phase,
                     const struct sw_fit_attention *all, struct sw_products *out,
                     struct sw_error *err)
{
    *out = (struct sw_products){.rows = 0};
    if (check_times(chip, phase, all, err) != 0 || find_sides(chip, phase, all, out, err) != 0)
        return -1;
    if (out->rows > 0 && !fill(chip, phase, all, out))
        return sw_fail(err, SW_BAD_INPUT,
                       "the attention of %.60s is not a full grid in %s: the fewest heads need "
                       "every length and head size, at least two of each but head sizes",
                       chip->name, phase_words[phase]);
    return 0;
}

int sw_fit_attention_errors(const struct sw_accelerator_config *chip, enum sw_fit_phase phase,
                            const struct sw_fit_attention *all, const struct sw_products *grid,
                            struct sw_fit_summary *out, struct sw_error *err)
{
    int32_t count = 0;
    double *errors = malloc(((size_t)all->count + 1) * sizeof *errors);
    if (errors == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while summing up");
    for (int32_t i = 0; i < all->count; i++) {
        const struct sw_fit_kernel *k = &all->point[i];
        if (!is_of(k, chip, phase) || point_of(grid, &k->size) >= 0)
            continue;
        const double share = sw_cost_attention_grid_share(grid, k->size.m, k->size.n, k->size.k);
        errors[count++] = (least(k, chip) / share + apart(k, chip)) / k->seconds - 1;
    }
    sw_fit_errors_sum(errors, count, out);
    free(errors);
    return 0;
}
