/* Prefix cache: the positions in each slot's KV cache, so that a prompt with the same beginning is
 * read only from there.
 *
 * A prompt's first positions are computed in chunks, the others as single tokens, with sums in
 * different orders. A position is reused only if the new prompt would compute it in the same way:
 * positions of chunks in whole chunks, since a chunk begins at the end of one; positions of single
 * tokens, generated ones included, if those begin at the same position. The engine decides the
 * number in chunks: none if `prefill` mixes, all if single tokens are not batch invariant. Every
 * rank keeps the same record. Allocates only at creation. */
#ifndef SW_GENERATE_PREFIX_H
#define SW_GENERATE_PREFIX_H

#include <stdbool.h>
#include <stdint.h>

struct sw_prefixes {
    int64_t slots, capacity, chunk; /* capacity: positions per slot */
    int32_t *tokens;                /* [slots, capacity] tokens of the slot's latest sequence */
    int64_t *standing;              /* [slots] positions that are computed */
    int64_t *prompt;                /* [slots] those in the prompt, whole chunks */
    int64_t *chunked;               /* [slots] first positions, computed in chunks */
    /* If layers with a window keep only `ring` positions (core/ir/serving.h), a longer sequence has
     * overwritten positions that a shorter beginning would see. ring 0: never. */
    int64_t ring, window;
    int64_t *reached; /* [slots] positions written since the slot was empty */
    int64_t *used;    /* [slots] time of its latest use: 1, 2, ...; 0: never */
    int64_t uses;
};

/* False: out of memory, with nothing left behind. */
bool sw_prefixes_create(int64_t slots, int64_t capacity, int64_t chunk, struct sw_prefixes *out);
void sw_prefixes_free(struct sw_prefixes *prefixes); /* may be zeroed */

/* Positions that a prompt with `chunked` positions in chunks could reuse in the slot: never its
 * last token, which the next one is sampled from. */
int64_t sw_prefixes_found(const struct sw_prefixes *prefixes, int64_t slot, const int32_t *tokens,
                          int64_t count, int64_t chunked);
/* True if reuse keeps more than it loses: found is at least half of the slot's old prompt. A long
 * answer after a short prompt does not prevent reuse of that prompt. */
bool sw_prefixes_pays(const struct sw_prefixes *prefixes, int64_t slot, int64_t found);

/* Gives the slot to the prompt, which reuses `kept` positions. count <= capacity. */
void sw_prefixes_take(struct sw_prefixes *prefixes, int64_t slot, const int32_t *tokens,
                      int64_t count, int64_t chunked, int64_t kept);
/* Records that the slot's first `made` positions, all of the prompt, are computed. */
void sw_prefixes_made(struct sw_prefixes *prefixes, int64_t slot, int64_t made);
/* Records that the slot's first `positions` are overwritten. */
void sw_prefixes_wrote(struct sw_prefixes *prefixes, int64_t slot, int64_t positions);
/* Records that position `at`, after the prompt, is computed from that token in the same way;
 * ignored unless all earlier ones are. at < capacity. */
void sw_prefixes_add(struct sw_prefixes *prefixes, int64_t slot, int64_t at, int32_t token);

#endif
