#include "runner/checkpoint/export_command.h"

#include "core/checkpoint/store.h"
#include "runner/checkpoint/model_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct arguments {
    struct sw_export_options options;
    char **path; /* FROM and TO */
};

static const struct sw_word dtypes[] = {{.text = "bf16", .value = SW_STORED_BF16},
                                        {.text = "fp16", .value = SW_STORED_F16},
                                        {.text = "fp32", .value = SW_STORED_F32},
                                        {.text = NULL}};

const struct sw_argument sw_export_rows[] = {
    {"--dtype", NULL, "bf16|fp16|fp32",
     "number format of the copy (default: of the model that the run started from, else as they "
     "are)",
     .words = dtypes, SW_ARGUMENT_TO(struct arguments, options.dtype)},
    {"--base", NULL, "DIR",
     "model that adapters are merged into (default: the one that they were trained on)",
     SW_ARGUMENT_TO(struct arguments, options.base)},
    {"--unmerged", NULL, NULL, "adapters by themselves, as PEFT's folder",
     SW_ARGUMENT_TO(struct arguments, options.unmerged)},
    {.name = NULL}};

static int parse(int argc, char **argv, struct arguments *out, struct sw_error *err)
{
    struct sw_command_line line = {.tool = "runner",
                                   .command = "export",
                                   .options = sw_export_rows,
                                   .to = out,
                                   .most_files = 2};
    const int status = sw_arguments_parse(argc, argv, &line, err);
    out->path = line.files;
    if (status == 0 && (line.file_count < 2 || *out->path[0] == '\0' || *out->path[1] == '\0')) {
        sw_fail(err, SW_BAD_INPUT, "export takes CHECKPOINT OUT");
        return sw_arguments_hint("runner", "export", err);
    }
    if (status == 0 && out->options.unmerged && out->options.base != NULL) {
        sw_fail(err, SW_BAD_INPUT,
                "--base is what adapters are merged into, and --unmerged does "
                "not merge them; give one of the two");
        return sw_arguments_hint("runner", "export", err);
    }
    return status;
}

static int export(char *const path[2], const struct sw_export_options *options,
                  struct sw_error *err)
{
    char *from, note[SW_STORE_NOTE_BYTES];
    struct stat info;
    if (stat(path[0], &info) == 0 && !S_ISDIR(info.st_mode))
        return sw_fail_at(
            err, SW_BAD_INPUT, (struct sw_place){.file = path[0]},
            "this is not a folder; export takes a checkpoint, a run's folder or a Hugging "
            "Face model directory");
    if (sw_store_resolve(path[0], &from, note, err) != 0)
        return -1;
    if (note[0] != '\0')
        fprintf(stderr, "%s\n", note);
    const int status = sw_model_export(from, path[1], options, err);
    if (status == 0)
        printf("wrote %s, the %s of %s\n", path[1], options->unmerged ? "adapters" : "model", from);
    free(from);
    return status;
}

int sw_export_command(int argc, char **argv, struct sw_error *err)
{
    struct arguments a = {.options = {.dtype = SW_STORED_DTYPES}};
    const int status = parse(argc, argv, &a, err);
    return status == 0 ? export(a.path, &a.options, err) : status;
}
