/* Paths as a plan file says them: seen from its own folder, as in every file of this project, so
 * that a plan has the same bytes wherever a tree lies and can be moved together with what it names.
 * Only what the user wrote from the root on stays as it is. */
#ifndef SW_PLAN_PATHS_H
#define SW_PLAN_PATHS_H

#include "core/config/config.h"

/* path without '.', '..' and doubled slashes, from the root; by letters alone. malloc'ed, NULL: the
 * working directory has no name, or no memory. */
char *sw_path_absolute(const char *path);
/* `path` seen from the folder `base`: "../models/a.yaml". malloc'ed, NULL as above. */
char *sw_path_relative(const char *base, const char *path);
/* The same, but right also where symbolic links lie on the way: base/RESULT is `path` for whoever
 * opens it. By letters where that is right: links below the trees that both lie in don't show. What
 * does not exist yet counts as a folder that will be made. */
char *sw_path_seen_from(const char *base, const char *path);

/* A run as a plan in some folder says it. */
struct sw_plan_run {
    struct sw_run_config run; /* its other texts are those of the run that it was made of */
    char *path[5];
    struct sw_path *data[2]; /* of data.path and data.validation, with texts of their own */
};
/* The run with its paths of data, init_from, stage.from, directory and checkpoint_directory seen
 * from plan_directory, but for those written absolute. Errors: SW_ENVIRONMENT. Free with
 * sw_plan_run_free, before the run. */
int sw_plan_run_relocate(const struct sw_run_config *run, const char *plan_directory,
                         struct sw_plan_run *out, struct sw_error *err);
void sw_plan_run_free(struct sw_plan_run *relocated);

#endif
