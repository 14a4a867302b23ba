/* Share of a test's repetitions: SW_TEST_SHARE=N in the environment runs every Nth (tests/run.sh);
 * unset, all run (tests/soak.sh, and tests started by hand). Loops start at a turn modulo the
 * share, so that a test's loops take different ones. */
#ifndef SW_TEST_SHARE_H
#define SW_TEST_SHARE_H

#include <stdint.h>
#include <stdlib.h>

/* Share, at least 1. */
static inline int32_t sw_test_share(void)
{
    const char *text = getenv("SW_TEST_SHARE");
    const long share = text != NULL ? strtol(text, NULL, 10) : 1;
    return share > 1 && share < 100 ? (int32_t)share : 1;
}

#endif
