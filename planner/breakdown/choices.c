/* Runners-up of every choice: each alternative is compiled and priced, all else equal. */
#include "planner/breakdown/data.h"

#include "core/cost/links.h"
#include "planner/command/format.h"
#include "planner/search/report.h"

#include <inttypes.h>
#include <string.h>

static struct sw_choice *new_choice(struct sw_explain *x, const char *name)
{
    if (x->choice_count == SW_EXPLAIN_CHOICES)
        return NULL;
    struct sw_choice *choice = &x->choice[x->choice_count++];
    *choice = (struct sw_choice){.reason = SW_FITS};
    snprintf(choice->name, sizeof choice->name, "%s", name);
    return choice;
}

/* Compares the alternative; `fixed`: the run file's setting that excludes it, NULL: none. */
static void judge(const struct sw_explain *x, const struct sw_candidate *other, const char *fixed,
                  struct sw_choice *choice)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], d[SW_FORMAT_BYTES], memory[128];
    const enum sw_fit_verdict verdict = sw_candidate_verdict(other);
    const double mine = x->c.cost.step_seconds, theirs = other->cost.step_seconds;
    choice->reason = other->reason;
    choice->step_seconds = theirs;
    choice->total_bytes = other->memory.total;
    if (verdict == SW_VERDICT_DOES_NOT_FIT && other->reason == SW_REJECT_MEMORY) {
        snprintf(choice->why, sizeof choice->why,
                 "does not fit: %s + %s reserved > %s, %s too much",
                 sw_format_bytes((double)other->memory.arena, a),
                 sw_format_bytes((double)other->memory.reserved, b),
                 sw_format_bytes((double)other->memory.limit, d),
                 sw_format_bytes((double)(other->memory.total - other->memory.limit), memory));
        return;
    }
    if (verdict == SW_VERDICT_DOES_NOT_FIT) {
        snprintf(choice->why, sizeof choice->why, "not possible: %s", other->detail);
        return;
    }
    const int64_t more = other->memory.total - x->c.memory.total;
    memory[0] = '\0';
    if (more != 0)
        snprintf(memory, sizeof memory, ", %s %s memory",
                 sw_format_bytes((double)(more > 0 ? more : -more), a), more > 0 ? "more" : "less");
    const size_t used = strlen(memory);
    if (verdict == SW_VERDICT_NO_HEADROOM)
        snprintf(memory + used, sizeof memory - used, ", fits without headroom: %s free, not %s",
                 sw_format_bytes((double)(other->memory.limit - other->memory.total), a),
                 sw_format_bytes((double)other->memory.headroom, d));
    const double percent = mine > 0 ? (theirs / mine - 1) * 100 : 0;
    if (percent > -0.05 && percent < 0.05)
        snprintf(choice->why, sizeof choice->why, "as fast (%s)%s", sw_format_seconds(theirs, b),
                 memory);
    else if (percent > 0)
        snprintf(choice->why, sizeof choice->why, "slower by %.1f %% (%s)%s", percent,
                 sw_format_seconds(theirs, b), memory);
    else
        snprintf(choice->why, sizeof choice->why, "faster by %.1f %% (%s)%s%s%s",
                 (mine / theirs - 1) * 100, sw_format_seconds(theirs, b), memory,
                 fixed != NULL ? "; the run file fixes " : "", fixed != NULL ? fixed : "");
}

/* Tries one alternative decision with the same mesh sizes. */
static int try_decision(struct sw_explain *x, const char *name, const struct sw_decision *decision,
                        const char *fixed, const char *chosen, const char *other,
                        struct sw_error *err)
{
    struct sw_candidate candidate;
    if (sw_search_evaluate(x->run, decision, 0, &candidate, NULL, err) != 0)
        return -1;
    struct sw_choice *choice = new_choice(x, name);
    if (choice == NULL)
        return 0;
    snprintf(choice->chosen, sizeof choice->chosen, "%s", chosen);
    snprintf(choice->other, sizeof choice->other, "%s", other);
    judge(x, &candidate, fixed, choice);
    return 0;
}

