#include "planner/command/page.h"

#include "core/base/text.h"
#include "planner/command/command.h"

#include <string.h>

/* Every colour has a contrast of at least 4.5 to its background under text, else at least 3. */
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

void sw_html_begin(FILE *out, const char *title)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>",
          out);
    sw_text_write_html(out, title);
    fprintf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n", style);
}

void sw_html_end(FILE *out)
{
    fprintf(out, "<p class=\"dim\">Written by plan %s.</p>\n</main>\n</body>\n</html>\n",
            sw_version());
}

void sw_html_svg_open(FILE *out, const char *id, int32_t height, const char *title,
                      const char *description)
{
    fprintf(out,
            "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"%s-t %s-d\">\n"
            "<title id=\"%s-t\">",
            SW_HTML_WIDTH, height, id, id, id);
    sw_text_write_html(out, title);
    fprintf(out, "</title>\n<desc id=\"%s-d\">", id);
    sw_text_write_html(out, description);
    fputs("</desc>\n", out);
}

void sw_html_label(FILE *out, double x, double y, const char *anchor, const char *css,
                   const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"", x, y, anchor);
    if (css[0] != '\0')
        fprintf(out, " class=\"%s\"", css);
    fputc('>', out);
    sw_text_write_html(out, text);
    fputs("</text>\n", out);
}

/* 12 units high, 7 wide on average in browsers' fonts. */
bool sw_html_fits(const char *text, double width)
{
    return (double)strlen(text) * 7 + 6 <= width;
}

const char *sw_html_axis_class(struct sw_axes axes)
{
    static const char *const classes[] = {"dp", "fsdp", "tp", "sp"};
    return axes.count > 0 ? classes[axes.axis[0]] : "none";
}
