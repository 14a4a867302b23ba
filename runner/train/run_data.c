#include "runner/train/run_data.h"

#include "core/plan/data_file.h"
#include "core/plan/data_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int open_files(const struct sw_run_config *run, const struct sw_data_files *files,
                      const double *weight, double holdout, struct sw_dataset **out,
                      struct sw_error *err)
{
    const int32_t sources = weight != NULL ? files->items : 1;
    struct sw_dataset_source *source = calloc((size_t)sources, sizeof *source);
    if (source == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the data");
    for (int32_t i = 0; i < sources; i++) {
        const int32_t end = weight != NULL ? files->begin[i + 1] : files->count;
        source[i] = (struct sw_dataset_source){(const char *const *)files->path + files->begin[i],
                                               end - files->begin[i]};
    }
    const struct sw_dataset_options options = {.source = source,
                                               .weight = weight,
                                               .sources = sources,
                                               .is_bytes = sw_data_is_bytes(run),
                                               .pack = run->data_pack,
                                               .pack_block = SW_DATA_PACK_BLOCK,
                                               .holdout = holdout,
                                               .seed = run->data_seed,
                                               .document_end = run->data_document_end,
                                               .vocab_size = run->model.shape.vocab_size,
                                               .sequence_length = run->sequence_length};
    const int status = sw_dataset_open(&options, out, err);
    free(source);
    return status;
}

int sw_run_data_open(const struct sw_run_config *run, const struct sw_paths *paths, double holdout,
                     struct sw_dataset **out, struct sw_error *err)
{
    struct sw_data_files files;
    const bool mixed = paths == &run->data_paths && run->data_weights.count > 0;
    if (sw_data_files_find(paths, &files, err) != 0)
        return -1;
    const int status =
        open_files(run, &files, mixed ? run->data_weights.item : NULL, holdout, out, err);
    sw_data_files_free(&files);
    return status;
}
