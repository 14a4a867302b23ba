#include "planner/explain/sources.h"

#include "core/base/json.h"
#include "core/base/shell.h"
#include "planner/command/format.h"
#include "planner/scheduler/scheduler.h"
#include "planner/search/purpose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A smaller share is noise of summing the same times in another order. */
static const double least_share = 1e-6, nudge = 0.01;

/* Price on a changed cluster, all else equal. */
static int price(const struct sw_sources *s, const struct sw_program *program,
                 const struct sw_cluster_config *cluster, double *seconds, struct sw_error *err)
{
    struct sw_cost cost;
    if (s->purpose == SW_FOR_SERVE) {
        struct sw_run_config run = *s->run;
        struct sw_candidate c;
        run.cluster = *cluster;
        if (sw_search_evaluate_serving(&run, &s->c.decision, &c, err) != 0)
            return -1;
        *seconds = c.cost.step_seconds;
        return 0;
    }
    if (sw_cost_price(program, cluster, NULL, &cost, err) != 0)
        return -1;
    *seconds = cost.step_seconds;
    return 0;
}

static int try_constant(const struct sw_sources *s, const struct sw_program *program,
                        struct sw_source *source, struct sw_error *err)
{
    const struct sw_profile_config *p = &s->run->cluster.profile;
    /* a factor of 1 cannot decrease */
    const bool least = source->constant.unit == SW_UNIT_TIMES && source->constant.least <= 1;
    const double below = least ? 0 : nudge;
    struct sw_cluster_config more = s->run->cluster, less = s->run->cluster;
    struct sw_constant_room more_room, less_room;
    double with_more, with_less;
    sw_constant_scale(&more, &source->constant, 1 + nudge, &more_room);
    sw_constant_scale(&less, &source->constant, 1 - below, &less_room);
    if (price(s, program, &more, &with_more, err) != 0 ||
        price(s, program, &less, &with_less, err) != 0)
        return -1;
    source->elasticity = (with_more - with_less) / ((nudge + below) * s->c.cost.step_seconds);
    const double off =
        source->constant.error > 0 ? source->constant.error : (p->band_high - p->band_low) / 2;
    source->doubt = fabs(source->elasticity) * off;
    return 0;
}

static int compare(const void *a, const void *b)
{
    const struct sw_source *x = a, *y = b;
    const double mine = fabs(x->elasticity), its = fabs(y->elasticity);
    if (mine != its)
        return mine > its ? -1 : 1;
    return x->constant.row != y->constant.row ? x->constant.row - y->constant.row
                                              : x->constant.link - y->constant.link;
}

/* True if the profile is for other software than the runner: then only that software's runs can
 * measure it. */
static bool is_of_others(const struct sw_profile_config *p)
{
    return !sw_profile_is_default(p) && strncmp(p->name, "shardwright", 11) != 0;
}

/* "clusters/a.yaml" -> "clusters/a" and ENDING; for a cluster inside a run, its name. */
static void write_path(FILE *out, const struct sw_cluster_config *cluster, const char *ending)
{
    const char *path = cluster->path != NULL && strstr(cluster->path, "--set") == NULL
                           ? cluster->path
                           : cluster->name;
    const char *name = strrchr(path, '/'), *dot = strrchr(path, '.');
    const bool ends = dot != NULL && (name == NULL || dot > name) && path == cluster->path;
    char file[512];
    snprintf(file, sizeof file, "%.*s%s", (int)(ends ? dot - path : (ptrdiff_t)strlen(path)), path,
             ending);
    sw_shell_write_word(out, file);
}

/* Writes the launcher's words before the runner: ranks on the link to measure, on one node or on
 * two. For a profile, ranks that share a node's cores and memory, on CPUs all; a single rank needs
 * no launcher. */
static void write_launcher(FILE *out, const struct sw_cluster_config *cluster,
                           const struct sw_constant *c)
{
    const struct sw_scheduler *scheduler = sw_scheduler_of(cluster);
    const bool alone =
        c->owner == SW_OWNER_PROFILE && sw_device_row(cluster->accelerator.device)->allocated;
    const int32_t each = alone ? 1 : cluster->accelerators_per_node;
    const bool across =
        c->owner == SW_OWNER_LINK && cluster->nodes > 1 && cluster->link[c->link].spans > each;
    if (each > 1 || across || scheduler->queue != NULL)
        scheduler->write_start(out, cluster, across ? 2 : 1, each);
}

/* True if a description is on the command line, so in no file. */
static bool is_set(const char *path)
{
    return strncmp(path, "--set", 5) == 0;
}