/* The first step of the rule in rank.c on which the two differ, if a margin applies: "" if only
 * time separates them. */
static void margin_step(const struct sw_explain *x, const struct sw_candidate *other, char *buffer,
                        size_t bytes)
{
    const int32_t mine = x->c.decision.mesh.size[SW_FSDP], its = other->decision.mesh.size[SW_FSDP];
    const double within = x->run->prefer_within;
    struct sw_mesh fastest;
    const double limit = sw_rank_fastest(x->all, &fastest) * (1 + within);
    const bool mine_may =
        x->at < 0 ? x->c.fastest_seconds <= limit : x->all->mesh[x->at].may_be_chosen;
    const bool other_may = other->may_be_chosen;
    const struct sw_candidate *not_chosen = mine_may ? other : &x->c;
    buffer[0] = '\0';
    if (mine_may && other_may && mine != its)
        snprintf(buffer, bytes, "%s fsdp (%d against %d)", its < mine ? "smaller" : "larger", its,
                 mine);
    else if (mine_may != other_may && not_chosen->fastest_seconds > limit)
        snprintf(buffer, bytes, "%s more than %.3g %% slower than the fastest",
                 mine_may ? "it is" : "this mesh is", 100 * within);
    else if (mine_may != other_may)
        snprintf(buffer, bytes, "%s leaves the fastest link domain for no more than %.3g %%",
                 mine_may ? "its tp" : "this mesh's tp", 100 * within);
}

/* The same for the bare rule. */
static void strict_step(const struct sw_candidate *mine, const struct sw_candidate *other,
                        char *buffer, size_t bytes)
{
    const int32_t *m = mine->decision.mesh.size, *o = other->decision.mesh.size;
    const int64_t inner_m = (int64_t)m[SW_TP] * m[SW_SP], inner_o = (int64_t)o[SW_TP] * o[SW_SP];
    if (m[SW_FSDP] != o[SW_FSDP])
        snprintf(buffer, bytes, "%s fsdp (%d against %d; the largest that fits is preferred)",
                 o[SW_FSDP] < m[SW_FSDP] ? "smaller" : "larger", o[SW_FSDP], m[SW_FSDP]);
    else if (mine->tp_leaves_domain != other->tp_leaves_domain)
        snprintf(buffer, bytes, "tp %d %s (%d here)", o[SW_TP],
                 other->tp_leaves_domain ? "leaves the fastest link domain"
                                         : "stays in the fastest link domain",
                 m[SW_TP]);
    else if (inner_m != inner_o)
        snprintf(buffer, bytes, "same fsdp, %s tp x sp (%" PRId64 " against %" PRId64 ")",
                 inner_o > inner_m ? "larger" : "smaller", inner_o, inner_m);
    else
        snprintf(buffer, bytes, "same fsdp and tp x sp; time decides");
}

static void against_mesh(struct sw_explain *x, const char *name, const struct sw_candidate *other,
                         bool rule)
{
    char step[160] = "", time[320];
    struct sw_choice *choice = new_choice(x, name);
    if (choice == NULL)
        return;
    sw_mesh_format(&x->c.decision.mesh, choice->chosen, sizeof choice->chosen);
    sw_mesh_format(&other->decision.mesh, choice->other, sizeof choice->other);
    judge(x, other, NULL, choice);
    if (rule && x->run->prefer == SW_PREFER_FSDP)
        margin_step(x, other, step, sizeof step);
    else if (rule && x->run->prefer == SW_PREFER_FSDP_STRICT)
        strict_step(&x->c, other, step, sizeof step);
    if (step[0] == '\0')
        return;
    memcpy(time, choice->why, sizeof time);
    snprintf(choice->why, sizeof choice->why, "%s; %.150s", step, time);
}

