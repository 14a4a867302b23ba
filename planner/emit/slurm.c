/* What follows from Slurm's settings: the values of #SBATCH lines and their defaults, and the lines
 * that prepare the ranks' environment. */
#include "planner/emit/script.h"

#include "core/base/device.h"
#include "planner/scheduler/scheduler.h"
#include "planner/scheduler/slurm/ranks.h"
#include "planner/scheduler/slurm/settings.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A limit is the predicted time and half of it, for predictions are off by up to a third and a
 * start takes minutes; rounded up to what people write. */
static const double limit_margin = 1.5, start_seconds = 600;
enum { LIMIT_STEP_MINUTES = 5, MINUTES_OF_DAY = 1440 };

/* Slurm may send the signal a minute early (sbatch(1), --signal). */
enum { EARLY_SECONDS = 60, LEADS_IN_LIMIT = 4 };

void sw_script_format_time(int64_t minutes, char out[32])
{
    const int64_t days = minutes / MINUTES_OF_DAY, hours = minutes / 60 % 24;
    if (days > 0)
        snprintf(out, 32, "%" PRId64 "-%02" PRId64 ":%02" PRId64 ":00", days, hours, minutes % 60);
    else
        snprintf(out, 32, "%" PRId64 ":%02" PRId64 ":00", hours, minutes % 60);
}

static void set(struct sw_script *s, enum sw_placeholder place, const char *value)
{
    s->value[place].value = value;
}

/* What a limit must leave room for: the shortest that the job takes, and a signal, the run's or
 * ours, that is not to come at once. */
static double least_limit_s(const struct sw_slurm_config *slurm, int64_t lead_seconds)
{
    const char *at = slurm->signal != NULL ? strchr(slurm->signal, '@') : NULL;
    const double least = slurm->time_min != NULL ? sw_slurm_time_seconds(slurm->time_min) : 0;
    const bool none = at == NULL && slurm->signal != NULL && strcmp(slurm->signal, "none") == 0;
    const double lead = at != NULL ? strtod(at + 1, NULL) : (double)lead_seconds;
    return fmax(least, none ? 0 : (lead + EARLY_SECONDS) * LEADS_IN_LIMIT);
}

const char *sw_script_time_limit(const struct sw_run_config *run, double step_seconds,
                                 int64_t lead_seconds, char buffer[32])
{
    const struct sw_slurm_config *slurm = sw_slurm_settings(&run->cluster);
    const struct sw_scheduler *row = sw_scheduler_of(&run->cluster);
    const struct sw_job_terms terms = row->terms(&run->cluster);
    const char *time = row->queue != NULL ? terms.time : slurm->time;
    const double steps_s = (double)run->optimizer.total_steps * step_seconds;
    if ((time != NULL && !run->time_is_ceiling) || !run->says_steps ||
        run->job.type != SW_JOB_TRAIN)
        return time;
    const double minutes =
        fmax(steps_s * limit_margin + start_seconds, least_limit_s(slurm, lead_seconds)) / 60;
    if (!(minutes < 1e7)) /* 19 years: Slurm's numbers end */
        return time;
    const int64_t whole = (int64_t)ceil(minutes / LIMIT_STEP_MINUTES) * LIMIT_STEP_MINUTES;
    if ((double)whole * 60 >= (row->queue != NULL ? terms.time_s : sw_slurm_time_seconds(time)))
        return time;
    sw_script_format_time(whole, buffer);
    return buffer;
}

/* A server is told to drain: its ranks get TERM. Texts are safe line by line: only a script that
 * goes on in another job must hear of the end. */
static void set_inference_signal(struct sw_script *s, const struct sw_run_config *run,
                                 bool is_short)
{
    if (run->job.type == SW_JOB_SERVE && !is_short)
        set(s, SW_PLACE_SIGNAL, "TERM@60");
    else if (run->job.type != SW_JOB_SERVE &&
             sw_slurm_settings(&run->cluster)->continues == SW_CONTINUE_REQUEUE)
        set(s, SW_PLACE_SIGNAL, "B:USR1@60");
}

/* The signal comes `lead` seconds before the limit. With a limit so short that it could come in the
 * first half of the job there is none, and the ranks save at the limit's own TERM; but a run that
 * goes on in another job must have saved whatever the limit. */
