/* The grids of a chip's attention over a cache from a table of measured kernels (struct
 * sw_accelerator_config says what their shares are of). */
#include "planner/fit/grid.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 2048 };

/* Enough of each side: of lengths as many as a grid may have. Sizes below the first length are
 * kernels' starts. */
enum {
    ROWS = 10,
    LENGTHS = SW_MAX_PRODUCT_SIDES,
    HEAD_SIZES = 2,
    LEAST_LENGTH = 64,
    MOST_SIZES = 64
};

/* What keys and values move while a prompt is read: read, written to the cache, and read by
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

static void read_word(const char *header, const char *line, const char *name, char *out,
                      size_t bytes)
{
    const int32_t column = sw_fit_column(header, name);
    const char *cell = column < 0 ? "" : sw_fit_cell(line, column);
    snprintf(out, bytes, "%.*s", (int)strcspn(cell, ",\r\n"), cell);
}

/* All that the header lacks, at once. */
static int check_columns(const char *path, const char *header, struct sw_error *err)
{
    static const char *const needed[] = {"phase", "batch",    "tokens",   "cached",
                                         "heads", "kv_heads", "head_dim", "latency_us"};
    char missing[128] = "";
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (sw_fit_column(header, needed[i]) < 0)
            snprintf(missing + strlen(missing), sizeof missing - strlen(missing), "%s%s",
                     missing[0] != '\0' ? ", " : "", needed[i]);
    if (missing[0] == '\0')
        return 0;
    sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){path, 1, 1},
               "a table of attention lacks columns: %s", missing);
    return -1;
}

static int read_kernel(const struct sw_fit_line *at, struct sw_fit_kernel *k, struct sw_error *err)
{
    char phase[16];
    double batch, tokens, cached, heads, kv_heads, micros;
    if (sw_fit_number(at, "batch", &batch, err) != 0 ||
        sw_fit_number(at, "tokens", &tokens, err) != 0 ||
        sw_fit_number(at, "cached", &cached, err) != 0 ||
        sw_fit_number(at, "heads", &heads, err) != 0 ||
        sw_fit_number(at, "kv_heads", &kv_heads, err) != 0 ||
        sw_fit_number(at, "head_dim", &k->size.k, err) != 0 ||
        sw_fit_number(at, "latency_us", &micros, err) != 0)
        return -1;
    read_word(at->header, at->text, "accelerator", k->accelerator, sizeof k->accelerator);
    read_word(at->header, at->text, "phase", phase, sizeof phase);
    k->decodes = strcmp(phase, phase_words[SW_FIT_DECODE]) == 0;
    k->kv_heads = batch * kv_heads;
    k->size.m = k->decodes ? k->kv_heads : batch * heads;
    k->size.n = k->decodes ? cached + tokens : tokens;
    k->seconds = micros * 1e-6;
    if ((k->decodes || strcmp(phase, phase_words[SW_FIT_PREFILL]) == 0) && k->size.m >= 1 &&
        k->size.n >= 1 && k->size.k >= 1 && k->kv_heads >= 1 && k->seconds > 0 &&
        k->size.m * k->size.n * k->size.k < 1e30 && (k->decodes ? tokens == 1 : cached == 0))
        return 0;
    return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){at->path, at->line, 1},
                      "attention needs phase prefill with nothing cached, or decode with one "
                      "token, sizes of at least 1 and a latency_us above 0");
}

int sw_fit_read_attention(struct sw_fit_attention *all, const char *path, struct sw_error *err)
{
    char header[LINE_BYTES], line[LINE_BYTES];
    int status = -1, at = 1;
    const int32_t before = all->count;
    FILE *in = fopen(path, "r");
    if (in == NULL || fgets(header, sizeof header, in) == NULL) {
        sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = path}, "cannot read it: %s",
                   strerror(errno));
        goto out;
    }
    if (check_columns(path, header, err) != 0)
        goto out;
    while (fgets(line, sizeof line, in) != NULL) {
        struct sw_fit_kernel k;
        at++;
        if (line[0] == '#' || line[0] == '\n')
            continue;
        if (read_kernel(&(struct sw_fit_line){path, header, line, at}, &k, err) != 0 ||
            add(all, &k, err) != 0)
            goto out;
    }
    status = all->count > before ? 0 : sw_fit_no_rows(path, at, err);
out:
    if (in != NULL)
        fclose(in);
    return status;
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

/* Seconds that are not the grid's: of a prompt's keys and values. */
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

/* The geometric mean of what was measured at each point. What did not fit the memory is as the
 * largest of the same length that did, whose kernel is as full; false: there is none. */
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
            return sw_fail(err, SW_BAD_INPUT,
                           "more sizes of attention than %d heads, %d lengths and %d head sizes",
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
    if (find_sides(chip, phase, all, out, err) != 0)
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
