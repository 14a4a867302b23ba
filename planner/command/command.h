/* Shared by the commands of `plan`: reading a run file, reporting mistakes, and the commands
 * themselves, each in its own file. Below planner/ only main and the commands print. */
#ifndef SW_COMMAND_COMMAND_H
#define SW_COMMAND_COMMAND_H

#include "core/config/config.h"
#include "planner/command/options.h"

/* Commands. Each returns the exit code; stdout is data, stderr is for people. */
int sw_command_check(const struct sw_options *options);
int sw_command_search(const struct sw_options *options);
int sw_command_explain(const struct sw_options *options);
int sw_command_emit(const struct sw_options *options);
int sw_command_submit(const struct sw_options *options);
int sw_command_status(const struct sw_options *options);
int sw_command_runs(const struct sw_options *options);
int sw_command_logs(const struct sw_options *options);
int sw_command_cancel(const struct sw_options *options);
int sw_command_fit(const struct sw_options *options);
int sw_command_diff(const struct sw_options *options);
int sw_command_import_cluster(const struct sw_options *options);
int sw_command_schema(const struct sw_options *options);
/* The only command with its own options (planner/supervise), which scripts write. */
int sw_command_supervise(int argc, char **argv);

/* A run file, with the command line's overrides. */
struct sw_run_file {
    struct sw_config *config; /* owns memory of the run */
    struct sw_run_config run; /* with stages, the first or the one of --stage */
    char *moved[2];       /* directory and checkpoint_directory of an installed run; else NULL */
    const char *aside;    /* folder that replaces the run's; NULL: none */
    int32_t first, count; /* range of stages that the command is about; 0, 1 without stages */
};
/* Reads the only file of the options and shows its notes. absolute: true to make paths absolute
 * (for written files); the directory of a run in PREFIX/share/shardwright, unless --set or an
 * absolute path names it, is then runs/NAME in the working directory: nothing is written beside
 * installed files. Returns an exit code; prints mistakes. Free with sw_run_file_free. */
int sw_run_file_open(const struct sw_options *options, bool absolute, struct sw_run_file *out);
/* The same with absolute paths, silently: true for a run without mistakes. Free with
 * sw_run_file_free in any case. */
bool sw_run_file_try(const struct sw_options *options, struct sw_run_file *out);
void sw_run_file_free(struct sw_run_file *run_file);

/* The run of the i-th selected stage, from 0. */
struct sw_run_config sw_run_file_stage(const struct sw_options *options,
                                       const struct sw_run_file *run_file, int32_t i);
/* The run of the stage before the first selected one, in *before. NULL: none. */
const struct sw_run_config *sw_run_file_before(const struct sw_options *options,
                                               const struct sw_run_file *run_file,
                                               struct sw_run_config *before);
/* Folders of the whole run that contains a stage; for a run without stages its own. The folder of
 * checkpoints has one for each stage; if stages keep checkpoints in their own folders, it is the
 * run's. The caller frees them. NULL: no memory. */
char *sw_run_folder(const struct sw_run_config *run);
char *sw_run_checkpoints(const struct sw_run_config *run);

/* Checks a training run's data (sw_data_check). */
int sw_command_check_data(const struct sw_run_config *run, struct sw_error *err);

/* Like sw_config_read; "-" is standard input, relative to the working directory. */
struct sw_config *sw_command_read(const char *path, enum sw_config_kind kind,
                                  const struct sw_options *options, struct sw_error *err);
/* Name of a file in messages. */
const char *sw_command_shown(const char *path);
/* Prints one line on stderr; returns the error's exit code. */
int sw_command_fail(const struct sw_error *err);
/* Prints errors and notes; returns the number of errors. */
enum sw_notes { SW_NOTES_HIDDEN, SW_NOTES_SHORT /* one line each */, SW_NOTES_SHOWN };
int32_t sw_command_diagnose(const struct sw_config *config, enum sw_notes notes);
const char *sw_version(void);

#endif
