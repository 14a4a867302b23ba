/* Recomputation of one decision: value by value, and the lowest level that fits (levels:
 * recompute.c), by compiling and pricing programs. */
#include "planner/search/internal.h"

enum { MAX_TRIES = 10 };

/* Number of layers in which a unit is recomputed. */
static int32_t layers_of(struct sw_recompute again, struct sw_layer_values values, int32_t layers)
{
    const int32_t first = again.layers < layers ? again.layers : layers;
    return (sw_layer_values_cover(again.values, values) ? first : 0) +
           (sw_layer_values_cover(again.rest, values) ? layers - first : 0);
}

int sw_search_recompute(const struct sw_run_config *run, const struct sw_decision *decision,
                        struct sw_recomputed out[SW_LAYER_VALUES], struct sw_error *err)
{
    struct sw_searcher s = {.run = run};
    struct sw_decision full = *decision;
    struct sw_units units = {0};
    struct sw_sized sized;
    struct sw_compute compute;
    struct sw_levels levels;
    int32_t count = -1;
    full.train.recompute = sw_recompute_full();
    s.cache = sw_program_cache_new(1);
    if (s.cache == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while searching");
    if (sw_searcher_size(&s, &full, &sized, err) != 0)
        goto out;
    count = 0;
    if (sized.program == NULL)
        goto out;
    if (sw_units_read(sized.program, &units, err) != 0) {
        count = -1;
        goto out;
    }
    sw_guess_compute(&sized, run, &compute);
    sw_levels_find_each(&units, sized.program, run, sized.counted->seconds, &levels);
    for (; count < levels.count; count++) {
        const struct sw_unit *unit = &levels.unit[count];
        out[count] = (struct sw_recomputed){
            .values = unit->values,
            .layers = layers_of(decision->train.recompute, unit->values, levels.layers),
            .bytes = unit->bytes * levels.layers,
            .seconds = unit->seconds * levels.layers * (double)sized.program->accumulation_steps};
    }
out:
    sw_units_free(&units);
    sw_program_cache_free(s.cache);
    return count;
}

/* ---- The lowest level that fits ---- */

/* Highest level known not to fit, lowest known to fit. */
struct bounds {
    int32_t fits, fails;
};

/* Memory of one level: a lower bound or (placed) exact. */
static int try_level(struct sw_searcher *s, const struct sw_decision *decision, bool placed,
                     int64_t limit, struct sw_sized *sized, int64_t *total, struct sw_error *err)
{
    struct sw_candidate c;
    if (sw_searcher_size(s, decision, sized, err) != 0)
        return -1;
    *total = sized->least_bytes;
    if (sized->program == NULL || *total > limit || !placed)
        return 0;
    if (sw_searcher_measure(s, sized, &c, err) != 0)
        return -1;
    *total = c.memory.total;
    return 0;
}

/* Next level to try after one that takes that much: inside the bounds. */
static int32_t next_level(const struct sw_levels *levels, double times, int32_t level,
                          int64_t total, int64_t limit, const struct bounds *known)
{
    const double kept = sw_level_bytes(levels, level) + (double)(limit - total) / times;
    const int32_t next = sw_level_keeping(levels, kept);
    if (total > limit) { /* it needs more recomputation */
        const int32_t more = next > level ? next : level + 1;
        return known->fits >= 0 && more >= known->fits ? known->fits - 1 : more;
    }
    const int32_t fewer = next < level ? next : level;
    return fewer <= known->fails ? known->fails + 1 : fewer;
}

/* Goal: the lowest level of a decision that stays within `limit` bytes. */
struct fitting {
    struct sw_searcher *s;
    const struct sw_decision *base;
    const struct sw_levels *levels;
    double times;
    int64_t limit;
    struct bounds known;
    bool admitted;
};

/* Tries levels from `level` on, until the rest is less than one value of one layer. */
static int settle(struct fitting *f, int32_t level, bool placed, struct sw_error *err)
{
    const int32_t last = sw_levels_last(f->levels);
    for (int32_t tries = 0; tries < MAX_TRIES; tries++) {
        struct sw_decision decision = *f->base;
        struct sw_sized sized;
        int64_t total = 0;
        decision.train.recompute = sw_level_recompute(f->levels, level);
        if (try_level(f->s, &decision, placed, f->limit, &sized, &total, err) != 0)
            return -1;
        f->admitted = sized.program != NULL;
        *(total > f->limit ? &f->known.fails : &f->known.fits) = level;
        if (!f->admitted || f->known.fails >= last || f->known.fits == f->known.fails + 1)
            return 0;
        const int32_t next = next_level(f->levels, f->times, level, total, f->limit, &f->known);
        if (next == level)
            return 0;
        level = next > last ? last : next;
    }
    return 0;
}

int sw_searcher_fit(struct sw_searcher *s, const struct sw_decision *base,
                    const struct sw_levels *levels, double times, int32_t level, int64_t limit,
                    double than, struct sw_candidate *out, struct sw_error *err)
{
    struct fitting f = {.s = s,
                        .base = base,
                        .levels = levels,
                        .times = times,
                        .limit = limit,
                        .known = {.fits = -1, .fails = -1}};
    struct sw_decision decision = *base;
    struct sw_sized sized;
    struct sw_cost cost;
    out->reason = SW_REJECT_MEMORY;
    /* the lower bound is quick, and mostly the result */
    if (settle(&f, level, false, err) != 0)
        return -1;
    if (!f.admitted || f.known.fits < 0)
        return 0;
    level = f.known.fits;
    decision.train.recompute = sw_level_recompute(levels, level);
    if (sw_searcher_size(s, &decision, &sized, err) != 0 ||
        sw_searcher_time(s, &sized, &cost, err) != 0)
        return -1;
    if (cost.step_seconds >= than) {
        out->reason = SW_FITS;
        out->cost.step_seconds = cost.step_seconds;
        return 0;
    }
    f.known.fits = -1;
    if (settle(&f, level, true, err) != 0)
        return -1;
    if (f.known.fits < 0)
        return 0;
    decision.train.recompute = sw_level_recompute(levels, f.known.fits);
    if (sw_searcher_size(s, &decision, &sized, err) != 0)
        return -1;
    return f.known.fits == level ? sw_searcher_price_as(s, &sized, &cost, out, err)
                                 : sw_searcher_price(s, &sized, false, out, err);
}
