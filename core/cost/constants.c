#include "core/cost/constants.h"

#include "core/cost/links.h"

#include <stddef.h>
#include <string.h>

enum form { NUMBER, CURVE, FEW_ROWS };

/* Offsets are in the profile, the accelerator or the link. */
static const struct row {
    const char *name;
    enum sw_constant_owner owner;
    enum sw_constant_unit unit;
    enum form form;
    size_t value, place;
} rows[] = {
#define PROFILE(member, word)                                                                      \
    offsetof(struct sw_profile_config, member), offsetof(struct sw_profile_config, at.word)
#define FEW(word, kind, dtype)                                                                     \
    {                                                                                              \
        word, SW_OWNER_PROFILE, SW_UNIT_BYTES, FEW_ROWS,                                           \
            PROFILE(few_rows[kind][dtype], few_rows[kind][dtype])                                  \
    }
#define SHEET(member, word)                                                                        \
    offsetof(struct sw_accelerator_config, member), offsetof(struct sw_accelerator_config, at.word)
#define LINK(member, word)                                                                         \
    offsetof(struct sw_link_config, member), offsetof(struct sw_link_config, at.word)
    {"matmul", SW_OWNER_PROFILE, SW_UNIT_SHARE, CURVE, PROFILE(matmul, matmul)},
    {"attention", SW_OWNER_PROFILE, SW_UNIT_SHARE, CURVE, PROFILE(attention, attention)},
    {"attention_backward", SW_OWNER_PROFILE, SW_UNIT_SHARE, CURVE,
     PROFILE(attention_backward, attention_backward)},
    {"memory", SW_OWNER_PROFILE, SW_UNIT_SHARE, CURVE, PROFILE(memory, memory)},
    FEW("few_rows.linear_fp32", SW_FEW_LINEAR, SW_FEW_FP32),
    FEW("few_rows.linear_bf16", SW_FEW_LINEAR, SW_FEW_BF16),
    FEW("few_rows.linear_t_fp32", SW_FEW_LINEAR_T, SW_FEW_FP32),
    FEW("few_rows.linear_t_bf16", SW_FEW_LINEAR_T, SW_FEW_BF16),
    FEW("few_rows.attention_fp32", SW_FEW_ATTENTION, SW_FEW_FP32),
    FEW("few_rows.attention_bf16", SW_FEW_ATTENTION, SW_FEW_BF16),
    {"products_scale", SW_OWNER_PROFILE, SW_UNIT_SHARE, CURVE,
     PROFILE(products_scale, products_scale)},
    {"attention_scale", SW_OWNER_PROFILE, SW_UNIT_SHARE, CURVE,
     PROFILE(attention_scale, attention_scale)},
    {"launch_latency", SW_OWNER_PROFILE, SW_UNIT_SECONDS, NUMBER,
     PROFILE(launch_latency_s, launch_latency)},
    {"angle_time", SW_OWNER_PROFILE, SW_UNIT_SECONDS, NUMBER, PROFILE(angle_time_s, angle_time)},
    {"host_time", SW_OWNER_PROFILE, SW_UNIT_SECONDS, NUMBER, PROFILE(host_time_s, host_time)},
    {"peak.bf16", SW_OWNER_PROFILE, SW_UNIT_FLOPS, NUMBER, PROFILE(peak_bf16_flops, peak_bf16)},
    {"peak.fp32", SW_OWNER_PROFILE, SW_UNIT_FLOPS, NUMBER, PROFILE(peak_fp32_flops, peak_fp32)},
    {"memory_bandwidth", SW_OWNER_PROFILE, SW_UNIT_BYTES, NUMBER,
     PROFILE(memory_bandwidth, memory_bandwidth)},
    {"peak.bf16", SW_OWNER_ACCELERATOR, SW_UNIT_FLOPS, NUMBER, SHEET(peak_bf16_flops, peak_bf16)},
    {"peak.fp32", SW_OWNER_ACCELERATOR, SW_UNIT_FLOPS, NUMBER, SHEET(peak_fp32_flops, peak_fp32)},
    {"memory_bandwidth", SW_OWNER_ACCELERATOR, SW_UNIT_BYTES, NUMBER,
     SHEET(memory_bandwidth, memory_bandwidth)},
    {"bandwidth", SW_OWNER_LINK, SW_UNIT_BYTES, NUMBER, LINK(bandwidth, bandwidth)},
    {"efficiency", SW_OWNER_LINK, SW_UNIT_SHARE, CURVE, LINK(efficiency, efficiency)},
    {"oversubscription", SW_OWNER_LINK, SW_UNIT_TIMES, NUMBER,
     LINK(oversubscription, oversubscription)},
    {"launch", SW_OWNER_LINK, SW_UNIT_SECONDS, NUMBER, LINK(launch_s, launch)},
    {"latency", SW_OWNER_LINK, SW_UNIT_SECONDS, NUMBER, LINK(latency_s, latency)},
#undef PROFILE
#undef FEW
#undef SHEET
#undef LINK
};
enum { ROWS = sizeof rows / sizeof rows[0], LINK_ROWS = 5 };
_Static_assert(ROWS - LINK_ROWS + LINK_ROWS * SW_MAX_LINKS <= SW_MOST_CONSTANTS,
               "every constant of a cluster has its place in the list");

