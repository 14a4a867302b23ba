#include "planner/policy/site.h"

#include "core/base/text.h"
#include "core/config/site.h"
#include "planner/command/annotate.h"
#include "planner/policy/measure.h"
#include "planner/scheduler/scheduler.h"
#include "planner/search/run_cost.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void say(const struct sw_options *options, const struct sw_place *at, bool warns,
                const char *text)
{
    char shown[1408];
    sw_text_shown(text, sizeof shown - 8, shown);
    if (sw_annotates(options))
        sw_annotate(options, warns ? "warning" : "notice", at->file, at->line, at->column, shown,
                    NULL);
    else if (at->line > 0)
        fprintf(stderr, "%s:%" PRId32 ":%" PRId32 ": %s: %s\n", at->file, at->line, at->column,
                warns ? "warning" : "note", shown);
    else
        fprintf(stderr, "%s: %s: %s\n", at->file != NULL ? at->file : "plan",
                warns ? "warning" : "note", shown);
}

/* Reports a mistake in the centre's file, which is not the user's. what: the part of the file
 * without effect */
static void say_mistake(const struct sw_options *options, const char *what,
                        const struct sw_error *err)
{
    char text[1400];
    const struct sw_place at = {err->file[0] != '\0' ? err->file : NULL, err->line, err->column};
    snprintf(text, sizeof text, "%.1200s; %s is left out, tell the site's staff", err->message,
             what);
    say(options, &at, true, text);
}

static bool asks_for(const struct sw_fail_if *c, enum sw_measure measure)
{
    for (int32_t i = 0; i < c->count; i++)
        if (c->node[i].kind == 'm' && c->node[i].measure == measure)
            return true;
    return false;
}

static bool asks_for_cost(const struct sw_fail_if *c)
{
    return asks_for(c, SW_MEASURE_END) || asks_for(c, SW_MEASURE_MONEY) ||
           asks_for(c, SW_MEASURE_ENERGY) || asks_for(c, SW_MEASURE_RUN_HOURS);
}

static int parse(const struct sw_site_rule *rule, struct sw_fail_if *out, struct sw_error *err)
{
    if (sw_fail_if_parse_alone(rule->condition, &rule->at, out, err) != 0)
        return -1;
    if (out->form == SW_FAIL_IF_REJECTED)
        return sw_fail_at(err, SW_BAD_INPUT, rule->at,
                          "a run that fits nowhere is refused anyway; use another condition");
    if (asks_for(out, SW_MEASURE_COMMUNICATION_BYTES))
        return sw_fail_at(err, SW_BAD_INPUT, rule->at,
                          "bytes of communication are not known here; use communication, "
                          "which is a time");
    return 0;
}

/* Parses all conditions of the file, malloc'ed; a wrong one is reported and gets no text. NULL: no
 * memory (err filled). */
static struct sw_fail_if *parse_all(const struct sw_options *options, const struct sw_site *site,
                                    struct sw_error *err)
{
    struct sw_fail_if *condition = calloc((size_t)site->count + 1, sizeof *condition);
    if (condition == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory for the site's conditions");
        return NULL;
    }
    for (int32_t i = 0; i < site->count; i++) {
        struct sw_error wrong = {0};
        if (parse(&site->rule[i], &condition[i], &wrong) == 0)
            continue;
        say_mistake(options, "this rule", &wrong);
        condition[i] = (struct sw_fail_if){.text = NULL};
    }
    return condition;
}

static void advise(const struct sw_options *options, const struct sw_site *site,
                   const struct sw_fail_if *condition, const struct sw_measures *measures)
{
    char detail[160];
    for (int32_t i = 0; i < site->count; i++)
        if (condition[i].text != NULL && sw_fail_if_test(&condition[i], NULL, measures, detail,
                                                         sizeof detail) == SW_FAIL_IF_FAIL)
            say(options, &site->rule[i].at, site->rule[i].warns, site->rule[i].say);
}

void sw_site_advise(const struct sw_options *options, const struct sw_run_config *run,
                    const struct sw_candidate *candidate, const struct sw_run_cost *cost)
{
    const char *named = getenv("SHARDWRIGHT_SITE"), *path = named != NULL ? named : SW_SITE_FILE;
    struct sw_site site = {.config = NULL};
    struct sw_run_cost own = {.wall_s = {NAN, NAN, NAN},
                              .accelerator_hours = {NAN, NAN, NAN},
                              .energy_joules = {NAN, NAN, NAN},
                              .money = {NAN, NAN, NAN}};
    struct sw_measures measures;
    struct sw_fail_if *condition = NULL;
    struct sw_error err = {0};
    bool costs = false;
    if (path[0] == '\0' || (named == NULL && access(path, F_OK) != 0))
        return;
    if (sw_site_read(path, options->launchers, &site, &err) == 0)
        condition = parse_all(options, &site, &err);
    for (int32_t i = 0; condition != NULL && i < site.count; i++)
        costs = costs || asks_for_cost(&condition[i]);
    if (condition != NULL && costs && cost == NULL &&
        sw_search_price_run(run, candidate, NULL, &own, &err) != 0) {
        free(condition);
        condition = NULL;
    }
    if (condition != NULL) {
        sw_measures_take(run, sw_run_purpose(run), candidate, cost != NULL ? cost : &own,
                         (double)NAN, &measures);
        advise(options, &site, condition, &measures);
    } else {
        say_mistake(options, "the site's advice", &err);
    }
    free(condition);
    sw_site_free(&site);
}
