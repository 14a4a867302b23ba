/* What is known of meshes that are not worth searching: that a step takes at least so long, and
 * that some options fit. A search that shows a few rows looks closely at no others. */
#include "planner/search/internal.h"

#include "core/cost/links.h"

#include <math.h>
#include <string.h>

/* Orders of axes that are looked at one by one; four axes have more, which are looked at together
 * where they are alike. */
enum { FEW_ORDERS = 6 };

static double floor_of(const struct sw_cost *cost)
{
    return cost->step_seconds * (1 - SW_FLOOR_MARGIN);
}

/* Sequences of a rank in a step, at most. */
static int64_t most_sequences(const struct sw_searcher *s, const struct sw_mesh *mesh)
{
    const int64_t shards = (int64_t)mesh->size[SW_DP] * mesh->size[SW_FSDP];
    return (s->run->global_batch_size + shards - 1) / shards;
}

/* The program of an ideal step; that of the run's micro-batch where it names one. NULL: it is not
 * admitted. */
static int make_ideal(struct sw_searcher *s, const struct sw_mesh *mesh,
                      const struct sw_variant *variant, int64_t micro_batch, struct sw_sized *out,
                      struct sw_error *err)
{
    struct sw_decision ideal = sw_searcher_smallest(s, mesh, variant);
    if (s->run->micro_batch_size == 0)
        ideal.train.micro_batch_size = micro_batch;
    if (s->run->recompute_auto)
        ideal.train.recompute = sw_recompute_none();
    return sw_searcher_size(s, &ideal, out, err);
}

static int price_ideal(const struct sw_searcher *s, const struct sw_sized *sized, bool batch_alone,
                       struct sw_cost *out, struct sw_error *err)
{
    const struct sw_cost_ideal ideal = {.batch_alone = batch_alone};
    return sw_cost_price_ideal(sized->program, &s->run->cluster, &ideal, &sized->counted->known,
                               out, err);
}

/* ---- All meshes of a group ---- */

/* Whether what a mesh admits may follow from how dp and fsdp share their product. */
static bool is_split_by_rules(const struct sw_run_config *run)
{
    for (int32_t i = 0; i < run->rule_count; i++)
        for (int32_t k = 0; k < run->rule[i].count && k < SW_AXIS_COUNT; k++)
            if (strcmp(run->rule[i].axis[k], sw_axis_name(SW_DP)) == 0 ||
                strcmp(run->rule[i].axis[k], sw_axis_name(SW_FSDP)) == 0)
                return true;
    return false;
}

/* The floor of one variant, found when it is first asked for. */
static int find_floor(struct sw_searcher *s, const struct sw_preference *p, int32_t shards,
                      int32_t variant, struct sw_floors *floors, struct sw_error *err)
{
    const struct sw_mesh mesh = sw_mesh_make(shards, 1, p->tp, p->sp);
    struct sw_sized sized;
    struct sw_cost cost;
    if (floors->known[variant])
        return 0;
    if (make_ideal(s, &mesh, &p->variant[variant], most_sequences(s, &mesh), &sized, err) != 0 ||
        (sized.program != NULL && price_ideal(s, &sized, true, &cost, err) != 0))
        return -1;
    floors->known[variant] = true;
    if (sized.program != NULL)
        floors->seconds[variant] = floor_of(&cost);
    else if (!is_split_by_rules(s->run))
        floors->seconds[variant] = INFINITY; /* nor is any other of these meshes admitted */
    return 0;
}

int sw_search_group_may_take(struct sw_searcher *s, const struct sw_preference *p, int32_t shards,
                             struct sw_floors *floors, double limit, bool *out,
                             struct sw_error *err)
{
    *out = false;
    for (int32_t i = 0; i < p->count && !*out; i++) {
        if (find_floor(s, p, shards, i, floors, err) != 0)
            return -1;
        *out = floors->seconds[i] <= limit;
    }
    return 0;
}

static bool is_same_variant(const struct sw_variant *a, const struct sw_variant *b)
{
    return a->strategy == b->strategy && a->layout == b->layout &&
           a->residual_seq_tp == b->residual_seq_tp;
}

