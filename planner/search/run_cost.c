#include "planner/search/run_cost.h"

#include "core/base/json.h"
#include "core/cost/cost.h"
#include "core/plan/data_file.h"
#include "core/plan/data_files.h"
#include "core/plan/plan.h"
#include "core/programs/compile.h"
#include "planner/command/format.h"
#include "planner/scheduler/scheduler.h"
#include "planner/scheduler/script.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

/* Bytes of the files visible from here. */
static double seen_bytes(const struct sw_paths *paths)
{
    double bytes = 0;
    struct sw_data_files files;
    struct stat about;
    if (sw_data_files_find(paths, &files, NULL) != 0)
        return 0;
    for (int32_t i = 0; i < files.count; i++)
        if (stat(files.path[i], &about) == 0 && S_ISREG(about.st_mode))
            bytes += (double)about.st_size;
    sw_data_files_free(&files);
    return bytes;
}

double sw_search_evaluation_s(const struct sw_run_config *run, double evaluate_s)
{
    const bool own = run->data_validation.count > 0;
    if (run->data_path == NULL || (!own && run->data_holdout <= 0))
        return 0;
    const double bytes =
        own ? seen_bytes(&run->data_validation) : run->data_holdout * seen_bytes(&run->data_paths);
    const double token_bytes = sw_data_is_bytes(run)                    ? 1
                               : run->model.shape.vocab_size <= 1 << 16 ? 2
                                                                        : 4;
    const double batch = (double)run->global_batch_size * (double)run->sequence_length;
    return ceil(bytes / token_bytes / batch) * evaluate_s;
}

double sw_run_trained_step_s(const struct sw_run_cost *cost, const struct sw_candidate *candidate)
{
    struct sw_run_terms terms = cost->terms;
    struct sw_run_time alone;
    if (terms.steps == 0)
        return candidate->cost.step_seconds;
    terms.failure_s = terms.limit_s = INFINITY;
    sw_run_time(&terms, &alone);
    return (alone.wall_s - terms.start_s) / (double)terms.steps;
}

double sw_search_trained_step_s(const struct sw_run_config *run,
                                const struct sw_candidate *candidate)
{
    struct sw_run_cost cost;
    if (sw_search_price_run(run, candidate, NULL, &cost, NULL) != 0)
        return candidate->cost.step_seconds;
    return sw_run_trained_step_s(&cost, candidate);
}

static int price(const struct sw_run_config *run, const struct sw_candidate *c,
                 const struct sw_program_set *programs, struct sw_run_cost *out,
                 struct sw_error *err)
{
    struct sw_cost evaluation;
    struct sw_checkpoint_cost save;
    const struct sw_saved_run saved = {.memory_total = c->memory.reserved + programs->arena_bytes,
                                       .step_seconds = c->cost.step_seconds,
                                       .total_steps = sw_run_steps(run),
                                       .write_limit = run->checkpoint_bandwidth};
    if (sw_cost_price(programs->program[SW_PROGRAM_EVALUATE], &run->cluster, NULL, &evaluation,
                      err) != 0 ||
        sw_checkpoint_price_set(programs, &run->cluster, &saved, &save, err) != 0)
        return -1;
    const struct sw_job_terms terms = sw_job_terms(&run->cluster);
    const double lead_s =
        (double)sw_script_lead_s(c->cost.step_seconds + save.stall_s + save.write_s);
    const struct sw_run_step step = {
        .steps = sw_run_steps(run),
        .step_s = c->cost.step_seconds,
        .low_s = c->cost.band_low_seconds,
        .high_s = c->cost.band_high_seconds,
        .evaluate_s = sw_search_evaluation_s(run, evaluation.step_seconds),
        .limit_s = isinf(terms.time_s) ? INFINITY : fmax(1, terms.time_s - lead_s)};
    sw_run_cost_price(run, &save, &step, out);
    return 0;
}

int sw_search_price_run(const struct sw_run_config *run, const struct sw_candidate *candidate,
                        const struct sw_program_set *programs, struct sw_run_cost *out,
                        struct sw_error *err)
{
    const struct sw_run_estimate unknown = {NAN, NAN, NAN};
    struct sw_program_options options;
    struct sw_program_set *own = NULL;
    *out = (struct sw_run_cost){.wall_s = unknown,
                                .accelerator_hours = unknown,
                                .energy_joules = unknown,
                                .money = unknown};
    /* a checkpoint of more ranks has too many files to price */
    const bool huge = (int64_t)run->cluster.nodes * run->cluster.accelerators_per_node > 1 << 20;
    if (!run->says_steps || run->job.type != SW_JOB_TRAIN || huge)
        return 0;
    int status = programs != NULL ||
                         (sw_plan_program_options(run, &candidate->decision, &options, err) == 0 &&
                          sw_program_set_compile(&options, &own, err) == 0)
                     ? 0
                     : -1;
    if (status == 0)
        status = price(run, candidate, programs != NULL ? programs : own, out, err);
    sw_program_set_free(own);
    return status;
}

const char *sw_run_unit_of_price(const struct sw_run_config *run)
{
    return run->cluster.currency != NULL ? run->cluster.currency : "USD";
}

__attribute__((format(printf, 4, 5))) static size_t add(char *buffer, size_t bytes, size_t used,
                                                        const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int wrote = vsnprintf(buffer + used, bytes - used, format, arguments);
    va_end(arguments);
    return wrote > 0 && used + (size_t)wrote < bytes ? used + (size_t)wrote : bytes - 1;
}