static void set_signal(struct sw_script *s, const struct sw_run_config *run, int64_t lead)
{
    const struct sw_slurm_config *slurm = sw_slurm_settings(&run->cluster);
    const char *wanted = slurm->signal;
    const double limit = sw_slurm_time_seconds(s->value[SW_PLACE_TIME].value);
    const char *name = sw_word(sw_words_signal, run->checkpoint_signal);
    const bool is_short = (double)(lead + EARLY_SECONDS) * LEADS_IN_LIMIT > limit;
    if (wanted != NULL && strchr(wanted, '@') != NULL) {
        set(s, SW_PLACE_SIGNAL, wanted);
        return;
    }
    if ((wanted != NULL && strcmp(wanted, "none") == 0) || name == NULL)
        return;
    if (run->job.type != SW_JOB_TRAIN) {
        set_inference_signal(s, run, isinf(limit) || is_short);
        return;
    }
    if (slurm->continues == SW_CONTINUE_NONE && (isinf(limit) || is_short))
        return;
    snprintf(s->signal, sizeof s->signal, "%s@%" PRId64, name, lead);
    set(s, SW_PLACE_SIGNAL, s->signal);
}

const char *sw_script_short_limit(const struct sw_run_config *run, int64_t lead_seconds,
                                  char *buffer, size_t bytes)
{
    const struct sw_slurm_config *slurm = sw_slurm_settings(&run->cluster);
    const char *at = slurm->signal != NULL ? strchr(slurm->signal, '@') : NULL;
    const int64_t lead = at != NULL ? strtoll(at + 1, NULL, 10) : lead_seconds;
    const double limit = sw_slurm_time_seconds(slurm->time);
    char enough[32];
    buffer[0] = '\0';
    if (sw_scheduler_of(&run->cluster)->queue == NULL || slurm->continues == SW_CONTINUE_NONE ||
        slurm->time == NULL || limit > (double)(lead + EARLY_SECONDS) ||
        (at == NULL && slurm->signal != NULL && strcmp(slurm->signal, "none") == 0))
        return buffer;
    const int64_t minutes = ((lead + EARLY_SECONDS) * LEADS_IN_LIMIT + 59) / 60;
    sw_script_format_time(
        (minutes + LIMIT_STEP_MINUTES - 1) / LIMIT_STEP_MINUTES * LIMIT_STEP_MINUTES, enough);
    snprintf(buffer, bytes,
             "jobs of %.40s leave hardly a step to train: they are told to save %" PRId64
             " s before their limit, which Slurm may do a minute early; slurm.time %s is enough",
             slurm->time, lead, enough);
    return buffer;
}

/* Whole nodes where the plan uses all that is in them: others' jobs could take nothing but memory
 * and time. */
static void set_shares(struct sw_script *s, const struct sw_cluster_config *cluster)
{
    const struct sw_slurm_config *slurm = sw_slurm_settings(cluster);
    const bool gpu = sw_device_row(cluster->accelerator.device)->allocated;
    const int64_t asked = sw_slurm_gpus(slurm);
    const bool all = gpu && asked <= cluster->accelerators_per_node;
    static const char *const values[] = {[SW_EXCLUSIVE_YES] = "",
                                         [SW_EXCLUSIVE_NO] = NULL,
                                         [SW_EXCLUSIVE_USER] = "=user",
                                         [SW_EXCLUSIVE_MCS] = "=mcs"};
    const enum sw_exclusive exclusive = slurm->exclusive != SW_EXCLUSIVE_AUTO ? slurm->exclusive
                                        : all                                 ? SW_EXCLUSIVE_YES
                                                                              : SW_EXCLUSIVE_NO;
    set(s, SW_PLACE_EXCLUSIVE, values[exclusive]);
    set(s, SW_PLACE_MEM,
        slurm->mem != NULL              ? slurm->mem
        : exclusive == SW_EXCLUSIVE_YES ? "0"
                                        : NULL);
    set(s, SW_PLACE_GRES, slurm->gres);
    set(s, SW_PLACE_GPUS_PER_NODE, slurm->gpus_per_node);
    if (slurm->gpus_per_node == NULL && gpu && asked < 0) {
        snprintf(s->gpus, sizeof s->gpus, "%d", cluster->accelerators_per_node);
        set(s, SW_PLACE_GPUS_PER_NODE, s->gpus);
    }
}

