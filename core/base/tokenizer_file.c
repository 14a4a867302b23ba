#include "core/base/tokenizer_file.h"

#include "core/base/file.h"

#include <stdlib.h>
#include <sys/stat.h>

const char *sw_tokenizer_file(const char *folder)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "vocab.json",
                                        "merges.txt",     "vocab.txt",       "spiece.model"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = sw_path_join(folder, names[i]);
        struct stat info;
        const bool found = path != NULL && stat(path, &info) == 0;
        free(path);
        if (found)
            return names[i];
    }
    return NULL;
}
