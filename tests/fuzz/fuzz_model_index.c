/* Any text as model.safetensors.index.json. A refusal is one line; what is accepted names files
 * beside it, and is written and read back the same. */
#include "runner/checkpoint/model_index.h"
#include "tests/fuzz/support.h"

#include <stdlib.h>
#include <string.h>

static void check_file_name(const char *name)
{
    fuzz_require_plain(name);
    fuzz_require(name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL &&
                     strlen(name) < 96,
                 "a file elsewhere", name);
}

static void check_again(const struct sw_model_index *index)
{
    struct sw_index_entry *entry = calloc((size_t)index->count + 1, sizeof *entry);
    char *text = NULL;
    struct sw_model_index again;
    struct sw_error err = {0};
    fuzz_require(entry != NULL, "no memory", "");
    for (int32_t i = 0; i < index->count; i++)
        entry[i] =
            (struct sw_index_entry){index->tensor[i].name, index->file[index->tensor[i].file]};
    fuzz_require(sw_model_index_write(entry, index->count, 0, &text, &err) == 0, "not written",
                 err.message);
    fuzz_require(sw_model_index_parse("again", text, strlen(text), &again, &err) == 0,
                 "what was written is not accepted", err.message);
    fuzz_require(again.count == index->count && again.file_count == index->file_count,
                 "what was written reads back differently", text);
    for (int32_t i = 0; i < index->count; i++)
        fuzz_require(strcmp(again.tensor[i].name, index->tensor[i].name) == 0 &&
                         again.tensor[i].file == index->tensor[i].file,
                     "what was written reads back differently", text);
    sw_model_index_free(&again);
    free(text);
    free(entry);
}

void fuzz_one(const uint8_t *data, size_t bytes)
{
    struct sw_model_index index;
    struct sw_error err = {0};
    if (sw_model_index_parse("f", (const char *)data, bytes, &index, &err) == 0) {
        fuzz_require(index.count > 0 && index.file_count > 0, "nothing", "");
        for (int32_t i = 0; i < index.file_count; i++) {
            check_file_name(index.file[i]);
            fuzz_require(i == 0 || strcmp(index.file[i - 1], index.file[i]) < 0, "not sorted",
                         index.file[i]);
        }
        check_again(&index);
        sw_model_index_free(&index);
        return;
    }
    fuzz_require(err.status == SW_BAD_INPUT, "no mistake of the file", err.message);
    fuzz_require(strcmp(err.file, "f") == 0, "another place", err.file);
    fuzz_require(err.message[0] != '\0' && strlen(err.message) < 400, "no message", err.message);
    fuzz_require_plain(err.message);
}