static void set_plain(struct sw_script *s, const struct sw_run_config *run)
{
    static const char *const requeue[] = {[SW_REQUEUE_YES] = "requeue",
                                          [SW_REQUEUE_NO] = "no-requeue",
                                          [SW_REQUEUE_EXPEDITE] = "requeue=expedite"};
    const struct sw_slurm_config *slurm = sw_slurm_settings(&run->cluster);
    const enum sw_requeue asked = slurm->requeue != SW_REQUEUE_AUTO         ? slurm->requeue
                                  : slurm->continues == SW_CONTINUE_REQUEUE ? SW_REQUEUE_YES
                                                                            : SW_REQUEUE_NO;
    snprintf(s->cpus, sizeof s->cpus, "%d", slurm->cpus_per_task);
    snprintf(s->segment, sizeof s->segment, "%d", slurm->segment);
    snprintf(s->nice, sizeof s->nice, "%d", slurm->nice);
    set(s, SW_PLACE_REQUEUE, requeue[asked]);
    set(s, SW_PLACE_JOB_NAME, slurm->job_name != NULL ? slurm->job_name : run->name);
    set(s, SW_PLACE_PARTITION, slurm->partition);
    set(s, SW_PLACE_ACCOUNT, slurm->account);
    set(s, SW_PLACE_QOS, slurm->qos);
    set(s, SW_PLACE_TIME_MIN, slurm->time_min);
    set(s, SW_PLACE_CONSTRAINT, slurm->constraint);
    set(s, SW_PLACE_RESERVATION, slurm->reservation);
    set(s, SW_PLACE_NODELIST, slurm->nodelist);
    set(s, SW_PLACE_EXCLUDE, slurm->exclude);
    set(s, SW_PLACE_CPUS_PER_TASK, slurm->cpus_per_task > 0 ? s->cpus : NULL);
    set(s, SW_PLACE_SWITCHES, slurm->switches);
    set(s, SW_PLACE_SEGMENT, slurm->segment > 0 ? s->segment : NULL);
    set(s, SW_PLACE_DEPENDENCY, slurm->dependency);
    set(s, SW_PLACE_BEGIN, slurm->begin);
    set(s, SW_PLACE_NICE, slurm->nice != 0 ? s->nice : NULL);
    set(s, SW_PLACE_LICENSES, slurm->licenses);
    set(s, SW_PLACE_MAIL_TYPE, slurm->mail_type);
    set(s, SW_PLACE_MAIL_USER, slurm->mail_user);
    set(s, SW_PLACE_COMMENT, slurm->comment);
    set(s, SW_PLACE_WCKEY, slurm->wckey);
    set(s, SW_PLACE_MPI, slurm->mpi != NULL ? slurm->mpi : "pmix");
    if (slurm->container.kind != SW_CONTAINER_NONE)
        set(s, SW_PLACE_CONTAINER_RUNNER, slurm->container.runner);
}

/* ---- Lines ---- */

static void write_directives(FILE *out, const struct sw_texts *directives)
{
    for (int32_t i = 0; i < directives->count; i++) {
        const char *text = directives->item[i];
        const size_t name = strcspn(text, "=");
        fprintf(out, "#SBATCH %.*s%s", (int)name, text, text[name] == '=' ? "=" : "");
        if (text[name] == '=')
            sw_template_write_sbatch(out, text + name + 1);
        fputc('\n', out);
    }
}

/* The `module` of most sites is a function of the login shell, which --export=NONE leaves behind;
 * it reads variables that may be unset. */
static void write_modules(FILE *out, const struct sw_texts *modules)
{
    char said[256]; /* a module's name has 200 characters at most */
    if (modules->count == 0)
        return;
    fputs("set +u\n"
          "if ! type module >/dev/null 2>&1; then\n"
          "    for init in \"${LMOD_PKG:-}/init/bash\" \"${MODULESHOME:-}/init/bash\" \\\n"
          "        /etc/profile.d/lmod.sh /etc/profile.d/z00_lmod.sh /etc/profile.d/modules.sh \\\n"
          "        /usr/share/lmod/lmod/init/bash /usr/share/modules/init/bash; do\n"
          "        if [ -r \"$init\" ]; then\n"
          "            # shellcheck source=/dev/null\n"
          "            . \"$init\"\n"
          "            break\n"
          "        fi\n"
          "    done\n"
          "fi\n",
          out);
    for (int32_t i = 0; i < modules->count; i++) {
        snprintf(said, sizeof said, "cannot load the module %s", modules->item[i]);
        fputs("module load ", out);
        sw_template_write_word(out, modules->item[i]);
        fputs(" || {\n    echo ", out);
        sw_template_write_word(out, said);
        fputs(" >&2\n    exit 3\n}\n", out);
    }
    fputs("set -u\n", out);
}