void sw_floors_reorder(struct sw_floors *floors, const struct sw_preference *from,
                       const struct sw_preference *to)
{
    const struct sw_floors old = *floors;
    *floors = (struct sw_floors){.micro_batch = {0}};
    for (int32_t i = 0; i < to->count; i++)
        for (int32_t k = 0; k < from->count; k++)
            if (is_same_variant(&to->variant[i], &from->variant[k])) {
                floors->known[i] = old.known[k];
                floors->seconds[i] = old.seconds[k];
            }
}

/* ---- One mesh ---- */

/* What is looked at: one variant of a mesh. */
struct looking_at {
    const struct sw_mesh *mesh;
    const struct sw_variant *variant;
    const struct sw_levels *levels; /* NULL: nothing has to be made again, or none is known */
    int64_t levels_batch;           /* the micro-batch that they are of */
    double limit;                   /* seconds */
    bool padded;                    /* the batch does not fill all ranks */
    /* of an ideal step's micro-batch, all of a rank's sequences unless the run names another,
     * nothing made again; of those what lasts from step to step, as large for fewer */
    double bytes, state_bytes;
    double micro_batch;
};

/* What can be made again, of large micro-batches, whose ops take least for a sequence. */
static int find_levels(struct sw_searcher *s, const struct sw_mesh *mesh,
                       const struct sw_variant *variant, struct sw_levels *out,
                       int64_t *micro_batch, struct sw_error *err)
{
    struct sw_decision full = sw_searcher_smallest(s, mesh, variant);
    struct sw_sized sized;
    struct sw_compute compute;
    const int64_t half = most_sequences(s, mesh) / 2; /* of more than one micro-step, as others */
    if (half > full.train.micro_batch_size)
        full.train.micro_batch_size = half;
    *micro_batch = full.train.micro_batch_size;
    out->count = 0;
    if (sw_searcher_size(s, &full, &sized, err) != 0)
        return -1;
    if (sized.program == NULL)
        return 0;
    sw_guess_compute(&sized, s->run, &compute);
    return sw_sized_levels(&sized, s->run, out, err);
}

/* Seconds of a step for making again what does not fit of a micro-batch that needs so many bytes
 * where nothing is made again. INFINITY: it does not fit then, either. */
static double again_seconds(const struct sw_searcher *s, const struct looking_at *l,
                            double micro_batch, double steps, double bytes)
{
    const double over = bytes - (double)sw_searcher_limit(s);
    const double times = micro_batch / (double)l->levels_batch;
    const double kept = sw_level_bytes(l->levels, 0) * (1 + SW_FLOOR_SLACK) - over / times;
    if (over <= 0)
        return 0;
    return kept < 0 ? INFINITY
                    : (1 - SW_FLOOR_SLACK) * steps * times *
                          sw_level_seconds(l->levels, sw_level_keeping(l->levels, kept));
}

/* Of an ideal step what backward may do besides while it waits. Forward makes nothing again, and of
 * the collectives of activations over tp, which are one behind the other, a layer's last alone may
 * be under way while the next layer's values are made again. */
static double spare_seconds(const struct sw_program *p, const struct sw_cost *cost)
{
    double backward = 0, any = cost->exposed_seconds[SW_TP] / 2;
    for (int32_t r = 0; r < p->region_count; r++)
        if (p->regions[r].phase != SW_PHASE_FORWARD)
            backward += cost->region[r].exposed_seconds;
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        any += a != SW_TP ? cost->exposed_seconds[a] : 0;
    return any < backward ? any : backward;
}

/* The least that any micro-batch takes, from the ideal step of all of a rank's sequences at once.
 * Of fewer at once less has to be made again, if all bytes that do not last grow with them; weights
 * are gathered more often, and the links are busy for so long. */
