/* What stands in the cache of slots, so that a prompt that begins like an earlier one in its slot
 * is read from there on only.
 *
 * What counts are whole chunks that `prefill` made: where a chunk begins decides which rank keeps
 * which position, and `decode` sums in another order, so nothing else would be the same to the bit.
 * Where a chunk is a token and `prefill` mixes, both make the same, and tokens that the text was
 * given count as well.
 * Every rank keeps the same record of the same texts. Nothing is allocated after the beginning. */
#ifndef SW_GENERATE_PREFIX_H
#define SW_GENERATE_PREFIX_H

#include <stdbool.h>
#include <stdint.h>

struct sw_prefixes {
    int64_t slots, capacity, chunk; /* capacity: positions of a slot */
    int32_t *tokens;                /* [slots, capacity] of the text that had the slot last */
    int64_t *standing;              /* [slots] positions that can be kept, whole chunks */
    int64_t *prompt;                /* [slots] those of them that its prompt has */
    int64_t *used;                  /* [slots] when it was taken: 1, 2, ...; 0: never */
    int64_t uses;
};

/* false: out of memory, and nothing is left behind. */
bool sw_prefixes_create(int64_t slots, int64_t capacity, int64_t chunk, struct sw_prefixes *out);
void sw_prefixes_free(struct sw_prefixes *prefixes); /* zeros are allowed */

/* Positions that a prompt would find in the slot: whole chunks, and never its last token, behind
 * which the next one is sampled. */
int64_t sw_prefixes_found(const struct sw_prefixes *prefixes, int64_t slot, const int32_t *tokens,
                          int64_t count);
/* Whether more is kept than lost if the prompt takes the slot: found is at least half of what
 * stands there of a prompt. A long answer behind a short prompt keeps nobody from that prompt. */
bool sw_prefixes_pays(const struct sw_prefixes *prefixes, int64_t slot, int64_t found);

/* The prompt takes the slot, of which it keeps `kept` positions. count <= capacity. */
void sw_prefixes_take(struct sw_prefixes *prefixes, int64_t slot, const int32_t *tokens,
                      int64_t count, int64_t kept);
/* `prefill` has made the slot's first `made` positions. */
void sw_prefixes_made(struct sw_prefixes *prefixes, int64_t slot, int64_t made);
/* `decode`, or `prefill` that mixes, has made position `at` of it, of that token. at < capacity;
 * chunks are single tokens, and it stands if all positions before it do. */
void sw_prefixes_add(struct sw_prefixes *prefixes, int64_t slot, int64_t at, int32_t token);

#endif
