#include "core/base/hash.h"

#include <string.h>

uint64_t sw_hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * UINT64_C(1099511628211);
    return hash;
}

uint64_t sw_hash_text(const char *text)
{
    return sw_hash_bytes(SW_HASH_START, text, strlen(text));
}