static double least_seconds(const struct sw_searcher *s, const struct looking_at *l,
                            const struct sw_program *p, const struct sw_cost *cost)
{
    const double spare = spare_seconds(p, cost), all = (double)most_sequences(s, l->mesh);
    struct sw_option option[SW_MAX_MICRO_BATCHES];
    const int32_t count = sw_guess_options(s->run, (int64_t)all, l->padded, 0, option);
    double least = INFINITY;
    for (int32_t i = 0; i < count; i++) {
        const double micro = (double)option[i].micro_batch_size, steps = ceil(all / micro);
        const double bytes = l->state_bytes + (l->bytes - l->state_bytes) * micro / l->micro_batch;
        const double again = l->levels != NULL ? again_seconds(s, l, micro, steps, bytes) : 0;
        const double links =
            steps / p->accumulation_steps * cost->parts.gathers + cost->parts.reduces;
        double step = cost->step_seconds + (again > spare ? again - spare : 0);
        step = links > step ? links : step;
        least = step < least ? step : least;
    }
    return least * (1 - SW_FLOOR_MARGIN);
}

/* How long messages take over a group: of several sizes, of each kind and a ring's. */
enum { PROBES = 3, KINDS = SW_ALL_TO_ALL - SW_ALL_GATHER + 2 };
struct probed {
    uint16_t placement; /* sw_links_placement */
    double seconds[PROBES * KINDS];
};

static void probe(const struct sw_cluster_config *cluster, const struct sw_mesh *mesh,
                  enum sw_axis axis, struct probed *out)
{
    static const double bytes[PROBES] = {0, 1e6, 1e9};
    struct sw_span span;
    int32_t n = 0;
    sw_links_span(cluster, mesh, (struct sw_axes){1, {(uint8_t)axis}}, &span);
    for (int32_t i = 0; i < PROBES; i++) {
        out->seconds[n++] = sw_links_hop_seconds(cluster, &span, bytes[i]);
        for (int32_t kind = SW_ALL_GATHER; kind <= SW_ALL_TO_ALL; kind++)
            out->seconds[n++] =
                sw_links_seconds(cluster, &span, (enum sw_collective)kind, bytes[i]);
    }
}

/* Orders in none of which tensor or sequence parallelism lies better on the links than in the
 * first. */
struct alike {
    const struct probed *tp, *sp;
    int32_t count;
    struct sw_mesh order[SW_MAX_ORDERS];
};

/* What the placement of that axis comes to, worked out once: each is in the list, or becomes its
 * last. */
static const struct probed *find_probed(const struct sw_searcher *s, const struct sw_mesh *mesh,
                                        enum sw_axis axis, struct probed *list, int32_t *count)
{
    const uint16_t placement = sw_links_placement(mesh, (sw_axis_set)(1u << axis));
    for (int32_t i = 0; i < *count; i++)
        if (list[i].placement == placement)
            return &list[i];
    list[*count].placement = placement;
    probe(&s->run->cluster, mesh, axis, &list[*count]);
    return &list[(*count)++];
}

static bool is_no_slower(const struct probed *a, const struct probed *b)
{
    bool no_slower = true;
    for (int32_t i = 0; a != b && i < PROBES * KINDS; i++)
        no_slower &= a->seconds[i] <= b->seconds[i];
    return no_slower;
}

static bool is_no_worse(const struct alike *a, const struct alike *b)
{
    return is_no_slower(a->tp, b->tp) && is_no_slower(a->sp, b->sp);
}

/* Puts all orders of the mesh's axes among those that are alike; returns how many there are. */
static int32_t find_alike(const struct sw_searcher *s, const struct sw_mesh *mesh,
                          struct probed *probed, struct alike alike[SW_MAX_ORDERS])
{
    struct probed *tp = probed, *sp = probed + SW_MAX_ORDERS;
    int32_t count = 0, of_tp = 0, of_sp = 0;
    struct alike now;
    for (int32_t k = 0; sw_search_permute(mesh, k, &now.order[0]); k++) {
        int32_t into = 0, kept = 0;
        now.count = 1;
        now.tp = find_probed(s, &now.order[0], SW_TP, tp, &of_tp);
        now.sp = find_probed(s, &now.order[0], SW_SP, sp, &of_sp);
        while (into < count && !is_no_worse(&alike[into], &now))
            into++;
        if (into < count) {
            alike[into].order[alike[into].count++] = now.order[0];
            continue;
        }
        for (int32_t i = 0; i < count; i++) {
            if (is_no_worse(&now, &alike[i])) {
                memcpy(&now.order[now.count], alike[i].order,
                       (size_t)alike[i].count * sizeof *now.order);
                now.count += alike[i].count;
            } else if (kept++ < i) {
                alike[kept - 1] = alike[i];
            }
        }
        alike[kept] = now;
        count = kept + 1;
    }
    return count;
}

