#include "runner/train/order.h"

#include "core/base/hash.h"

uint64_t sw_order_key(uint64_t seed, int64_t epoch)
{
    return sw_hash_mix(seed * 0x9e3779b97f4a7c15u + (uint64_t)epoch + 1);
}

/* Four Feistel rounds over the next even number of bits, repeated until below count. */
int64_t sw_order_permute(uint64_t key, int64_t count, int64_t i)
{
    int32_t half = 1;
    while (half < 31 && (int64_t)1 << (2 * half) < count)
        half++;
    const uint64_t mask = ((uint64_t)1 << half) - 1;
    uint64_t x = (uint64_t)i;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t round = 0; round < 4; round++) {
            const uint64_t swap =
                left ^ (sw_hash_mix(key + round * 0x9e3779b97f4a7c15u + right) & mask);
            left = right;
            right = swap;
        }
        x = left << half | right;
    } while (x >= (uint64_t)count);
    return (int64_t)x;
}
