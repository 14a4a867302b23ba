/* The search for a purpose, training or serving: every mesh of the cluster that the request admits,
 * each with the options that it also gets when it is requested alone.
 *
 * Owns the list of meshes. A mesh is either a candidate, with a decision, or rejected with a
 * reason; every number of a candidate comes from its own compiled program, never from an
 * estimate. */
#ifndef SW_SEARCH_SEARCH_H
#define SW_SEARCH_SEARCH_H

#include "core/plan/plan.h"
#include "core/plan/sharding.h"
#include "core/cost/cost.h"
#include "core/cost/run_cost.h"
#include "core/ir/serving.h"

/* Purposes of a search. */
enum sw_purpose { SW_FOR_TRAIN, SW_FOR_SERVE, SW_PURPOSES };
/* Purpose of the run's job. */
enum sw_purpose sw_run_purpose(const struct sw_run_config *run);
/* Gives the run the default profile of that purpose unless it has its own; returns the purpose. */
enum sw_purpose sw_run_suit(struct sw_run_config *run);

struct sw_memory {    /* bytes on each accelerator */
    int64_t limit;    /* memory of the accelerator */
    int64_t headroom; /* part of it that memory_headroom keeps free */
    int64_t total;    /* arena + reserved */
    int64_t arena, parameters, gradients, optimizer, activations, workspace, reserved;
    int64_t cache, transients; /* serving: the arena is parameters and these */
    int64_t scales;            /* scales of an int8 cache */
};

/* Fit of a mesh's memory: with headroom, without it, or not at all. */
enum sw_fit_verdict {
    SW_VERDICT_FITS,
    SW_VERDICT_NO_HEADROOM, /* allowed only for a mesh that mesh_dim names */
    SW_VERDICT_DOES_NOT_FIT,
    SW_VERDICT_COUNT
};
const char *sw_verdict_name(enum sw_fit_verdict verdict); /* "fits" "fits_without_headroom" ... */
const char *sw_verdict_text(enum sw_fit_verdict verdict); /* the same for people */

/* Settings of the run file (dotted if nested) that together would admit a rejected mesh or, with
 * mesh_dim among them, the mesh that replaces it. count 0: none known. */
enum { SW_MAX_CHANGES = 6 };
struct sw_suggestion {
    int32_t count;
    struct {
        char setting[64], to[80];
    } change[SW_MAX_CHANGES];
};
/* Changes with which a run fits that fits on no mesh, with the mesh then chosen and its step. */
enum { SW_MAX_HELPS = 4 };
struct sw_help {
    char text[512]; /* "use cluster.nodes: 12" */
    struct sw_suggestion changes;
    struct sw_mesh mesh;
    double step_seconds; /* 0: not priced */
};

/* Price of serving on a mesh, beside decision, memory and cost. */
struct sw_serve_price {
    int64_t texts, max_tokens, chunk; /* rounded */
    int64_t prompt_tokens;
    enum sw_dtype cache, weights; /* cache; the layers' matrices */
    int64_t token_budget;         /* prompt tokens between two tokens of the other sequences */
    bool mixes;                   /* true if calls of prompts hold the other sequences' tokens,
                                     too */
    bool interleaves;             /* true if calls of prompts pause for these tokens */
    double slice_share;           /* share of a call's time between two tokens then */
    double beside_seconds;        /* seconds of a token with a call of prompts before it, or
                                     inside it: the longer one */
    double first_seconds;         /* seconds of reading a prompt, chunks and single tokens,
                                     each of which meets half of it in the mean: slots are
                                     empty before, and no other sequence runs */
    double first_beside_seconds;  /* upper bound while all others run and no other prompt
                                     waits; the same without others */
    /* Times of a token with fewer sequences, for the server's program sizes, largest first; the
     * first is that of all: sequences over the whole mesh, equally many on every rank of the
     * batch. */
    int32_t size_count;
    struct {
        int64_t texts;
        double seconds;
    } size[SW_SERVING_SIZES];
    int64_t decode_bytes;                 /* bytes that a rank sends for a token */
    enum sw_prefill_gather gathers;       /* for a chunk of prompts (serving.h) */
    int64_t chunk_bytes[SW_GATHER_KINDS]; /* bytes that a rank sends for a chunk, either way;
                                             0: that way does not exist */
    bool misses_token, misses_first;      /* true if it misses that goal of the run */
    int64_t training_bytes; /* memory that training needs there, with reserved memory; 0: it
                               cannot train */
    bool trains;            /* true if that fits */
};

