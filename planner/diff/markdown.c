/* A diff as a comment on a pull request: a headline, then folded details.
 *
 * A comment has a limit. It is written as a whole; while it is too long, the least important rows
 * are dropped step by step (the table below), with a note. Texts come from other people's files:
 * they are shown inside <code>, with every character special in Markdown or HTML as an entity, so
 * that no name mentions anybody and no value closes a table. */
#include "core/base/text.h"
#include "planner/diff/diff.h"
#include "planner/command/format.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 200, HEADLINE_BYTES = 400, PLENTY = 1 << 20 };

/* Most rows of each part. */
struct limits {
    int32_t meshes, collectives, settings, files, details; /* details: files with folded parts */
};

static const struct limits steps[] = {
    {PLENTY, PLENTY, PLENTY, PLENTY, PLENTY},
    {64, PLENTY, PLENTY, PLENTY, PLENTY},
    {8, PLENTY, PLENTY, PLENTY, PLENTY},
    {0, PLENTY, PLENTY, PLENTY, PLENTY},
    {0, 16, PLENTY, PLENTY, PLENTY},
    {0, 0, PLENTY, PLENTY, PLENTY},
    {0, 0, 32, PLENTY, PLENTY},
    {0, 0, 8, PLENTY, 64},
    {0, 0, 8, 256, 16},
    {0, 0, 8, 64, 8},
    {0, 0, 4, 16, 2},
    {0, 0, 0, 4, 0},
    {0, 0, 0, 2, 0},
};

struct writer {
    FILE *out;
    const struct sw_diff *diff;
    const struct limits *limits;
    size_t limit_bytes;
    bool cut; /* true if rows were left out */
};

/* True if this attempt is too long already: further text does not matter. */
static bool is_full(const struct writer *w)
{
    const long used = ftell(w->out);
    return used < 0 || (size_t)used > w->limit_bytes;
}

static bool is_word(char c)
{
    return (unsigned char)c >= 0x80 || isalnum((unsigned char)c);
}

static void put_character(FILE *out, char c, bool in_word)
{
    switch (c) {
    case '<':
        fputs("&lt;", out);
        return;
    case '>':
        fputs("&gt;", out);
        return;
    case '@': /* followed by a character without width, or it would still mention somebody */
        fputs("&#64;&#8203;", out);
        return;
    default:
        break;
    }
    if (is_word(c) || strchr(" ,.;:/+-=()%", c) != NULL || (c == '_' && in_word))
        fputc(c, out);
    else if ((unsigned char)c < 0x20 || c == 0x7f)
        fputc(' ', out);
    else
        fprintf(out, "&#%d;", c);
}

static void put_text(FILE *out, const char *text, size_t most)
{
    char shown[HEADLINE_BYTES + 8];
    sw_text_shorten(text, most < HEADLINE_BYTES ? most : HEADLINE_BYTES, shown);
    for (const char *p = shown; *p != '\0'; p++)
        put_character(out, *p, p > shown && is_word(p[-1]) && is_word(p[1]));
}

static void put_code(FILE *out, const char *text)
{
    fputs("<code>", out);
    put_text(out, text, TEXT_BYTES);
    fputs("</code>", out);
}

static void open_details(FILE *out, const char *title, int32_t count)
{
    fprintf(out, "<details><summary>%s (%d)</summary>\n\n", title, count);
}

static void close_details(struct writer *w, int32_t count, int32_t shown)
{
    if (shown < count) {
        fprintf(w->out, "\n... and %d more\n", count - shown);
        w->cut = true;
    }
    fputs("\n</details>\n", w->out);
}

static int32_t at_most(int32_t count, int32_t limit)
{
    return count < limit ? count : limit;
}

/* True if a part has rows to show; notes rows dropped by the limit. */
static bool has_rows(struct writer *w, int32_t count, int32_t limit)
{
    w->cut = w->cut || (count > 0 && limit == 0);
    return count > 0 && limit > 0;
}

