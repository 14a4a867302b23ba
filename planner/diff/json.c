/* A diff as JSON, schema shardwright.diff/1. */
#include "planner/diff/diff.h"

#include "core/base/json.h"

#include <math.h>

/* Writes null if the side is missing, or nothing fits. */
static void write_side(struct sw_json *j, const char *key, const struct sw_diff_side *side)
{
    char mesh[64];
    if (side->run == NULL) {
        sw_json_null(j, key);
        return;
    }
    sw_json_object(j, key);
    sw_json_bool(j, "fits", side->fits);
    if (side->parameters > 0)
        sw_json_number(j, "parameters", (double)side->parameters);
    else
        sw_json_null(j, "parameters");
    sw_json_text(j, "why_not", side->fits ? NULL : side->why_not);
    sw_json_text(j, "verdict",
                 sw_verdict_name(side->fits ? side->memory_verdict : SW_VERDICT_DOES_NOT_FIT));
    if (side->fits) {
        const struct sw_mesh *chosen = &side->chosen.decision.mesh;
        sw_json_text(j, "mesh_dim", sw_mesh_format(chosen, mesh, sizeof mesh));
        sw_json_text(j, "recompute", side->measures.word[SW_ASPECT_RECOMPUTE]);
        for (int32_t m = 0; m < SW_MEASURE_COUNT; m++)
            sw_json_number(j, sw_measure_name((enum sw_measure)m), side->measures.value[m]);
        sw_json_text(j, "currency", side->measures.currency);
        sw_json_text(j, "profile", side->chosen.cost.profile);
        sw_json_number(j, "band_low_seconds", side->chosen.cost.band_low_seconds);
        sw_json_number(j, "band_high_seconds", side->chosen.cost.band_high_seconds);
    }
    sw_json_end(j);
}

static void write_changes(struct sw_json *j, const char *key,
                          const struct sw_setting_change *change, int32_t count)
{
    sw_json_array(j, key);
    for (int32_t i = 0; i < count; i++) {
        sw_json_object(j, NULL);
        sw_json_text(j, "key", sw_diff_key(change[i].key));
        sw_json_text(j, "old", change[i].old_value);
        sw_json_text(j, "new", change[i].new_value);
        sw_json_end(j);
    }
    sw_json_end(j);
}

static void write_amount(struct sw_json *j, const char *key, const struct sw_traffic *t)
{
    if (t == NULL) {
        sw_json_null(j, key);
        return;
    }
    sw_json_object(j, key);
    sw_json_number(j, "calls", t->calls);
    sw_json_number(j, "bytes", round(t->bytes));
    sw_json_end(j);
}

static void write_traffic(struct sw_json *j, const struct sw_diff_file *f)
{
    char axes[64];
    sw_json_array(j, "collectives");
    for (int32_t i = 0; i < f->traffic_count; i++) {
        const struct sw_diff_traffic_change *t = &f->traffic[i];
        const struct sw_traffic *any = t->after != NULL ? t->after : t->before;
        sw_json_object(j, NULL);
        sw_json_text(j, "kind", sw_op_info(any->kind)->name);
        sw_json_text(j, "axes", sw_axes_format(any->axes, axes, sizeof axes));
        sw_json_text(j, "change",
                     t->before == NULL  ? "added"
                     : t->after == NULL ? "removed"
                                        : "changed");
        write_amount(j, "old", t->before);
        write_amount(j, "new", t->after);
        sw_json_end(j);
    }
    sw_json_end(j);
}

static void write_verdicts(struct sw_json *j, const char *key,
                           const struct sw_diff_mesh_change *mesh, int32_t count, bool fitting)
{
    char text[64];
    sw_json_array(j, key);
    for (int32_t i = 0; i < count; i++) {
        const struct sw_diff_verdict *v = fitting ? mesh[i].before : mesh[i].after;
        snprintf(text, sizeof text, "%d,%d,%d,%d", v->size[0], v->size[1], v->size[2], v->size[3]);
        sw_json_object(j, NULL);
        sw_json_text(j, "mesh_dim", text);
        sw_json_text(j, "reason", sw_reject_name(v->reason));
        sw_json_text(j, "detail", v->detail);
        sw_json_end(j);
    }
    sw_json_end(j);
}