/* Four axes have many orders; tensor and sequence parallelism compete for the fastest links, and
 * what travels over them is waited for: whether the step stays within the limit where these two lie
 * as well as in some order, all else as well as it may. */
static int has_alike_within(const struct sw_searcher *s, const struct looking_at *l,
                            const struct sw_sized *sized, bool *within, struct sw_error *err)
{
    struct probed probed[2 * SW_MAX_ORDERS];
    struct alike alike[SW_MAX_ORDERS];
    const int32_t count = find_alike(s, l->mesh, probed, alike);
    for (int32_t i = 0; i < count && !*within; i++) {
        struct sw_cost cost;
        const struct sw_cost_ideal ideal = {.orders = alike[i].order,
                                            .order_count = alike[i].count};
        if (sw_cost_price_ideal(sized->program, &s->run->cluster, &ideal, &sized->counted->known,
                                &cost, err) != 0)
            return -1;
        *within = least_seconds(s, l, sized->program, &cost) <= l->limit;
    }
    return 0;
}

/* In that order of the axes. A ring that leaves its nodes there may be made of inner rings, which
 * ideal steps alone know. */
static int is_order_within(const struct sw_searcher *s, const struct looking_at *l,
                           const struct sw_sized *sized, const struct sw_mesh *order, bool *within,
                           struct sw_error *err)
{
    const struct sw_axes sp = {1, {SW_SP}};
    struct sw_cost cost;
    sized->program->mesh = *order;
    if (sw_cost_price_known(sized->program, &s->run->cluster, NULL, &sized->counted->known, &cost,
                            err) != 0)
        return -1;
    *within = least_seconds(s, l, sized->program, &cost) <= l->limit;
    if (*within || l->variant->strategy != SW_ATTENTION_RING ||
        sw_links_inner_ring(&s->run->cluster, order, sp) == 0)
        return 0;
    const struct sw_cost_ideal ideal = {.orders = order, .order_count = 1};
    if (sw_cost_price_ideal(sized->program, &s->run->cluster, &ideal, &sized->counted->known, &cost,
                            err) != 0)
        return -1;
    *within = least_seconds(s, l, sized->program, &cost) <= l->limit;
    return 0;
}

/* Whether the step stays within the limit on the links of one of the orders of axes. */
static int has_order_within(const struct sw_searcher *s, const struct looking_at *l,
                            const struct sw_sized *sized, bool *within, struct sw_error *err)
{
    struct sw_mesh order;
    *within = false;
    if (sw_search_permute(l->mesh, FEW_ORDERS, &order))
        return has_alike_within(s, l, sized, within, err);
    for (int32_t k = 0; !*within && sw_search_permute(l->mesh, k, &order); k++)
        if (is_order_within(s, l, sized, &order, within, err) != 0)
            return -1;
    return 0;
}

static int is_variant_within(struct sw_searcher *s, struct looking_at *l, struct sw_levels *levels,
                             int64_t *levels_batch, bool *within, struct sw_error *err)
{
    const int64_t all = most_sequences(s, l->mesh), limit_bytes = sw_searcher_limit(s);
    struct sw_sized sized;
    struct sw_cost cost;
    *within = false;
    if (make_ideal(s, l->mesh, l->variant, all, &sized, err) != 0)
        return -1;
    if (sized.program == NULL)
        return 0;
    l->state_bytes = (double)sw_searcher_state_bytes(s, &sized);
    if (l->state_bytes > (double)limit_bytes)
        return 0;
    l->bytes = (double)sized.least_bytes;
    l->micro_batch = (double)sized.decision.train.micro_batch_size;
    if (price_ideal(s, &sized, false, &cost, err) != 0)
        return -1;
    if (least_seconds(s, l, sized.program, &cost) > l->limit)
        return 0;
    if (sized.least_bytes > limit_bytes && s->run->micro_batch_size == 0 &&
        s->run->recompute_auto) {
        if (*levels_batch == 0 &&
            find_levels(s, l->mesh, l->variant, levels, levels_batch, err) != 0)
            return -1;
        l->levels = levels->count > 0 ? levels : NULL;
        l->levels_batch = *levels_batch;
        if (make_ideal(s, l->mesh, l->variant, all, &sized, err) != 0) /* others were made */
            return -1;
        if (least_seconds(s, l, sized.program, &cost) > l->limit)
            return 0;
    }
    return has_order_within(s, l, &sized, within, err);
}

