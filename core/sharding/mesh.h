/* The mesh: accelerators arranged along the axes dp, fsdp, tp, sp. Pure values, no ownership.
 *
 * A rank's coordinate follows the axis order: order[0] is the outermost axis, order[3] runs over
 * neighbouring ranks. */
#ifndef SW_MESH_H
#define SW_MESH_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sw_axis { SW_DP, SW_FSDP, SW_TP, SW_SP, SW_AXIS_COUNT };
/* Ordered lists of axes, and so groups of ranks on one mesh: 4 + 12 + 24 + 24. */
enum { SW_MESH_GROUPS = 64 };

/* One bit per axis: 1u << SW_TP. */
typedef uint8_t sw_axis_set;

struct sw_mesh {
    int32_t size[SW_AXIS_COUNT];  /* every size >= 1 */
    uint8_t order[SW_AXIS_COUNT]; /* a permutation of the axes, outermost first */
    /* Number of neighbouring ranks that the job asks its scheduler to keep in one domain of the
     * cluster's links; 0: no request. */
    int32_t domain;
};

/* An ordered list of distinct axes, major to minor: the block index of coordinate c is (c[axis[0]]
 * * size[axis[1]] + c[axis[1]]) * ... Describes a group of ranks, or the split of one dimension. */
struct sw_axes {
    uint8_t count;
    uint8_t axis[SW_AXIS_COUNT];
};

/* mesh_dim of a run file, before the number of accelerators is known. */
struct sw_mesh_request {
    bool is_auto;                 /* true for mesh_dim: auto; the other members are unset */
    bool keep_order;              /* true for a '!' prefix or the named form: axes keep the
                                     written order */
    int32_t size[SW_AXIS_COUNT];  /* -1: the rest of the accelerators */
    uint8_t order[SW_AXIS_COUNT]; /* written order, outermost first; dp,fsdp,tp,sp when
                                     positional */
};

const char *sw_axis_name(enum sw_axis axis); /* "dp", "fsdp", "tp", "sp" */

/* The default mesh of these sizes: order dp, fsdp, sp, tp (tp on neighbouring ranks). */
struct sw_mesh sw_mesh_make(int32_t dp, int32_t fsdp, int32_t tp, int32_t sp);

/* Inline here and below: a search over meshes asks millions of times. */
static inline int32_t sw_mesh_rank_count(const struct sw_mesh *mesh)
{
    return mesh->size[SW_DP] * mesh->size[SW_FSDP] * mesh->size[SW_TP] * mesh->size[SW_SP];
}

void sw_mesh_coordinate(const struct sw_mesh *mesh, int32_t rank,
                        int32_t coordinate[SW_AXIS_COUNT]);
int32_t sw_mesh_rank(const struct sw_mesh *mesh, const int32_t coordinate[SW_AXIS_COUNT]);

/* Product of the sizes of the listed axes; 1 for none. */
static inline int32_t sw_axes_size(const struct sw_mesh *mesh, struct sw_axes axes)
{
    int32_t size = 1;
    for (int i = 0; i < axes.count; i++)
        size *= mesh->size[axes.axis[i]];
    return size;
}

static inline sw_axis_set sw_axes_set(struct sw_axes axes)
{
    unsigned set = 0;
    for (int i = 0; i < axes.count; i++)
        set |= 1u << axes.axis[i];
    return (sw_axis_set)set;
}

/* The axes of a set in enum order dp, fsdp, tp, sp. */
struct sw_axes sw_axes_from_set(sw_axis_set set);

static inline bool sw_axes_equal(struct sw_axes a, struct sw_axes b)
{
    if (a.count != b.count)
        return false;
    for (int i = 0; i < a.count; i++) {
        if (a.axis[i] != b.axis[i])
            return false;
    }
    return true;
}

/* The same list without axes of size 1, which split nothing. */
static inline struct sw_axes sw_axes_effective(const struct sw_mesh *mesh, struct sw_axes axes)
{
    struct sw_axes effective = {0, {0}};
    for (int i = 0; i < axes.count; i++) {
        if (mesh->size[axes.axis[i]] > 1)
            effective.axis[effective.count++] = axes.axis[i];
    }
    return effective;
}

/* This rank's block index along the listed axes, 0 <= index < sw_axes_size. */
int32_t sw_axes_index(const struct sw_mesh *mesh, struct sw_axes axes, int32_t rank);
/* The rank of the member with that index in the group of `rank` over the listed axes. */
int32_t sw_axes_member(const struct sw_mesh *mesh, struct sw_axes axes, int32_t rank,
                       int32_t index);
/* "fsdp,sp" into buffer; returns buffer. "none" when empty. */
char *sw_axes_format(struct sw_axes axes, char *buffer, size_t buffer_bytes);

/* Parses LWM's forms: "auto", "1,64,4,1" (dp,fsdp,tp,sp), one -1, '!' prefix (keep the written
 * order), "sp:2,tp:8,fsdp:-1,dp:1" (axes by name, each at most once, in any order = outermost
 * first; others have size 1). Errors (SW_BAD_INPUT): wrong count, unknown axis, repeated axis, size
 * 0 or < -1, more than one -1, garbage, overflow. */
int sw_mesh_request_parse(const char *text, struct sw_mesh_request *out, struct sw_error *err);
/* Resolves the -1 against the number of accelerators. Not for is_auto. Errors (SW_UNMET): product
 * does not equal `accelerators`, with both numbers in the message. */
int sw_mesh_request_resolve(const struct sw_mesh_request *request, int32_t accelerators,
                            struct sw_mesh *out, struct sw_error *err);
/* True if the mesh has the requested sizes (always for auto). */
bool sw_mesh_request_admits(const struct sw_mesh_request *request, const struct sw_mesh *mesh);
/* "1,64,4,1" and "dp,fsdp,sp,tp"; both return buffer. */
char *sw_mesh_format(const struct sw_mesh *mesh, char *buffer, size_t buffer_bytes);
char *sw_mesh_format_order(const struct sw_mesh *mesh, char *buffer, size_t buffer_bytes);

/* Enumerates all ordered factorizations of `accelerators` (>= 1) into dp,fsdp,tp,sp in the default
 * axis order: calls visit for each, fsdp descending, then dp and tp ascending; stops when it
 * returns non-zero and returns that. The count is the product over primes p^k of C(k+3, 3). */
int sw_mesh_enumerate(int32_t accelerators, int (*visit)(const struct sw_mesh *mesh, void *context),
                      void *context);

#endif
