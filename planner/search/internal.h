/* What the files of the search share: programs by structure, the price of one decision, guesses at
 * the others. Nothing outside planner/search*.c includes this. */
#ifndef SW_PLANNER_SEARCH_INTERNAL_H
#define SW_PLANNER_SEARCH_INTERNAL_H

#include "core/cost/ring.h"
#include "core/cost/traffic.h"
#include "planner/search/search.h"

enum { SW_MAX_VARIANTS = 8, SW_MAX_ORDERS = 24, SW_MAX_MICRO_BATCHES = 24 };

/* What decides, with recomputation and micro-batch put aside, which ops there are. */
struct sw_variant {
    enum sw_attention_strategy strategy;
    enum sw_sequence_layout layout;
    bool residual_seq_tp;
};

/* Seconds of a step in which one rank computes, with the smallest options. */
struct sw_compute {
    double phase[2];   /* forward, backward: in proportion to the sequences */
    double weights[2]; /* of those: casts and sums of weights, once for each micro-step */
    double again;      /* recomputation, not in phase[] */
    double update;
};

/* Meshes with the same tp and sp do the same inside a layer, however dp and fsdp share the rest:
 * which variants may be the fastest is found once for all of them. */
struct sw_preference {
    int32_t tp, sp;
    int32_t count;  /* variants that some mesh of these sizes admits, most promising first */
    int32_t likely; /* of them, those that are worth pricing where they fit */
    struct sw_variant variant[SW_MAX_VARIANTS];
    bool rings[SW_MAX_VARIANTS]; /* a variant's ring, made of inner rings, may be the fastest */
};
/* The same with each sharding, found when it is asked for; all zero at first. */
struct sw_preferences {
    int32_t count;
    struct sw_sharding_decision sharding[SW_SHARDINGS]; /* [count] */
    struct sw_preference of[SW_SHARDINGS];              /* [count] */
};

struct sw_orders;
struct sw_program_cache;
struct sw_units;

/* One thread's view of a search. */
struct sw_searcher {
    const struct sw_run_config *run;
    struct sw_layer_values layer_values; /* of its model */
    struct sw_recompute recompute;       /* the run's of these, unless that is auto */
    const struct sw_purpose_row *row;    /* purpose.h; NULL while one decision is priced */
    double model_flops;
    bool keep_order; /* the axis order is the user's */
    bool tp_inside;  /* only orders that keep tp within the fastest link domain, where any does */
    bool asked;      /* mesh_dim names the mesh: it may use the headroom up */
    bool spends_headroom; /* and does, since no options keep it */
    int64_t most_bytes;   /* that options may need, below what they may use anyway; 0: no less */
    bool segments;        /* meshes get the segments that the job can ask its scheduler for */
    struct sw_sharding_decision sharding; /* that is looked at */
    bool residual_fixed;                  /* the run's rules decide residual_seq */
    bool residual_tp;                     /* what they decided, when they name sp, tp */
    struct sw_program_cache *cache;
    /* the decision whose program was asked for last, while nothing else has been asked for */
    struct sw_decision latest;
    struct sw_cached_program *latest_program; /* NULL: none */
    uint64_t latest_at;                       /* of the cache's clock */
};

/* A decision's program with the right sizes; offsets only once priced. It belongs to the cache,
 * until that is used again. */
struct sw_sized {
    struct sw_decision decision;
    struct sw_program *program; /* NULL when not admitted */
    struct sw_cached_program *cached;
    struct sw_counted *counted; /* of the program's structure */
    struct sw_units *units;     /* the same; read when wanted */
    enum sw_reject reason;
    /* no arrangement needs less, none that is made needs more: reserved memory included */
    int64_t least_bytes, most_bytes;
};

/* A value that memory is guessed from, and as what. */
struct sw_counted_value {
    int32_t value;
    enum {
        SW_COUNTED_FIXED,   /* as large whatever the micro-batch */
        SW_COUNTED_STACKED, /* of every layer, for backward */
        SW_COUNTED_MOVING   /* a part of them at a time */
    } as;
};
struct sw_counted {
    struct sw_counted_value *value; /* [count] */
    int32_t count;
    double *seconds;            /* [op_count]: of each op that is no collective, once computed */
    struct sw_cost_known known; /* for the sizes that the program has now */
};

