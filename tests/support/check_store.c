/* Checks a folder of checkpoints for tests in shell:
 *
 *     check_store FOLDER [clean]
 *
 * Fails, with a line, if `latest` does not name a whole checkpoint, reading every byte; with
 * `clean` also if `latest` names a hidden folder, or the folder has anything that an ended job does
 * not leave. Prints the step of `latest`, 0 if there is none. */
#include "core/checkpoint/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int complain(const char *folder, const char *what, const char *which)
{
    fprintf(stderr, "%s: %s%s\n", folder, what, which);
    return 1;
}

/* Checks that only checkpoints, `latest` and files kept aside exist. */
static int check_names(const char *folder)
{
    DIR *listing = opendir(folder);
    int status = 0;
    if (listing == NULL)
        return errno == ENOENT ? 0 : complain(folder, strerror(errno), "");
    for (struct dirent *entry; status == 0 && (entry = readdir(listing)) != NULL;) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strncmp(name, "latest", 6) != 0 &&
            strncmp(name, "step-", 5) != 0)
            status = complain(folder, "left behind: ", name);
    }
    closedir(listing);
    return status;
}

int main(int argc, char **argv)
{
    char path[4096], target[512];
    struct sw_manifest manifest = {0};
    struct sw_error err = {0};
    const bool clean = argc == 3 && strcmp(argv[2], "clean") == 0;
    if (argc != 2 && !clean)
        return complain("check_store", "takes FOLDER [clean]", "");
    if (clean && check_names(argv[1]) != 0)
        return 1;
    snprintf(path, sizeof path, "%s/latest", argv[1]);
    const ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0)
        return errno == ENOENT ? (puts("0"), 0) : complain(path, strerror(errno), "");
    target[length] = '\0';
    if (clean && target[0] == '.')
        return complain(path, "names ", target);
    snprintf(path, sizeof path, "%s/%s", argv[1], target);
    if (sw_checkpoint_verify(path, &manifest, &err) != 0) {
        char text[SW_ERROR_TEXT_BYTES];
        return complain("latest", sw_error_format(&err, NULL, text), "");
    }
    printf("%" PRId64 "\n", manifest.step);
    sw_manifest_free(&manifest);
    return 0;
}
