/* Whether the disk has room for the checkpoints that a run will keep, said before the run has spent
 * hours on what it then cannot save. Owns nothing. */
#ifndef SW_CHECKPOINT_DISK_SPACE_H
#define SW_CHECKPOINT_DISK_SPACE_H

#include <stdint.h>

/* For one rank. Prints a note to stderr where the folder, as the system says now, has no room for
 * one more checkpoint of so many bytes, or for fewer than are to come: until `keep` lie there and
 * one is written beside them, at most `saves`. What is not known is not said. */
void sw_disk_space_warn(const char *folder, int64_t bytes, int64_t keep, int64_t saves);

#endif