/* recompute.c: what of a program in which everything is made again belongs to which unit: a value
 * that backward needs, or those that one op makes, with all that has to be made again for it. */
struct sw_unit_part {
    int32_t at, unit;
};
struct sw_units {
    bool known;
    struct sw_layer_values values[SW_LAYER_VALUES]; /* [count]; none: is part of another now */
    int32_t count, kept_count, made_count;
    struct sw_unit_part *kept, *made; /* values that would be kept; ops that make again */
};
int sw_units_read(const struct sw_program *full, struct sw_units *out, struct sw_error *err);
void sw_units_free(struct sw_units *units);

/* evaluate.c */
/* For a search of so many meshes. NULL: no memory. */
struct sw_program_cache *sw_program_cache_new(int32_t meshes);
void sw_program_cache_free(struct sw_program_cache *cache);
/* That go with it. */
struct sw_orders *sw_program_cache_orders(struct sw_program_cache *cache);
/* Takes a program out of the cache. */
struct sw_program *sw_program_cache_take(struct sw_program_cache *cache,
                                         const struct sw_program *program);
/* The program of those options in out, but for the decision. Not admitted is no error, nor are the
 * run's rules where they fit other meshes. */
int sw_searcher_program(struct sw_searcher *s, const struct sw_program_options *options,
                        struct sw_sized *out, struct sw_error *err);
/* sw_program_admits with the run's rules. */
enum sw_reject sw_searcher_admits(struct sw_searcher *s, const struct sw_program_options *options,
                                  char detail[256], char help[256]);
/* Gives its buffers their offsets, unless they have them. */
void sw_sized_place(struct sw_sized *sized);
/* What has the arena and the reserved memory of an accelerator. */
struct sw_memory sw_memory_with_arena(const struct sw_run_config *run, int64_t arena_bytes);
/* The program of training. Not admitted is no error. */
int sw_searcher_size(struct sw_searcher *s, const struct sw_decision *decision,
                     struct sw_sized *out, struct sw_error *err);
/* Memory alone. */
int sw_searcher_measure(struct sw_searcher *s, struct sw_sized *sized, struct sw_candidate *out,
                        struct sw_error *err);
/* Memory, and where it fits or `always`, the price. */
int sw_searcher_price(struct sw_searcher *s, struct sw_sized *sized, bool always,
                      struct sw_candidate *out, struct sw_error *err);
/* The price alone, of a program that is admitted, on the axis order that it has. */
int sw_searcher_time(const struct sw_searcher *s, const struct sw_sized *sized, struct sw_cost *out,
                     struct sw_error *err);
/* As sw_searcher_price, with that. */
int sw_searcher_price_as(struct sw_searcher *s, struct sw_sized *sized, const struct sw_cost *cost,
                         struct sw_candidate *out, struct sw_error *err);
/* As sw_searcher_price; but what is no faster `than` so many seconds has in *out its seconds and
 * SW_FITS, and nothing else: nobody asks for its memory, whose buffers take long to place. */
int sw_searcher_price_faster(struct sw_searcher *s, struct sw_sized *sized, double than,
                             struct sw_candidate *out, struct sw_error *err);
/* What lasts from step to step, reserved memory included: every variant splits it alike. */
int64_t sw_searcher_state_bytes(const struct sw_searcher *s, const struct sw_sized *sized);
/* Bytes of an accelerator that a mesh may use, reserved memory included. */
int64_t sw_searcher_limit(const struct sw_searcher *s);
/* The smallest options that the run allows: memory grows from there only. */
struct sw_decision sw_searcher_smallest(const struct sw_searcher *s, const struct sw_mesh *mesh,
                                        const struct sw_variant *variant);

/* suggest.c: sw_search_explain with the searcher's programs. */
int sw_search_explain_with(const struct sw_searcher *s, struct sw_search *search, int32_t first,
                           int32_t count, struct sw_error *err);