static void put_changes(struct writer *w, const struct sw_diff_file *f, const char *title,
                        const struct sw_setting_change *change, int32_t count)
{
    char text[SW_SETTING_TEXT];
    if (!has_rows(w, count, w->limits->settings))
        return;
    const int32_t shown = at_most(count, w->limits->settings);
    open_details(w->out, title, count);
    fputs("| setting | old | new |\n| --- | --- | --- |\n", w->out);
    for (int32_t i = 0; i < shown && !is_full(w); i++) {
        const char *value[2] = {change[i].old_value, change[i].new_value};
        fputs("| ", w->out);
        put_code(w->out, sw_diff_key(change[i].key));
        for (int32_t k = 0; k < 2; k++) {
            fputs(" | ", w->out);
            if (value[k] != NULL)
                put_code(w->out, sw_setting_format(change[i].key, value[k],
                                                   k == 0 ? f->before.base : f->after.base, text));
        }
        fputs(" |\n", w->out);
    }
    close_details(w, count, shown);
}

static void put_traffic(struct writer *w, const struct sw_diff_file *f)
{
    char axes[64], calls[80], bytes[80], title[64];
    if (!has_rows(w, f->traffic_count, w->limits->collectives))
        return;
    const int32_t shown = at_most(f->traffic_count, w->limits->collectives);
    snprintf(title, sizeof title, "collectives of one rank in a %s",
             sw_diff_unit_of_work(f->after.run != NULL ? &f->after : &f->before));
    open_details(w->out, title, f->traffic_count);
    fputs("| | kind | axes | calls | sent |\n| --- | --- | --- | --- | --- |\n", w->out);
    for (int32_t i = 0; i < shown; i++) {
        const struct sw_diff_traffic_change *t = &f->traffic[i];
        const struct sw_traffic *any = t->after != NULL ? t->after : t->before;
        sw_diff_traffic_text(t, axes, calls, bytes);
        fprintf(w->out, "| %s | `%s` | %s | %s | %s |\n",
                t->before == NULL  ? "added"
                : t->after == NULL ? "removed"
                                   : "changed",
                sw_op_info(any->kind)->name, axes, calls, bytes);
    }
    close_details(w, f->traffic_count, shown);
}

static void put_meshes(struct writer *w, const struct sw_diff_file *f, bool fitting)
{
    const int32_t count = fitting ? f->fitting_count : f->rejected_count;
    if (!has_rows(w, count, w->limits->meshes))
        return;
    const struct sw_diff_mesh_change *mesh = f->mesh + (fitting ? f->rejected_count : 0);
    const int32_t shown = at_most(count, w->limits->meshes);
    open_details(w->out, fitting ? "meshes that fit now" : "meshes that are rejected now", count);
    fprintf(w->out, "| dp,fsdp,tp,sp | %s |\n| --- | --- |\n",
            fitting ? "was rejected for" : "rejected for");
    for (int32_t i = 0; i < shown; i++) {
        const struct sw_diff_verdict *v = fitting ? mesh[i].before : mesh[i].after;
        fprintf(w->out, "| %d,%d,%d,%d | %s%s", v->size[0], v->size[1], v->size[2], v->size[3],
                sw_reject_name(v->reason), v->detail[0] != '\0' ? ": " : "");
        put_text(w->out, v->detail, TEXT_BYTES);
        fputs(" |\n", w->out);
    }
    close_details(w, count, shown);
}

/* Failed conditions are never left out or folded. */
static void put_outcomes(struct writer *w, const struct sw_diff_file *f)
{
    if (f->outcome_count == 0)
        return;
    fputs("\n", w->out);
    if (f->not_judged)
        fputs("Conditions " SW_DIFF_NOT_JUDGED "\n", w->out);
    for (int32_t i = 0; i < f->outcome_count && !f->not_judged; i++) {
        const struct sw_diff_outcome *o = &f->outcome[i];
        fprintf(w->out, "- %s ",
                o->verdict == SW_FAIL_IF_FAIL   ? "**failed**"
                : o->verdict == SW_FAIL_IF_PASS ? "ok"
                                                : "skipped");
        put_code(w->out, o->condition->name);
        fputs(": ", w->out);
        put_text(w->out, o->detail, TEXT_BYTES);
        fputc('\n', w->out);
    }
    fputc('\n', w->out);
}

