/* A diff for people at a terminal. */
#include "planner/diff/diff.h"

#include <string.h>

enum { MESHES_SHOWN = 8 };

const char *sw_diff_key(const char *key)
{
    static const char *const prefix[] = {"run.", "decision."};
    for (size_t i = 0; i < sizeof prefix / sizeof prefix[0]; i++)
        if (strncmp(key, prefix[i], strlen(prefix[i])) == 0)
            return key + strlen(prefix[i]);
    return key;
}

static void print_changes(FILE *out, const struct sw_diff_file *f, const char *title,
                          const struct sw_setting_change *change, int32_t count)
{
    char a[SW_SETTING_TEXT], b[SW_SETTING_TEXT];
    if (count > 0)
        fprintf(out, "  %s\n", title);
    for (int32_t i = 0; i < count; i++) {
        const struct sw_setting_change *c = &change[i];
        fprintf(out, "    %-34s %s -> %s\n", sw_diff_key(c->key),
                c->old_value == NULL ? "(none)"
                                     : sw_setting_format(c->key, c->old_value, f->before.base, a),
                c->new_value == NULL ? "(none)"
                                     : sw_setting_format(c->key, c->new_value, f->after.base, b));
    }
}

static void print_traffic(FILE *out, const struct sw_diff_file *f)
{
    char axes[64], calls[80], bytes[80];
    if (f->traffic_count > 0)
        fprintf(out, "  collectives (calls and bytes sent by one rank in a %s)\n",
                sw_diff_unit_of_work(f->after.run != NULL ? &f->after : &f->before));
    for (int32_t i = 0; i < f->traffic_count; i++) {
        const struct sw_diff_traffic_change *t = &f->traffic[i];
        const struct sw_traffic *any = t->after != NULL ? t->after : t->before;
        sw_diff_traffic_text(t, axes, calls, bytes);
        fprintf(out, "    %c %-20s %-10s %s calls, %s\n",
                t->before == NULL  ? '+'
                : t->after == NULL ? '-'
                                   : '~',
                sw_op_info(any->kind)->name, axes, calls, bytes);
    }
}

static void print_meshes(FILE *out, const struct sw_diff_file *f)
{
    const int32_t total = f->rejected_count + f->fitting_count;
    if (total == 0)
        return;
    fprintf(out, "  meshes: %d of %d fit, before %d of %d\n", f->after.fit_count,
            f->after.mesh_count, f->before.fit_count, f->before.mesh_count);
    for (int32_t half = 0; half < 2; half++) {
        const int32_t from = half == 0 ? 0 : f->rejected_count;
        const int32_t count = half == 0 ? f->rejected_count : f->fitting_count;
        for (int32_t i = from; i < from + count && i < from + MESHES_SHOWN; i++) {
            const struct sw_diff_verdict *v = half == 0 ? f->mesh[i].after : f->mesh[i].before;
            fprintf(out, "    %d,%d,%d,%d %s (%s%s%s)\n", v->size[0], v->size[1], v->size[2],
                    v->size[3], half == 0 ? "is rejected now" : "fits now, was rejected",
                    sw_reject_name(v->reason), v->detail[0] != '\0' ? ": " : "", v->detail);
        }
        if (count > MESHES_SHOWN)
            fprintf(out, "    ... and %d more that %s\n", count - MESHES_SHOWN,
                    half == 0 ? "are rejected now" : "fit now");
    }
}

static void print_outcomes(FILE *out, const struct sw_diff_file *f)
{
    if (f->outcome_count > 0)
        fprintf(out, "  conditions%s\n", f->not_judged ? " " SW_DIFF_NOT_JUDGED : "");
    if (f->not_judged)
        return;
    for (int32_t i = 0; i < f->outcome_count; i++) {
        const struct sw_diff_outcome *o = &f->outcome[i];
        fprintf(out, "    %-8s%s: %s\n",
                o->verdict == SW_FAIL_IF_FAIL   ? "FAILED"
                : o->verdict == SW_FAIL_IF_PASS ? "ok"
                                                : "skipped",
                o->condition->name, o->detail);
    }
}

void sw_diff_print_text(FILE *out, const struct sw_diff *diff)
{
    char trust[SW_DIFF_TRUST], cost[SW_DIFF_COST];
    if (diff->is_directory)
        fprintf(out, "%s\n", diff->headline);
    if (diff->is_directory && sw_diff_total_text(&diff->total, cost)[0] != '\0')
        fprintf(out, "%s\n", cost);
    for (int32_t i = 0; i < diff->count; i++) {
        const struct sw_diff_file *f = diff->file[i];
        if (!sw_diff_is_shown(f))
            continue;
        if (diff->is_directory)
            fprintf(out, "\n%s: ", f->path);
        fprintf(out, "%s\n", f->headline);
        if (sw_diff_cost(f, cost)[0] != '\0')
            fprintf(out, "  %s\n", cost);
        if (sw_diff_run_text(f, cost)[0] != '\0')
            fprintf(out, "  %s\n", cost);
        for (int32_t k = 0; k < f->budgets.count; k++)
            fprintf(out, "  %s\n", f->budgets.of[k].message);
        if (sw_diff_trust(f, trust)[0] != '\0')
            fprintf(out, "  times: %s\n", trust);
        print_changes(out, f, "settings", f->setting, f->setting_count);
        print_changes(out, f, "decision", f->choice, f->choice_count);
        print_traffic(out, f);
        print_meshes(out, f);
        print_outcomes(out, f);
    }
}