/* Writes commands that measure other software: collectives, or whole steps. Constants in the run's
 * own file are read from there. */
static void write_fit(FILE *out, const struct sw_run_config *run, const struct sw_constant *c)
{
    const char *cluster = run->cluster.path, *model = run->model.path;
    fprintf(out, c->owner == SW_OWNER_LINK ? "plan fit collectives.csv " : "plan fit runs.csv ");
    write_path(out, &run->cluster, ".yaml");
    if (c->owner == SW_OWNER_LINK || (strcmp(cluster, model) == 0 && !is_set(model)))
        return;
    fputc(' ', out);
    sw_shell_write_word(out, is_set(model) ? "model.yaml" : model);
}

static void write_command(FILE *out, const struct sw_run_config *run, const struct sw_constant *c)
{
    const struct sw_cluster_config *cluster = &run->cluster;
    if (cluster->accelerator.planning_only ||
        (c->owner == SW_OWNER_PROFILE && is_of_others(&cluster->profile))) {
        write_fit(out, run, c);
        return;
    }
    if (c->owner == SW_OWNER_PROFILE && !sw_profile_is_default(&cluster->profile) &&
        !is_of_others(&cluster->profile)) {
        /* kernels are measured; a run shows the error of a step made of them */
        fprintf(out, "plan fit %s.plan.yaml ", run->name);
        char metrics[512];
        snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", run->directory);
        sw_shell_write_word(out, metrics);
        return;
    }
    write_launcher(out, cluster, c);
    fprintf(out, "runner calibrate --device %s -o ",
            sw_word(sw_words_device, (int32_t)cluster->accelerator.device));
    write_path(out, cluster,
               c->owner == SW_OWNER_LINK ? "-measured.profile.yaml" : ".profile.yaml");
    if (c->owner == SW_OWNER_LINK) {
        fprintf(out, " --cluster ");
        write_path(out, cluster, "-measured.yaml");
    }
}

/* Peaks and bandwidths have no error of their own: shares refer to them. No command measures a chip
 * file's kernels, or the device's own constants. */
static bool can_be_measured(const struct sw_constant *c)
{
    return c->owner != SW_OWNER_ACCELERATOR && c->owner != SW_OWNER_DEVICE &&
           c->untold != SW_UNTOLD_SHEET && c->untold != SW_UNTOLD_NETWORK;
}

static int choose(struct sw_sources *s, struct sw_error *err)
{
    s->worst = -1;
    for (int32_t i = 0; i < s->count; i++)
        if (can_be_measured(&s->row[i].constant) &&
            (s->worst < 0 || s->row[i].doubt > s->row[s->worst].doubt))
            s->worst = i;
    if (s->worst < 0)
        return 0;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while explaining");
    write_command(out, s->run, &s->row[s->worst].constant);
    const bool bad = fclose(out) != 0 || bytes >= sizeof s->command;
    if (!bad)
        memcpy(s->command, text, bytes + 1);
    free(text);
    return bad ? sw_fail(err, SW_ENVIRONMENT, "out of memory while explaining") : 0;
}

int sw_sources_make(const struct sw_run_config *run, const struct sw_candidate *candidate,
                    enum sw_purpose purpose, struct sw_sources *s, struct sw_error *err)
{
    struct sw_constant constants[SW_MOST_CONSTANTS];
    struct sw_program *program = NULL;
    int status = -1;
    memset(s, 0, sizeof *s);
    s->run = run;
    s->purpose = purpose;
    s->c = *candidate;
    if (purpose == SW_FOR_TRAIN &&
        sw_search_evaluate(run, &candidate->decision, 0, &s->c, &program, err) != 0)
        goto out;
    if (price(s, program, &run->cluster, &s->c.cost.step_seconds, err) != 0)
        goto out;
    const int32_t all = sw_constants_list(&run->cluster, constants);
    for (int32_t i = 0; i < all; i++) {
        struct sw_source *source = &s->row[s->count];
        *source = (struct sw_source){.constant = constants[i]};
        if (try_constant(s, program, source, err) != 0)
            goto out;
        s->count += fabs(source->elasticity) >= least_share ? 1 : 0;
    }
    s->idle = all - s->count;
    qsort(s->row, (size_t)s->count, sizeof s->row[0], compare);
    status = choose(s, err);
out:
    sw_program_free(program);
    return status;
}

const char *sw_source_place(const struct sw_sources *s, const struct sw_constant *c, char *buffer,
                            size_t bytes)
{
    if (c->at.file != NULL)
        snprintf(buffer, bytes, "%s:%d", c->at.file, c->at.line);
    else if (c->owner == SW_OWNER_LINK)
        snprintf(buffer, bytes, "default of %s links", c->link == 0 ? "the innermost" : "other");
    else
        snprintf(buffer, bytes, "default of %s devices",
                 sw_word(sw_words_device, (int32_t)s->run->cluster.accelerator.device));
    return buffer;
}

