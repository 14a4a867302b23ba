/* Initial parameters from a counter-based generator keyed by (seed, tensor name, layer, global
 * element index): all meshes start from the same bits, and no process holds a whole tensor.
 *
 * element i of tensor t: key = splitmix64(seed ^ fnv1a64(t)) ; for layer stacks (of two
 * layers and more) fnv1a64 of "NAME.LAYER"; a = splitmix64(key + 2i), b = splitmix64(key + 2i + 1);
 * u1 = ((a >> 11) + 1) / 2^53, u2 = (b >> 11) / 2^53; value = stddev * sqrt(-2 ln u1) * cos(2 pi
 * u2), computed in double (Box & Muller 1958), rounded once. splitmix64(x): x +=
 * 0x9e3779b97f4a7c15; x = (x ^ x>>30) * 0xbf58476d1ce4e5b9; x = (x ^ x>>27) * 0x94d049bb133111eb; x
 * ^ x>>31. Norm weights are 1. i is the row-major index in the global tensor of one layer. */
#ifndef SW_INIT_H
#define SW_INIT_H

#include <stdint.h>

uint64_t sw_init_key(uint64_t seed, const char *name);
double sw_init_normal(uint64_t key, uint64_t index);
double sw_init_uniform(uint64_t key, uint64_t index); /* 2 u1 - 1 */

#endif
