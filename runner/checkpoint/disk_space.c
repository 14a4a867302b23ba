#include "runner/checkpoint/disk_space.h"

#include "core/base/file.h"
#include "core/checkpoint/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

/* Number of further checkpoints existing at once. A replaced one is deleted after its replacement
 * is whole. */
static int64_t count_wanted(const char *folder, int64_t keep, int64_t saves)
{
    struct sw_store_entry *entry = NULL;
    int32_t there = 0;
    if (sw_store_list(folder, &entry, &there, NULL) != 0)
        there = 0;
    free(entry);
    const int64_t wanted = keep + 1 - (there < keep ? there : keep);
    return wanted < saves ? wanted : saves;
}

/* Finds the disk of the folder or its nearest existing parent: the first save makes the folder. */
static int find_disk(const char *folder, struct statvfs *disk)
{
    char *path = strdup(folder);
    int status = -1;
    while (path != NULL && (status = statvfs(path, disk)) != 0 && errno == ENOENT) {
        char *above = sw_path_folder(path);
        const bool ends = above == NULL || strcmp(above, path) == 0;
        free(path);
        path = above;
        if (ends)
            break;
    }
    free(path);
    return status;
}

void sw_disk_space_warn(const char *folder, int64_t bytes, int64_t keep, int64_t saves)
{
    struct statvfs disk;
    if (saves <= 0 || bytes <= 0 || find_disk(folder, &disk) != 0 || disk.f_blocks == 0)
        return;
    const double free_bytes = (double)disk.f_bavail * (double)disk.f_frsize;
    const double checkpoint = (double)bytes;
    if (free_bytes < checkpoint) {
        fprintf(stderr,
                "note: nothing can be saved: '%s' has %.1f MB free, a checkpoint takes %.1f MB; "
                "free some, or name another checkpoint.directory\n",
                folder, free_bytes / 1e6, checkpoint / 1e6);
        return;
    }
    if (free_bytes >= checkpoint * (double)(keep + 1))
        return;
    const int64_t wanted = count_wanted(folder, keep, saves);
    if (free_bytes < checkpoint * (double)wanted)
        fprintf(stderr,
                "note: '%s' has %.1f MB free, and %" PRId64 " more checkpoints of %.1f MB are to "
                "come; free some, or keep fewer: checkpoint.keep is %" PRId64 "\n",
                folder, free_bytes / 1e6, wanted, checkpoint / 1e6, keep);
}