/* trial.c: a run with changes. */
struct sw_trial {
    struct sw_run_config run;
    struct sw_suggestion changes; /* from the run that was asked for */
};
/* One more change; none where the suggestion is full. */
void sw_suggestion_note(struct sw_suggestion *suggestion, const char *setting, const char *to);
/* "use nodes: 4 and mesh_dim: 1,8,1,1" */
void sw_suggestion_describe(const struct sw_suggestion *suggestion, char *out, size_t bytes);
void sw_trial_note(struct sw_trial *trial, const char *setting, const char *to);
void sw_trial_note_integer(struct sw_trial *trial, const char *setting, int64_t to);
/* Lets the search choose recomputation, else the micro-batch, else the sharding, where the run
 * fixed it; true if there was one to let go. */
bool sw_trial_relax(const struct sw_searcher *like, struct sw_trial *trial);

/* rescue.c: changes of the run with each of which it fits on a mesh, the smallest first: settings
 * that it fixed; or other nodes, another sequence_length, another global_batch_size. */
struct sw_way_out {
    struct sw_suggestion changes;
    struct sw_search found; /* of the run with them: one row, and which others fit */
};
struct sw_rescue {
    bool tried;
    int32_t count; /* 0: nothing helps */
    struct sw_way_out way[SW_MAX_HELPS];
};
/* Looks for them, once, for a run that fits on no mesh. */
int sw_rescue_find(const struct sw_searcher *like, struct sw_rescue *rescue, struct sw_error *err);
void sw_rescue_free(struct sw_rescue *rescue);

/* search.c: all but sw_search_explain. rows: as sw_search_run. kept (may be NULL): a searcher with
 * the programs that it made; its cache is the caller's to free, unless there was an error. */
int sw_search_meshes(const struct sw_run_config *run, const struct sw_purpose_row *row,
                     int32_t rows, struct sw_search *out, struct sw_searcher *kept,
                     struct sw_error *err);
/* Rules of the run's own may ask for what no program can have (an axis for two dimensions of a
 * weight): then the error gets the place where they stand. Returns -1. */
int sw_search_blame_rules(const struct sw_run_config *run, struct sw_error *err);
/* All but the cache. model_flops stays 0. Errors (SW_BAD_INPUT): the run names a value to be made
 * again that its model has not, at the name's place. */
int sw_searcher_init(struct sw_searcher *s, const struct sw_run_config *run,
                     const struct sw_purpose_row *row, const struct sw_mesh_request *request,
                     struct sw_error *err);

/* What is made again, from nothing (level 0) to everything. Level i x layers + k: units 0 .. i - 1
 * in every layer, unit i in the first k. */
struct sw_unit {
    struct sw_layer_values values;
    bool moves;            /* made by nothing but moving memory */
    bool attends;          /* attention's result is among them */
    double bytes, seconds; /* of one layer: what keeping it takes; making it again, alone */
};
struct sw_levels {
    struct sw_unit unit[SW_LAYER_VALUES]; /* [count], the most bytes for the least time first */
    int32_t count, layers;
};
/* Of a program in which everything is made again, as it is sized, with the seconds of its ops. */
void sw_levels_find(const struct sw_units *units, const struct sw_program *full,
                    const struct sw_run_config *run, const double *seconds, struct sw_levels *out);
/* The same, a unit for each value. */
void sw_levels_find_each(const struct sw_units *units, const struct sw_program *full,
                         const struct sw_run_config *run, const double *seconds,
                         struct sw_levels *out);
/* That of a sized program whose ops' seconds are known (sw_guess_compute), with its units. */
int sw_sized_levels(const struct sw_sized *full, const struct sw_run_config *run,
                    struct sw_levels *out, struct sw_error *err);
int32_t sw_levels_last(const struct sw_levels *levels);
struct sw_recompute sw_level_recompute(const struct sw_levels *levels, int32_t level);
/* What a level keeps beside the last, and what it takes beside the first. */
double sw_level_bytes(const struct sw_levels *levels, int32_t level);
double sw_level_seconds(const struct sw_levels *levels, int32_t level);
/* The least level that keeps no more than so many bytes. */
int32_t sw_level_keeping(const struct sw_levels *levels, double bytes);
/* recompute_fit.c: the least level with which the decision stays within `limit` bytes of an
 * accelerator, priced; out->reason is SW_REJECT_MEMORY where none does. level: where to begin;
 * times: how many times as large the decision's micro-batch is as that of the levels' program. What
 * is no faster `than` so many seconds before its buffers have places has those in *out and SW_FITS,
 * and nothing else. */
