/* FNV-1a, 64 bits (draft-eastlake-fnv): finds changes, does not prove identity. */
#ifndef SW_HASH_H
#define SW_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The hash of no bytes. */
#define SW_HASH_START UINT64_C(14695981039346656037)

/* Continues `hash` with these bytes (NULL if none). */
uint64_t sw_hash_bytes(uint64_t hash, const void *data, size_t bytes);
/* The hash of a text without its end. */
uint64_t sw_hash_text(const char *text);

/* Mixes x one to one so that every bit of the result depends on every bit of x (the finalizer of
 * splitmix64): counters become random numbers. */
static inline uint64_t sw_hash_mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

#endif
