#include "core/sharding/sequence.h"

int64_t sw_sequence_chunk(enum sw_sequence_layout layout, int64_t length, int32_t shards)
{
    if (shards == 1)
        return length;
    return layout == SW_ZIGZAG ? length / (2 * (int64_t)shards) : length / shards;
}

int64_t sw_sequence_position(enum sw_sequence_layout layout, int64_t length, int32_t shards,
                             int64_t j)
{
    if (layout == SW_CONTIGUOUS || shards == 1)
        return j;
    int64_t chunk = sw_sequence_chunk(layout, length, shards);
    int64_t rank = j / (2 * chunk);
    int64_t second_half = j / chunk % 2;
    int64_t global_chunk = second_half ? 2 * (int64_t)shards - 1 - rank : rank;
    return global_chunk * chunk + j % chunk;
}
