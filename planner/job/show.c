#include "planner/job/show.h"

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "planner/command/format.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *sw_show_name(const struct sw_run_status *s)
{
    return s->submission.run[0] != '\0' ? s->submission.run : sw_path_name(s->folder);
}

/* ---- Text ---- */

static void write_steps(FILE *out, const struct sw_run_status *s)
{
    char number[SW_FORMAT_BYTES];
    if (s->step <= 0 && s->steps <= 0)
        return;
    if (s->stages.count > 0)
        fprintf(out, "stage %s (%d of %d), ", s->stages.stage[s->stage].name, (int)s->stage + 1,
                (int)s->stages.count);
    fprintf(out, "step %s", sw_format_count((double)s->step, number));
    if (s->steps > 0)
        fprintf(out, " of %s", sw_format_count((double)s->steps, number));
    if (isfinite(s->progress.loss))
        fprintf(out, ", loss %.4g", s->progress.loss);
    if (s->left_seconds >= 0 && sw_run_state_is_live(s->state))
        fprintf(out, ", %s left", sw_format_duration(s->left_seconds, number));
}

bool sw_show_is_early(const struct sw_run_status *s)
{
    return s->state == SW_RUN_DONE && s->started.type[0] == '\0' && s->step > 0 &&
           s->step < s->steps;
}

void sw_show_line(FILE *out, const struct sw_run_status *s)
{
    fputs(sw_show_is_early(s) ? "stopped as asked" : sw_run_state_name(s->state), out);
    if (s->started.type[0] != '\0') {
        fprintf(out, ", %s", s->started.type);
    } else if (s->state != SW_RUN_PENDING && (s->step > 0 || s->steps > 0)) {
        fputs(", ", out);
        write_steps(out, s);
    }
    if (s->slower && s->state == SW_RUN_RUNNING)
        fputs(", slower than predicted", out);
    if (s->words[0] != '\0' && s->state != SW_RUN_DONE)
        fprintf(out, ": %s", s->words);
}

struct lines {
    FILE *out;
    int32_t count;
};

static void begin(struct lines *l, const char *label)
{
    fprintf(l->out, "  %-8s ", label);
    l->count++;
}

static void show_head(struct lines *l, const struct sw_run_status *s)
{
    char step[SW_FORMAT_BYTES], steps[SW_FORMAT_BYTES];
    fprintf(l->out, "%s: ", sw_show_name(s));
    if (sw_show_is_early(s))
        fprintf(l->out, "stopped at step %s of %s, as asked",
                sw_format_count((double)s->step, step), sw_format_count((double)s->steps, steps));
    else
        fputs(sw_run_state_name(s->state), l->out);
    if (s->job_id[0] != '\0')
        fprintf(l->out, ", job %s", s->job_id);
    if (s->attempt_number > 0)
        fprintf(l->out, ", attempt %" PRId64, s->attempt_number);
    fputc('\n', l->out);
    l->count++;
}

static void show_where(struct lines *l, const struct sw_run_status *s)
{
    const struct sw_queued_job *job = &s->job;
    char text[SW_FORMAT_RATE], number[SW_FORMAT_BYTES];
    if (job->id == NULL || !job->is_live)
        return;
    begin(l, "where");
    if (!job->is_running) {
        sw_format_counted((double)job->node_count, "node", text);
        fprintf(l->out, "%s %s, ", s->never_starts ? "wants" : "waits for", text);
        if (s->never_starts)
            fprintf(l->out, "and does not start by itself\n");
        else if (job->starts_at[0] != '\0')
            fprintf(l->out, "starts at %s by %s's estimate\n", job->starts_at, s->scheduler->title);
        else
            fprintf(l->out, "%s gives no estimate of its start\n", s->scheduler->title);
        return;
    }
    fprintf(l->out, "%s %s", sw_format_counted((double)job->node_count, "node", text), job->nodes);
    if (job->elapsed_seconds >= 0)
        fprintf(l->out, ", for %s", sw_format_duration(job->elapsed_seconds, number));
    if (isfinite(job->limit_seconds) && job->limit_seconds > 0)
        fprintf(l->out, " of %s", sw_format_duration(job->limit_seconds, number));
    if (s->progress.mesh[0] != '\0')
        fprintf(l->out, ", mesh %s", s->progress.mesh);
    fputc('\n', l->out);
}

