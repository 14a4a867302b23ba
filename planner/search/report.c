/* Output of `plan search` and `plan explain` for people. */
#include "planner/search/report.h"

#include "core/cost/links.h"
#include "planner/command/format.h"
#include "planner/scheduler/scheduler.h"
#include "planner/search/purpose.h"
#include "planner/search/run_cost.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { NEAREST_REJECTED = 3 /* number that sw_search_run explains */, WIDTH = 100 };

void sw_report_bytes(FILE *out, const char *name, int64_t bytes)
{
    char text[SW_FORMAT_BYTES];
    fprintf(out, "    %-14s%10s\n", name, sw_format_bytes((double)bytes, text));
}

static double total_exposed(const struct sw_cost *cost)
{
    double sum = 0;
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        sum += cost->exposed_seconds[a];
    return sum;
}

const char *sw_report_band(const struct sw_cost *cost)
{
    return cost->band_measured ? "in 80 % of cases" : "assumed";
}

void sw_report_trust(FILE *out, const struct sw_cost *cost)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], warning[192];
    if (cost->calibration == NULL)
        return;
    fprintf(out, "          %s %s to %s; profile %s: %s", sw_report_band(cost),
            sw_format_seconds(cost->band_low_seconds, a),
            sw_format_seconds(cost->band_high_seconds, b), cost->profile, cost->calibration);
    if (cost->profile_error > 0)
        fprintf(out, "; mean error %.1f %% on models left out", 100 * cost->profile_error);
    if (cost->band_note != NULL)
        fprintf(out, "; %s", cost->band_note);
    fputc('\n', out);
    if (cost->note[0] != '\0')
        fprintf(out, "          %s\n", cost->note);
    if (sw_cost_warning(cost, warning, sizeof warning)[0] != '\0')
        fprintf(out, "warning   %s\n", warning);
}

const char *sw_report_time_limit(const struct sw_run_config *run, double run_seconds, char *buffer,
                                 size_t bytes)
{
    const struct sw_job_terms terms = sw_job_terms(&run->cluster);
    const struct sw_allocation_ops *allocation = sw_scheduler_of(&run->cluster)->allocation;
    const char *continue_key = allocation != NULL ? allocation->continue_key : "continue";
    const struct sw_script_row *script = sw_scheduler_of(&run->cluster)->script;
    buffer[0] = '\0';
    if (run_seconds <= terms.time_s)
        return buffer;
    /* with checkpoints, the signal comes earlier */
    const double steps = (double)sw_run_steps(run);
    const int64_t lead = sw_script_lead_s(steps > 0 ? run_seconds / steps : 0);
    char time[64] = "";
    if (terms.time != NULL)
        sw_format_limit(terms.time, time, sizeof time);
    const char *unwarned = script->unwarned != NULL ? script->unwarned(run, lead) : NULL;
    if (terms.continues != SW_CONTINUE_NONE)
        snprintf(buffer, bytes,
                 "about %.0f jobs of %s one after the other, each of which resumes where the one "
                 "before was saved",
                 ceil(run_seconds / terms.time_s), time);
    else if (unwarned != NULL)
        snprintf(
            buffer, bytes,
            "more than the job's time limit, %s, before which no signal tells it to save (%s): "
            "steps since its last checkpoint may be lost; %s: requeue or chain continues by itself",
            time, unwarned, continue_key);
    else
        snprintf(
            buffer, bytes,
            "more than the job's time limit, %s: it saves a checkpoint before, and the next 'plan "
            "submit' resumes it; with %s: requeue or chain it resumes by itself",
            time, continue_key);
    return buffer;
}

double sw_report_run_seconds(const struct sw_run_config *run, double step_seconds)
{
    return run->says_steps ? (double)sw_run_steps(run) * step_seconds : NAN;
}

double sw_report_accelerator_hours(const struct sw_run_config *run, double step_seconds)
{
    return sw_report_run_seconds(run, step_seconds) / 3600 * run->cluster.nodes *
           run->cluster.accelerators_per_node;
}

void sw_report_why(FILE *out, const struct sw_run_config *run, enum sw_purpose purpose)
{
    char why[320];
    fprintf(out, "why       ");
    sw_format_wrapped(out, sw_rank_why(run, purpose, why, sizeof why), 10, 10, WIDTH);
}

