/* Writes small checkpoints (store_support.h) for tests of commands; all of them stay.
 *
 *   make_checkpoints FOLDER STEP... */
#include "tests/unit/store_support.h"

int main(int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        struct sw_error err = {0};
        char said[SW_ERROR_TEXT_BYTES];
        if (small_save(argv[1], atoll(argv[i]), i, argc, 0, NULL, &err) != 0) {
            fprintf(stderr, "%s\n", sw_error_format(&err, "make_checkpoints", said));
            return 1;
        }
    }
    return argc < 3;
}