static void put_file(struct writer *w, const struct sw_diff_file *f, bool detailed)
{
    char trust[SW_DIFF_TRUST], cost[SW_DIFF_COST];
    if (w->diff->is_directory) {
        fputs("\n", w->out);
        put_code(w->out, f->path);
        fputs(" ", w->out);
        put_text(w->out, f->headline, HEADLINE_BYTES);
        fputs("\n", w->out);
    }
    put_outcomes(w, f);
    if (!detailed) {
        w->cut = true;
        return;
    }
    if (sw_diff_cost(f, cost)[0] != '\0') {
        cost[0] = (char)toupper((unsigned char)cost[0]);
        fputs("\n", w->out);
        put_text(w->out, cost, sizeof cost);
        fputs("\n", w->out);
    }
    if (sw_diff_run_text(f, cost)[0] != '\0') {
        cost[0] = (char)toupper((unsigned char)cost[0]);
        fputs("\n", w->out);
        put_text(w->out, cost, sizeof cost);
        fputs("\n", w->out);
    }
    if (f->budgets.count > 0)
        fputs("\n", w->out);
    for (int32_t i = 0; i < f->budgets.count; i++) {
        fputs(f->budgets.of[i].end == SW_BUDGET_ENOUGH ? "- " : "- **warning** ", w->out);
        put_text(w->out, f->budgets.of[i].message, HEADLINE_BYTES);
        fputs("\n", w->out);
    }
    if (sw_diff_trust(f, trust)[0] != '\0') {
        fputs("\nTimes: ", w->out);
        put_text(w->out, trust, sizeof trust);
        fputs("\n\n", w->out);
    }
    put_changes(w, f, "changed settings", f->setting, f->setting_count);
    put_changes(w, f, "changed decision", f->choice, f->choice_count);
    put_traffic(w, f);
    put_meshes(w, f, false);
    put_meshes(w, f, true);
}

/* Writes the speed of a side, or that it has none. */
static void put_rate(FILE *out, const struct sw_diff_side *side)
{
    char text[SW_FORMAT_BYTES];
    if (side->run == NULL)
        fputs("none", out);
    else if (!side->fits)
        fputs("does not fit", out);
    else
        fputs(sw_format_number(side->chosen.tokens_per_second, text), out);
}

static void put_verdict(FILE *out, const struct sw_diff_file *f)
{
    const char *separator = "";
    for (int32_t i = 0; i < f->outcome_count; i++)
        if (f->outcome[i].verdict == SW_FAIL_IF_FAIL) {
            fputs(separator[0] == '\0' ? "**failed** " : separator, out);
            put_code(out, f->outcome[i].condition->name);
            separator = ", ";
        }
    if (separator[0] == '\0')
        fputs(f->status == SW_DIFF_REMOVED ? "removed" : sw_diff_verdict_text(&f->after), out);
    if (sw_diff_cost_ratio(f) >= 1.5)
        fprintf(out, ", **%.3g x accelerator-hours**", sw_diff_cost_ratio(f));
}

static void put_row(FILE *out, const struct sw_diff_file *f)
{
    const struct sw_diff_side *was = &f->before, *is = &f->after;
    const struct sw_diff_side *shown = is->fits ? is : was; /* side of the shown step and memory */
    char delta[32] = "", step[SW_FORMAT_BYTES] = "", before[SW_FORMAT_BYTES], memory[96] = "";
    if (sw_diff_compares(f))
        sw_diff_percent(was->chosen.tokens_per_second, is->chosen.tokens_per_second, delta);
    fputs("| ", out);
    put_code(out, f->path);
    fputs(" | ", out);
    put_rate(out, was);
    fputs(" | ", out);
    put_rate(out, is);
    if (shown->fits) {
        sw_format_seconds(shown->chosen.cost.step_seconds, step);
        sw_diff_memory_text(was->fits ? was : shown, shown, memory);
    }
    const bool moved = sw_diff_compares(f) &&
                       strcmp(sw_format_seconds(was->chosen.cost.step_seconds, before), step) != 0;
    fprintf(out, " | %s | %s%s%s%s | ",
            delta[0] != '\0'      ? delta
            : sw_diff_compares(f) ? "0 %"
                                  : "",
            moved ? before : "", moved ? " -> " : "", step,
            shown->fits && shown->purpose == SW_FOR_SERVE ? " a token" : "");
    put_text(out, memory, TEXT_BYTES);
    fputs(" | ", out);
    put_verdict(out, f);
    fputs(" |\n", out);
}