/* Shows progress of a job that does not train, or its address. */
static void show_started(struct lines *l, const struct sw_run_status *s)
{
    const struct sw_started *st = &s->started;
    char number[SW_FORMAT_BYTES], all[SW_FORMAT_BYTES];
    if (strcmp(st->type, "serve") == 0) {
        if (s->state != SW_RUN_RUNNING)
            return;
        begin(l, "serves");
        fprintf(l->out, "http://%s:%d, with the token in %s\n", st->host, (int)st->port,
                st->token_file);
        begin(l, "tunnel");
        fprintf(l->out, "ssh -N -L %d:%s:%d LOGIN-NODE, then http://127.0.0.1:%d\n", (int)st->port,
                st->host, (int)st->port, (int)st->port);
        return;
    }
    begin(l, "lines");
    fprintf(l->out, "%s of %s",
            st->written >= 0 ? sw_format_count((double)st->written, number) : "many",
            sw_format_count((double)st->lines, all));
    if (st->shards > 1)
        fprintf(l->out, ", in %d parts, %d of them done", (int)st->shards, (int)st->ended);
    if (st->shards > 1 && s->tasks_running > 0)
        fprintf(l->out, ", %d running", (int)s->tasks_running);
    fprintf(l->out, "\n");
    begin(l, "output");
    fprintf(l->out, "%s%s\n", st->output, st->shards > 1 ? ".*-of-*" : "");
}

static void show_speed(struct lines *l, const struct sw_run_status *s)
{
    char number[SW_FORMAT_BYTES];
    if (s->progress.step_seconds <= 0 && s->predicted <= 0)
        return;
    begin(l, "speed");
    if (s->progress.step_seconds > 0)
        fprintf(l->out, "%s a step", sw_format_seconds(s->progress.step_seconds, number));
    if (s->predicted > 0)
        fprintf(l->out, "%s%s predicted", s->progress.step_seconds > 0 ? ", " : "",
                sw_format_seconds(s->predicted, number));
    if (s->high > 0) {
        fprintf(l->out, " (%s", sw_format_seconds(s->low, number));
        fprintf(l->out, " to %s)", sw_format_seconds(s->high, number));
    }
    if (s->slower)
        fprintf(l->out, ": slower than predicted");
    fputc('\n', l->out);
}

/* Steps of all finished stages. */
static int64_t done_steps(const struct sw_run_status *s)
{
    const int64_t own = s->step - s->stages.stage[s->stage].first_step;
    return sw_stages_steps(&s->stages, s->stage) + (own > 0 ? own : 0);
}

/* Shows progress over all stages. */
static void show_stages(struct lines *l, const struct sw_run_status *s)
{
    char done[SW_FORMAT_BYTES], all[SW_FORMAT_BYTES];
    if (s->stages.count == 0)
        return;
    begin(l, "stages");
    for (int32_t i = 0; i < s->stages.count; i++)
        fprintf(l->out, "%s%s%s", i > 0 ? ", " : "", s->stages.stage[i].name,
                i < s->stage || (i == s->stage && s->state == SW_RUN_DONE) ? " done" : "");
    fprintf(l->out, "; %s of %s steps of all\n", sw_format_count((double)done_steps(s), done),
            sw_format_count((double)sw_stages_steps(&s->stages, s->stages.count), all));
}

