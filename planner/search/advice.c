/* Better choices than the search's own: a much faster mesh that the run's rule or its mesh_dim
 * excludes, and other numbers of nodes. */
#include "planner/search/report.h"

#include "planner/command/format.h"

#include <inttypes.h>

/* Largest share of compute in a step that may be as short on half the nodes, where compute doubles.
 * In random runs all were below one half; the rest allows for small programs. */
static const double waits_when_computing_less_than = 0.6;

/* Share of the fastest step from which on a slower choice deserves a warning. */
static const double much_slower = 0.10;

/* Least saving of accelerator-hours, and largest increase of a step, that make another number of
 * nodes clearly better. */
static const double clearly_fewer_hours = 0.10, hardly_longer = 0.02;

/* Ignores mistakes of other meshes, such as rules that only the run's own can keep: no fault of the
 * run, and no advice follows. */
static int fail_for_advice(const struct sw_error *why, struct sw_error *err)
{
    return why->status == SW_ENVIRONMENT ? sw_fail_as(err, why) : 0;
}

/* Takes the fastest of the table, including an excluded order of its axes. */
static void take_fastest(const struct sw_search *search, struct sw_candidate *out)
{
    struct sw_mesh least;
    const double seconds = sw_rank_fastest(search, &least);
    *out = search->mesh[search->fastest];
    if (seconds < out->fastest_seconds && seconds < out->cost.step_seconds) {
        out->decision.mesh = least;
        out->cost.step_seconds = seconds;
    }
}

/* Finds the fastest of all meshes on these nodes, in any order of axes. */
static int find_fastest(const struct sw_run_config *run, const struct sw_search *search,
                        const struct sw_candidate *chosen, struct sw_candidate *out,
                        struct sw_error *err)
{
    struct sw_run_config open = *run;
    struct sw_search all = {0};
    struct sw_error why = {0};
    *out = *chosen;
    if (!sw_search_mesh_is_named(run) && run->prefer != SW_PREFER_FSDP_STRICT) {
        /* the same table; without it, the margin bounds how much slower the choice can be */
        if (search != NULL)
            take_fastest(search, out);
        if (search != NULL || sw_run_config_prefers_time(run) || run->prefer_within <= much_slower)
            return 0;
    }
    open.mesh_dim = "auto";
    open.prefer = SW_PREFER_TIME;
    if (sw_search_meshes_alone(&open, 1, &all, &why) != 0)
        return fail_for_advice(&why, err);
    if (all.feasible > 0 && all.mesh[0].cost.step_seconds < chosen->fastest_seconds)
        *out = all.mesh[0];
    sw_search_free(&all);
    return 0;
}

/* Finds half of the nodes, a quarter ..., as long as the step is no longer. */
static int find_fewer(const struct sw_run_config *run, const struct sw_candidate *chosen,
                      struct sw_advice *out, struct sw_error *err)
{
    const double step = chosen->cost.step_seconds;
    if (sw_search_mesh_is_named(run) || run->nodes_least < run->nodes_most ||
        chosen->cost.compute_seconds > waits_when_computing_less_than * step)
        return 0;
    for (int32_t n = run->cluster.nodes / 2; n >= 1 && out->fewer_count < SW_MAX_FEWER; n /= 2) {
        const struct sw_run_config part = sw_run_on_nodes(run, n);
        struct sw_node_count *count = &out->fewer[out->fewer_count];
        struct sw_search search = {0};
        struct sw_error why = {0};
        if (sw_search_meshes_alone(&part, 1, &search, &why) != 0)
            return fail_for_advice(&why, err);
        sw_search_count_nodes(&part, &search, count);
        sw_search_free(&search);
        if (!count->fits || count->step_seconds > step)
            break;
        out->fewer_count++;
    }
    return 0;
}

/* True if a mesh of that many nodes may be clearly better. Useful compute takes the same
 * accelerator time, but products on fewer ranks are up to a tenth more efficient, and more nodes
 * have memory for less recomputation. */
