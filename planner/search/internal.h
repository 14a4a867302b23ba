/* Shared by the files of the search: programs by structure, the price of one decision, guesses at
 * the others. Included only in planner/search*.c. */
#ifndef SW_PLANNER_SEARCH_INTERNAL_H
#define SW_PLANNER_SEARCH_INTERNAL_H

#include "core/cost/ring.h"
#include "core/cost/traffic.h"
#include "planner/search/search.h"

enum { SW_MAX_VARIANTS = 8, SW_MAX_ORDERS = 24, SW_MAX_MICRO_BATCHES = 24 };

/* Part of a decision that selects the ops, with recomputation and micro-batch set aside. */
struct sw_variant {
    enum sw_attention_strategy strategy;
    enum sw_sequence_layout layout;
    bool residual_seq_tp;
};

/* Compute seconds of one rank's step, with the smallest options. */
struct sw_compute {
    double phase[2];   /* forward, backward: proportional to the sequences */
    double weights[2]; /* part of it: casts and sums of weights, once for each micro-step */
    double again;      /* recomputation, not in phase[] */
    double update;
};

/* Meshes with equal tp and sp do the same inside a layer, however dp and fsdp share the rest: the
 * variants that may be the fastest are found once for all of them. */
struct sw_preference {
    int32_t tp, sp;
    int32_t count;  /* variants that some mesh of these sizes admits, most promising first */
    int32_t likely; /* number of those worth pricing if they fit */
    struct sw_variant variant[SW_MAX_VARIANTS];
    bool rings[SW_MAX_VARIANTS]; /* true if the variant may be the fastest with inner rings */
};
/* Preferences for each sharding, found when needed; all zero at first. */
struct sw_preferences {
    int32_t count;
    struct sw_sharding_decision sharding[SW_SHARDINGS]; /* [count] */
    struct sw_preference of[SW_SHARDINGS];              /* [count] */
};

struct sw_orders;
struct sw_program_cache;
struct sw_units;

/* State of a search in one thread. */
struct sw_searcher {
    const struct sw_run_config *run;
    struct sw_layer_values layer_values; /* values of its model */
    struct sw_recompute recompute;       /* the run's recomputation, unless auto */
    const struct sw_purpose_row *row;    /* purpose.h; NULL while one decision is priced */
    double model_flops;
    bool keep_order;      /* true if the user set the axis order */
    bool tp_inside;       /* true to use only orders that keep tp in the fastest link domain, if any
                             does */
    bool asked;           /* true if mesh_dim names the mesh, which may use the headroom */
    bool spends_headroom; /* true if it does, since no options keep the headroom */
    int64_t most_bytes;   /* limit for options, below the usual one; 0: the usual one */
    bool segments;        /* true if meshes get the segments that the job can ask its scheduler
                             for */
    struct sw_sharding_decision sharding; /* current sharding */
    bool residual_fixed;                  /* true if the run's rules decide residual_seq */
    bool residual_tp;                     /* their decision: true for sp, tp */
    struct sw_program_cache *cache;
    /* decision of the last program, as long as no other was requested */
    struct sw_decision latest;
    struct sw_cached_program *latest_program; /* NULL: none */
    uint64_t latest_at;                       /* time of the cache's clock */
};

/* A decision's program with the right sizes, and with offsets once priced. The cache owns it until
 * its next use. */
struct sw_sized {
    struct sw_decision decision;
    struct sw_program *program; /* NULL when not admitted */
    struct sw_cached_program *cached;
    struct sw_counted *counted; /* for the program's structure */
    struct sw_units *units;     /* for the program's structure; filled when needed */
    enum sw_reject reason;
    /* bounds over all arrangements of buffers, with reserved memory */
    int64_t least_bytes, most_bytes;
};

/* A value in the guess of memory, and its kind. */
struct sw_counted_value {
    int32_t value;
    enum {
        SW_COUNTED_FIXED,   /* same size for any micro-batch */
        SW_COUNTED_STACKED, /* one in every layer, kept for backward */
        SW_COUNTED_MOVING   /* only some of them at a time */
    } as;
};
struct sw_counted {
    struct sw_counted_value *value; /* [count] */
    int32_t count;
    double *seconds;            /* [op_count]: of each op that is no collective, once known */
    struct sw_cost_known known; /* for the program's current sizes */
};