/* In data sheets' form, in bytes only. */
static const char *format_rate(double bytes_per_second, char buffer[SW_FORMAT_RATE])
{
    sw_format_rate(bytes_per_second, buffer);
    buffer[strcspn(buffer, "/") + 2] = '\0';
    return buffer;
}

static void format_value(const struct sw_constant *c, char *buffer, size_t bytes)
{
    char a[SW_FORMAT_BYTES], least[SW_FORMAT_RATE], most[SW_FORMAT_RATE];
    switch (c->unit) {
    case SW_UNIT_SECONDS:
        if (c->least < 1e-7) { /* two decimals of microseconds would be zeros */
            snprintf(buffer, bytes, "%.3g ns", c->least * 1e9);
            return;
        }
        snprintf(buffer, bytes, "%s", sw_format_seconds(c->least, a));
        return;
    case SW_UNIT_FLOPS:
        snprintf(buffer, bytes, "%.4g TFLOP/s", c->least * 1e-12);
        return;
    case SW_UNIT_BYTES:
        if (c->points > 1)
            snprintf(buffer, bytes, "%s to %s", format_rate(c->least, least),
                     format_rate(c->most, most));
        else
            snprintf(buffer, bytes, "%s", format_rate(c->least, least));
        return;
    default:
        if (c->points > 1)
            snprintf(buffer, bytes, "%.3g to %.3g", c->least, c->most);
        else
            snprintf(buffer, bytes, "%.3g", c->least);
    }
}

static const char *const untold_words[] = {
    [SW_TOLD] = "",
    [SW_UNTOLD_SHEET] = "shares are of it",
    [SW_UNTOLD_NETWORK] = "what the network is",
    [SW_UNTOLD_ASSUMED] = "assumed",
    [SW_UNTOLD_DEFAULT] = "fitted to all rows",
    [SW_UNTOLD_BESIDE] = "its curve tells nothing of it",
    [SW_UNTOLD_FILE] = "its file tells none",
};

/* Error of the constant over rows left out of its fit, or the reason why it is missing. */
static void format_error(const struct sw_constant *c, char *buffer, size_t bytes)
{
    char band[48] = "", told[64];
    if (c->band_high > 0)
        snprintf(band, sizeof band, "step %+.0f to %+.0f %%", 100 * (c->band_low - 1),
                 100 * (c->band_high - 1));
    if (c->untold == SW_TOLD)
        snprintf(told, sizeof told, "%.1f %%, signed %+.1f %%", 100 * c->error,
                 100 * c->signed_error.mean);
    else if (c->error > 0)
        snprintf(told, sizeof told, "%.1f %%, no sign: %s", 100 * c->error,
                 untold_words[c->untold]);
    else
        snprintf(told, sizeof told, "none: %s", untold_words[c->untold]);
    snprintf(buffer, bytes, "%s%s%s", told, band[0] != '\0' ? ", " : "", band);
}

static void print_measurement(FILE *out, const struct sw_sources *s)
{
    if (s->worst < 0)
        return;
    const struct sw_constant *c = &s->row[s->worst].constant;
    fprintf(out,
            "\nlargest uncertainty: %s; its share times its error is %.1f %% of the time.\n"
            "Measure it with:\n",
            c->name, 100 * s->row[s->worst].doubt);
    fprintf(out, "    %s\n", s->command);
    if (strstr(s->command, "metrics.jsonl") != NULL)
        fprintf(out, "after 'plan emit' and some steps of 'runner train' of this run\n");
    else if (strncmp(s->command, "plan fit", 8) == 0 && c->owner == SW_OWNER_LINK)
        fprintf(out, "collectives.csv: what your software's collectives take there, as 'plan fit "
                     "--help' says;\nthe output of nccl-tests and rccl-tests is taken as it is\n");
    else if (strncmp(s->command, "plan fit", 8) == 0)
        fprintf(out, "runs.csv: what %s software reached here, as 'plan fit --help' says%s\n",
                is_of_others(&s->run->cluster.profile) ? "this" : "your",
                is_set(s->run->model.path) ? "; model.yaml: the model, in a file" : "");
    else if (c->owner == SW_OWNER_LINK)
        fprintf(out, "then name the cluster file that it writes as the run's cluster\n");
    else
        fprintf(out, "a cluster NAME.yaml takes NAME.profile.yaml by itself, unless it names "
                     "another profile\n");
}

