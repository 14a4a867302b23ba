/* Order of an epoch: permutations keyed by a seed, equal on every rank, without state. Pure
 * functions; any thread. */
#ifndef SW_ORDER_H
#define SW_ORDER_H

#include <stdint.h>

/* Key of an epoch's orders. */
uint64_t sw_order_key(uint64_t seed, int64_t epoch);
/* Position of entry i of [0, count) in the key's permutation. */
int64_t sw_order_permute(uint64_t key, int64_t count, int64_t i);

#endif