/* recompute.c: parts of a program with full recomputation, each with its unit: a value that
 * backward needs, or those that one op makes, with everything that must be recomputed for it. */
struct sw_unit_part {
    int32_t at, unit;
};
struct sw_units {
    bool known;
    struct sw_layer_values values[SW_LAYER_VALUES]; /* [count]; none: merged into another unit */
    int32_t count, kept_count, made_count;
    struct sw_unit_part *kept, *made; /* values that could be kept; ops that recompute */
};
int sw_units_read(const struct sw_program *full, struct sw_units *out, struct sw_error *err);
void sw_units_free(struct sw_units *units);

/* evaluate.c */
/* For a search of that many meshes. NULL: no memory. */
struct sw_program_cache *sw_program_cache_new(int32_t meshes);
void sw_program_cache_free(struct sw_program_cache *cache);
/* Orders of axes that belong to the cache. */
struct sw_orders *sw_program_cache_orders(struct sw_program_cache *cache);
/* Removes a program from the cache. */
struct sw_program *sw_program_cache_take(struct sw_program_cache *cache,
                                         const struct sw_program *program);
/* The program of those options in out, except out->decision. A rejected mesh is no error, nor are
 * the run's rules if they suit other meshes. */
int sw_searcher_program(struct sw_searcher *s, const struct sw_program_options *options,
                        struct sw_sized *out, struct sw_error *err);
/* sw_program_admits with the run's rules. */
enum sw_reject sw_searcher_admits(struct sw_searcher *s, const struct sw_program_options *options,
                                  char detail[256], char help[256]);
/* Gives the program's buffers their offsets, unless they have them. */
void sw_sized_place(struct sw_sized *sized);
/* Memory of a mesh with that arena, with reserved memory. */
struct sw_memory sw_memory_with_arena(const struct sw_run_config *run, int64_t arena_bytes);
/* The training program. A rejected mesh is no error. */
int sw_searcher_size(struct sw_searcher *s, const struct sw_decision *decision,
                     struct sw_sized *out, struct sw_error *err);
/* Fills in memory alone. */
int sw_searcher_measure(struct sw_searcher *s, struct sw_sized *sized, struct sw_candidate *out,
                        struct sw_error *err);
/* Fills in memory and, if it fits or `always`, the price. */
int sw_searcher_price(struct sw_searcher *s, struct sw_sized *sized, bool always,
                      struct sw_candidate *out, struct sw_error *err);
/* Prices an accepted program alone, in its own axis order. */
int sw_searcher_time(const struct sw_searcher *s, const struct sw_sized *sized, struct sw_cost *out,
                     struct sw_error *err);
/* sw_searcher_price with a given price. */
int sw_searcher_price_as(struct sw_searcher *s, struct sw_sized *sized, const struct sw_cost *cost,
                         struct sw_candidate *out, struct sw_error *err);
/* Like sw_searcher_price, but a candidate no faster `than` so many seconds gets only its seconds
 * and SW_FITS in *out: placing its buffers takes long, and its memory is not needed. */
int sw_searcher_price_faster(struct sw_searcher *s, struct sw_sized *sized, double than,
                             struct sw_candidate *out, struct sw_error *err);
/* Bytes that last from step to step, with reserved memory: all variants split them alike. */
int64_t sw_searcher_state_bytes(const struct sw_searcher *s, const struct sw_sized *sized);
/* Bytes of an accelerator that a mesh may use, with reserved memory. */
int64_t sw_searcher_limit(const struct sw_searcher *s);
/* The smallest options that the run allows; others need more memory. */
struct sw_decision sw_searcher_smallest(const struct sw_searcher *s, const struct sw_mesh *mesh,
                                        const struct sw_variant *variant);

/* suggest.c: sw_search_explain with the searcher's programs. */
int sw_search_explain_with(const struct sw_searcher *s, struct sw_search *search, int32_t first,
                           int32_t count, struct sw_error *err);

