/* Commit that the programs were built from. Its source is written by packaging/commit.cmake at each
 * build; only the programs themselves link it. */
#ifndef SW_COMMIT_H
#define SW_COMMIT_H

#include <stddef.h>

/* 40 hexadecimal digits, followed by "-dirty" if tracked files differed from the commit; NULL:
 * unknown, the sources were no clone. */
const char *sw_commit(void);

#endif