void sw_sources_text(FILE *out, const struct sw_sources *s)
{
    const struct sw_cost *cost = &s->c.cost;
    char mesh[64], a[SW_FORMAT_BYTES], value[2 * SW_FORMAT_RATE + 4], off[128], place[512];
    fprintf(out, "%s on %s, mesh_dim %s: %s %s, profile %s\n", s->run->name, s->run->cluster.name,
            sw_mesh_format(&s->c.decision.mesh, mesh, sizeof mesh),
            s->purpose == SW_FOR_SERVE ? "a token" : "a step",
            sw_format_seconds(cost->step_seconds, a), cost->profile);
    fprintf(out, "\n%-38s %-20s %8s %10s  %-44s %s\n", "constant", "value", "share", "1 % more",
            "error, or why it has none", "source");
    for (int32_t i = 0; i < s->count; i++) {
        const struct sw_source *row = &s->row[i];
        format_value(&row->constant, value, sizeof value);
        format_error(&row->constant, off, sizeof off);
        fprintf(out, "%-38s %-20s %6.2f %% %+8.3f %%  %-44s %s\n", row->constant.name, value,
                100 * fabs(row->elasticity), row->elasticity, off,
                sw_source_place(s, &row->constant, place, sizeof place));
    }
    fprintf(out, "share: part of the time that depends on the constant, measured by changing it by "
                 "1 %% up and down;\na peak counts with the fraction of it, so shares may add up "
                 "to more than 100 %%\nerror: on rows that it was not fitted to; signed: above 0 "
                 "where these took longer than predicted\n");
    if (s->idle > 0)
        fprintf(out, "the time does not depend on %d other constant%s\n", s->idle,
                s->idle > 1 ? "s" : "");
    print_measurement(out, s);
}

static void write_source(struct sw_json *j, const struct sw_sources *s, const struct sw_source *row)
{
    static const char *const units[] = {"share", "s", "FLOP/s", "B/s", "times", "elements"};
    const struct sw_constant *c = &row->constant;
    sw_json_object(j, NULL);
    sw_json_text(j, "name", c->name);
    sw_json_text(j, "unit", units[c->unit]);
    sw_json_number(j, "points", c->points);
    sw_json_number(j, "least", c->least);
    sw_json_number(j, "most", c->most);
    if (c->at.file != NULL) {
        sw_json_text(j, "file", c->at.file);
        sw_json_number(j, "line", c->at.line);
    } else {
        char place[64];
        sw_json_null(j, "file");
        sw_json_text(j, "default", sw_source_place(s, c, place, sizeof place));
    }
    sw_json_number(j, "share", fabs(row->elasticity));
    sw_json_number(j, "elasticity", row->elasticity);
    if (c->error > 0)
        sw_json_number(j, "error", c->error);
    if (c->untold == SW_TOLD)
        sw_json_number(j, "signed_error", c->signed_error.mean);
    if (c->untold != SW_TOLD)
        sw_json_text(j, "untold", untold_words[c->untold]);
    if (c->band_high > 0) {
        sw_json_number(j, "band_low", c->band_low);
        sw_json_number(j, "band_high", c->band_high);
    }
    if (c->runs > 0)
        sw_json_number(j, "runs", c->runs);
    sw_json_number(j, "doubt", row->doubt);
    sw_json_end(j);
}

void sw_sources_print_json(FILE *out, const struct sw_sources *s)
{
    struct sw_json json = {.out = out, .style = SW_JSON_TABS}, *j = &json;
    char mesh[64];
    sw_json_object(j, NULL);
    sw_json_text(j, "schema", "shardwright.explain.sources/1");
    sw_json_text(j, "run", s->run->name);
    sw_json_text(j, "for", s->purpose == SW_FOR_SERVE ? "serve" : "train");
    sw_json_text(j, "mesh_dim", sw_mesh_format(&s->c.decision.mesh, mesh, sizeof mesh));
    sw_json_number(j, "seconds", s->c.cost.step_seconds);
    sw_json_text(j, "profile", s->c.cost.profile);
    sw_json_array(j, "constants");
    for (int32_t i = 0; i < s->count; i++)
        write_source(j, s, &s->row[i]);
    sw_json_end(j);
    sw_json_number(j, "without_effect", s->idle);
    if (s->worst >= 0) {
        sw_json_object(j, "measure");
        sw_json_text(j, "constant", s->row[s->worst].constant.name);
        sw_json_text(j, "command", s->command);
        sw_json_end(j);
    } else
        sw_json_null(j, "measure");
    sw_json_end(j);
    fputc('\n', out);
}