int sw_searcher_fit(struct sw_searcher *s, const struct sw_decision *decision,
                    const struct sw_levels *levels, double times, int32_t level, int64_t limit,
                    double than, struct sw_candidate *out, struct sw_error *err);

/* guess.c: what is worth trying. Nothing of it is ever reported. */
enum { SW_GUESS_RINGS = 2 }; /* attention and its gradient */
struct sw_guess_ring {
    struct sw_traffic traffic;
    struct sw_ring_blocks blocks;
    double block; /* seconds of computing on one */
    int32_t inner;
    struct sw_span span;
};
struct sw_guess {
    double fixed_bytes, bytes_per_sequence; /* as compiled */
    struct sw_levels levels; /* as compiled; count 0: the run says what is made again */
    int64_t limit_bytes;     /* of an accelerator: the caller's to set */
    struct sw_compute compute;
    double weight_seconds[2],
        once_seconds; /* collectives of weights: each micro-step's, each step's */
    double batch_seconds, again_seconds; /* of activations; of those, in recomputation */
    double sequences;                    /* of a micro-step, as compiled */
    double rank_sequences;               /* of a step, of a rank */
    bool padded;                         /* not of every rank */
    /* of a ring that is made of inner rings: how long they are, 0: it is one ring, and among
     * batch_seconds */
    int32_t inner_ring, ring_count;
    struct sw_guess_ring ring[SW_GUESS_RINGS]; /* [ring_count] */
    const struct sw_run_config *run;
};
/* The orders of the axes of the mesh looked at last, and how groups lie on the links in them: a
 * search asks for the same of each variant. All zero at first. */
struct sw_placements {
    int32_t count;                /* 0: not known; that differ */
    uint8_t at[SW_MAX_ORDERS];    /* of an order: which */
    int32_t inner[SW_MAX_ORDERS]; /* sw_links_inner_ring */
    struct sw_span span[SW_MAX_ORDERS];
};
struct sw_orders {
    const struct sw_cluster_config *cluster;
    bool segments; /* true if the job asks for the segments of each order (sw_links_segment) */
    int32_t count;
    struct sw_mesh mesh[SW_MAX_ORDERS];
    struct sw_placements of[1 << SW_AXIS_COUNT]; /* by sets of axes */
};

struct sw_option {
    int64_t micro_batch_size;
    int32_t variant; /* caller's */
    int32_t level;   /* the least that may fit */
    double bytes, seconds;
};
/* Fills *out from a program with lifetimes; sw_counted_free is the caller's. Errors: memory. */
int sw_guess_count(const struct sw_program *program, struct sw_counted *out, struct sw_error *err);
/* Fills the seconds of what is counted, too. */
void sw_guess_compute(const struct sw_sized *sized, const struct sw_run_config *run,
                      struct sw_compute *out);
void sw_counted_free(struct sw_counted *counted);
/* Whatever the axis order, by part; sw_traffics_free is the caller's. */
int sw_guess_traffic(const struct sw_sized *sized, struct sw_traffics *out, struct sw_error *err);
/* From a program with full recomputation (or the run's own level) and its traffic; its mesh's axis
 * order counts. of_rings: a ring that leaves its nodes is made of inner rings. */
void sw_guess_from(const struct sw_sized *sized, const struct sw_run_config *run,
                   const struct sw_traffics *traffics, const struct sw_compute *compute,
                   const struct sw_levels *levels, bool of_rings, struct sw_guess *out);
/* Of a rank in a step, with padding. */
double sw_guess_places(const struct sw_guess *guess, int64_t micro_batch_size);
void sw_guess_option(const struct sw_guess *guess, struct sw_option *option);
double sw_guess_seconds(const struct sw_guess *guess, int64_t micro_batch_size, int32_t level);
/* True if some group of tp crosses links outside of the fastest link domain. */
bool sw_search_tp_leaves(const struct sw_cluster_config *cluster, const struct sw_mesh *mesh);
/* Micro-batches that the run allows, largest first, of `per_rank` sequences; padded: they are not
 * that many on every rank. */
int32_t sw_guess_options(const struct sw_run_config *run, int64_t per_rank, bool padded,
                         int32_t variant, struct sw_option out[SW_MAX_MICRO_BATCHES]);