char *sw_report_run(const struct sw_run_config *run, double step_seconds, char *buffer,
                    size_t bytes)
{
    char steps[SW_FORMAT_RATE], took[SW_FORMAT_BYTES], hours[SW_FORMAT_RATE];
    const double count = (double)sw_run_steps(run);
    snprintf(buffer, bytes, "%s take%s %s, %s", sw_format_counted(count, "step", steps),
             count == 1 ? "s" : "", sw_format_duration(count * step_seconds, took),
             sw_format_accelerator_hours(sw_report_accelerator_hours(run, step_seconds), hours));
    return buffer;
}

/* Prints the definition of MFU, which comparisons need. */
static void print_mfu(FILE *out, const struct sw_run_config *run)
{
    const bool bf16 = run->compute == SW_BF16_T;
    const double peak =
        bf16 ? run->cluster.accelerator.peak_bf16_flops : run->cluster.accelerator.peak_fp32_flops;
    char text[160];
    snprintf(
        text, sizeof text,
        "MFU: model FLOP/s over the %s peak of %.4g TFLOP/s; causal attention counts as half of "
        "the square, recomputation does not count",
        bf16 ? "bf16" : "fp32", peak / 1e12);
    fprintf(out, "          ");
    sw_format_wrapped(out, text, 10, 10, WIDTH);
}

/* Prints the padding of the batch, and batches without any. */
static void print_padding(FILE *out, const struct sw_run_config *run, const struct sw_candidate *c)
{
    char count[SW_FORMAT_RATE], seconds[SW_FORMAT_BYTES];
    if (c->padding_sequences > 0)
        fprintf(out,
                "          %s in the last of them: %s of the step; global_batch_size %" PRId64
                " has none\n",
                sw_format_counted((double)c->padding_sequences, "padding sequence", count),
                sw_format_seconds(c->padding_seconds, seconds),
                run->global_batch_size + c->padding_sequences);
}

/* Prints the segments that the job asks its scheduler for, since the price rests on them. */
static void print_segments(FILE *out, const struct sw_run_config *run, const struct sw_candidate *c)
{
    char without[SW_FORMAT_BYTES];
    const int32_t nodes = c->decision.mesh.domain / run->cluster.accelerators_per_node;
    if (nodes == 0)
        return;
    fprintf(out, "          in segments of %d nodes, each in one block", (int)nodes);
    if (c->apart_seconds > 0)
        fprintf(out, ": without them a step takes %s",
                sw_format_seconds(c->apart_seconds, without));
    fputc('\n', out);
}

void sw_report_mesh_line(FILE *out, const struct sw_mesh *mesh)
{
    char text[64], order[64];
    const int32_t *size = mesh->size;
    fprintf(out, "mesh      mesh_dim %s: dp %d, fsdp %d, tp %d, sp %d; ranks in the order %s\n",
            sw_mesh_format(mesh, text, sizeof text), size[SW_DP], size[SW_FSDP], size[SW_TP],
            size[SW_SP], sw_mesh_format_order(mesh, order, sizeof order));
}

void sw_report_memory_line(FILE *out, const struct sw_candidate *c)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES];
    fprintf(out, "memory    %s of %s per accelerator: %s\n",
            sw_format_bytes((double)c->memory.total, a),
            sw_format_bytes((double)c->memory.limit, b),
            sw_verdict_text(sw_memory_verdict(&c->memory)));
}

const char *sw_report_rings(const struct sw_decision *decision, char *buffer, size_t bytes)
{
    buffer[0] = '\0';
    if (decision->train.inner_ring > 0)
        snprintf(buffer, bytes, " of rings of %d", (int)decision->train.inner_ring);
    return buffer;
}

/* Prints the fastest options' memory and time, if others were chosen. */
static void print_spared(FILE *out, const struct sw_candidate *c)
{
    char spared[SW_FORMAT_BYTES];
    if (c->fastest_seconds > 0 && c->fastest_bytes > c->memory.total)
        fprintf(out, "          %s less than the fastest options need, for %.2g %% of the step\n",
                sw_format_bytes((double)(c->fastest_bytes - c->memory.total), spared),
                100 * (c->cost.step_seconds / c->fastest_seconds - 1));
}

