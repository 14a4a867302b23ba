/* What stands in the cache of slots, so that a prompt that begins like an earlier one in its slot
 * is read from there on only.
 *
 * Of a prompt the first positions are made by chunks, those behind by single tokens, and either
 * sums in another order: a position counts that the prompt would make as it was made. Of those by
 * chunks whole chunks count, since the next one begins where one ended; those by single tokens
 * count one by one where they begin in the same place, and tokens that the text was given count as
 * well. How many a prompt makes by chunks is the engine's to say: none where `prefill` mixes, all
 * where single tokens are not alike. Every rank keeps the same record of the same texts. Nothing is
 * allocated after the beginning. */
#ifndef SW_GENERATE_PREFIX_H
#define SW_GENERATE_PREFIX_H

#include <stdbool.h>
#include <stdint.h>

struct sw_prefixes {
    int64_t slots, capacity, chunk; /* capacity: positions of a slot */
    int32_t *tokens;                /* [slots, capacity] of the text that had the slot last */
    int64_t *standing;              /* [slots] positions that were made */
    int64_t *prompt;                /* [slots] those of them that its prompt has, whole chunks */
    int64_t *chunked;               /* [slots] the first positions, which are made by chunks */
    /* Where layers with a window keep `ring` positions alone (core/ir/serving.h): a text that
     * reached further has written over what a shorter beginning of it saw. ring 0: nothing is. */
    int64_t ring, window;
    int64_t *reached; /* [slots] positions that were written since it was empty */
    int64_t *used;    /* [slots] when it was taken: 1, 2, ...; 0: never */
    int64_t uses;
};

/* false: out of memory, and nothing is left behind. */
bool sw_prefixes_create(int64_t slots, int64_t capacity, int64_t chunk, struct sw_prefixes *out);
void sw_prefixes_free(struct sw_prefixes *prefixes); /* zeros are allowed */

/* Positions that a prompt would find in the slot, which makes its first `chunked` by chunks: never
 * its last token, behind which the next one is sampled. */
int64_t sw_prefixes_found(const struct sw_prefixes *prefixes, int64_t slot, const int32_t *tokens,
                          int64_t count, int64_t chunked);
/* Whether more is kept than lost if the prompt takes the slot: found is at least half of what
 * stands there of a prompt. A long answer behind a short prompt keeps nobody from that prompt. */
bool sw_prefixes_pays(const struct sw_prefixes *prefixes, int64_t slot, int64_t found);

/* The prompt takes the slot, of which it keeps `kept` positions. count <= capacity. */
void sw_prefixes_take(struct sw_prefixes *prefixes, int64_t slot, const int32_t *tokens,
                      int64_t count, int64_t chunked, int64_t kept);
/* The slot's first `made` positions are made, all of its prompt. */
void sw_prefixes_made(struct sw_prefixes *prefixes, int64_t slot, int64_t made);
/* Notes that the slot's first `positions` are written, whatever stands of them. */
void sw_prefixes_wrote(struct sw_prefixes *prefixes, int64_t slot, int64_t positions);
/* Position `at` of it is made, of that token, behind its prompt and alike. at < capacity; it stands
 * if all positions before it do. */
void sw_prefixes_add(struct sw_prefixes *prefixes, int64_t slot, int64_t at, int32_t token);

#endif
