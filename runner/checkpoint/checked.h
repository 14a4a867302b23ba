/* Compares what is read of a checkpoint's files with its manifest, while it is read in order. A
 * folder without manifest.json is somebody else's: nothing is compared. */
#ifndef SW_CHECKED_H
#define SW_CHECKED_H

#include "core/checkpoint/manifest.h"

struct sw_checked {
    bool has_manifest;
    struct sw_manifest manifest;
    struct sw_checksum_stream *stream;
    /* the file at hand; NULL: none, or none of the manifest's */
    const struct sw_manifest_file *file;
    char *path; /* for messages */
    int32_t slice;
    int64_t at, slice_end;
};

/* Errors: as sw_manifest_read. */
int sw_checked_begin(struct sw_checked *checked, const char *folder, struct sw_error *err);
void sw_checked_end(struct sw_checked *checked); /* also a zeroed one */

/* FOLDER/NAME, of so many bytes, is read from its beginning. needed: one that the manifest does not
 * have is an error. */
int sw_checked_open(struct sw_checked *checked, const char *folder, const char *name, int64_t bytes,
                    bool needed, struct sw_error *err);
/* The file's next bytes. Errors (SW_BAD_INPUT): a checksum that does not fit. */
int sw_checked_read(struct sw_checked *checked, const void *data, size_t bytes,
                    struct sw_error *err);
/* All of it was read. */
int sw_checked_close(struct sw_checked *checked, struct sw_error *err);

#endif
