/* Gives a checkpoint's manifest another optimizer, with a valid checksum:
 *
 *     forge_manifest CHECKPOINT OPTIMIZER */
#include "core/base/file.h"
#include "core/checkpoint/manifest.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct sw_manifest manifest = {0};
    struct sw_error err = {0};
    char *text = NULL, *path = argc == 3 ? sw_path_join(argv[1], SW_MANIFEST_NAME) : NULL;
    size_t bytes = 0;
    if (path == NULL || sw_manifest_read(argv[1], &manifest, NULL, NULL, &err) != 0)
        goto failed;
    snprintf(manifest.optimizer, sizeof manifest.optimizer, "%s", argv[2]);
    if (sw_manifest_text(&manifest, &text, &bytes, &err) != 0 ||
        sw_file_write(path, text, bytes, 0666, &err) != 0)
        goto failed;
    sw_manifest_free(&manifest);
    free(text);
    free(path);
    return 0;
failed:
    fprintf(stderr, "forge_manifest CHECKPOINT OPTIMIZER: %s\n", err.message);
    return 1;
}