int sw_search_may_take(struct sw_searcher *s, const struct sw_preference *p,
                       const struct sw_mesh *mesh, struct sw_floors *group, double limit, bool *out,
                       struct sw_error *err)
{
    const struct sw_mesh made =
        sw_mesh_make(mesh->size[SW_DP], mesh->size[SW_FSDP], mesh->size[SW_TP], mesh->size[SW_SP]);
    const int64_t shards = (int64_t)mesh->size[SW_DP] * mesh->size[SW_FSDP];
    *out = false;
    for (int32_t i = 0; i < p->count && !*out; i++) {
        struct looking_at l = {.mesh = &made,
                               .variant = &p->variant[i],
                               .limit = limit,
                               .padded = s->run->global_batch_size % shards != 0};
        if (find_floor(s, p, (int32_t)shards, i, group, err) != 0)
            return -1;
        if (group->seconds[i] <= limit &&
            is_variant_within(s, &l, &group->levels[i], &group->micro_batch[i], out, err) != 0)
            return -1;
        if (l.state_bytes > (double)sw_searcher_limit(s))
            return 0; /* every variant's */
    }
    return 0;
}

int sw_search_fits(struct sw_searcher *s, const struct sw_preference *p, struct sw_candidate *out,
                   bool *fits, struct sw_error *err)
{
    struct sw_mesh mesh = out->decision.mesh;
    *fits = false;
    if (!s->keep_order)
        mesh =
            sw_mesh_make(mesh.size[SW_DP], mesh.size[SW_FSDP], mesh.size[SW_TP], mesh.size[SW_SP]);
    for (int32_t i = 0; i < p->count; i++) {
        const struct sw_decision smallest = sw_searcher_smallest(s, &mesh, &p->variant[i]);
        struct sw_candidate c;
        struct sw_sized sized;
        if (sw_searcher_size(s, &smallest, &sized, err) != 0)
            return -1;
        if (sized.reason == SW_REJECT_BATCH ||
            (sized.program != NULL && sw_searcher_state_bytes(s, &sized) > sw_searcher_limit(s)))
            break; /* whatever the variant */
        if (sized.program == NULL || sized.least_bytes > sw_searcher_limit(s))
            continue;
        if (sized.most_bytes > sw_searcher_limit(s)) {
            if (sw_searcher_measure(s, &sized, &c, err) != 0)
                return -1;
            if (c.reason != SW_FITS)
                continue;
        }
        *out = (struct sw_candidate){
            .decision = sized.decision, .reason = SW_FITS, .fastest_seconds = INFINITY};
        *fits = true;
        break;
    }
    return 0;
}

int sw_search_exactly(const struct sw_searcher *like, double limit, struct sw_candidate *c,
                      struct sw_error *err)
{
    struct sw_searcher s = *like;
    struct sw_preference preference;
    struct sw_floors none = {.micro_batch = {0}};
    bool may = true;
    if (!isinf(c->fastest_seconds))
        return 0;
    if (sw_search_prefer(&s, &c->decision.mesh, &preference, err) != 0 ||
        (!isinf(limit) &&
         sw_search_may_take(&s, &preference, &c->decision.mesh, &none, limit, &may, err) != 0) ||
        (may && sw_search_mesh(&s, &preference, c, err) != 0))
        return -1;
    return 0;
}