static void write_meshes(struct sw_json *j, const struct sw_diff_file *f)
{
    if (f->mesh == NULL) {
        sw_json_null(j, "meshes");
        return;
    }
    sw_json_object(j, "meshes");
    sw_json_number(j, "old_fit", f->before.fit_count);
    sw_json_number(j, "new_fit", f->after.fit_count);
    write_verdicts(j, "rejected", f->mesh, f->rejected_count, false);
    write_verdicts(j, "fitting", f->mesh + f->rejected_count, f->fitting_count, true);
    sw_json_end(j);
}

static void write_outcomes(struct sw_json *j, const struct sw_diff_file *f)
{
    sw_json_array(j, "fail_if");
    for (int32_t i = 0; i < f->outcome_count; i++) {
        sw_json_object(j, NULL);
        sw_json_text(j, "name", f->outcome[i].condition->name);
        sw_json_text(j, "condition", f->outcome[i].condition->text);
        sw_json_text(j, "result", sw_fail_if_verdict_name(f->outcome[i].verdict));
        sw_json_text(j, "detail", f->outcome[i].detail);
        sw_json_end(j);
    }
    sw_json_end(j);
}

static void write_file(struct sw_json *j, const struct sw_diff_file *f)
{
    sw_json_object(j, NULL);
    sw_json_text(j, "path", f->path);
    sw_json_text(j, "status", sw_diff_status_name(f->status));
    sw_json_bool(j, "same_plan", f->same_plan);
    sw_json_text(j, "headline", f->headline);
    write_side(j, "old", &f->before);
    write_side(j, "new", &f->after);
    sw_json_bool(j, "profiles_differ", sw_diff_mixes_profiles(f));
    write_changes(j, "settings", f->setting, f->setting_count);
    write_changes(j, "decision", f->choice, f->choice_count);
    write_traffic(j, f);
    write_meshes(j, f);
    write_outcomes(j, f);
    sw_budgets_write_json(j, "budgets", &f->budgets);
    sw_json_end(j);
}

static void write_sum(struct sw_json *j, const char *key, const struct sw_run_cost *sum, bool money)
{
    sw_json_object(j, key);
    sw_json_number(j, "wall_seconds", sum->wall_s.value);
    sw_json_number(j, "accelerator_hours", sum->accelerator_hours.value);
    sw_json_number(j, "energy", sum->energy_joules.value);
    sw_json_number(j, "money", money ? sum->money.value : (double)NAN);
    sw_json_end(j);
}

static void write_total(struct sw_json *j, const struct sw_diff_total *total)
{
    sw_json_object(j, "total");
    sw_json_integer(j, "runs", total->runs);
    sw_json_integer(j, "unpriced", total->unpriced);
    sw_json_text(j, "currency",
                 total->currency[0] != '\0' && !total->mixes_currencies ? total->currency : NULL);
    write_sum(j, "old", &total->before, !total->mixes_currencies);
    write_sum(j, "new", &total->after, !total->mixes_currencies);
    sw_json_end(j);
}

void sw_diff_print_json(FILE *out, const struct sw_diff *diff)
{
    struct sw_json json = {.out = out, .style = SW_JSON_TABS}, *j = &json;
    sw_json_object(j, NULL);
    sw_json_text(j, "schema", "shardwright.diff/1");
    sw_json_bool(j, "differs", diff->changed + diff->added + diff->removed > 0);
    sw_json_text(j, "headline", diff->headline);
    sw_json_number(j, "changed", diff->changed);
    sw_json_number(j, "added", diff->added);
    sw_json_number(j, "removed", diff->removed);
    sw_json_number(j, "failed", diff->failed);
    write_total(j, &diff->total);
    sw_json_array(j, "files");
    for (int32_t i = 0; i < diff->count; i++)
        if (sw_diff_is_shown(diff->file[i]) || diff->file[i]->outcome_count > 0)
            write_file(j, diff->file[i]);
    sw_json_end(j);
    sw_json_end(j);
    fputc('\n', out);
}