/* Prints if tp is inside the fastest link domain, if that was a choice. */
static void print_tp(FILE *out, const struct sw_run_config *run, const struct sw_candidate *c)
{
    char order[64], step[SW_FORMAT_BYTES], text[256];
    const int32_t fastest = sw_links_fastest(&run->cluster);
    const char *link = fastest >= 0 ? run->cluster.link[fastest].name : "";
    if (c->passed_over.seconds > 0)
        snprintf(text, sizeof text,
                 "tp stays within %.64s: in the order %s a step takes %s, %.1f %% less time, which "
                 "prefer_within (%.3g %%) passes over",
                 link, sw_mesh_format_order(&c->passed_over.mesh, order, sizeof order),
                 sw_format_seconds(c->passed_over.seconds, step),
                 100 * (1 - c->passed_over.seconds / c->fastest_seconds), 100 * run->prefer_within);
    else if (c->order_settled)
        snprintf(text, sizeof text,
                 "tp leaves %.64s: in orders that keep it inside a step takes over %.3g %% longer",
                 link, 100 * run->prefer_within);
    else if (c->tp_leaves_domain)
        snprintf(text, sizeof text, "tp leaves %.64s", link);
    else
        return;
    fprintf(out, "          ");
    sw_format_wrapped(out, text, 10, 10, WIDTH);
}

void sw_report_choice(FILE *out, const struct sw_run_config *run, const struct sw_candidate *c)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], d[SW_FORMAT_BYTES], warning[192],
        again[SW_RECOMPUTE_BYTES], text[SW_RECOMPUTE_BYTES + 16];
    const struct sw_decision *decision = &c->decision;
    sw_report_mesh_line(out, &decision->mesh);
    print_tp(out, run, c);
    fprintf(out, "          sharding %s\n", c->sharding.text);
    fprintf(out, "          micro_batch_size %" PRId64 ", accumulation steps %" PRId64 "\n",
            decision->train.micro_batch_size, decision->train.accumulation_steps);
    print_padding(out, run, c);
    print_segments(out, run, c);
    fprintf(out, "          attention %s%s, %s, residual_seq %s\n          ",
            sw_word(sw_words_strategy, decision->train.strategy),
            sw_report_rings(decision, text, sizeof text),
            sw_word(sw_words_layout, decision->train.layout),
            decision->train.residual_seq_tp ? "sp,tp" : "sp");
    snprintf(text, sizeof text, "recompute %s",
             sw_recompute_describe(decision->train.recompute, run->model.shape.layers, again));
    sw_format_wrapped(out, text, 10, 20, WIDTH);
    sw_report_memory_line(out, c);
    sw_report_bytes(out, "parameters", c->memory.parameters);
    sw_report_bytes(out, "gradients", c->memory.gradients);
    sw_report_bytes(out, "optimizer", c->memory.optimizer);
    sw_report_bytes(out, "activations", c->memory.activations);
    sw_report_bytes(out, "workspace", c->memory.workspace);
    sw_report_bytes(out, "reserved", c->memory.reserved);
    fprintf(out, "          %s\n", sw_memory_whose);
    print_spared(out, c);
    if (sw_headroom_warning(&c->memory, warning, sizeof warning)[0] != '\0')
        fprintf(out, "warning   %s\n", warning);
    fprintf(out, "step      %s: %s compute", sw_format_seconds(c->cost.step_seconds, a),
            sw_format_seconds(c->cost.compute_seconds, b));
    if (sw_mesh_rank_count(&decision->mesh) > 1)
        fprintf(out, ", %s waiting for communication",
                sw_format_seconds(total_exposed(&c->cost), d));
    const char *separator = " (";
    for (int32_t axis = 0; axis < SW_AXIS_COUNT; axis++)
        if (c->cost.exposed_seconds[axis] > 0) {
            fprintf(out, "%s%s %s", separator, sw_axis_name(axis),
                    sw_format_seconds(c->cost.exposed_seconds[axis], a));
            separator = ", ";
        }
    fprintf(out, "%s\n", separator[0] == ',' ? ")" : "");
    fprintf(out, "          %s tokens/s, %s per accelerator, MFU %.1f %%\n",
            sw_format_count(c->tokens_per_second, a),
            sw_format_count(c->tokens_per_second / sw_mesh_rank_count(&decision->mesh), b),
            c->mfu * 100);
    print_mfu(out, run);
    sw_report_trust(out, &c->cost);
}