struct sw_candidate {
    struct sw_decision decision;
    struct sw_told_sharding sharding; /* sharding of the decision, set at the end of the search */
    struct sw_memory memory;          /* for a mesh rejected for memory: with its smallest
                                         options */
    /* cost of a step; serving: of one token of every sequence, with full caches */
    struct sw_cost cost;
    /* training: a step with the fastest options, which orders meshes, and its memory; the chosen
     * options may take 1 % longer and need less. 0: not searched */
    double fastest_seconds;
    int64_t fastest_bytes;
    double apart_seconds; /* step of a job that asks for no segments; 0: this one asks for none */
    double tokens_per_second, mfu; /* over all accelerators; as a fraction */
    struct sw_serve_price serve;
    /* padding of the last micro-step, in sequences, and its share of the time of all micro-steps;
     * 0: the batch fills them */
    int64_t padding_sequences;
    double padding_seconds;
    enum sw_reject reason;       /* SW_FITS: a candidate */
    char detail[256], help[384]; /* texts of a rejection */
    struct sw_suggestion suggestion;
    bool tp_leaves_domain; /* true if it leaves the fastest link domain */
    bool order_settled;    /* true if with tp inside it takes more than prefer_within longer */
    bool may_be_chosen;    /* true by time and position of tp; the largest fsdp of these is chosen
                              (prefer: fsdp) */
    /* The same mesh in an order in which tp leaves that domain, passed over since it gains at most
     * prefer_within; seconds 0: none */
    struct {
        struct sw_mesh mesh;
        double seconds; /* like fastest_seconds */
    } passed_over;
    bool explained; /* true once detail, help and suggestion are complete: sw_search_explain */
};

struct sw_search {
    enum sw_purpose purpose;
    const struct sw_purpose_row *row; /* row of the purpose (purpose.h) */
    int32_t accelerators;
    int32_t count; /* meshes enumerated */
    /* the first `feasible` of `mesh` are candidates, best first; then the rejected */
    int32_t feasible;
    int32_t keeping; /* number of first candidates that keep all goals of the run; training has
                        none */
    int32_t fastest; /* index, -1: none */
    struct sw_candidate *mesh;
    struct sw_help help[SW_MAX_HELPS]; /* smallest change first; set once the first rejected
                                          are explained */
    int32_t help_count;
    struct sw_candidate whole_weights;   /* from sw_search_whole_weights; seconds 0: none */
    struct sw_layer_values layer_values; /* values of the run's model that decisions can
                                            recompute */
    struct sw_run_cost run_cost;         /* on the first mesh; terms.steps 0: not priced */
    double seconds;
};

/* headroom.c: bytes of the accelerator's memory that memory_headroom keeps free. */
int64_t sw_headroom_bytes(const struct sw_run_config *run);
enum sw_fit_verdict sw_memory_verdict(const struct sw_memory *memory);
/* A mesh rejected for another reason than memory does not fit. */
enum sw_fit_verdict sw_candidate_verdict(const struct sw_candidate *candidate);
/* Note for people about the software of these bytes: programs in PyTorch need more. */
extern const char sw_memory_whose[];
/* One line on missing headroom or memory; "" if it fits. Returns buffer. */
const char *sw_headroom_warning(const struct sw_memory *memory, char *buffer, size_t bytes);

#define SW_EVERY_ROW INT32_MAX
/* Searches every mesh. rows: number of candidates that the caller shows, best first; these and the
 * fastest get the options that need less memory for little time, the others have their fastest
 * options. A mesh chosen by the search keeps memory_headroom free; one that mesh_dim names may use
 * it up, with options that keep it if any do. prefer is run->prefer. If the sizes of mesh_dim do
 * not make the number of accelerators, the only mesh is rejected with SW_REJECT_PRODUCT. Finding no
 * mesh that fits is no error: out->feasible is 0. Errors: SW_BAD_INPUT (mesh_dim, rules; the run
 * has no serving), SW_ENVIRONMENT. Free with sw_search_free. Threads: starts and joins its own. */
int sw_search_run(const struct sw_run_config *run, enum sw_purpose purpose, int32_t rows,
                  struct sw_search *out, struct sw_error *err);
void sw_search_free(struct sw_search *search);
/* The same for callers that look at rejected meshes only if none fits: if some do, no changes are
 * suggested for the others. */
int sw_search_choose(const struct sw_run_config *run, enum sw_purpose purpose, int32_t rows,
                     struct sw_search *out, struct sw_error *err);
/* The same for training, without suggestions for any rejected mesh. */
int sw_search_meshes_alone(const struct sw_run_config *run, int32_t rows, struct sw_search *out,
                           struct sw_error *err);

/* sharding.c: for a run that splits weights (zero: 3), sets search->whole_weights to the fastest
 * step of zero 1 or 2, if the chosen mesh takes more than 5 % longer. Looks at the meshes that fit
 * in the search. Errors: as sw_search_run. */
int sw_search_whole_weights(const struct sw_run_config *run, struct sw_search *search,
                            struct sw_error *err);

/* True if mesh_dim names the mesh. */
bool sw_search_mesh_is_named(const struct sw_run_config *run);

/* True if the run has a mesh, the first: one that fits and keeps its goals. All commands ask this,
 * also for a mesh that mesh_dim names: to use it anyway, a user removes the goal. */
bool sw_search_settles(const struct sw_search *search);

/* Completes detail, help and suggestion of `count` meshes from `first` (sw_search_run does so for
 * the first rejected ones: it costs as much as searching). Errors (SW_ENVIRONMENT): memory. */