static const char *base_of(const struct sw_cluster_config *cluster, const struct row *row,
                           int32_t link)
{
    switch (row->owner) {
    case SW_OWNER_PROFILE:
        return (const char *)&cluster->profile;
    case SW_OWNER_ACCELERATOR:
        return (const char *)&cluster->accelerator;
    default:
        return (const char *)&cluster->link[link];
    }
}

/* The numbers of a constant, `stride` doubles apart. */
struct numbers {
    double *first;
    int32_t count, stride;
};

/* The description is the caller's, who changes it only where it is not const. */
static struct numbers numbers_of(const char *base, const struct row *row)
{
    char *value = (char *)(uintptr_t)(base + row->value);
    if (row->form == CURVE) {
        struct sw_curve *curve = (struct sw_curve *)(void *)value;
        return (struct numbers){&curve->point[0].fraction, curve->count,
                                sizeof curve->point[0] / sizeof(double)};
    }
    if (row->form == FEW_ROWS) {
        struct sw_few_rows *few = (struct sw_few_rows *)(void *)value;
        return (struct numbers){&few->point[0].bandwidth, few->count,
                                sizeof few->point[0] / sizeof(double)};
    }
    return (struct numbers){(double *)(void *)value, 1, 1};
}

/* The curve of a link that tells none. */
static struct sw_curve assumed_share(int32_t link)
{
    struct sw_curve curve = {.count = 1};
    curve.point[0] = (struct sw_curve_point){1, sw_links_assumed_share(link)};
    return curve;
}

static void tell_errors(const struct sw_cluster_config *cluster, struct sw_constant *c)
{
    const struct sw_profile_config *p = &cluster->profile;
    if (c->owner == SW_OWNER_PROFILE && p->path != NULL) {
        c->error = p->error;
        c->runs = p->runs;
    }
    /* a file that tells no band is priced with the default's, which says nothing of it */
    if (c->owner == SW_OWNER_PROFILE && (p->at.band.file != NULL || sw_profile_is_default(p))) {
        c->band_low = p->band_low;
        c->band_high = p->band_high;
    }
    if (c->owner == SW_OWNER_PROFILE && p->products_error > 0 &&
        rows[c->row].value == offsetof(struct sw_profile_config, products_scale))
        c->error = p->products_error;
    if (c->owner == SW_OWNER_PROFILE && p->attention_error > 0 &&
        rows[c->row].value == offsetof(struct sw_profile_config, attention_scale))
        c->error = p->attention_error;
    if (c->owner == SW_OWNER_LINK &&
        rows[c->row].value == offsetof(struct sw_link_config, efficiency))
        c->error = cluster->link[c->link].efficiency_error;
}

/* false: nothing is told and nothing assumed, other constants stand for it. */
static bool describe(const struct sw_cluster_config *cluster, int32_t row_at, int32_t link,
                     struct sw_constant *c)
{
    static const char *const owners[] = {"profile", "accelerator", "links"};
    const struct row *row = &rows[row_at];
    const char *base = base_of(cluster, row, link);
    struct sw_curve assumed = assumed_share(link);
    struct numbers n = numbers_of(base, row);
    if (n.count == 0 && row->owner == SW_OWNER_LINK)
        n = (struct numbers){&assumed.point[0].fraction, 1, 1};
    if (n.count == 0 || n.first[0] == 0)
        return false;
    *c = (struct sw_constant){.owner = row->owner,
                              .unit = row->unit,
                              .row = row_at,
                              .link = link,
                              .points = n.count,
                              .least = n.first[0],
                              .most = n.first[0]};
    for (int32_t i = 1; i < n.count; i++) {
        const double x = n.first[(ptrdiff_t)i * n.stride];
        c->least = x < c->least ? x : c->least;
        c->most = x > c->most ? x : c->most;
    }
    memcpy(&c->at, base + row->place, sizeof c->at);
    if (row->owner == SW_OWNER_LINK)
        snprintf(c->name, sizeof c->name, "links.%.64s.%s", cluster->link[link].name, row->name);
    else
        snprintf(c->name, sizeof c->name, "%s.%s", owners[row->owner], row->name);
    tell_errors(cluster, c);
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

void sw_constant_scale(struct sw_cluster_config *cluster, const struct sw_constant *constant,
                       double factor)
{
    const struct row *row = &rows[constant->row];
    struct sw_link_config *link = &cluster->link[constant->link];
    if (row->owner == SW_OWNER_LINK && row->form == CURVE && link->efficiency.count == 0)
        link->efficiency = assumed_share(constant->link);
    const struct numbers n = numbers_of(base_of(cluster, row, constant->link), row);
    for (int32_t i = 0; i < n.count; i++)
        n.first[(ptrdiff_t)i * n.stride] *= factor;
}
