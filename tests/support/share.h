/* Share of a test's repetitions: SW_TEST_SHARE=N in the environment asks for every Nth
 * (tests/run.sh); without it, all run (tests/soak.sh, and a test that is started by hand). A loop
 * begins at a turn modulo the share, so that the loops of a test take different ones. */
#ifndef SW_TEST_SHARE_H
#define SW_TEST_SHARE_H

#include <stdint.h>
#include <stdlib.h>

/* At least 1. */
static inline int32_t sw_test_share(void)
{
    const char *text = getenv("SW_TEST_SHARE");
    const long share = text != NULL ? strtol(text, NULL, 10) : 1;
    return share > 1 && share < 100 ? (int32_t)share : 1;
}

#endif
