/* Shared by the files that choose the options of one mesh: options.c (recomputation, micro-batch,
 * variant), order.c (axis order), rings.c (inner rings), segments.c (segments requested from the
 * scheduler), spare.c (memory left free) and mesh.c (headroom, sharding). Included nowhere else. */
#ifndef SW_PLANNER_SEARCH_MESH_H
#define SW_PLANNER_SEARCH_MESH_H

#include "planner/search/internal.h"

enum { SW_MOST_WAYS = SW_RING_WAYS * SW_MAX_VARIANTS };
/* Slowdown below which a ring of inner rings, or an axis order, counts as no better. */
#define SW_WORTH_ORDERING 1.002

/* State of the search of one mesh with one sharding. */
struct sw_mesh_search {
    const struct sw_preference *preference;
    const struct sw_mesh *mesh;
    struct sw_decision base[SW_MOST_WAYS]; /* smallest options, in the axis order with the best
                                              guess */
    struct sw_guess guess[SW_MOST_WAYS];   /* guesses for these */
    int32_t closest;                       /* variant that needs least; -1: none is admitted */
    int64_t least_bytes;
    /* best of either residual_seq, and of either way: the axis order decides which suits */
    struct sw_candidate best[SW_RING_WAYS][2];
    double guess_at_best;           /* guess for the best of all; 0: none fits yet */
    double up_to;                   /* seconds above which options are not wanted */
    const struct sw_decision *like; /* options to try with any guess; NULL: none */
    bool hopeless; /* true if the state alone does not fit, even without headroom, or the batch
                      does not */
};

/* True if no level can fit. Full recomputation may not need the least memory, so that under a
 * lowered limit other levels may fit. */
bool sw_searcher_lacks_memory(const struct sw_searcher *s, const struct sw_sized *sized);
/* Seconds of a step; INFINITY where c is NULL or does not fit. */
double sw_candidate_seconds(const struct sw_candidate *c);
/* True if the decision has the variant. */
bool sw_variant_is_of(const struct sw_variant *v, const struct sw_decision *decision);
/* Prices a decision unless its memory cannot fit. */
int sw_searcher_try(struct sw_searcher *s, const struct sw_decision *decision,
                    struct sw_candidate *c, struct sw_error *err);
/* Prices a decision with the least recomputation that fits, starting from the way's guess. A
 * decision not faster than `than` seconds gets only its seconds in *c. */
int sw_mesh_search_fit(struct sw_searcher *s, const struct sw_mesh_search *l, int32_t way,
                       const struct sw_decision *decision, double than, struct sw_candidate *c,
                       struct sw_error *err);
/* Finds the fastest options of out's mesh with the searcher's sharding and memory limit. up_to:
 * seconds above which options are not wanted; unless INFINITY, a rejected mesh gets no details in
 * *out. like: options tried with any guess; may be NULL. */
int sw_search_within_limit(struct sw_searcher *s, struct sw_preferences *preferences, double up_to,
                           const struct sw_decision *like, struct sw_candidate *out,
                           struct sw_error *err);
/* The same, with the headroom kept free if options allow it. */
int sw_search_with_headroom(struct sw_searcher *s, struct sw_preferences *preferences,
                            struct sw_candidate *out, struct sw_error *err);
/* Tries other axis orders of the best decision; keeps the fastest in *best. */
int sw_search_orders(struct sw_searcher *s, struct sw_candidate *best, struct sw_error *err);
/* Tries inner rings on the best decision's axis order, if compute waits for one ring. Another order
 * may have been best for inner rings: if they are faster, strategies without a ring are tried on
 * this order too. */
int sw_search_rings(struct sw_searcher *s, const struct sw_mesh_search *l,
                    struct sw_candidate *best, struct sw_error *err);
/* Chooses if meshes get the segments that a job can ask its scheduler for. */
void sw_searcher_use_segments(struct sw_searcher *s, bool segments);
/* Searches the mesh again with segments if a step without them is slower by more than the margin: a
 * job that asks for segments may wait. */
int sw_search_segments(struct sw_searcher *s, struct sw_preferences *preferences,
                       struct sw_candidate *out, struct sw_error *err);
#endif
