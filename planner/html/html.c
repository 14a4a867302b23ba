#include "planner/html/draw.h"
#include "planner/html/html.h"

#include "core/base/text.h"
#include "planner/command/format.h"

#include <inttypes.h>

static void card(FILE *out, const char *what, const char *value)
{
    fputs("<div class=\"card\"><b>", out);
    sw_text_write_html(out, value);
    fputs("</b><span>", out);
    sw_text_write_html(out, what);
    fputs("</span></div>\n", out);
}

static void cards(FILE *out, const struct sw_explain *x)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], text[128], label[64], mesh[64];
    const struct sw_candidate *c = &x->c;
    double exposed = 0;
    for (int32_t i = 0; i < SW_AXIS_COUNT; i++)
        exposed += c->cost.exposed_seconds[i];
    fputs("<div class=\"cards\">\n", out);
    card(out, "mesh_dim (dp,fsdp,tp,sp)", sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh));
    snprintf(text, sizeof text, "a step, by profile %.64s", c->cost.profile);
    card(out, text, sw_format_seconds(c->cost.step_seconds, a));
    if (sw_mesh_rank_count(&c->decision.mesh) > 1)
        card(out, "of it waiting for communication", sw_format_seconds(exposed, a));
    snprintf(text, sizeof text, "%s of %s", sw_format_bytes((double)c->memory.total, a),
             sw_format_bytes((double)c->memory.limit, b));
    snprintf(label, sizeof label, "memory per accelerator: %s",
             sw_verdict_text(sw_memory_verdict(&c->memory)));
    card(out, label, text);
    card(out, "tokens per second", sw_format_count(c->tokens_per_second, a));
    snprintf(text, sizeof text, "%.1f %%", c->mfu * 100);
    card(out, "model flops utilization", text);
    fputs("</div>\n", out);
}

static void introduction(FILE *out, const struct sw_explain *x)
{
    char a[SW_FORMAT_RATE], b[SW_FORMAT_RATE], order[64], warning[192];
    char limit[256], again[SW_RECOMPUTE_BYTES], why[320], padding[SW_FORMAT_RATE + 16] = "",
                                                                                   rings[32];
    const struct sw_candidate *c = &x->c;
    fputs("<h1>", out);
    sw_text_write_html(out, x->run->name);
    fputs("</h1>\n<p class=\"dim\">", out);
    fprintf(out, "%s of ",
            sw_format_counted(sw_mesh_rank_count(&c->decision.mesh), "accelerator", a));
    sw_text_write_html(out, x->run->cluster.name);
    fprintf(out, "; %s of %s a step</p>\n",
            sw_format_counted((double)x->run->global_batch_size, "sequence", a),
            sw_format_counted((double)x->run->sequence_length, "token", b));
    cards(out, x);
    if (c->padding_sequences > 0)
        snprintf(padding, sizeof padding, " (%s in the last)",
                 sw_format_counted((double)c->padding_sequences, "padding sequence", a));
    fprintf(out,
            "<p>%s. Ranks in the order %s; micro_batch_size %" PRId64
            ", accumulation steps %" PRId64
            "%s, recompute %s, attention %s%s (%s), residual_seq %s.</p>\n",
            c->sharding.text, sw_mesh_format_order(&c->decision.mesh, order, sizeof order),
            c->decision.train.micro_batch_size, c->decision.train.accumulation_steps, padding,
            sw_recompute_describe(c->decision.train.recompute, x->run->model.shape.layers, again),
            sw_word(sw_words_strategy, c->decision.train.strategy),
            sw_report_rings(&c->decision, rings, sizeof rings),
            sw_word(sw_words_layout, c->decision.train.layout),
            c->decision.train.residual_seq_tp ? "sp,tp" : "sp");
    fputs("<p class=\"dim\">Why this mesh: ", out);
    sw_text_write_html(out, sw_rank_why(x->run, SW_FOR_TRAIN, why, sizeof why));
    fputs(".</p>\n", out);
    fprintf(out, "<p class=\"dim\">A measured step takes %s to %s (%s). Times rest on profile ",
            sw_format_seconds(c->cost.band_low_seconds, a),
            sw_format_seconds(c->cost.band_high_seconds, b), sw_report_band(&c->cost));
    sw_text_write_html(out, c->cost.profile);
    fputs(": ", out);
    sw_text_write_html(out, c->cost.calibration);
    if (c->cost.profile_error > 0)
        fprintf(out, "; mean error %.1f %% on models left out", 100 * c->cost.profile_error);
    if (c->cost.band_note != NULL)
        fprintf(out, "; %s", c->cost.band_note);
    fputs(".</p>\n", out);
    if (x->run->says_steps) {
        char line[160];
        fprintf(out, "<p>The run: %s",
                sw_report_run(x->run, x->c.cost.step_seconds, line, sizeof line));
        if (sw_report_time_limit(x->run, x->run_seconds, limit, sizeof limit)[0] != '\0') {
            fputs("; this is ", out);
            sw_text_write_html(out, limit);
        }
        if (x->run_cost.terms.steps > 0) {
            char parts[320];
            fputs(". It ", out);
            sw_text_write_html(out, sw_report_run_cost(x->run, &x->run_cost, parts, sizeof parts));
            fputs(" (", out);
            sw_text_write_html(out, sw_report_run_parts(&x->run_cost, parts, sizeof parts));
            fputs(")", out);
        }
        fputs(".</p>\n", out);
    }
    if (sw_headroom_warning(&c->memory, warning, sizeof warning)[0] != '\0')
        fprintf(out, "<p class=\"bad\">The mesh %s.</p>\n", warning);
    if (sw_cost_warning(&c->cost, warning, sizeof warning)[0] != '\0') {
        fputs("<p class=\"bad\">Warning: ", out);
        sw_text_write_html(out, warning);
        fputs("</p>\n", out);
    }
}

void sw_html_page(FILE *out, const struct sw_explain *x)
{
    char title[SW_HTML_TITLE];
    snprintf(title, sizeof title, "%.*s: plan explain", SW_HTML_TITLE - 20, x->run->name);
    sw_html_begin(out, title);
    introduction(out, x);
    fputs("<h2>Memory over the step</h2>\n", out);
    sw_html_memory(out, x);
    fputs("<h2>Time</h2>\n", out);
    sw_html_timeline(out, x);
    fputs("<h2>The mesh on the nodes</h2>\n", out);
    sw_html_mesh(out, x);
    fputs("<h2>All meshes</h2>\n", out);
    sw_html_map(out, x);
    sw_html_tables(out, x);
    sw_html_end(out);
}