/* The axis orders of the program's mesh that differ, best guess first, with the guesses (seconds of
 * a step; 0 where there is one order only; NULL: not wanted). of_rings: as above. tp_inside: as in
 * struct sw_searcher. -1: no memory. */
int32_t sw_guess_orders(const struct sw_program *program, const struct sw_run_config *run,
                        const struct sw_traffics *traffics, const struct sw_compute *compute,
                        bool of_rings, bool tp_inside, struct sw_orders *orders,
                        struct sw_mesh out[SW_MAX_ORDERS], double *seconds, struct sw_error *err);
/* The k-th order of the base's axes that have more than one rank, 0 the base's own; false: there
 * are no more. */
bool sw_search_permute(const struct sw_mesh *base, int32_t k, struct sw_mesh *out);
/* A qsort order: the fastest first. */
int sw_guess_compare(const void *a, const void *b);

/* prefer.c. How a variant may be looked at: as it is, and where its ring may leave its nodes with
 * that made of inner rings, one node's ranks each. */
enum { SW_ONE_RING, SW_OF_RINGS, SW_RING_WAYS };
/* A guess of time against the best price, or the best guess, before any price corrects it. */
#define SW_WORTH_PRICING 1.10
/* A variant of some way: 2 x variant + SW_ONE_RING or SW_OF_RINGS, by which options name it. */
int32_t sw_way_make(int32_t variant, int32_t rings);
bool sw_way_is_of_rings(int32_t way);
/* The options of a sized program with their guesses, on the axis order that suits it (choose_order)
 * or the one that it has. Returns how many, 0 also where the way is of rings and the order has
 * none, -1: no memory. */
int32_t sw_way_guess(const struct sw_searcher *s, struct sw_sized *sized, int32_t way,
                     const struct sw_compute *compute, bool choose_order, struct sw_guess *guess,
                     struct sw_option options[SW_MAX_MICRO_BATCHES], struct sw_error *err);
/* Whether a ring may be made of inner rings, on the mesh's order of axes or (any) on some. */
bool sw_may_be_of_rings(const struct sw_searcher *s, const struct sw_mesh *mesh,
                        enum sw_attention_strategy strategy, bool any);
/* The preference of the mesh's tp and sp with the sharding that is looked at: one of `all`, which
 * are of all meshes with these. NULL: err. */
const struct sw_preference *sw_search_prefer(struct sw_searcher *s, const struct sw_mesh *mesh,
                                             struct sw_preferences *all, struct sw_error *err);
/* The variants alone, in no order, admitted or not: what there is to rank. */
void sw_search_list_variants(const struct sw_searcher *s, const struct sw_mesh *mesh,
                             struct sw_preference *out);
/* mesh.c: one mesh, for training, with the preferences of its tp and sp: the fastest of the run's
 * shardings, where none fits the one that needs least. */
int sw_search_mesh(struct sw_searcher *s, struct sw_preferences *preferences,
                   struct sw_candidate *out, struct sw_error *err);

/* True if tp lies where it is to: sw_search_settle_order changes nothing. */
bool sw_search_is_settled(const struct sw_searcher *s, const struct sw_candidate *c);
/* Where tp leaves the fastest link domain for a gain of prefer_within at most, the same mesh with
 * the order and the options that suit it with tp inside. c: as sw_search_mesh left it. */
int sw_search_settle_order(struct sw_searcher *s, struct sw_candidate *c, struct sw_error *err);

/* The same with the sharding that is looked at alone, which keeps the headroom where it fits. */
int sw_search_sharding(struct sw_searcher *s, struct sw_preferences *preferences,
                       struct sw_candidate *out, struct sw_error *err);

/* The same mesh with the options that are worth it: of those that take 1 % longer than its fastest
 * at most, the fastest that leave a fifth of the memory free; where none do, those that need least.
 * c: as sw_search_mesh left it. prefer: time is content with the fastest. */
int sw_search_spare(struct sw_searcher *s, struct sw_candidate *c, struct sw_error *err);

/* rank.c: the order of meshes that are equals in all else, by axis sizes and then axis order.
 * Nothing is left to chance: same input, same order. */
int sw_rank_meshes(const struct sw_mesh *a, const struct sw_mesh *b);
/* By time, then those. */
int sw_rank_time(const struct sw_candidate *a, const struct sw_candidate *b);
#endif