static void print_faster(FILE *out, const struct sw_search *s)
{
    char a[SW_FORMAT_BYTES], size[64], order[64];
    const struct sw_candidate *chosen = &s->mesh[0], *fastest = &s->mesh[s->fastest];
    const struct sw_candidate *whole = &s->whole_weights;
    struct sw_mesh mesh = fastest->decision.mesh, least;
    double seconds = fastest->cost.step_seconds;
    const double passed_over = sw_rank_fastest(s, &least);
    const bool other = passed_over < fastest->fastest_seconds && passed_over < seconds;
    if (other) {
        mesh = least;
        seconds = passed_over;
    }
    if (whole->cost.step_seconds > 0)
        fprintf(out, "          faster by %.1f %%: %s on mesh_dim %s, %s a step (zero: auto)\n",
                (chosen->cost.step_seconds / whole->cost.step_seconds - 1) * 100,
                whole->sharding.name, sw_mesh_format(&whole->decision.mesh, size, sizeof size),
                sw_format_seconds(whole->cost.step_seconds, a));
    /* within a twentieth of a percent counts as equal */
    if (chosen->cost.step_seconds < 1.0005 * seconds)
        return;
    fprintf(out, "          faster by %.1f %%: mesh_dim %s%s%s, %s a step (--prefer time)\n",
            (chosen->cost.step_seconds / seconds - 1) * 100,
            sw_mesh_format(&mesh, size, sizeof size), other ? " in the order " : "",
            other ? sw_mesh_format_order(&mesh, order, sizeof order) : "",
            sw_format_seconds(seconds, a));
}

/* End of a row about tp: "  tp inside, +4.6 %" for an order that is slower by that much than the
 * one passed over. Returns buffer. */
static const char *format_tp(const struct sw_candidate *c, char *buffer, size_t bytes)
{
    buffer[0] = '\0';
    if (c->passed_over.seconds > 0)
        snprintf(buffer, bytes, "  tp inside, +%.1f %%",
                 100 * (c->fastest_seconds / c->passed_over.seconds - 1));
    else if (c->tp_leaves_domain)
        snprintf(buffer, bytes, "  tp outside");
    return buffer;
}

void sw_report_more(FILE *out, const struct sw_search *s, int32_t shown)
{
    if (shown < s->feasible)
        fprintf(out, "... and %d more (--top %d)\n", s->feasible - shown, s->feasible);
}

void sw_train_tell_table(FILE *out, const struct sw_search *s, int64_t top)
{
    char mesh[64], memory[SW_FORMAT_BYTES], step[SW_FORMAT_BYTES], wait[SW_FORMAT_BYTES],
        rate[SW_FORMAT_BYTES], tp[32];
    const int32_t shown = top < s->feasible ? (int32_t)top : s->feasible;
    const int wide = (int)strlen("recompute");
    const int32_t columns = sw_format_columns();
    /* columns that follow from others are dropped first */
    const bool rates = columns >= 111, choices = columns >= 79, sides = columns >= 121;
    /* print_faster also names the fastest mesh */
    const bool marks = columns >= 88 || !choices;
    const struct sw_cost *best = &s->mesh[0].cost;
    print_faster(out, s);
    fprintf(out, "\nsteps by profile %s; measured ones take %.2f to %.2f times as long (%s)\n",
            best->profile, best->band_low_seconds / best->step_seconds,
            best->band_high_seconds / best->step_seconds, sw_report_band(best));
    fprintf(out, "  %-16s %-8s", "mesh_dim", "sharding");
    if (choices)
        fprintf(out, " %5s %6s  %-*s", "micro", "steps", wide, "recompute");
    fprintf(out, " %10s %9s", "memory", "step");
    if (rates)
        fprintf(out, " %9s %12s", "waiting", "tokens/s/acc");
    fprintf(out, " %6s\n", "MFU");
    for (int32_t i = 0; i < shown; i++) {
        const struct sw_candidate *c = &s->mesh[i];
        fprintf(out, "%s %-16s %-8s", i == 0 ? sw_format_mark(true) : " ",
                sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh), c->sharding.name);
        if (choices)
            fprintf(out, " %5" PRId64 " %6" PRId64 "  %-*s", c->decision.train.micro_batch_size,
                    c->decision.train.accumulation_steps, wide,
                    sw_recompute_word(c->decision.train.recompute));
        fprintf(out, " %10s %9s", sw_format_bytes((double)c->memory.total, memory),
                sw_format_seconds(c->cost.step_seconds, step));
        if (rates)
            fprintf(out, " %9s %12s", sw_format_seconds(total_exposed(&c->cost), wait),
                    sw_format_count(c->tokens_per_second / s->accelerators, rate));
        fprintf(out, " %5.1f%%%s%s\n", c->mfu * 100,
                marks && i == s->fastest && i > 0 ? "  fastest" : "",
                sides ? format_tp(c, tp, sizeof tp) : "");
    }
    sw_report_more(out, s, shown);
}

