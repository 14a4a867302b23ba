#include "runner/rank/init.h"

#include "core/base/hash.h"

#include <math.h>

static uint64_t splitmix64(uint64_t x)
{
    return sw_hash_mix(x + 0x9e3779b97f4a7c15u);
}

uint64_t sw_init_key(uint64_t seed, const char *name)
{
    return splitmix64(seed ^ sw_hash_text(name));
}

double sw_init_uniform(uint64_t key, uint64_t index)
{
    const uint64_t a = splitmix64(key + 2 * index);
    return 2 * (((double)(a >> 11) + 1) / 9007199254740992.0) - 1;
}

double sw_init_normal(uint64_t key, uint64_t index)
{
    const double two_pi = 6.283185307179586476925286766559;
    const uint64_t a = splitmix64(key + 2 * index), b = splitmix64(key + 2 * index + 1);
    const double u1 = ((double)(a >> 11) + 1) / 9007199254740992.0,
                 u2 = (double)(b >> 11) / 9007199254740992.0;
    return sqrt(-2 * log(u1)) * cos(two_pi * u2);
}