static bool may_be_better(const struct sw_run_config *run, const struct sw_candidate *chosen,
                          int32_t nodes)
{
    const double more_efficient = 0.9, without_recompute = 0.75;
    const bool again = nodes > run->cluster.nodes &&
                       !sw_recompute_equal(chosen->decision.train.recompute, sw_recompute_none());
    const double useful_s = (chosen->cost.compute_seconds - chosen->padding_seconds) *
                            more_efficient * (again ? without_recompute : 1);
    const double ratio = (double)run->cluster.nodes / nodes;
    return useful_s * ratio <= (1 + hardly_longer) * chosen->cost.step_seconds &&
           useful_s <= (1 - clearly_fewer_hours) * chosen->cost.step_seconds;
}

/* Finds the number of nodes with the fewest accelerator-hours among the clearly better ones. */
static int find_better(const struct sw_run_config *run, const struct sw_candidate *chosen,
                       struct sw_advice *out, struct sw_error *err)
{
    const int32_t now = run->cluster.nodes;
    const int32_t tried[] = {now * 3 / 4, (int32_t)(((int64_t)now * 4 + 2) / 3), now * 2};
    const double step = chosen->cost.step_seconds;
    double least = (1 - clearly_fewer_hours) * now * step;
    if (sw_search_mesh_is_named(run) || run->nodes_least < run->nodes_most || out->fewer_count > 0)
        return 0;
    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
        struct sw_run_config part = *run;
        struct sw_search search = {0};
        struct sw_error why = {0};
        struct sw_node_count count;
        if (tried[i] < 1 || tried[i] == now || tried[i] > run->cluster_nodes ||
            !may_be_better(run, chosen, tried[i]))
            continue;
        sw_run_config_resize(&part, tried[i]);
        if (sw_search_meshes_alone(&part, 1, &search, &why) != 0)
            return fail_for_advice(&why, err);
        sw_search_count_nodes(&part, &search, &count);
        sw_search_free(&search);
        if (!count.fits || count.step_seconds > (1 + hardly_longer) * step ||
            count.nodes * count.step_seconds > least)
            continue;
        least = count.nodes * count.step_seconds;
        out->better = count;
    }
    return 0;
}

int sw_search_advise(const struct sw_run_config *run, const struct sw_search *search,
                     const struct sw_candidate *chosen, struct sw_advice *out, struct sw_error *err)
{
    *out = (struct sw_advice){.fewer_count = 0};
    if (find_fastest(run, search, chosen, &out->fastest, err) != 0 ||
        find_fewer(run, chosen, out, err) != 0 || find_better(run, chosen, out, err) != 0)
        return -1;
    out->slower = chosen->cost.step_seconds / out->fastest.cost.step_seconds - 1;
    out->slower = out->slower > 0 ? out->slower : 0; /* options chosen for less memory */
    return 0;
}

/* Settings with which the search always takes a fast mesh. */
static const char *remedy_of(const struct sw_run_config *run)
{
    const bool named = sw_search_mesh_is_named(run);
    if (run->prefer == SW_PREFER_FSDP_STRICT)
        return named ? "mesh_dim: auto, prefer: fsdp" : "prefer: fsdp";
    if (run->prefer == SW_PREFER_FSDP && run->prefer_within > much_slower)
        return named ? "mesh_dim: auto, prefer_within: 5 %" : "prefer_within: 5 %";
    return "mesh_dim: auto";
}

