/* Data of a run as its file names it, for `runner train`, `evaluate` and `data`. */
#ifndef SW_RUN_DATA_H
#define SW_RUN_DATA_H

#include "core/config/config.h"
#include "runner/train/dataset.h"

/* Opens the files of run->data_paths or run->data_validation: each list item is a source if
 * data_paths has weights, else all are one. holdout: see sw_dataset_options. Errors: as
 * sw_data_files_find, sw_dataset_open. */
int sw_run_data_open(const struct sw_run_config *run, const struct sw_paths *paths, double holdout,
                     struct sw_dataset **out, struct sw_error *err);

#endif