int32_t sw_show_text(FILE *out, const struct sw_run_status *s)
{
    struct lines l = {.out = out};
    char number[SW_FORMAT_BYTES];
    show_head(&l, s);
    if (s->words[0] != '\0' && !sw_show_is_early(s)) {
        begin(&l, sw_run_state_is_live(s->state) ? "now" : "end");
        fprintf(out, "%s\n", s->words);
    }
    show_where(&l, s);
    if (s->started.type[0] != '\0') {
        show_started(&l, s);
    } else if (s->step > 0 || s->steps > 0) {
        begin(&l, "steps");
        write_steps(out, s);
        fputc('\n', out);
        show_stages(&l, s);
        show_speed(&l, s);
    }
    if (s->checkpoint_step >= 0 && s->started.type[0] == '\0') {
        begin(&l, "saved");
        fprintf(out, "step %s, %s ago\n", sw_format_count((double)s->checkpoint_step, number),
                sw_format_duration(s->checkpoint_age, (char[SW_FORMAT_BYTES]){0}));
    }
    if (s->efficiency != NULL)
        sw_hours_write(out, s->efficiency, "  ");
    if (s->excluded[0] != '\0') {
        begin(&l, "without");
        fprintf(out, "%s: excluded_nodes.jsonl says why\n", s->excluded);
    }
    if (s->advice[0] != '\0') {
        begin(&l, "next");
        fprintf(out, "%s\n", s->advice);
    }
    begin(&l, "folder");
    fprintf(out, "%s\n", s->folder);
    if (s->note[0] != '\0') {
        begin(&l, "note");
        fprintf(out, "%s\n", s->note);
    }
    return l.count;
}

/* ---- JSON ---- */

static void text_or_null(struct sw_json *j, const char *key, const char *text)
{
    sw_json_text(j, key, text != NULL && text[0] != '\0' ? text : NULL);
}

static void positive_or_null(struct sw_json *j, const char *key, double value)
{
    if (isfinite(value) && value > 0)
        sw_json_digits(j, key, value, 9);
    else
        sw_json_null(j, key);
}

static void count_or_null(struct sw_json *j, const char *key, int64_t value, int64_t least)
{
    if (value >= least)
        sw_json_integer(j, key, value);
    else
        sw_json_null(j, key);
}

static void seconds_or_null(struct sw_json *j, const char *key, double value)
{
    if (isfinite(value) && value >= 0)
        sw_json_digits(j, key, value, 9);
    else
        sw_json_null(j, key);
}

static void write_job(struct sw_json *j, const struct sw_run_status *s)
{
    const struct sw_queued_job *job = &s->job;
    const bool known = job->id != NULL;
    text_or_null(j, "job", s->job_id);
    text_or_null(j, "scheduler_state", known ? job->state : NULL);
    text_or_null(j, "reason", known && job->is_live ? job->reason : NULL);
    sw_json_bool(j, "never_starts", s->never_starts);
    text_or_null(j, "starts_at", known && !s->never_starts ? job->starts_at : NULL);
    text_or_null(j, "node_list", known ? job->nodes : NULL);
    count_or_null(j, "nodes", known ? job->node_count : s->submission.nodes, 1);
    seconds_or_null(j, "elapsed_seconds", known ? job->elapsed_seconds : -1);
    seconds_or_null(j, "limit_seconds", known ? job->limit_seconds : -1);
}

static void write_stage(struct sw_json *j, const struct sw_run_status *s)
{
    if (s->stages.count == 0)
        return;
    sw_json_object(j, "stage");
    sw_json_text(j, "name", s->stages.stage[s->stage].name);
    sw_json_integer(j, "number", s->stage + 1);
    sw_json_integer(j, "of", s->stages.count);
    sw_json_text(j, "directory", s->inner);
    sw_json_integer(j, "steps_done", done_steps(s));
    sw_json_integer(j, "steps_of_all", sw_stages_steps(&s->stages, s->stages.count));
    sw_json_end(j);
}

static void write_steps_json(struct sw_json *j, const struct sw_run_status *s)
{
    write_stage(j, s);
    count_or_null(j, "step", s->step, 1);
    count_or_null(j, "steps", s->steps, 1);
    sw_json_digits(j, "loss", s->progress.loss, 9);
    seconds_or_null(j, "left_seconds", s->left_seconds);
    positive_or_null(j, "step_seconds", s->progress.step_seconds);
    positive_or_null(j, "predicted_step_seconds", s->predicted);
    positive_or_null(j, "band_low_seconds", s->low);
    positive_or_null(j, "band_high_seconds", s->high);
    sw_json_bool(j, "slower_than_predicted", s->slower);
    positive_or_null(j, "tokens_per_second", s->progress.tokens_per_second);
    if (s->checkpoint_step < 0) {
        sw_json_null(j, "checkpoint");
        return;
    }
    sw_json_object(j, "checkpoint");
    sw_json_text(j, "folder", s->checkpoint);
    sw_json_integer(j, "step", s->checkpoint_step);
    sw_json_digits(j, "age_seconds", s->checkpoint_age, 9);
    sw_json_end(j);
}