static void write_exports(FILE *out, const struct sw_environment *environment)
{
    for (int32_t i = 0; i < environment->count; i++) {
        fprintf(out, "export %s=", environment->item[i].name);
        sw_template_write_word(out, environment->item[i].value);
        fputc('\n', out);
    }
}

static void write_environment(FILE *out, const struct sw_slurm_config *slurm)
{
    if (slurm->fabric.name != NULL)
        fprintf(out, "# fabric: %s\n", slurm->fabric.name);
    write_exports(out, &slurm->fabric.environment);
    if (slurm->fabric.name != NULL && slurm->environment.count > 0)
        fputs("# the run's and the cluster's own\n", out);
    write_exports(out, &slurm->environment);
}

/* What people source is seldom written for `set -u`. */
static void write_setup(FILE *out, const struct sw_texts *setup)
{
    if (setup->count == 0)
        return;
    fputs("set +u\n", out);
    for (int32_t i = 0; i < setup->count; i++)
        fprintf(out, "%s\n", setup->item[i]);
    fputs("set -u\n", out);
}

static void write_words(FILE *out, const struct sw_argv *words)
{
    for (int32_t i = 0; i < words->count; i++) {
        fputc(' ', out);
        sw_template_write_word(out, words->item[i]);
    }
}

/* What stands before the runner in a line of srun's. */
static int write_rank_words(const struct sw_script *s, const struct sw_run_config *run,
                            FILE *options, FILE *prefix, struct sw_error *err)
{
    struct sw_argv of_srun = {0}, of_container = {0};
    const int status = sw_slurm_rank_words(run, s->plan, s->runner, &of_srun, &of_container, err);
    if (status == 0) {
        write_words(options, &of_srun);
        write_words(prefix, &of_container);
    }
    sw_argv_free(&of_srun);
    sw_argv_free(&of_container);
    return status;
}

/* The words of a list stand behind one another with a space in front: the first one's goes. */
static void set_words(struct sw_script *s, enum sw_placeholder place)
{
    const char *text = s->block[place];
    set(s, place, text[0] == ' ' ? text + 1 : text);
}

static int out_of_memory(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the script");
}

int sw_script_prepare_slurm(struct sw_script *s, const struct sw_run_config *run,
                            double step_seconds, int64_t lead_seconds, struct sw_error *err)
{
    static const enum sw_placeholder places[] = {SW_PLACE_DIRECTIVES,   SW_PLACE_MODULES,
                                                 SW_PLACE_ENVIRONMENT,  SW_PLACE_SETUP,
                                                 SW_PLACE_SRUN_OPTIONS, SW_PLACE_CONTAINER};
    enum { DIRECTIVES, MODULES, ENVIRONMENT, SETUP, SRUN_OPTIONS, CONTAINER, BLOCKS };
    const struct sw_slurm_config *slurm = sw_slurm_settings(&run->cluster);
    FILE *out[BLOCKS] = {NULL};
    size_t bytes[BLOCKS];
    int status = 0;
    set_plain(s, run);
    set_shares(s, &run->cluster);
    set(s, SW_PLACE_TIME, sw_script_time_limit(run, step_seconds, lead_seconds, s->time));
    set_signal(s, run, lead_seconds);
    for (int32_t i = 0; i < BLOCKS && status == 0; i++) {
        out[i] = open_memstream(&s->block[places[i]], &bytes[i]);
        status = out[i] == NULL ? out_of_memory(err) : 0;
    }
    if (status == 0) {
        write_directives(out[DIRECTIVES], &slurm->directives);
        write_modules(out[MODULES], &slurm->modules);
        write_environment(out[ENVIRONMENT], slurm);
        write_setup(out[SETUP], &slurm->setup);
        status = write_rank_words(s, run, out[SRUN_OPTIONS], out[CONTAINER], err);
    }
    for (int32_t i = 0; i < BLOCKS; i++)
        if (out[i] != NULL && fclose(out[i]) != 0 && status == 0)
            status = out_of_memory(err);
    for (int32_t i = 0; i < BLOCKS && status == 0; i++)
        set_words(s, places[i]);
    return status;
}