int sw_search_explain(const struct sw_run_config *run, struct sw_search *search, int32_t first,
                      int32_t count, struct sw_error *err);

/* counts.c: the run on that many of the cluster's nodes. */
struct sw_run_config sw_run_on_nodes(const struct sw_run_config *run, int32_t nodes);
/* Cost of a number of nodes that an elastic run may have. */
struct sw_node_count {
    int32_t nodes;
    bool fits; /* true if a mesh fits; then: */
    struct sw_mesh mesh;
    double step_seconds, accelerator_hours; /* for all steps */
};
/* *out is the caller's to free; NULL: the run has one number. Errors: as sw_search_run. */
int sw_search_node_counts(const struct sw_run_config *run, struct sw_node_count **out,
                          int32_t *count, struct sw_error *err);

/* Counts the search's choice on the run's nodes. */
void sw_search_count_nodes(const struct sw_run_config *run, const struct sw_search *search,
                           struct sw_node_count *out);

/* advice.c: choices better than the search's own. */
enum { SW_MAX_FEWER = 8 };
struct sw_advice {
    struct sw_candidate fastest; /* fastest of all meshes on these nodes, ignoring the run's
                                    preferences and names */
    double slower;               /* share of its step by which the choice takes longer */
    /* Half of the nodes, a quarter ..., if the run's own choice is no slower there. Looked for if
     * the step mostly waits, and neither a mesh nor a number of nodes is requested. */
    struct sw_node_count fewer[SW_MAX_FEWER];
    int32_t fewer_count;
    /* Another number of the cluster's nodes with which all steps take at least 10 % fewer
     * accelerator-hours and at most 2 % longer: of three quarters, four thirds and twice the run's,
     * if its step leaves room for it; nodes 0: none. */
    struct sw_node_count better;
};
/* `search` (NULL: none at hand) has `chosen`. Without it a choice within 10 % of the fastest counts
 * as the fastest. Errors: as sw_search_run. */
int sw_search_advise(const struct sw_run_config *run, const struct sw_search *search,
                     const struct sw_candidate *chosen, struct sw_advice *out,
                     struct sw_error *err);

/* Flops of a step in MFU, the same on every mesh. */
int sw_search_model_flops(const struct sw_run_config *run, double *out, struct sw_error *err);

/* Prices one set of options. out->reason: if it fits, with or without headroom
 * (sw_candidate_verdict). May keep the program (NULL: not wanted). */
int sw_search_evaluate(const struct sw_run_config *run, const struct sw_decision *decision,
                       double model_flops, struct sw_candidate *out, struct sw_program **program,
                       struct sw_error *err);

/* purpose.c: the same for the run's job. */
int sw_search_evaluate_job(const struct sw_run_config *run, const struct sw_decision *decision,
                           struct sw_candidate *out, struct sw_error *err);

/* purpose_serve.c: cost of serving on the decision's mesh; an undecided serve.stream_weights is
 * decided by need. out->reason as above. Errors: SW_UNMET, SW_ENVIRONMENT. */
int sw_search_evaluate_serving(const struct sw_run_config *run, const struct sw_decision *decision,
                               struct sw_candidate *out, struct sw_error *err);
/* Decides the same for a run with serving and compiles its programs; *out NULL: no serving. Free
 * them with sw_program_set_free. Errors: as above. */
int sw_search_serving_programs(const struct sw_run_config *run, struct sw_decision *decision,
                               struct sw_program_set **out, struct sw_error *err);
/* True if a rank's memory has room for them and reserved memory. */
bool sw_search_serving_fits(const struct sw_run_config *run, const struct sw_program_set *programs);
/* Fills in the digests of the serving programs of a run with serving. Errors: as above; SW_UNMET:
 * they do not fit into a rank's memory. */
int sw_search_serving_digests(const struct sw_run_config *run, struct sw_decision *decision,
                              uint64_t digest[SW_PROGRAM_KINDS], struct sw_error *err);

/* recompute_fit.c: a value of a layer that backward needs, or those that one op makes, with
 * everything recomputed for it. */
struct sw_recomputed {
    struct sw_layer_values values;
    int32_t layers; /* layers in which the decision recomputes it */
    double bytes;   /* bytes freed in all layers; they depend on no other part of the layout */
    double seconds; /* seconds of its ops in all layers of a step, each alone */
};
/* For the decision's mesh, in the search's order. Returns their number, -1: err
 * (SW_ENVIRONMENT). */
int sw_search_recompute(const struct sw_run_config *run, const struct sw_decision *decision,
                        struct sw_recomputed out[SW_LAYER_VALUES], struct sw_error *err);

/* rank.c: the fastest step of the candidates, in any axis order; *mesh: its mesh. INFINITY:
 * none. */
double sw_rank_fastest(const struct sw_search *search, struct sw_mesh *mesh);
/* rank.c: the rule that chose, every clause of it, for people: "the largest fsdp that fits, then
 * ...". Returns buffer. */
const char *sw_rank_why(const struct sw_run_config *run, enum sw_purpose purpose, char *buffer,
                        size_t bytes);

#endif