static void mesh_choices(struct sw_explain *x)
{
    const struct sw_search *all = x->all;
    int32_t next = -1;
    for (int32_t i = 0; i < all->feasible && next < 0; i++)
        if (i != x->at)
            next = i;
    if (next < 0)
        return;
    const bool mine_first = x->at == 0;
    against_mesh(x, mine_first ? "mesh: runner-up" : "mesh: best by the rule", &all->mesh[next],
                 true);
    if (all->fastest >= 0 && all->fastest != x->at && all->fastest != next)
        against_mesh(x, "mesh: fastest", &all->mesh[all->fastest], true);
}

/* Axes of more than one rank, outermost first: orders that agree in them are equal. */
static uint32_t order_key(const struct sw_mesh *mesh)
{
    uint32_t key = 0;
    for (int32_t i = 0; i < SW_AXIS_COUNT; i++)
        if (mesh->size[mesh->order[i]] > 1)
            key = key * 8 + mesh->order[i] + 1;
    return key;
}

/* Inner rings in another order, if it has any. */
static int32_t inner_ring(const struct sw_explain *x, const struct sw_decision *decision)
{
    const struct sw_axes sp = {1, {SW_SP}};
    return x->c.decision.train.inner_ring == 0
               ? 0
               : sw_links_inner_ring(&x->run->cluster, &decision->mesh, sp);
}

/* Finds the fastest of all other orders. */
static int order_choice(struct sw_explain *x, struct sw_error *err)
{
    struct sw_candidate best = {0}, candidate;
    struct sw_mesh_request request;
    uint32_t seen[24];
    int32_t count = 0;
    struct sw_decision decision = x->c.decision;
    const uint32_t mine = order_key(&decision.mesh);
    seen[count++] = mine;
    for (int32_t code = 0; code < 256; code++) {
        uint32_t used = 0;
        for (int32_t i = 0; i < SW_AXIS_COUNT; i++) {
            decision.mesh.order[i] = (uint8_t)(code >> (6 - 2 * i) & 3);
            used |= 1u << decision.mesh.order[i];
        }
        if (used != 15)
            continue;
        const uint32_t key = order_key(&decision.mesh);
        bool known = false;
        for (int32_t i = 0; i < count; i++)
            known = known || seen[i] == key;
        if (known)
            continue;
        seen[count++] = key;
        decision.train.inner_ring = inner_ring(x, &decision);
        if (sw_search_evaluate(x->run, &decision, 0, &candidate, NULL, err) != 0)
            return -1;
        if (candidate.cost.step_seconds > 0 &&
            (best.cost.step_seconds == 0 || candidate.cost.step_seconds < best.cost.step_seconds))
            best = candidate;
    }
    if (best.cost.step_seconds == 0)
        return 0;
    struct sw_choice *choice = new_choice(x, "axis order");
    if (choice == NULL)
        return 0;
    sw_mesh_format_order(&x->c.decision.mesh, choice->chosen, sizeof choice->chosen);
    sw_mesh_format_order(&best.decision.mesh, choice->other, sizeof choice->other);
    const bool fixed =
        sw_mesh_request_parse(x->run->mesh_dim, &request, NULL) == 0 && request.keep_order;
    judge(x, &best, fixed ? "the axis order" : NULL, choice);
    const size_t used = strlen(choice->why);
    if (!fixed && best.tp_leaves_domain && !x->c.tp_leaves_domain &&
        x->run->prefer == SW_PREFER_FSDP_STRICT)
        snprintf(choice->why + used, sizeof choice->why - used,
                 "; prefer: fsdp-strict keeps tp within the fastest link domain");
    else if (!fixed && best.tp_leaves_domain && x->c.passed_over.seconds > 0)
        snprintf(choice->why + used, sizeof choice->why - used,
                 "; prefer_within keeps tp within the fastest link domain");
    return 0;
}

