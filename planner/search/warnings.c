/* Warnings of a run that can be planned but may fail. */
#include "core/base/device.h"
#include "planner/command/annotate.h"
#include "planner/command/format.h"
#include "planner/scheduler/scheduler.h"
#include "planner/search/lacks.h"
#include "planner/search/report.h"

#include <inttypes.h>
#include <string.h>

void sw_report_warn_of_time(const struct sw_options *options, const char *path,
                            const struct sw_run_config *run, double trained_step_s)
{
    char limit[256], steps[SW_FORMAT_RATE], took[SW_FORMAT_BYTES], message[400];
    const double seconds = (double)sw_run_steps(run) * trained_step_s;
    if (!run->says_steps || sw_report_time_limit(run, seconds, limit, sizeof limit)[0] == '\0')
        return;
    snprintf(message, sizeof message, "%s take %s, %s",
             sw_format_counted((double)sw_run_steps(run), "step", steps),
             sw_format_duration(seconds, took), limit);
    /* a run that continues itself may take any time */
    if (sw_job_terms(&run->cluster).continues != SW_CONTINUE_NONE)
        fprintf(stderr, "%s: note: %s\n", sw_command_shown(path), message);
    else
        sw_warn_at(options, path, &run->time_place, message);
}

void sw_report_warn_of_lacks(const struct sw_options *options, const struct sw_run_config *run,
                             bool planned)
{
    struct sw_lack lack[SW_LACKS];
    const int32_t count = sw_lacks_find(run, lack);
    for (int32_t i = 0; i < count; i++) {
        const struct sw_place at = lack[i].at;
        const bool note = planned && lack[i].anywhere;
        if (sw_annotates(options))
            sw_annotate(options, note ? "notice" : "warning", at.file, at.line, at.column,
                        lack[i].message, lack[i].help);
        else
            fprintf(stderr, "%s:%" PRId32 ":%" PRId32 ": %s: %s; %s\n", at.file, at.line, at.column,
                    note ? "note" : "warning", lack[i].message, lack[i].help);
    }
}

void sw_report_note_device(const char *path, const struct sw_run_config *run)
{
    const enum sw_device_kind kind = run->cluster.accelerator.device;
    if (sw_device_row(kind)->untried && !run->cluster.accelerator.planning_only)
        fprintf(stderr,
                "%s: note: device %s has never run on hardware, only on an emulator: begin with a "
                "short run\n",
                sw_command_shown(path), sw_word(sw_words_device, (int)kind));
    if (sw_profile_is_of_servers(&run->cluster.profile))
        fprintf(stderr, "%s: note: %s\n", sw_command_shown(path),
                sw_profile_note(&run->cluster.profile));
}
