/* PartitionSpec, partial, sharding: the part of a tensor that each rank holds. Pure values. */
#ifndef SW_SHARDING_H
#define SW_SHARDING_H

#include "core/sharding/mesh.h"

#include <string.h>

enum { SW_MAX_DIMS = 4 };

/* Per dimension, the mesh axes that split it, major to minor. */
struct sw_partition_spec {
    uint8_t ndim;
    struct sw_axes dim[SW_MAX_DIMS];
};

/* A PartitionSpec and the axes over which the value is still an unreduced sum; the mesh is kept
 * apart. An axis appears at most once in spec and partial together. */
struct sw_sharding {
    struct sw_partition_spec spec;
    sw_axis_set partial;
};

static inline bool sw_spec_equal(const struct sw_partition_spec *a,
                                 const struct sw_partition_spec *b)
{
    if (a->ndim != b->ndim)
        return false;
    for (int d = 0; d < a->ndim; d++) {
        if (!sw_axes_equal(a->dim[d], b->dim[d]))
            return false;
    }
    return true;
}

static inline bool sw_sharding_equal(const struct sw_sharding *a, const struct sw_sharding *b)
{
    /* mostly equal byte for byte, unused entries included */
    return memcmp(a, b, sizeof *a) == 0 ||
           (a->partial == b->partial && sw_spec_equal(&a->spec, &b->spec));
}

/* All axes that split some dimension. */
sw_axis_set sw_spec_axes(const struct sw_partition_spec *spec);
/* Drops axes of size 1 from spec and partial. Everything in core/ir works on normalized
 * shardings. */
struct sw_sharding sw_sharding_normalize(const struct sw_mesh *mesh, struct sw_sharding sharding);

/* Shape of every rank's shard. unit: elements of each dimension that may not be separated (head_dim
 * of a heads dimension); NULL: all 1. Errors (SW_UNMET): global[d] is not divisible by unit[d]
 * times the axes' sizes; names the dimension index and the axes. */
int sw_local_shape(const struct sw_mesh *mesh, const struct sw_partition_spec *spec,
                   const int64_t *global, const int64_t *unit, int64_t *local,
                   struct sw_error *err);
/* Stored length of a dimension that is split unevenly: rounded up to whole shards of `ways` (>= 1),
 * so that every rank has as many elements, and sharding and collectives work on that length.
 * Elements behind `size` are padding: zero in the state, never read by an op that knows its size.
 * Sizes that divide stay unchanged. */
static inline int64_t sw_padded_size(int64_t size, int64_t ways)
{
    return (size + ways - 1) / ways * ways;
}

/* Number of a shard's `local` elements, from global offset `start` on, that are not padding; 0: all
 * are padding. */
static inline int64_t sw_shard_owned(int64_t size, int64_t start, int64_t local)
{
    const int64_t left = size - start;
    return left < 0 ? 0 : left < local ? left : local;
}

/* Global offset of the first element of rank's shard, per dimension; sizes, padded if split
 * unevenly, must divide. */
void sw_shard_offset(const struct sw_mesh *mesh, const struct sw_partition_spec *spec,
                     const int64_t *global, int32_t rank, int64_t *offset);

/* device_put: copies rank's shard out of a dense row-major global array (element_bytes each) of
 * that size; padding of the shard becomes zero. padded: sizes that are split; NULL: the size
 * itself. */
void sw_device_put(const struct sw_mesh *mesh, const struct sw_partition_spec *spec,
                   const int64_t *size, const int64_t *padded, size_t element_bytes, int32_t rank,
                   const void *global_data, void *shard);
/* gather: the inverse; writes rank's shard, without its padding, to its position in the global
 * array. */
void sw_gather(const struct sw_mesh *mesh, const struct sw_partition_spec *spec,
               const int64_t *size, const int64_t *padded, size_t element_bytes, int32_t rank,
               const void *shard, void *global_data);

/* "[(dp,fsdp), sp, -] partial(tp)" into buffer; returns buffer. */
char *sw_sharding_format(const struct sw_sharding *sharding, char *buffer, size_t buffer_bytes);

#endif
