/* Rows of a state as stacks of matrices, for tests of code that uses only the table: a row [r, c]
 * becomes [x, r / x, c] or [r, x, c / x], if every rank's bytes stay in place. Also positions of
 * elements in shards and in files. */
#ifndef SW_TEST_STACKS_H
#define SW_TEST_STACKS_H

#include "core/checkpoint/tensors.h"

#include <stdlib.h>
#include <string.h>

/* ---- Elements, by their index in the whole instance, row-major ---- */

/* Index in the whole tensor of element i of a shard that begins at `start`; -1: padding. */
static inline int64_t sw_test_in_shard(const struct sw_state_row *row,
                                       const int64_t start[SW_MAX_DIMS], int64_t i)
{
    int64_t index = 0, scale = 1;
    for (int d = row->ndim - 1; d >= 0; d--) {
        const int64_t at = start[d] + i % row->local[d];
        if (at >= row->size[d])
            return -1;
        index += at * scale;
        scale *= row->size[d];
        i /= row->local[d];
    }
    return index;
}

/* Index in its file of element i of a tensor. */
static inline int64_t sw_test_in_file(const struct sw_state_row *row,
                                      const struct sw_stored_tensor *t, int64_t i)
{
    const int64_t each = t->size[0] * t->size[1], matrix = t->first_matrix + i / each;
    const int64_t in = i % each;
    const bool turned = t->transposed && t->size[1] > 1;
    (void)row;
    return matrix * each + (turned ? in % t->size[1] * t->size[0] + in / t->size[1] : in);
}

static inline int64_t sw_test_tensor_elems(const struct sw_stored_tensor *t)
{
    return t->matrices * t->size[0] * t->size[1];
}

/* ---- Stacks ---- */

enum { SW_TEST_STACKS = 128 };
struct sw_test_stacks {
    struct sw_parameter parameter[SW_TEST_STACKS];
    char stored[SW_TEST_STACKS][SW_STORED_NAME_BYTES];
    const struct sw_parameter *was[SW_TEST_STACKS];
    int32_t count;
};

/* A way to stack a row: the dimension to split in two, the size of the first, and which of both has
 * the axes. */
struct sw_test_stack {
    uint8_t dim, split;
    int64_t first;
};

static inline bool sw_test_can_stack(const struct sw_state_row *row, struct sw_test_stack how)
{
    const uint8_t d = how.dim;
    if (d >= row->ndim || row->ndim > 2 || row->size[d] % how.first != 0 ||
        (row->padded[d] != row->size[d]))
        return false;
    const int64_t ways = row->size[d] / row->local[d];
    return (how.split == 0 ? how.first : row->size[d] / how.first) % ways == 0;
}

static inline void sw_test_stack_row(struct sw_state_row *row, struct sw_test_stack how)
{
    const uint8_t d = how.dim;
    const int64_t ways = row->size[d] / row->local[d];
    for (int i = row->ndim; i > d; i--) {
        row->axis[i] = row->axis[i - 1];
        row->size[i] = row->size[i - 1];
        row->padded[i] = row->padded[i - 1];
        row->local[i] = row->local[i - 1];
        row->sharding.spec.dim[i] = row->sharding.spec.dim[i - 1];
    }
    row->size[d + 1] /= how.first;
    row->size[d] = how.first;
    for (int i = 0; i < 2; i++) {
        row->padded[d + i] = row->size[d + i];
        row->local[d + i] = row->size[d + i] / (how.split == i ? ways : 1);
        if (how.split != i)
            row->sharding.spec.dim[d + i] = (struct sw_axes){0, {0}};
    }
    row->sharding.spec.ndim = ++row->ndim;
}

/* Stacks about half of two states' parameters, and their moments, in one way that both allow (b:
 * may be a). About half of them get a second number in the name, vectors always. Returns their
 * number. */
static inline int32_t sw_test_stack(uint64_t seed, struct sw_state *a, struct sw_state *b,
                                    struct sw_test_stacks *out)
{
    static const int64_t firsts[] = {2, 3, 4, 6, 8};
    const int32_t before = out->count;
    uint64_t draw = seed * 2 + 1;
    for (int32_t r = 0; r < a->count; r++) {
        const struct sw_parameter *is = a->row[r].parameter;
        bool known = a->row[r].scales || a->row[r].copy || a->row[r].dtype == SW_I8 ||
                     a->row[r].dtype == SW_E4M3 || a->row[r].moment != 0 || is == NULL;
        draw = (draw ^ draw >> 29) * 0xbf58476d1ce4e5b9u + 1;
        if (known || out->count == SW_TEST_STACKS || (draw >> 40 & 1u) == 0)
            continue;
        struct sw_test_stack how = {(uint8_t)(draw >> 41 & 1u), 0, firsts[(draw >> 44) % 5]};
        bool can[2] = {true, true};
        for (uint8_t split = 0; split < 2; split++)
            for (int32_t i = 0; i < a->count + b->count; i++) {
                const struct sw_state_row *row = i < a->count ? &a->row[i] : &b->row[i - a->count];
                how.split = split;
                if (row->parameter == is && !sw_test_can_stack(row, how))
                    can[split] = false;
            }
        if (!can[0] && !can[1])
            continue;
        how.split = can[0] && can[1] ? (uint8_t)(draw >> 50 & 1u) : can[1];
        const int32_t n = out->count++;
        const bool dealt = a->row[r].ndim == 1 || (draw >> 51 & 1u);
        out->parameter[n] = *is;
        if (dealt)
            snprintf(out->stored[n], sizeof out->stored[n], "experts.*.%s", is->stored);
        else
            snprintf(out->stored[n], sizeof out->stored[n], "experts.%s", is->stored);
        out->parameter[n].stored = out->stored[n];
        for (int32_t i = 0; i < a->count + (a == b ? 0 : b->count); i++) {
            struct sw_state_row *row = i < a->count ? &a->row[i] : &b->row[i - a->count];
            if (row->parameter != is)
                continue;
            sw_test_stack_row(row, how);
            row->parameter = &out->parameter[n];
        }
    }
    return out->count - before;
}

#endif
