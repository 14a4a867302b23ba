#include "core/cost/constants.h"

#include "core/cost/links.h"

#include <stddef.h>
#include <string.h>

enum form { NUMBER, CURVE, SKINNY_GEMM, GRID, CURVES };

/* Offsets in the profile, the accelerator, the link or the device's prices; the last have no
 * position in a description. */
static const struct row {
    const char *name;
    enum sw_constant_owner owner;
    enum sw_constant_unit unit;
    enum form form;
    size_t value, place;
    size_t error;  /* offset of the constant's own error, followed by the signed one; 0: none */
    int32_t grids; /* number of pointers to grids; the points counted are those of all grids */
} rows[] = {
#define AT(owner, member, word) offsetof(struct owner, member), offsetof(struct owner, at.word)
#define PROFILE(member, word) AT(sw_profile_config, member, word), 0, 0
#define PROFILE_GRIDS(member, count, told)                                                         \
    AT(sw_profile_config, member, member), offsetof(struct sw_profile_config, told), count
#define PROFILE_SCALE(member, told)                                                                \
    AT(sw_profile_config, member, member), offsetof(struct sw_profile_config, told), 0
#define SKINNY(word, kind, dtype)                                                                  \
    {                                                                                              \
        word, SW_OWNER_PROFILE, SW_UNIT_BYTES, SKINNY_GEMM,                                        \
            PROFILE(skinny_gemm[kind][dtype], skinny_gemm[kind][dtype])                            \
    }
#define SHEET(member, word) AT(sw_accelerator_config, member, word), 0, 0
#define SHEET_GRID(member, word, told)                                                             \
    AT(sw_accelerator_config, member, word), offsetof(struct sw_accelerator_config, told), 1
#define DEVICE(member) offsetof(struct sw_device_prices, member), 0, 0, 0
#define LINK(member, word) AT(sw_link_config, member, word), 0, 0
#define LINK_TOLD(member, word, told)                                                              \
    AT(sw_link_config, member, word), offsetof(struct sw_link_config, told), 0
    {"matmul", SW_OWNER_PROFILE, SW_UNIT_SHARE, CURVE, PROFILE(matmul, matmul)},
    {"attention", SW_OWNER_PROFILE, SW_UNIT_SHARE, CURVE, PROFILE(attention, attention)},
    {"attention_backward", SW_OWNER_PROFILE, SW_UNIT_SHARE, CURVE,
     PROFILE(attention_backward, attention_backward)},
    {"memory", SW_OWNER_PROFILE, SW_UNIT_SHARE, CURVE, PROFILE(memory, memory)},
    SKINNY("few_rows.linear_fp32", SW_SKINNY_LINEAR, SW_RATE_FP32),
    SKINNY("few_rows.linear_bf16", SW_SKINNY_LINEAR, SW_RATE_BF16),
    SKINNY("few_rows.linear_t_fp32", SW_SKINNY_LINEAR_T, SW_RATE_FP32),
    SKINNY("few_rows.linear_t_bf16", SW_SKINNY_LINEAR_T, SW_RATE_BF16),
    SKINNY("few_rows.attention_fp32", SW_SKINNY_ATTENTION, SW_RATE_FP32),
    SKINNY("few_rows.attention_bf16", SW_SKINNY_ATTENTION, SW_RATE_BF16),
    {"products", SW_OWNER_PROFILE, SW_UNIT_SHARE, GRID,
     PROFILE_GRIDS(products, SW_PRODUCT_KINDS *SW_RATE_DTYPES, products_error)},
    {"products_scale", SW_OWNER_PROFILE, SW_UNIT_SHARE, CURVE,
     PROFILE_SCALE(products_scale, products_error)},
    {"attention_by_size", SW_OWNER_PROFILE, SW_UNIT_SHARE, GRID,
     PROFILE_GRIDS(attention_by_size, SW_ATTENTION_PHASES *SW_RATE_DTYPES, attention_error)},
    {"attention_scale", SW_OWNER_PROFILE, SW_UNIT_SHARE, CURVE,
     PROFILE_SCALE(attention_scale, attention_error)},
    {"launch_latency", SW_OWNER_PROFILE, SW_UNIT_SECONDS, NUMBER,
     PROFILE(launch_latency_s, launch_latency)},
    {"angle_time", SW_OWNER_PROFILE, SW_UNIT_SECONDS, NUMBER, PROFILE(angle_time_s, angle_time)},
    {"host_time", SW_OWNER_PROFILE, SW_UNIT_SECONDS, NUMBER, PROFILE(host_time_s, host_time)},
    {"peak.bf16", SW_OWNER_PROFILE, SW_UNIT_FLOPS, NUMBER, PROFILE(peak_bf16_flops, peak_bf16)},
    {"peak.fp32", SW_OWNER_PROFILE, SW_UNIT_FLOPS, NUMBER, PROFILE(peak_fp32_flops, peak_fp32)},
    {"peak.int8", SW_OWNER_PROFILE, SW_UNIT_FLOPS, NUMBER, PROFILE(peak_int8_flops, peak_int8)},
    {"memory_bandwidth", SW_OWNER_PROFILE, SW_UNIT_BYTES, NUMBER,
     PROFILE(memory_bandwidth, memory_bandwidth)},
    {"peak.bf16", SW_OWNER_ACCELERATOR, SW_UNIT_FLOPS, NUMBER, SHEET(peak_bf16_flops, peak_bf16)},
    {"peak.fp32", SW_OWNER_ACCELERATOR, SW_UNIT_FLOPS, NUMBER, SHEET(peak_fp32_flops, peak_fp32)},
    {"memory_bandwidth", SW_OWNER_ACCELERATOR, SW_UNIT_BYTES, NUMBER,
     SHEET(memory_bandwidth, memory_bandwidth)},
    {"products", SW_OWNER_ACCELERATOR, SW_UNIT_SHARE, GRID,
     SHEET_GRID(products, products, products_error)},
    {"attention.prefill", SW_OWNER_ACCELERATOR, SW_UNIT_SHARE, GRID,
     SHEET_GRID(prefill_attention, prefill, prefill_error)},
    {"attention.decode", SW_OWNER_ACCELERATOR, SW_UNIT_SHARE, GRID,
     SHEET_GRID(decode_attention, decode, decode_error)},
    {"contention", SW_OWNER_DEVICE, SW_UNIT_SHARE, NUMBER, DEVICE(contention)},
    {"cache_share", SW_OWNER_DEVICE, SW_UNIT_SHARE, NUMBER, DEVICE(cache_share)},
    {"message_time", SW_OWNER_DEVICE, SW_UNIT_SECONDS, NUMBER, DEVICE(message_s)},
    {"middle_tile", SW_OWNER_DEVICE, SW_UNIT_SHARE, NUMBER, DEVICE(middle_tile)},
    {"small_tile", SW_OWNER_DEVICE, SW_UNIT_SHARE, NUMBER, DEVICE(small_tile)},
    {"half_depth", SW_OWNER_DEVICE, SW_UNIT_ELEMENTS, NUMBER, DEVICE(half_depth)},
    {"half_head", SW_OWNER_DEVICE, SW_UNIT_ELEMENTS, NUMBER, DEVICE(half_head)},
    {"diagonal_block", SW_OWNER_DEVICE, SW_UNIT_ELEMENTS, NUMBER, DEVICE(diagonal_block)},
    {"bandwidth", SW_OWNER_LINK, SW_UNIT_BYTES, NUMBER, LINK(bandwidth, bandwidth)},
    {"efficiency", SW_OWNER_LINK, SW_UNIT_SHARE, CURVE, AT(sw_link_config, efficiency, efficiency),
     offsetof(struct sw_link_config, efficiency_error), 0},
    {"collectives", SW_OWNER_LINK, SW_UNIT_SHARE, CURVES,
     AT(sw_link_config, collectives, collectives),
     offsetof(struct sw_link_config, collectives_error), 1},
    {"oversubscription", SW_OWNER_LINK, SW_UNIT_TIMES, NUMBER,
     LINK(oversubscription, oversubscription)},
    {"launch", SW_OWNER_LINK, SW_UNIT_SECONDS, NUMBER, LINK_TOLD(launch_s, launch, launch_error)},
    {"latency", SW_OWNER_LINK, SW_UNIT_SECONDS, NUMBER,
     LINK_TOLD(latency_s, latency, latency_error)},
#undef AT
#undef PROFILE
#undef PROFILE_GRIDS
#undef PROFILE_SCALE
#undef SKINNY
#undef SHEET
#undef SHEET_GRID
#undef DEVICE
#undef LINK
#undef LINK_TOLD
};
enum { ROWS = sizeof rows / sizeof rows[0], LINK_ROWS = 6 };
_Static_assert(ROWS - LINK_ROWS + LINK_ROWS * SW_MAX_LINKS <= SW_MOST_CONSTANTS,
               "every constant of a cluster has its place in the list");
