#include "runner/checkpoint/export_command.h"

#include "runner/checkpoint/model_folder.h"
#include "runner/checkpoint/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SEE "; see 'runner export --help'"

static int read_dtype(const char *word, enum sw_stored_dtype *out)
{
    static const struct {
        const char *word;
        enum sw_stored_dtype dtype;
    } words[] = {{"bf16", SW_STORED_BF16}, {"fp16", SW_STORED_F16}, {"fp32", SW_STORED_F32}};
    for (size_t i = 0; word != NULL && i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i].word) == 0) {
            *out = words[i].dtype;
            return 0;
        }
    return -1;
}

int sw_export_command(int argc, char **argv, struct sw_error *err)
{
    enum sw_stored_dtype dtype = SW_STORED_DTYPES;
    const char *path[2];
    int count = 0;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--dtype") == 0) {
            if (read_dtype(i + 1 < argc ? argv[++i] : NULL, &dtype) != 0)
                return sw_fail(err, SW_BAD_INPUT, "--dtype needs bf16, fp16 or fp32" SEE);
        } else if (argv[i][0] == '-') {
            return sw_fail(err, SW_BAD_INPUT, "unknown option %.200s" SEE, argv[i]);
        } else if (count == 2) {
            return sw_fail(err, SW_BAD_INPUT, "unexpected argument %.200s" SEE, argv[i]);
        } else {
            path[count++] = argv[i];
        }
    }
    if (count < 2 || *path[0] == '\0' || *path[1] == '\0')
        return sw_fail(err, SW_BAD_INPUT, "export takes CHECKPOINT OUT" SEE);
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