void sw_report_rejected(FILE *out, const struct sw_candidate *c)
{
    char mesh[64];
    fputs(sw_format_mark(false), out);
    const int32_t at =
        1 + fprintf(out, " %-16s %-12s ", sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh),
                    sw_reject_name(c->reason));
    sw_format_wrapped(out, c->detail, at, at, WIDTH);
    fprintf(out, "%*s", (int)at, "");
    sw_format_wrapped(out, c->help, at, at, WIDTH);
}

static void print_rejected(FILE *out, const struct sw_search *s, int32_t count)
{
    fprintf(out, "%s%s\n", s->feasible > 0 ? "\n" : "",
            count < s->count - s->feasible ? "rejected, nearest first" : "rejected");
    for (int32_t i = s->feasible; i < s->feasible + count; i++)
        sw_report_rejected(out, &s->mesh[i]);
    if (count < s->count - s->feasible)
        fprintf(out, "... and %d more (--rejected)\n", s->count - s->feasible - count);
}

void sw_train_tell_work(FILE *out, const struct sw_run_config *run)
{
    char a[SW_FORMAT_RATE], b[SW_FORMAT_RATE];
    fprintf(out, "%s of %s a step\n",
            sw_format_counted((double)run->global_batch_size, "sequence", a),
            sw_format_counted((double)run->sequence_length, "token", b));
}

void sw_train_tell_missing(FILE *out, const struct sw_search *s)
{
    int32_t count = 0;
    for (int32_t i = s->feasible; i < s->count; i++)
        count += sw_candidate_verdict(&s->mesh[i]) == SW_VERDICT_NO_HEADROOM;
    if (count > 0)
        fprintf(out, ", %d of them for lack of headroom", count);
}

void sw_train_tell_mesh(FILE *out, const struct sw_run_config *run, const struct sw_candidate *c,
                        const struct sw_run_cost *cost)
{
    char line[160];
    sw_report_choice(out, run, c);
    if (run->says_steps)
        fprintf(out, "run       %s\n", sw_report_run(run, c->cost.step_seconds, line, sizeof line));
    sw_report_cost_line(out, run, cost);
}

void sw_report_search(FILE *out, const struct sw_run_config *run, const struct sw_search *s,
                      const struct sw_options *options)
{
    const struct sw_purpose_row *row = s->row;
    const int32_t rejected = s->count - s->feasible;
    char a[SW_FORMAT_RATE];
    if (s->feasible > 0) {
        fprintf(out, "%s: %s (%s", run->name, sw_format_counted(s->accelerators, "accelerator", a),
                run->cluster.name);
        if (run->nodes_least < run->nodes_most)
            fprintf(out, ", all %d of 'nodes: %s'", (int)run->nodes_most, run->nodes);
        fprintf(out, "), ");
        row->tell_work(out, run);
        fprintf(out, "searched  %d mesh%s in %s: %d fit, %d %s not", s->count,
                s->count == 1 ? "" : "es", sw_format_seconds(s->seconds, a), s->feasible, rejected,
                rejected == 1 ? "does" : "do");
        row->tell_missing(out, s);
        fprintf(out, "\n");
        sw_report_model_line(out, run);
        row->tell_mesh(out, run, &s->mesh[0], &s->run_cost);
        sw_report_why(out, run, s->purpose);
        row->tell_table(out, s, options->top > 0 ? options->top : SW_SHOWN_ROWS);
    }
    if (rejected > 0 && (options->rejected || s->feasible > 0))
        print_rejected(
            out, s, options->rejected || rejected < NEAREST_REJECTED ? rejected : NEAREST_REJECTED);
}