/* "10,257" for large amounts, "3.05" for small ones. */
static char *format_amount(double amount, char buffer[SW_FORMAT_BYTES])
{
    if (amount >= 99.95)
        return sw_format_count(amount, buffer);
    snprintf(buffer, SW_FORMAT_BYTES, amount < 0.01 ? "%.2g" : "%.2f", amount);
    return buffer;
}

char *sw_report_run_cost(const struct sw_run_config *run, const struct sw_run_cost *cost,
                         char *buffer, size_t bytes)
{
    char a[SW_FORMAT_RATE], b[SW_FORMAT_BYTES], c[SW_FORMAT_BYTES];
    if (isinf(cost->wall_s.value)) {
        snprintf(buffer, bytes, "%s",
                 isinf(cost->time.jobs) ? "never ends: no job has time for a step"
                                        : "hardly ends: failures come sooner than saves");
        return buffer;
    }
    size_t used = add(
        buffer, bytes, 0, "ends after %s (%s to %s): %s", sw_format_duration(cost->wall_s.value, a),
        sw_format_duration(cost->wall_s.low, b), sw_format_duration(cost->wall_s.high, c), "");
    used = add(buffer, bytes, used, "%s",
               sw_format_accelerator_hours(cost->accelerator_hours.value, a));
    if (!isnan(cost->energy_joules.value))
        used = add(buffer, bytes, used, ", %s kWh",
                   format_amount(cost->energy_joules.value / 3.6e6, b));
    if (!isnan(cost->money.value))
        add(buffer, bytes, used, ", %s %s", format_amount(cost->money.value, b),
            sw_run_unit_of_price(run));
    return buffer;
}

/* Parts of the wall time, in printed order. */
static const struct {
    const char *name, *key;
    size_t at;
} parts[] = {{"steps", "steps_seconds", offsetof(struct sw_run_time, steps_s)},
             {"saves", "save_seconds", offsetof(struct sw_run_time, save_s)},
             {"evaluations", "evaluate_seconds", offsetof(struct sw_run_time, evaluate_s)},
             {"starts", "start_seconds", offsetof(struct sw_run_time, start_s)},
             {"repeated", "repeated_seconds", offsetof(struct sw_run_time, repeated_s)},
             {"restarts", "restart_seconds", offsetof(struct sw_run_time, restart_s)},
             {"queue", "queue_seconds", offsetof(struct sw_run_time, queue_s)}};
enum { PARTS = sizeof parts / sizeof parts[0] };

static double part_of(const struct sw_run_cost *cost, int32_t i)
{
    return *(const double *)((const char *)&cost->time + parts[i].at);
}

char *sw_report_run_parts(const struct sw_run_cost *cost, char *buffer, size_t bytes)
{
    char text[SW_FORMAT_BYTES];
    size_t used = 0;
    for (int32_t i = 0; i < PARTS; i++)
        if (part_of(cost, i) > 5e-5 * cost->wall_s.value)
            used = add(buffer, bytes, used, "%s%s %s", used > 0 ? ", " : "", parts[i].name,
                       sw_format_duration(part_of(cost, i), text));
    if (cost->time.failures >= 0.005)
        used = add(buffer, bytes, used, "; %.2g failures expected", cost->time.failures);
    if (cost->time.jobs > 1)
        add(buffer, bytes, used, "; %.3g jobs", cost->time.jobs);
    return buffer;
}

void sw_report_cost_line(FILE *out, const struct sw_run_config *run, const struct sw_run_cost *cost)
{
    char line[320];
    if (cost->terms.steps == 0)
        return;
    fprintf(out, "cost      ");
    sw_format_wrapped(out, sw_report_run_cost(run, cost, line, sizeof line), 10, 10, 100);
    if (isinf(cost->wall_s.value))
        return;
    fprintf(out, "          ");
    sw_format_wrapped(out, sw_report_run_parts(cost, line, sizeof line), 10, 10, 100);
}

static void write_estimate(struct sw_json *j, const char *key, const struct sw_run_estimate *of)
{
    sw_json_object(j, key);
    sw_json_number(j, "value", of->value);
    sw_json_number(j, "low", of->low);
    sw_json_number(j, "high", of->high);
    sw_json_end(j);
}

void sw_run_cost_write_json(struct sw_json *j, const char *key, const struct sw_run_config *run,
                            const struct sw_run_cost *cost)
{
    if (cost->terms.steps == 0) {
        sw_json_null(j, key);
        return;
    }
    sw_json_object(j, key);
    write_estimate(j, "wall_seconds", &cost->wall_s);
    write_estimate(j, "accelerator_hours", &cost->accelerator_hours);
    write_estimate(j, "energy_joules", &cost->energy_joules);
    write_estimate(j, "money", &cost->money);
    sw_json_text(j, "currency", sw_run_unit_of_price(run));
    sw_json_number(j, "failures", cost->time.failures);
    sw_json_number(j, "jobs", cost->time.jobs);
    sw_json_number(j, "checkpoint_every_steps", (double)cost->terms.interval);
    sw_json_object(j, "parts");
    for (int32_t i = 0; i < PARTS; i++)
        sw_json_number(j, parts[i].key, part_of(cost, i));
    sw_json_end(j);
    sw_json_end(j);
}
