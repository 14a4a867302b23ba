/* A script on its way to sbatch. */
#include "planner/scheduler/slurm/submit.h"

#include "core/run/submission.h"
#include "planner/scheduler/slurm/client.h"

#include <stdio.h>
#include <string.h>

/* Time limit of sbatch, which the site's hooks may keep busy. */
static const double sbatch_seconds = 60;

/* ---- The script ---- */

static bool has_directive(const char *text, const char *name, const char **value)
{
    const size_t length = strlen(name);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, "#SBATCH --", 10) != 0 || strncmp(line + 10, name, length) != 0 ||
            line[10 + length] != '=')
            continue;
        *value = line + 11 + length;
        return true;
    }
    return false;
}

/* Finds the log's path in the script, without the quotes that sbatch removes. */
static void find_log(const char *text, const char *folder, char out[PATH_MAX])
{
    const char *value;
    size_t used = 0;
    snprintf(out, PATH_MAX, "%.4000s/slurm-%%j.out", folder);
    if (!has_directive(text, "output", &value) || (value[0] != '/' && value[0] != '"'))
        return;
    const bool quoted = *value == '"';
    for (value += quoted; *value != '\0' && *value != '\n' && used < PATH_MAX - 1; value++) {
        if (quoted ? *value == '"' : *value == ' ')
            break;
        value += quoted && *value == '\\' && value[1] != '\0';
        out[used++] = *value;
    }
    out[used] = '\0';
}

void sw_slurm_read_script(const char *script, const char *folder, struct sw_job_script *out)
{
    const char *value;
    find_log(script, folder, out->log);
    out->has_comment = has_directive(script, "comment", &value);
}

/* ---- sbatch ---- */

int sw_sbatch_parse_id(const char *text, char *out, int32_t bytes)
{
    size_t end = strlen(text);
    while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == '\r' || text[end - 1] == ' '))
        end--;
    size_t begin = end;
    while (begin > 0 && text[begin - 1] != '\n')
        begin--;
    const size_t digits = strspn(text + begin, "0123456789");
    if (digits == 0 || (begin + digits != end && text[begin + digits] != ';') ||
        snprintf(out, (size_t)bytes, "%.*s", (int)digits, text + begin) >= bytes)
        return -1;
    return sw_job_id_is_valid(out) ? 0 : -1;
}

/* True if Slurm refused, so that there certainly is no job. */
static bool is_refusal(const struct sw_process_result *result)
{
    static const char *const unsure[] = {"timed out", "Unable to contact", "Communication",
                                         "Transport", "Zero Bytes"};
    if (result->timed_out || result->exit_code == 0 || result->diagnostics == NULL ||
        strstr(result->diagnostics, "error: ") == NULL)
        return false;
    for (size_t i = 0; i < sizeof unsure / sizeof unsure[0]; i++)
        if (strstr(result->diagnostics, unsure[i]) != NULL)
            return false;
    return true;
}

/* Reports that a job may or may not exist. */
static enum sw_submitted unsure(const char *why, const char *folder, struct sw_error *err)
{
    sw_fail(
        err, SW_ENVIRONMENT,
        "sbatch did not say what became of the job%s%.400s; 'plan status %s' finds it, if there "
        "is one",
        why[0] != '\0' ? ": " : "", why, folder);
    return SW_SUBMIT_UNSURE;
}

enum sw_submitted sw_slurm_submit(const char *script, const char *token, const char *folder,
                                  char *id, int32_t id_bytes, struct sw_error *err)
{
    struct sw_process_result result = {0};
    enum sw_submitted done = SW_SUBMIT_DONE;
    char comment[64];
    const char *argv[] = {"sbatch", "--parsable", script, NULL, NULL};
    if (token != NULL) {
        snprintf(comment, sizeof comment, "--comment=shardwright:%s", token);
        argv[2] = comment;
        argv[3] = script;
    }
    struct sw_error lost = {0};
    if (sw_slurm_process(argv, NULL, sbatch_seconds, &result, &lost) != 0) {
        done = result.started ? unsure(lost.message, folder, err) : SW_SUBMIT_NONE;
        if (done == SW_SUBMIT_NONE)
            sw_fail_as(err, &lost);
    } else if (!result.timed_out && result.exit_code == 0 &&
               sw_sbatch_parse_id(result.out, id, id_bytes) == 0) {
        if (result.diagnostics_bytes > 0)
            fputs(result.diagnostics, stderr);
    } else if (is_refusal(&result)) {
        done = SW_SUBMIT_NONE;
        /* a site's plugin explains in several lines, and the last one is Slurm's own */
        char said[SW_ERROR_BYTES - 64];
        sw_fail(err, SW_UNMET, "Slurm refuses the job: %s",
                sw_process_words(&result, said, sizeof said));
    } else {
        done = unsure(sw_process_complaint(&result), folder, err);
    }
    sw_process_free(&result);
    return done;
}