static void write_efficiency(struct sw_json *j, const struct sw_hours *e)
{
    if (e == NULL)
        return;
    sw_json_object(j, "efficiency");
    sw_json_integer(j, "attempts", e->attempts);
    sw_json_integer(j, "steps", e->steps);
    sw_json_integer(j, "repeated_steps", e->repeated_steps);
    sw_json_digits(j, "accelerator_hours", e->held_s / 3600, 9);
    sw_json_object(j, "parts");
    for (int32_t i = 0; i < SW_TIME_PART_COUNT; i++)
        sw_json_digits(j, sw_time_part_keys[i], e->part_s[i] / 3600, 9);
    sw_json_end(j);
    positive_or_null(j, "mfu", e->mfu);
    positive_or_null(j, "held_mfu", e->held_mfu);
    count_or_null(j, "memory_used", e->memory_used, 1);
    count_or_null(j, "memory_planned", e->memory_planned, 1);
    count_or_null(j, "memory_limit", e->memory_limit, 1);
    text_or_null(j, "job", e->job);
    seconds_or_null(j, "job_seconds", e->job_s);
    positive_or_null(j, "job_limit_seconds", e->job_limit_s);
    sw_json_end(j);
}

static void write_excluded(struct sw_json *j, const char *names)
{
    char name[256];
    sw_json_array(j, "excluded_nodes");
    for (; *names != '\0'; names += strspn(names, ",")) {
        const size_t length = strcspn(names, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, names);
        sw_json_text(j, NULL, name);
        names += length;
    }
    sw_json_end(j);
}

static void write_started(struct sw_json *j, const struct sw_run_status *s)
{
    const struct sw_started *st = &s->started;
    if (st->type[0] == '\0') {
        sw_json_null(j, "inference");
        return;
    }
    sw_json_object(j, "inference");
    sw_json_text(j, "type", st->type);
    if (strcmp(st->type, "serve") == 0) {
        sw_json_text(j, "host", st->host);
        sw_json_integer(j, "port", st->port);
        sw_json_text(j, "token_file", st->token_file);
    } else {
        sw_json_text(j, "output", st->output);
        sw_json_integer(j, "shards", st->shards);
        sw_json_integer(j, "shards_done", st->ended);
        sw_json_integer(j, "lines", st->lines);
        count_or_null(j, "lines_written", st->written, 0);
    }
    sw_json_end(j);
}

void sw_show_json(struct sw_json *j, bool alone, const struct sw_run_status *s, const char *trouble)
{
    const bool ended = s->attempt.attempt > 0 && s->attempt.verdict != SW_VERDICT_RUNNING;
    sw_json_object(j, NULL);
    if (alone)
        sw_json_text(j, "schema", "shardwright.status/2");
    sw_json_text(j, "run", sw_show_name(s));
    sw_json_text(j, "directory", s->folder);
    sw_json_text(j, "state", sw_run_state_name(s->state));
    sw_json_bool(j, "live", sw_run_state_is_live(s->state));
    text_or_null(j, "words", s->words);
    text_or_null(j, "advice", s->advice);
    count_or_null(j, "attempt", s->attempt_number, 1);
    write_job(j, s);
    write_steps_json(j, s);
    write_started(j, s);
    write_efficiency(j, s->efficiency);
    if (ended)
        sw_json_integer(j, "verdict", s->attempt.verdict);
    else
        sw_json_null(j, "verdict");
    text_or_null(j, "cause", ended ? s->attempt.cause : NULL);
    sw_json_array(j, "bad_nodes");
    for (int32_t i = 0; i < s->attempt.node_count; i++)
        sw_json_text(j, NULL, s->attempt.node[i]);
    sw_json_end(j);
    write_excluded(j, s->excluded);
    text_or_null(j, "mesh_dim",
                 s->progress.mesh[0] != '\0' ? s->progress.mesh : s->submission.mesh);
    text_or_null(j, "submitted_at", s->submission.submitted_at);
    text_or_null(j, "note", s->note);
    if (alone)
        text_or_null(j, "trouble", trouble);
    sw_json_end(j);
}
