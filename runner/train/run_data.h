/* The data of a run as its file names it: what `runner train`, `evaluate` and `data` open. */
#ifndef SW_RUN_DATA_H
#define SW_RUN_DATA_H

#include "core/config/config.h"
#include "runner/train/dataset.h"

/* Opens the files of run->data_paths or run->data_validation: each item of the list a source where
 * the former have weights, else all of them one. holdout: as sw_dataset_options. Errors: as
 * sw_data_files_find, sw_dataset_open. */
int sw_run_data_open(const struct sw_run_config *run, const struct sw_paths *paths, double holdout,
                     struct sw_dataset **out, struct sw_error *err);

#endif
