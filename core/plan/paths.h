/* Paths in a plan file: relative to its own folder, as in every file of this project, so that a
 * plan has the same bytes wherever a tree is and can be moved with the files it names. Paths that
 * the user wrote from the root on stay unchanged. */
#ifndef SW_PLAN_PATHS_H
#define SW_PLAN_PATHS_H

#include "core/config/config.h"

/* path without '.', '..' and doubled slashes, from the root; by text alone. malloc'ed, NULL: the
 * working directory has no name, or no memory. */
char *sw_path_absolute(const char *path);
/* `path` relative to the folder `base`: "../models/a.yaml". malloc'ed, NULL as above. */
char *sw_path_relative(const char *base, const char *path);
/* The same, but right with symbolic links on the way: base/RESULT opens `path`. By text where that
 * is right: links below both trees have no effect. A missing part counts as a folder to be made. */
char *sw_path_seen_from(const char *base, const char *path);

/* A run with paths relative to a plan's folder. */
struct sw_plan_run {
    struct sw_run_config run; /* other texts belong to the original run */
    char *path[5];
    struct sw_path *data[2]; /* data.path and data.validation, with texts of their own */
};
/* Makes the run's data, init_from, stage.from, directory and checkpoint_directory relative to
 * plan_directory, except those written absolute. Errors: SW_ENVIRONMENT. Free with
 * sw_plan_run_free, before the run. */
int sw_plan_run_relocate(const struct sw_run_config *run, const char *plan_directory,
                         struct sw_plan_run *out, struct sw_error *err);
void sw_plan_run_free(struct sw_plan_run *relocated);

#endif
