#include "runner/checkpoint/export_command.h"

#include "core/run/store.h"
#include "runner/checkpoint/model_folder.h"
#include "core/base/arguments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int take_dtype(void *to, const char *value, struct sw_problem *problem)
{
    static const struct {
        const char *word;
        enum sw_stored_dtype dtype;
    } words[] = {{"bf16", SW_STORED_BF16}, {"fp16", SW_STORED_F16}, {"fp32", SW_STORED_F32}};
    (void)problem;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(value, words[i].word) == 0) {
            *(enum sw_stored_dtype *)to = words[i].dtype;
            return 0;
        }
    return -1;
}

/* path [argc]: the first two are those that it takes. */
static int parse(int argc, char **argv, enum sw_stored_dtype *dtype, char **path,
                 struct sw_problem *problem)
{
    const struct sw_argument options[] = {{.name = "--dtype",
                                           .value = "bf16|fp16|fp32",
                                           .about = "of the copy's numbers (default: of the model "
                                                    "that the run started from, else as they are)",
                                           .needs = "--dtype needs bf16, fp16 or fp32",
                                           .take = take_dtype,
                                           .to = dtype},
                                          {.name = NULL}};
    int32_t count = 0;
    if (sw_arguments_parse(argc, argv, options, NULL, path, &count, problem) != 0)
        return -1;
    if (count > 2)
        return sw_problem_is(problem, "unexpected argument ", path[2]);
    return count == 2 && *path[0] != '\0' && *path[1] != '\0'
               ? 0
               : sw_problem_is(problem, "export takes CHECKPOINT OUT", "");
}

static int export(char *const path[2], enum sw_stored_dtype dtype, struct sw_error *err)
{
    char *from, note[SW_STORE_NOTE_BYTES];
    struct stat info;
    if (stat(path[0], &info) == 0 && !S_ISDIR(info.st_mode))
        return sw_fail_at(
            err, SW_BAD_INPUT, (struct sw_place){.file = path[0]},
            "this is no folder; export takes a checkpoint, a run's folder or a Hugging "
            "Face model directory");
    if (sw_store_resolve(path[0], &from, note, err) != 0)
        return -1;
    if (note[0] != '\0')
        fprintf(stderr, "%s\n", note);
    const int status = sw_model_export(from, path[1], dtype, err);
    if (status == 0)
        printf("wrote %s, the model of %s\n", path[1], from);
    free(from);
    return status;
}

int sw_export_command(int argc, char **argv, struct sw_error *err)
{
    enum sw_stored_dtype dtype = SW_STORED_DTYPES;
    struct sw_problem problem;
    char text[SW_PROBLEM_BYTES];
    char **path = calloc((size_t)argc, sizeof *path);
    if (path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory");
    int status = parse(argc, argv, &dtype, path, &problem);
    if (status == 0)
        status = export(path, dtype, err);
    else if (problem.help)
        status = 0;
    else
        sw_fail(err, SW_BAD_INPUT, "%s", sw_problem_text(&problem, argv[1], text));
    free(path);
    return status;
}