static int recompute_choices(struct sw_explain *x, struct sw_error *err)
{
    const struct sw_recompute levels[] = {sw_recompute_none(), sw_recompute_full()};
    const char *fixed = x->run->recompute_auto ? NULL : "recompute";
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        struct sw_decision decision = x->c.decision;
        decision.train.recompute = levels[i];
        if (!sw_recompute_equal(levels[i], x->c.decision.train.recompute) &&
            try_decision(x, "recompute", &decision, fixed,
                         sw_recompute_word(x->c.decision.train.recompute),
                         sw_recompute_word(levels[i]), err) != 0)
            return -1;
    }
    return 0;
}

/* Tries the next divisor of the rank's sequences in either direction. */
static int micro_batch_choices(struct sw_explain *x, struct sw_error *err)
{
    const int32_t *size = x->c.decision.mesh.size;
    const int64_t mine = x->c.decision.train.micro_batch_size;
    const int64_t ways = (int64_t)size[SW_DP] * size[SW_FSDP];
    const int64_t per_rank = (x->run->global_batch_size + ways - 1) / ways;
    int64_t tried[2] = {0, 0};
    for (int64_t m = mine - 1; m >= 1 && tried[0] == 0; m--)
        if (per_rank % m == 0)
            tried[0] = m;
    for (int64_t m = mine + 1; m <= per_rank && tried[1] == 0; m++)
        if (per_rank % m == 0)
            tried[1] = m;
    for (int32_t i = 0; i < 2; i++) {
        char chosen[32], other[32];
        struct sw_decision decision = x->c.decision;
        decision.train.micro_batch_size = tried[i];
        snprintf(chosen, sizeof chosen, "%" PRId64, mine);
        snprintf(other, sizeof other, "%" PRId64, tried[i]);
        if (tried[i] > 0 && try_decision(x, "micro_batch_size", &decision,
                                         x->run->micro_batch_size > 0 ? "micro_batch_size" : NULL,
                                         chosen, other, err) != 0)
            return -1;
    }
    return 0;
}

/* Gives a ring other than the decision's the inner rings of its mesh, if these fit and are faster
 * than one ring. */
static int choose_rings(const struct sw_explain *x, struct sw_decision *decision,
                        struct sw_error *err)
{
    const struct sw_axes sp = {1, {SW_SP}};
    const int32_t inner = sw_links_inner_ring(&x->run->cluster, &decision->mesh, sp);
    struct sw_candidate one, rings;
    decision->train.inner_ring = 0;
    if (decision->train.strategy != SW_ATTENTION_RING || inner == 0)
        return 0;
    if (sw_search_evaluate(x->run, decision, 0, &one, NULL, err) != 0)
        return -1;
    decision->train.inner_ring = inner;
    if (sw_search_evaluate(x->run, decision, 0, &rings, NULL, err) != 0)
        return -1;
    if (rings.reason != SW_FITS || rings.cost.step_seconds >= one.cost.step_seconds)
        decision->train.inner_ring = 0;
    return 0;
}

static int attention_choices(struct sw_explain *x, struct sw_error *err)
{
    char other[32], rings[32];
    const struct sw_decision *mine = &x->c.decision;
    const char *fixed = x->run->strategy == SW_ATTENTION_AUTO ? NULL : "attention.strategy";
    if (mine->mesh.size[SW_SP] <= 1)
        return 0;
    for (int32_t s = SW_ATTENTION_RING; s < SW_ATTENTION_AUTO; s++) {
        struct sw_decision decision = *mine;
        decision.train.strategy = (enum sw_attention_strategy)s;
        /* only a ring uses zigzag; an all-to-all over heads needs none */
        decision.train.layout = s == SW_ATTENTION_RING ? x->run->layout : SW_CONTIGUOUS;
        if (decision.train.strategy == mine->train.strategy)
            continue;
        if (choose_rings(x, &decision, err) != 0)
            return -1;
        snprintf(other, sizeof other, "%s%s", sw_word(sw_words_strategy, decision.train.strategy),
                 sw_report_rings(&decision, rings, sizeof rings));
        if (try_decision(x, "attention", &decision, fixed,
                         sw_word(sw_words_strategy, mine->train.strategy), other, err) != 0)
            return -1;
    }
    struct sw_decision decision = *mine;
    const bool zigzag = mine->train.layout == SW_ZIGZAG;
    decision.train.layout = zigzag ? SW_CONTIGUOUS : SW_ZIGZAG;
    return mine->train.strategy != SW_ATTENTION_RING
               ? 0
               : try_decision(x, "attention layout", &decision, "attention.layout",
                              sw_word(sw_words_layout, mine->train.layout),
                              sw_word(sw_words_layout, decision.train.layout), err);
}