/* trial.c: a changed run. */
struct sw_trial {
    struct sw_run_config run;
    struct sw_suggestion changes; /* changes from the original run */
};
/* Adds a change, unless the suggestion is full. */
void sw_suggestion_note(struct sw_suggestion *suggestion, const char *setting, const char *to);
/* "use nodes: 4 and mesh_dim: 1,8,1,1" */
void sw_suggestion_describe(const struct sw_suggestion *suggestion, char *out, size_t bytes);
void sw_trial_note(struct sw_trial *trial, const char *setting, const char *to);
void sw_trial_note_integer(struct sw_trial *trial, const char *setting, int64_t to);
/* Lets the search choose recomputation, else the micro-batch, else the sharding, if the run fixed
 * it; true if there was one to release. */
bool sw_trial_relax(const struct sw_searcher *like, struct sw_trial *trial);

/* rescue.c: changes of the run that each make it fit on a mesh, the smallest first: settings that
 * it fixed; or other nodes, another sequence_length, another global_batch_size. */
struct sw_way_out {
    struct sw_suggestion changes;
    struct sw_search found; /* search of the changed run: one row, and which others fit */
};
struct sw_rescue {
    bool tried;
    int32_t count; /* 0: no change helps */
    struct sw_way_out way[SW_MAX_HELPS];
};
/* Looks for changes, once, for a run that fits on no mesh. */
int sw_rescue_find(const struct sw_searcher *like, struct sw_rescue *rescue, struct sw_error *err);
void sw_rescue_free(struct sw_rescue *rescue);

/* search.c: all but sw_search_explain. rows: as sw_search_run. kept (may be NULL): a searcher with
 * the programs that it made; the caller frees its cache, unless there was an error. */
int sw_search_meshes(const struct sw_run_config *run, const struct sw_purpose_row *row,
                     int32_t rows, struct sw_search *out, struct sw_searcher *kept,
                     struct sw_error *err);
/* Gives an error the position of the run's rules if these are at fault (an axis for two dimensions
 * of a weight). Returns -1. */
int sw_search_blame_rules(const struct sw_run_config *run, struct sw_error *err);
/* Initializes all but the cache. model_flops stays 0. Errors (SW_BAD_INPUT): the run recomputes a
 * value that its model lacks, at its position. */
int sw_searcher_init(struct sw_searcher *s, const struct sw_run_config *run,
                     const struct sw_purpose_row *row, const struct sw_mesh_request *request,
                     struct sw_error *err);

/* Levels of recomputation, from nothing (level 0) to everything. Level i x layers + k: units 0 .. i
 * - 1 in every layer, unit i in the first k. */
struct sw_unit {
    struct sw_layer_values values;
    bool moves;            /* true if made by moving memory only */
    bool attends;          /* true if attention's result is included */
    double bytes, seconds; /* for one layer: bytes if kept; seconds of recomputing it, alone */
};
struct sw_levels {
    struct sw_unit unit[SW_LAYER_VALUES]; /* [count], most bytes for the least time first */
    int32_t count, layers;
};
/* Finds the levels of a program with full recomputation, with its sizes and its ops' seconds. */
void sw_levels_find(const struct sw_units *units, const struct sw_program *full,
                    const struct sw_run_config *run, const double *seconds, struct sw_levels *out);
/* The same with one unit for each value. */
void sw_levels_find_each(const struct sw_units *units, const struct sw_program *full,
                         const struct sw_run_config *run, const double *seconds,
                         struct sw_levels *out);
/* The same for a sized program whose ops' seconds are known (sw_guess_compute), with its units. */
int sw_sized_levels(const struct sw_sized *full, const struct sw_run_config *run,
                    struct sw_levels *out, struct sw_error *err);
int32_t sw_levels_last(const struct sw_levels *levels);
struct sw_recompute sw_level_recompute(const struct sw_levels *levels, int32_t level);
/* Bytes that a level keeps more than the last one, and seconds that it takes more than the
 * first. */
double sw_level_bytes(const struct sw_levels *levels, int32_t level);
double sw_level_seconds(const struct sw_levels *levels, int32_t level);
/* The lowest level that keeps at most that many bytes. */
int32_t sw_level_keeping(const struct sw_levels *levels, double bytes);
/* recompute_fit.c: prices the lowest level with which the decision stays within `limit` bytes of an
 * accelerator; out->reason is SW_REJECT_MEMORY if none does. level: first to try; times: the
 * decision's micro-batch over that of the levels' program. A candidate no faster `than` so many
 * seconds before its buffers are placed gets only these and SW_FITS in *out. */