static void warn_of_slowness(const char *path, const struct sw_run_config *run,
                             const struct sw_candidate *chosen, const struct sw_advice *advice)
{
    char mine[64], other[64], took[SW_FORMAT_BYTES], least[SW_FORMAT_BYTES];
    const struct sw_place at = run->mesh_dim_place;
    const bool named = sw_search_mesh_is_named(run);
    if (advice->slower <= much_slower)
        return;
    if (named && at.file != NULL && at.line > 0)
        fprintf(stderr, "%s:%" PRId32 ":%" PRId32 ": ", at.file, at.line, at.column);
    else
        fprintf(stderr, "%s: ", sw_command_shown(path));
    fprintf(stderr,
            "warning: mesh_dim %s takes %s a step, %.0f %% longer than the fastest mesh, %s "
            "(%s); '%s' takes one that is nearly as fast\n",
            sw_mesh_format(&chosen->decision.mesh, mine, sizeof mine),
            sw_format_seconds(chosen->cost.step_seconds, took), advice->slower * 100,
            sw_mesh_format(&advice->fastest.decision.mesh, other, sizeof other),
            sw_format_seconds(advice->fastest.cost.step_seconds, least), remedy_of(run));
}

/* Warns with the fastest of the smaller numbers, which need not be the smallest. */
static void warn_of_nodes(const char *path, const struct sw_run_config *run,
                          const struct sw_candidate *chosen, const struct sw_advice *advice)
{
    char mesh[64], least[SW_FORMAT_BYTES], took[SW_FORMAT_BYTES], also[96] = "";
    if (advice->fewer_count == 0)
        return;
    const struct sw_node_count *best = &advice->fewer[0];
    const struct sw_node_count *last = &advice->fewer[advice->fewer_count - 1];
    for (int32_t i = 1; i < advice->fewer_count; i++)
        if (advice->fewer[i].step_seconds <= best->step_seconds)
            best = &advice->fewer[i];
    if (best != last)
        snprintf(also, sizeof also, ", %d no slower (%s)", (int)last->nodes,
                 sw_format_seconds(last->step_seconds, took));
    fprintf(stderr, "%s: warning: %d of the %d nodes %s %s: %s a step with mesh_dim %s",
            sw_command_shown(path), (int)best->nodes, (int)run->cluster.nodes,
            best->nodes == 1 ? "is" : "are",
            best->step_seconds < 0.995 * chosen->cost.step_seconds ? "faster" : "as fast",
            sw_format_seconds(best->step_seconds, least),
            sw_mesh_format(&best->mesh, mesh, sizeof mesh));
    fprintf(stderr, ", %s with all%s; 'nodes: %d' takes them\n",
            sw_format_seconds(chosen->cost.step_seconds, took), also, (int)best->nodes);
}

/* Warns of another number of nodes that is cheaper and ends as soon. */
static void warn_of_hours(const char *path, const struct sw_run_config *run,
                          const struct sw_candidate *chosen, const struct sw_advice *advice)
{
    char step[SW_FORMAT_BYTES], mine[SW_FORMAT_BYTES], earlier[SW_FORMAT_BYTES], text[96] = "";
    const struct sw_node_count *better = &advice->better;
    const int32_t now = run->cluster.nodes;
    if (better->nodes == 0)
        return;
    const double saved_s = chosen->cost.step_seconds - better->step_seconds;
    if (run->says_steps && saved_s > 0)
        snprintf(text, sizeof text, " and end %s earlier",
                 sw_format_duration(saved_s * (double)sw_run_steps(run), earlier));
    fprintf(stderr,
            "%s: warning: %d nodes take %.0f %% fewer accelerator-hours%s: %s a step, %s with %d; "
            "'nodes: %d' takes them, --nodes %d..%d compares\n",
            sw_command_shown(path), (int)better->nodes,
            100 * (1 - better->nodes * better->step_seconds / (now * chosen->cost.step_seconds)),
            text, sw_format_seconds(better->step_seconds, step),
            sw_format_seconds(chosen->cost.step_seconds, mine), (int)now, (int)better->nodes,
            (int)(now > 1 ? now / 2 : 1), (int)now * 2);
}

void sw_report_warn_of_choice(const char *path, const struct sw_run_config *run,
                              const struct sw_candidate *chosen, const struct sw_advice *advice)
{
    warn_of_slowness(path, run, chosen, advice);
    warn_of_nodes(path, run, chosen, advice);
    warn_of_hours(path, run, chosen, advice);
}
