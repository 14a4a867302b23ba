#include "planner/html/draw.h"
#include "planner/html/html.h"

#include "core/base/text.h"
#include "planner/command/format.h"

#include <inttypes.h>

/* Every colour stands against its background with a contrast of 4.5 or more where text is on it,
 * else of 3 or more. */
static const char style[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#57606a;--line:#c4cad1;"
    "--soft:#f2f4f7;--bad:#b3261e;--good:#116329;--dp:#7b3fa0;--fsdp:#1f5fbf;--tp:#a84700;"
    "--sp:#1a7237;--k0:#2c5aa0;--k1:#5f7fb4;--k2:#14756f;--k3:#6a6f75;--k4:#a84700;--k5:#8e44ad;"
    "--k6:#b8322a;--k7:#736a00;--k8:#8a9097;--matmul:#2c5aa0;--attention:#8e44ad;--memory:#14756f;"
    "--wait:#6a6f75}\n"
    "@media (prefers-color-scheme:dark){:root{--bg:#14171c;--fg:#e6e9ee;--dim:#a3acb8;"
    "--line:#454d58;--soft:#1e232b;--bad:#ff8f87;--good:#6fd08c;--dp:#c79be6;--fsdp:#7fb3ff;"
    "--tp:#ffa45c;--sp:#6fd08c;--k0:#6f9fe8;--k1:#a9c4f5;--k2:#4fc3b8;--k3:#a9b0b8;--k4:#f0995a;"
    "--k5:#c58fe0;--k6:#f07f78;--k7:#d6c84a;--k8:#79818c;--matmul:#6f9fe8;--attention:#c58fe0;"
    "--memory:#4fc3b8;--wait:#a3acb8}}\n"
    "*{box-sizing:border-box}body{margin:0 auto;max-width:1040px;padding:24px 20px 60px;"
    "background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,"
    "'DejaVu Sans',sans-serif}\n"
    "h1{font-size:26px;line-height:1.25;margin:0 0 6px}h2{font-size:19px;margin:38px 0 8px}"
    "h3{font-size:15px;margin:20px 0 6px}p{margin:6px "
    "0}.dim{color:var(--dim)}.bad{color:var(--bad)}"
    "\n.cards{display:flex;flex-wrap:wrap;gap:10px;margin:16px 0}.card{background:var(--soft);"
    "border:1px solid var(--line);border-radius:8px;padding:8px 14px;min-width:130px}"
    ".card b{display:block;font-size:19px}.card span{color:var(--dim);font-size:13px}\n"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;font-size:14px;width:100%}"
    "th,td{padding:4px 12px 4px 0;text-align:left;border-bottom:1px solid var(--line);"
    "vertical-align:top}th{color:var(--dim);font-weight:600}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
    "tr.sum td{font-weight:600}td.m{white-space:nowrap}\n"
    "svg{display:block;width:100%;height:auto;margin:8px 0}svg text{font:12px system-ui,"
    "-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:var(--fg)}svg "
    ".d{fill:var(--dim)}"
    "svg .on{fill:var(--bg)}svg .small{font-size:10.5px}svg .b{font-weight:600}"
    "svg .warn{fill:var(--bad)}\n"
    ".grid{stroke:var(--line);stroke-width:1}.limit{stroke:var(--bad);stroke-width:2;"
    "stroke-dasharray:7 4}.headroom{stroke:var(--bad);stroke-width:1;stroke-dasharray:2 "
    "4}.frame{fill:var(--soft);stroke:var(--line)}.cell{fill:var(--bg);"
    "stroke:var(--line)}.axisline{stroke:var(--dim)}.edge{stroke:var(--bg);stroke-width:1}\n"
    ".dp{fill:var(--dp)}.fsdp{fill:var(--fsdp)}.tp{fill:var(--tp)}.sp{fill:var(--sp)}"
    ".none{fill:var(--dim)}.k0{fill:var(--k0)}.k1{fill:var(--k1)}.k2{fill:var(--k2)}"
    ".k3{fill:var(--k3)}.k4{fill:var(--k4)}.k5{fill:var(--k5)}.k6{fill:var(--k6)}"
    ".k7{fill:var(--k7)}.k8{fill:var(--k8)}.matmul{fill:var(--matmul)}"
    ".attention{fill:var(--attention)}.memory{fill:var(--memory)}"
    ".wait{fill:none;stroke:var(--wait);stroke-width:1.5;stroke-dasharray:4 3}\n"
    ".fit{fill:var(--fsdp);fill-opacity:.75}.reject{fill:none;stroke:var(--bad);stroke-width:1.4}"
    ".other{fill:none;stroke:var(--dim);stroke-width:1.2}.chosen{fill:none;stroke:var(--good);"
    "stroke-width:3}.fastest{fill:none;stroke:var(--tp);stroke-width:2;stroke-dasharray:4 2}"
    ".lead{stroke:var(--dim);fill:none}details{margin:8px 0}summary{cursor:pointer}\n";

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
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>",
          out);
    sw_text_write_html(out, x->run->name);
    fprintf(out, ": plan explain</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n", style);
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
    fprintf(out, "<p class=\"dim\">Written by plan %s.</p>\n</main>\n</body>\n</html>\n",
            sw_version());
}