/* Visits shown files, failed ones first, since the last are cut first. */
static const struct sw_diff_file *next_shown(const struct sw_diff *diff, int32_t *at)
{
    for (; *at < 2 * diff->count; (*at)++) {
        const struct sw_diff_file *f = diff->file[*at % diff->count];
        const bool failed = f->failed_count > 0 || f->unmet;
        if (sw_diff_is_shown(f) && failed == (*at < diff->count)) {
            (*at)++;
            return f;
        }
    }
    return NULL;
}

/* Writes one row for each run. */
static void put_overview(struct writer *w)
{
    const struct sw_diff_file *f;
    int32_t shown = 0, total = 0;
    fputs("\n| run | old tokens/s | new tokens/s | delta | step | memory | verdict |\n"
          "| --- | ---: | ---: | ---: | ---: | ---: | --- |\n",
          w->out);
    for (int32_t at = 0; (f = next_shown(w->diff, &at)) != NULL && !is_full(w); total++)
        if (shown < w->limits->files) {
            put_row(w->out, f);
            shown++;
        }
    if (shown < total) {
        fprintf(w->out, "\n... and %d more runs\n", total - shown);
        w->cut = true;
    }
}

static void put_diff(struct writer *w)
{
    const struct sw_diff *diff = w->diff;
    const struct sw_diff_file *f;
    char total_text[SW_DIFF_COST];
    int32_t shown = 0, total = 0;
    fputs("<!-- shardwright plan diff -->\n**Plan:** ", w->out);
    put_text(w->out, diff->headline, HEADLINE_BYTES);
    fputs("\n", w->out);
    if (diff->is_directory && sw_diff_total_text(&diff->total, total_text)[0] != '\0') {
        total_text[0] = (char)toupper((unsigned char)total_text[0]);
        fputs("\n", w->out);
        put_text(w->out, total_text, sizeof total_text);
        fputs("\n", w->out);
    }
    put_overview(w);
    for (int32_t at = 0; (f = next_shown(diff, &at)) != NULL; total++) {
        if (is_full(w))
            return;
        if (shown < w->limits->files) {
            put_file(w, f, shown < w->limits->details);
            shown++;
        }
    }
    if (shown < total) {
        fprintf(w->out, "\n... and %d more files\n", total - shown);
        w->cut = true;
    }
    if (w->cut)
        fputs("\n_Shortened to fit a comment; `plan diff OLD NEW` shows everything._\n", w->out);
}

int sw_diff_print_markdown(FILE *out, const struct sw_diff *diff, size_t limit_bytes,
                           struct sw_error *err)
{
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        char *text = NULL;
        size_t bytes = 0;
        struct writer w = {open_memstream(&text, &bytes), diff, &steps[i], limit_bytes, false};
        if (w.out == NULL)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory while writing Markdown");
        put_diff(&w);
        const bool failed = ferror(w.out) != 0;
        if (fclose(w.out) != 0 || failed) {
            free(text);
            return sw_fail(err, SW_ENVIRONMENT, "out of memory while writing Markdown");
        }
        if (bytes <= limit_bytes) {
            fwrite(text, 1, bytes, out);
            free(text);
            return 0;
        }
        free(text);
    }
    return sw_fail(err, SW_ENVIRONMENT, "not even the headlines fit into %zu bytes", limit_bytes);
}
