/* Warns if the disk lacks room for a run's checkpoints, before the run spends hours on unsaved
 * steps. Owns nothing. */
#ifndef SW_CHECKPOINT_DISK_SPACE_H
#define SW_CHECKPOINT_DISK_SPACE_H

#include <stdint.h>

/* For one rank. Prints a note to stderr if the folder's disk has no room for another checkpoint of
 * `bytes`, or for all to come: `keep` checkpoints plus one being written, at most `saves`. Prints
 * nothing if the free space is unknown. */
void sw_disk_space_warn(const char *folder, int64_t bytes, int64_t keep, int64_t saves);

#endif