int sw_searcher_fit(struct sw_searcher *s, const struct sw_decision *decision,
                    const struct sw_levels *levels, double times, int32_t level, int64_t limit,
                    double than, struct sw_candidate *out, struct sw_error *err);

/* guess.c: options worth trying. Guesses are never reported. */
enum { SW_GUESS_RINGS = 2 }; /* attention and its gradient */
struct sw_guess_ring {
    struct sw_traffic traffic;
    struct sw_ring_blocks blocks;
    double block; /* seconds of computing on one block */
    int32_t inner;
    struct sw_span span;
};
struct sw_guess {
    double fixed_bytes, bytes_per_sequence; /* when compiled */
    struct sw_levels levels; /* when compiled; count 0: the run fixes recomputation */
    int64_t limit_bytes;     /* limit of an accelerator, set by the caller */
    struct sw_compute compute;
    double weight_seconds[2],
        once_seconds; /* collectives of weights in each micro-step, in each step */
    double batch_seconds, again_seconds; /* collectives of activations; part of these in
                                            recomputation */
    double sequences;                    /* sequences of a micro-step, as compiled */
    double rank_sequences;               /* sequences of a step on one rank */
    bool padded;                         /* true if ranks have different numbers */
    /* ranks of inner rings, 0: one ring; their times are among batch_seconds */
    int32_t inner_ring, ring_count;
    struct sw_guess_ring ring[SW_GUESS_RINGS]; /* [ring_count] */
    const struct sw_run_config *run;
};
/* Axis orders of the last mesh, and the links that groups span in each: a search asks for the same
 * in every variant. All zero at first. */
struct sw_placements {
    int32_t count;                /* number of different placements; 0: unknown */
    uint8_t at[SW_MAX_ORDERS];    /* placement of each order */
    int32_t inner[SW_MAX_ORDERS]; /* sw_links_inner_ring */
    struct sw_span span[SW_MAX_ORDERS];
};
struct sw_orders {
    const struct sw_cluster_config *cluster;
    bool segments; /* true if the job asks for the segments of each order (sw_links_segment) */
    int32_t count;
    struct sw_mesh mesh[SW_MAX_ORDERS];
    struct sw_placements of[1 << SW_AXIS_COUNT]; /* by set of axes */
};

struct sw_option {
    int64_t micro_batch_size;
    int32_t variant; /* set by the caller */
    int32_t level;   /* lowest level that may fit */
    double bytes, seconds;
};
/* Fills *out from a program with lifetimes; the caller calls sw_counted_free. Errors: memory. */
int sw_guess_count(const struct sw_program *program, struct sw_counted *out, struct sw_error *err);
/* Also fills the seconds of counted ops. */
void sw_guess_compute(const struct sw_sized *sized, const struct sw_run_config *run,
                      struct sw_compute *out);
void sw_counted_free(struct sw_counted *counted);
/* Traffic by part, for any axis order; the caller calls sw_traffics_free. */
int sw_guess_traffic(const struct sw_sized *sized, struct sw_traffics *out, struct sw_error *err);
/* Makes a guess from a program with full recomputation (or the run's own level) and its traffic, in
 * its mesh's axis order. of_rings: true if a ring that leaves its nodes has inner rings. */
void sw_guess_from(const struct sw_sized *sized, const struct sw_run_config *run,
                   const struct sw_traffics *traffics, const struct sw_compute *compute,
                   const struct sw_levels *levels, bool of_rings, struct sw_guess *out);
/* Sequences of a rank in a step, with padding. */
double sw_guess_places(const struct sw_guess *guess, int64_t micro_batch_size);
void sw_guess_option(const struct sw_guess *guess, struct sw_option *option);
double sw_guess_seconds(const struct sw_guess *guess, int64_t micro_batch_size, int32_t level);
/* True if a group of tp crosses links outside of the fastest link domain. */
bool sw_search_tp_leaves(const struct sw_cluster_config *cluster, const struct sw_mesh *mesh);
/* Micro-batches that the run allows, largest first, for `per_rank` sequences; padded: true if ranks
 * have different numbers. */
int32_t sw_guess_options(const struct sw_run_config *run, int64_t per_rank, bool padded,
                         int32_t variant, struct sw_option out[SW_MAX_MICRO_BATCHES]);
