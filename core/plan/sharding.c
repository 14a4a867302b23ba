#include "core/plan/sharding.h"

#include <stdio.h>
#include <string.h>

/* Axes that split the copies of a parameter on a mesh. */
struct lies {
    struct sw_axes weights, gradients, moments;
    bool kept;
};

static bool lie_alike(const struct lies *a, const struct lies *b)
{
    return sw_axes_equal(a->weights, b->weights) && sw_axes_equal(a->gradients, b->gradients) &&
           sw_axes_equal(a->moments, b->moments) && a->kept == b->kept;
}

static struct lies lies_of(const struct sw_mesh *mesh, const struct sw_program_options *o)
{
    const struct sw_axes *row = o->rules.axes;
    return (struct lies){sw_axes_effective(mesh, row[SW_L_EMBED]),
                         sw_axes_effective(mesh, row[SW_L_GRAD_EMBED]),
                         sw_axes_effective(mesh, row[SW_L_MOMENT_EMBED]),
                         o->keep_gathered && sw_axes_size(mesh, row[SW_L_EMBED]) > 1};
}

/* True for shardings of other meshes: with whole weights, moments over dp are ZeRO-1 on the mesh
 * whose fsdp is this dp; weights that fsdp does not split are ZeRO-1's, which has moments over sp
 * for no more traffic. */
static bool is_of_another(const struct sw_sharding_decision *s, const struct lies *lies)
{
    return (s->moments_over_dp || s->embed_fsdp) && lies->weights.count == 0;
}

int32_t sw_plan_shardings(const struct sw_run_config *run, const struct sw_mesh *mesh,
                          struct sw_sharding_decision out[SW_SHARDINGS], struct sw_error *err)
{
    static const struct sw_sharding_decision table[SW_SHARDINGS] = {
        {.zero = SW_ZERO_3},
        {.zero = SW_ZERO_2},
        {.zero = SW_ZERO_1},
        {.zero = SW_ZERO_3, .embed_fsdp = true},
        {.zero = SW_ZERO_3, .moments_over_dp = true},
        {.zero = SW_ZERO_3, .keep_gathered = true}};
    struct lies lies[SW_SHARDINGS];
    int32_t count = 0;
    out[0] = sw_plan_sharding(run);
    for (int32_t i = 0; i < SW_SHARDINGS && run->zero == SW_ZERO_AUTO; i++) {
        const struct sw_decision decision = {.mesh = *mesh,
                                             .train.micro_batch_size = 1,
                                             .train.strategy = SW_ATTENTION_RING,
                                             .train.sharding = table[i]};
        struct sw_program_options options;
        struct sw_error why = {0};
        int32_t like = 0;
        if (sw_plan_program_options(run, &decision, &options, &why) != 0) {
            if (i == 0 || why.status == SW_ENVIRONMENT)
                return sw_fail_as(err, &why);
            continue; /* the run's own rules forbid it */
        }
        lies[count] = lies_of(mesh, &options);
        while (!lie_alike(&lies[like], &lies[count]))
            like++;
        if (like == count && !is_of_another(&table[i], &lies[count]))
            out[count++] = table[i];
    }
    return count > 0 ? count : 1;
}

/* Appends ", `what` over axes" to the text. */
static void add_axes(struct sw_told_sharding *out, const char *what, struct sw_axes axes)
{
    char names[32];
    const size_t used = strlen(out->text);
    snprintf(out->text + used, sizeof out->text - used, ", %s %s%s", what,
             axes.count > 0 ? "over " : "whole",
             axes.count > 0 ? sw_axes_format(axes, names, sizeof names) : "");
}

const struct sw_told_sharding *sw_plan_tell_sharding(const struct sw_run_config *run,
                                                     const struct sw_decision *decision,
                                                     struct sw_told_sharding *out)
{
    const struct sw_mesh *mesh = &decision->mesh;
    struct sw_program_options options;
    if (sw_plan_program_options(run, decision, &options, NULL) != 0) {
        memset(&options, 0, sizeof options);
        sw_rules_default(&options.rules, SW_ATTENTION_RING);
    }
    const struct lies lies = lies_of(mesh, &options);
    const struct sw_axes usual = sw_axes_effective(mesh, (struct sw_axes){2, {SW_FSDP, SW_SP}});
    *out = (struct sw_told_sharding){.name = sw_rules_sharding(&options.rules, mesh),
                                     .embed = options.rules.axes[SW_L_EMBED],
                                     .gradients = options.rules.axes[SW_L_GRAD_EMBED],
                                     .moments = options.rules.axes[SW_L_MOMENT_EMBED],
                                     .reshards = !lies.kept};
    snprintf(out->text, sizeof out->text, "%s", out->name);
    if (lies.weights.count > 0 && !sw_axes_equal(lies.weights, usual))
        add_axes(out, "weights", lies.weights);
    if (!sw_axes_equal(lies.gradients, lies.weights) &&
        !sw_axes_equal(lies.gradients, lies.moments))
        add_axes(out, "gradients", lies.gradients);
    if (!sw_axes_equal(lies.moments, lies.weights.count > 0 ? lies.weights : usual))
        add_axes(out, "moments", lies.moments);
    if (lies.kept)
        snprintf(out->text + strlen(out->text), sizeof out->text - strlen(out->text),
                 ", gathered once");
    return out;
}
