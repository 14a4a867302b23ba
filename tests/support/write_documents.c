/* Writes random documents as a file of tokens with its index, for tests of whole programs.
 *
 *     write_documents OUT.bin COUNT MOST SEED all|some|one
 *
 * Documents have 1 to MOST tokens below 100. Tokens that count as labels: all, runs of four, or
 * only those of the fourth document. */
#include "core/base/token_writer.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

static uint64_t draw(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

int main(int argc, char **argv)
{
    struct sw_token_writer *out = NULL;
    struct sw_error err = {0};
    if (argc != 6)
        return 2;
    state = strtoull(argv[4], NULL, 10);
    const bool all = strcmp(argv[5], "all") == 0, one = strcmp(argv[5], "one") == 0;
    bool good = sw_token_writer_open(argv[1], 2, &out, &err) == 0;
    for (long d = 0; good && d < atol(argv[2]); d++) {
        const uint64_t length = 1 + draw(strtoull(argv[3], NULL, 10));
        for (uint64_t i = 0; good && i < length; i++) {
            const int32_t id = (int32_t)draw(50) + (int32_t)draw(50);
            const uint8_t counts = all || (one ? d == 3 : i / 4 % 2 == 1);
            good = sw_token_writer_add(out, &id, &counts, 1, &err) == 0;
        }
        good = good && sw_token_writer_end(out, &err) == 0;
    }
    good = good && sw_token_writer_commit(out, "{}", &err) == 0;
    if (!good)
        fprintf(stderr, "%s\n", err.message);
    return good ? 0 : 1;
}