/* The different axis orders of the program's mesh, best guess first, with guesses (seconds of a
 * step; 0 if there is one order only; NULL: not wanted). of_rings: as above. tp_inside: as in
 * struct sw_searcher. -1: no memory. */
int32_t sw_guess_orders(const struct sw_program *program, const struct sw_run_config *run,
                        const struct sw_traffics *traffics, const struct sw_compute *compute,
                        bool of_rings, bool tp_inside, struct sw_orders *orders,
                        struct sw_mesh out[SW_MAX_ORDERS], double *seconds, struct sw_error *err);
/* The k-th order of the base's axes that have more than one rank, 0 the base's own; false: no
 * more. */
bool sw_search_permute(const struct sw_mesh *base, int32_t k, struct sw_mesh *out);
/* A qsort order: the fastest first. */
int sw_guess_compare(const void *a, const void *b);

/* prefer.c. Ways to consider a variant: as it is, and with inner rings of one node's ranks if its
 * ring may leave its nodes. */
enum { SW_ONE_RING, SW_OF_RINGS, SW_RING_WAYS };
/* Limit of a time guess relative to the best price or, before any price corrects it, the best
 * guess. */
#define SW_WORTH_PRICING 1.10
/* Number of a variant in a way: 2 x variant + SW_ONE_RING or SW_OF_RINGS; options refer to it. */
int32_t sw_way_make(int32_t variant, int32_t rings);
bool sw_way_is_of_rings(int32_t way);
/* Options of a sized program with guesses, in the best axis order (choose_order) or its own.
 * Returns their number, 0 also if the way has inner rings and the order none, -1: no memory. */
int32_t sw_way_guess(const struct sw_searcher *s, struct sw_sized *sized, int32_t way,
                     const struct sw_compute *compute, bool choose_order, struct sw_guess *guess,
                     struct sw_option options[SW_MAX_MICRO_BATCHES], struct sw_error *err);
/* True if a ring may have inner rings, in the mesh's order of axes or (any) in some order. */
bool sw_may_be_of_rings(const struct sw_searcher *s, const struct sw_mesh *mesh,
                        enum sw_attention_strategy strategy, bool any);
/* The preference of the mesh's tp and sp with the current sharding: one of `all`, valid for all
 * meshes with these. NULL: err. */
const struct sw_preference *sw_search_prefer(struct sw_searcher *s, const struct sw_mesh *mesh,
                                             struct sw_preferences *all, struct sw_error *err);
/* Lists the variants to rank, in no order, without checking the mesh. */
void sw_search_list_variants(const struct sw_searcher *s, const struct sw_mesh *mesh,
                             struct sw_preference *out);
/* mesh.c: searches one mesh for training, with the preferences of its tp and sp: the fastest of the
 * run's shardings; if none fits, the one that needs least. */
int sw_search_mesh(struct sw_searcher *s, struct sw_preferences *preferences,
                   struct sw_candidate *out, struct sw_error *err);

/* True if sw_search_settle_order would change nothing: tp is where it should be. */
bool sw_search_is_settled(const struct sw_searcher *s, const struct sw_candidate *c);
/* If tp leaves the fastest link domain for a gain of at most prefer_within: the same mesh with the
 * best order and options that keep tp inside. c: from sw_search_mesh. */
int sw_search_settle_order(struct sw_searcher *s, struct sw_candidate *c, struct sw_error *err);

/* The same with the current sharding alone, keeping the headroom if it fits. */
int sw_search_sharding(struct sw_searcher *s, struct sw_preferences *preferences,
                       struct sw_candidate *out, struct sw_error *err);

/* The same mesh with less memory at little cost: among options at most 1 % slower than its fastest,
 * the fastest that leave a fifth of the memory free; if none do, those that need least. c: from
 * sw_search_mesh. prefer: time keeps the fastest. */
int sw_search_spare(struct sw_searcher *s, struct sw_candidate *c, struct sw_error *err);

/* rank.c: order of otherwise equal meshes, by axis sizes and then axis order: deterministic. */
int sw_rank_meshes(const struct sw_mesh *a, const struct sw_mesh *b);
/* By time, then by those. */
int sw_rank_time(const struct sw_candidate *a, const struct sw_candidate *b);
#endif