_Static_assert((int)SW_PRODUCT_KINDS <= (int)SW_ATTENTION_PHASES,
               "all grids of a constant have room");

/* A signed error stands behind its error. */
#define PAIR(owner, of)                                                                            \
    _Static_assert(offsetof(struct owner, of##_signed_error) ==                                    \
                       offsetof(struct owner, of##_error) + sizeof(double),                        \
                   "both are read at once")
PAIR(sw_accelerator_config, products);
PAIR(sw_accelerator_config, prefill);
PAIR(sw_accelerator_config, decode);
PAIR(sw_profile_config, products);
PAIR(sw_profile_config, attention);
PAIR(sw_link_config, efficiency);
PAIR(sw_link_config, collectives);
PAIR(sw_link_config, launch);
PAIR(sw_link_config, latency);
#undef PAIR

static const char *base_of(const struct sw_cluster_config *cluster, const struct row *row,
                           int32_t link)
{
    switch (row->owner) {
    case SW_OWNER_PROFILE:
        return (const char *)&cluster->profile;
    case SW_OWNER_ACCELERATOR:
        return (const char *)&cluster->accelerator;
    case SW_OWNER_DEVICE:
        return (const char *)sw_accelerator_prices(&cluster->accelerator);
    default:
        return (const char *)&cluster->link[link];
    }
}

/* Numbers of a constant, `stride` doubles apart. */
struct numbers {
    double *first;
    int32_t count, stride;
};

/* The caller owns the description, and changes it only if not const. */
static struct numbers numbers_of(const char *base, const struct row *row)
{
    char *value = (char *)(uintptr_t)(base + row->value);
    if (row->form == CURVE) {
        struct sw_curve *curve = (struct sw_curve *)(void *)value;
        return (struct numbers){&curve->point[0].fraction, curve->count,
                                sizeof curve->point[0] / sizeof(double)};
    }
    if (row->form == SKINNY_GEMM) {
        struct sw_skinny_gemm *skinny = (struct sw_skinny_gemm *)(void *)value;
        return (struct numbers){&skinny->point[0].bandwidth, skinny->count,
                                sizeof skinny->point[0] / sizeof(double)};
    }
    return (struct numbers){(double *)(void *)value, 1, 1};
}

/* The first of the `grids` pointers to a constant's grids. */
static const struct sw_products **grids_of(const char *base, const struct row *row)
{
    return (const struct sw_products **)(void *)(uintptr_t)(base + row->value);
}

static int32_t points_of(const struct sw_products *grid)
{
    return grid->rows * grid->columns * grid->depths;
}

/* Adds some of a constant's numbers to its summary. */
static void meet(struct sw_constant *c, const double *first, int32_t count, ptrdiff_t stride)
{
    for (int32_t i = 0; i < count; i++) {
        const double x = first[i * stride];
        c->least = c->points == 0 || x < c->least ? x : c->least;
        c->most = c->points == 0 || x > c->most ? x : c->most;
        c->points++;
    }
}

/* Adds grids, each once even if several pointers name it. */
static void meet_grids(struct sw_constant *c, const char *base, const struct row *row)
{
    const struct sw_products *const *grid = grids_of(base, row);
    for (int32_t i = 0; i < row->grids; i++) {
        bool met = grid[i] == NULL;
        for (int32_t k = 0; k < i && !met; k++)
            met = grid[k] == grid[i];
        if (!met)
            meet(c, grid[i]->share, points_of(grid[i]), 1);
    }
}

/* Curves of collectives that the constant points to; NULL: none. */
static const struct sw_collective_curves **curves_of(const char *base, const struct row *row)
{
    return (const struct sw_collective_curves **)(void *)(uintptr_t)(base + row->value);
}

static void meet_curves(struct sw_constant *c, const struct sw_collective_curves *all)
{
    for (int32_t i = 0; all != NULL && i < all->count; i++)
        meet(c, &all->of[i].curve.point[0].fraction, all->of[i].curve.count,
             sizeof all->of[i].curve.point[0] / sizeof(double));
}

/* The curve of a link that gives none. */
static struct sw_curve assumed_share(int32_t link)
{
    struct sw_curve curve = {.count = 1};
    curve.point[0] = (struct sw_curve_point){1, sw_links_assumed_share(link)};
    return curve;
}

/* True for a peak or a bandwidth that shares refer to: the shares have the errors. */
static bool is_sheet(const struct sw_constant *c)
{
    return c->unit == SW_UNIT_FLOPS || (c->unit == SW_UNIT_BYTES && rows[c->row].form == NUMBER);
}

static void tell_errors(const struct sw_cluster_config *cluster, struct sw_constant *c)
{
    const struct sw_profile_config *p = &cluster->profile;
    if (is_sheet(c))
        return;
    if (c->owner == SW_OWNER_PROFILE && p->path != NULL) {
        c->error = p->error;
        c->signed_error = p->signed_error;
        c->runs = p->runs;
    }
    /* a file without a band has the default's, which says nothing about it */
    if (c->owner == SW_OWNER_PROFILE && (p->at.band.file != NULL || sw_profile_is_default(p))) {
        c->band_low = p->band_low;
        c->band_high = p->band_high;
    }
    if (rows[c->row].error == 0)
        return;
    const char *own = base_of(cluster, &rows[c->row], c->link) + rows[c->row].error;
    double error;
    memcpy(&error, own, sizeof error);
    if (error > 0) {
        c->error = error;
        memcpy(&c->signed_error, own + sizeof error, sizeof c->signed_error);
    }
}

static enum sw_untold why_untold(const struct sw_cluster_config *cluster,
                                 const struct sw_constant *c)
{
    if (c->error > 0 && c->signed_error.at.file != NULL)
        return SW_TOLD;
    if (c->owner == SW_OWNER_LINK && c->unit == SW_UNIT_TIMES)
        return SW_UNTOLD_NETWORK;
    if (is_sheet(c))
        return SW_UNTOLD_SHEET;
    if (c->at.file == NULL)
        return c->owner == SW_OWNER_PROFILE && sw_profile_is_default(&cluster->profile)
                   ? SW_UNTOLD_DEFAULT
                   : SW_UNTOLD_ASSUMED;
    if (c->owner == SW_OWNER_LINK && c->unit == SW_UNIT_SECONDS &&
        cluster->link[c->link].efficiency_error > 0)
        return SW_UNTOLD_BESIDE;
    return SW_UNTOLD_FILE;
}

/* False: neither given nor assumed; other constants replace it. */
static bool describe(const struct sw_cluster_config *cluster, int32_t row_at, int32_t link,
                     struct sw_constant *c)
{
    static const char *const owners[] = {"profile", "accelerator", "links", "device"};
    const struct row *row = &rows[row_at];
    const char *base = base_of(cluster, row, link);
    const struct sw_curve assumed = assumed_share(link);
    *c = (struct sw_constant){.owner = row->owner, .unit = row->unit, .row = row_at, .link = link};
    if (row->form == GRID) {
        meet_grids(c, base, row);
    } else if (row->form == CURVES) {
        meet_curves(c, *curves_of(base, row));
    } else {
        const struct numbers n = numbers_of(base, row);
        meet(c, n.first, n.count, n.stride);
        if (n.count == 0 && row->owner == SW_OWNER_LINK)
            meet(c, &assumed.point[0].fraction, 1, 1);
    }
    if (c->points == 0 || (c->points == 1 && c->least == 0))
        return false;
    if (row->owner != SW_OWNER_DEVICE)
        memcpy(&c->at, base + row->place, sizeof c->at);
    if (row->owner == SW_OWNER_LINK)
        snprintf(c->name, sizeof c->name, "links.%.64s.%s", cluster->link[link].name, row->name);
    else
        snprintf(c->name, sizeof c->name, "%s.%s", owners[row->owner], row->name);
    tell_errors(cluster, c);
    c->untold = why_untold(cluster, c);
    return true;
}

int32_t sw_constants_list(const struct sw_cluster_config *cluster,
                          struct sw_constant out[SW_MOST_CONSTANTS])
{
    int32_t count = 0;
    for (int32_t r = 0; r < ROWS; r++) {
        const int32_t owners = rows[r].owner == SW_OWNER_LINK ? cluster->link_count : 1;
        for (int32_t l = 0; l < owners; l++)
            count += describe(cluster, r, l, &out[count]) ? 1 : 0;
    }
    return count;
}

/* Several pointers to one grid keep pointing to one. */
static void scale_grids(const struct sw_products **grid, int32_t count, double factor,
                        struct sw_constant_room *room)
{
    const struct sw_products *was[sizeof room->grid / sizeof room->grid[0]];
    memcpy(was, grid, (size_t)count * sizeof(const struct sw_products *));
    for (int32_t i = 0; i < count; i++) {
        int32_t first = 0;
        while (was[first] != was[i])
            first++;
        if (was[i] == NULL)
            continue;
        grid[i] = &room->grid[first];
        if (first < i)
            continue;
        room->grid[i] = *was[i];
        for (int32_t k = 0; k < points_of(was[i]); k++)
            room->grid[i].share[k] *= factor;
    }
}

static void scale_curves(const struct sw_collective_curves **curves, double factor,
                         struct sw_collective_curves *room)
{
    *room = **curves;
    *curves = room;
    for (int32_t i = 0; i < room->count; i++)
        for (int32_t k = 0; k < room->of[i].curve.count; k++)
            room->of[i].curve.point[k].fraction *= factor;
}

void sw_constant_scale(struct sw_cluster_config *cluster, const struct sw_constant *constant,
                       double factor, struct sw_constant_room *room)
{
    const struct row *row = &rows[constant->row];
    struct sw_link_config *link = &cluster->link[constant->link];
    if (row->owner == SW_OWNER_DEVICE) {
        room->device = *sw_accelerator_prices(&cluster->accelerator);
        cluster->accelerator.prices = &room->device;
    }
    const char *base = base_of(cluster, row, constant->link);
    if (row->form == GRID) {
        scale_grids(grids_of(base, row), row->grids, factor, room);
        return;
    }
    if (row->form == CURVES) {
        scale_curves(curves_of(base, row), factor, &room->collectives);
        return;
    }
    if (row->owner == SW_OWNER_LINK && row->form == CURVE && link->efficiency.count == 0)
        link->efficiency = assumed_share(constant->link);
    const struct numbers n = numbers_of(base, row);
    for (int32_t i = 0; i < n.count; i++)
        n.first[(ptrdiff_t)i * n.stride] *= factor;
}