/* Tries one ring, or inner rings of a node's ranks. */
static int ring_choice(struct sw_explain *x, struct sw_error *err)
{
    const struct sw_axes sp = {1, {SW_SP}};
    struct sw_decision decision = x->c.decision;
    const int32_t inner = sw_links_inner_ring(&x->run->cluster, &decision.mesh, sp);
    const bool one = decision.train.inner_ring == 0;
    char rings[32];
    if (decision.train.strategy != SW_ATTENTION_RING || inner == 0)
        return 0;
    snprintf(rings, sizeof rings, "rings of %d", (int)(one ? inner : decision.train.inner_ring));
    decision.train.inner_ring = one ? inner : 0;
    return try_decision(x, "attention ring", &decision, NULL, one ? "one" : rings,
                        one ? rings : "one", err);
}

static int residual_choice(struct sw_explain *x, struct sw_error *err)
{
    struct sw_decision decision = x->c.decision;
    if (decision.mesh.size[SW_TP] <= 1)
        return 0;
    for (int32_t i = 0; i < x->run->rule_count; i++)
        if (strcmp(x->run->rule[i].logical, "residual_seq") == 0)
            return 0;
    decision.train.residual_seq_tp = !decision.train.residual_seq_tp;
    return try_decision(x, "residual_seq", &decision, NULL,
                        decision.train.residual_seq_tp ? "sp" : "sp,tp",
                        decision.train.residual_seq_tp ? "sp,tp" : "sp", err);
}

/* Setting that excludes other shardings from the search. */
static const char *sharding_setting(const struct sw_run_config *run)
{
    return run->zero == SW_ZERO_AUTO ? NULL
           : run->zero == SW_ZERO_1  ? "zero: 1"
           : run->zero == SW_ZERO_2  ? "zero: 2"
                                     : "zero: 3";
}

/* Tries each other sharding of 'zero: auto' on the mesh. */
static int sharding_choices(struct sw_explain *x, struct sw_error *err)
{
    struct sw_sharding_decision choice[SW_SHARDINGS];
    struct sw_run_config any = *x->run;
    any.zero = SW_ZERO_AUTO;
    any.reshard_after_forward = true;
    const int32_t count = sw_plan_shardings(&any, &x->c.decision.mesh, choice, err);
    if (count < 0)
        return -1;
    for (int32_t i = 0; i < count; i++) {
        struct sw_decision decision = x->c.decision;
        struct sw_told_sharding other;
        decision.train.sharding = choice[i];
        (void)sw_plan_tell_sharding(x->run, &decision, &other);
        if (strcmp(other.text, x->c.sharding.text) != 0 &&
            try_decision(x, "sharding", &decision, sharding_setting(x->run), x->c.sharding.text,
                         other.text, err) != 0)
            return -1;
    }
    return 0;
}

int sw_explain_choices(struct sw_explain *x, struct sw_error *err)
{
    mesh_choices(x);
    if (order_choice(x, err) != 0 || micro_batch_choices(x, err) != 0 ||
        recompute_choices(x, err) != 0 || attention_choices(x, err) != 0 ||
        ring_choice(x, err) != 0 || sharding_choices(x, err) != 0)
        return -1;
    return residual_choice(x, err);
}
