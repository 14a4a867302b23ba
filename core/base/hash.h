/* FNV-1a, 64 bits (draft-eastlake-fnv): finds changes, proves no identity. */
#ifndef SW_HASH_H
#define SW_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The hash of no bytes. */
#define SW_HASH_START UINT64_C(14695981039346656037)

/* The hash of what `hash` stands for, followed by these bytes (NULL when there are none). */
uint64_t sw_hash_bytes(uint64_t hash, const void *data, size_t bytes);
/* The hash of a text without its end. */
uint64_t sw_hash_text(const char *text);

/* Every bit of the result depends on every bit of x, one to one (the finalizer of splitmix64):
 * numbers that count become random ones. */
static inline uint64_t sw_hash_mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

#endif
