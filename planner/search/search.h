/* The search for a purpose, training or serving: every mesh of the cluster that the request admits,
 * each with the options that suit it: what the same mesh gets when it is asked for alone.
 *
 * Owns the list of meshes. A mesh is either a candidate, with a decision, or rejected with a
 * reason; every number of a candidate is that of its own compiled program, never an estimate. */
#ifndef SW_SEARCH_SEARCH_H
#define SW_SEARCH_SEARCH_H

#include "core/plan/plan.h"
#include "core/plan/sharding.h"
#include "core/cost/cost.h"
#include "core/cost/run_cost.h"
#include "core/ir/serving.h"

/* What meshes are searched and ranked for. */
enum sw_purpose { SW_FOR_TRAIN, SW_FOR_SERVE, SW_PURPOSES };
/* What the run's job does. */
enum sw_purpose sw_run_purpose(const struct sw_run_config *run);
/* Gives the run the profile of that purpose, where it has none of its own; returns the purpose. */
enum sw_purpose sw_run_suit(struct sw_run_config *run);

struct sw_memory {    /* bytes on each accelerator */
    int64_t limit;    /* what the accelerator has */
    int64_t headroom; /* of that, what memory_headroom keeps free */
    int64_t total;    /* arena + reserved */
    int64_t arena, parameters, gradients, optimizer, activations, workspace, reserved;
    int64_t cache, transients; /* of serving, where the arena is parameters and these */
    int64_t scales;            /* of the cache: those of one in int8 */
};

/* What there is to say about a mesh's memory: with the headroom, without it, or not at all. */
enum sw_fit_verdict {
    SW_VERDICT_FITS,
    SW_VERDICT_NO_HEADROOM, /* only for a mesh that mesh_dim names */
    SW_VERDICT_DOES_NOT_FIT,
    SW_VERDICT_COUNT
};
const char *sw_verdict_name(enum sw_fit_verdict verdict); /* "fits" "fits_without_headroom" ... */
const char *sw_verdict_text(enum sw_fit_verdict verdict); /* the same for people */

/* Settings of the run file (dotted where nested) that together would admit a rejected mesh, or,
 * with mesh_dim among them, the mesh that takes its place. count 0: none is known. */
enum { SW_MAX_CHANGES = 6 };
struct sw_suggestion {
    int32_t count;
    struct {
        char setting[64], to[80];
    } change[SW_MAX_CHANGES];
};
/* Where a run fits on no mesh: changes with which it does, the mesh that is chosen then, and its
 * step. */
enum { SW_MAX_HELPS = 4 };
struct sw_help {
    char text[512]; /* "use cluster.nodes: 12" */
    struct sw_suggestion changes;
    struct sw_mesh mesh;
    double step_seconds; /* 0: not priced */
};

/* What serving says of a mesh beside its decision, memory and cost. */
struct sw_serve_price {
    int64_t texts, max_tokens, chunk; /* as rounded */
    int64_t prompt_tokens;
    enum sw_dtype cache, weights; /* of the layers' matrices */
    int64_t token_budget;         /* of prompts, between two tokens of the other texts */
    bool mixes;                   /* calls of prompts have the other texts' tokens, too */
    double beside_seconds;        /* of a token that waits for a call of prompts before it, or in
                                     which it is made: the longer one */
    double first_seconds;         /* of reading a prompt, chunks and single tokens, each of which
                                     meets half of it in the mean: slots are empty before it, and
                                     no other sequence runs */
    double first_beside_seconds;  /* at most, while all others run and no other prompt waits;
                                     without others the same */
    /* Of a token with fewer texts, as the server has programs for them, the most first; the first
     * is that of all: texts over the whole mesh, as many on every rank of the batch */
    int32_t size_count;
    struct {
        int64_t texts;
        double seconds;
    } size[SW_SERVING_SIZES];
    int64_t decode_bytes;                 /* that a rank sends for a token */
    enum sw_prefill_gather gathers;       /* for a chunk of prompts (serving.h) */
    int64_t chunk_bytes[SW_GATHER_KINDS]; /* that a rank sends for one, either way; 0: that way
                                             there is none */
    bool misses_token, misses_first;      /* goals of the run */
    int64_t training_bytes; /* what training needs there, reserved included; 0: it cannot train */
    bool trains;            /* and that fits */
};

struct sw_candidate {
    struct sw_decision decision;
    struct sw_told_sharding sharding; /* of the decision, once the search is over */
    struct sw_memory memory;          /* of a mesh rejected for memory: of its smallest options */
    struct sw_cost cost; /* of a step; of serving, of a token of every text, with full caches */
    /* of training: a step with its fastest options, by which meshes are ordered, and what these
     * need; those that it has may take 1 % longer and need less. 0: not searched */
    double fastest_seconds;
    int64_t fastest_bytes;
    double apart_seconds; /* of a step of a job that asks for no segments; 0: nor does this one */
    double tokens_per_second, mfu; /* over all accelerators; a fraction */
    struct sw_serve_price serve;
    /* places of the last micro-step that no sequence of the batch takes, and their share of the
     * time of all micro-steps; 0 where the batch fills them */
    int64_t padding_sequences;
    double padding_seconds;
    enum sw_reject reason;       /* SW_FITS: a candidate */
    char detail[256], help[384]; /* of a rejection */
    struct sw_suggestion suggestion;
    bool tp_leaves_domain; /* the fastest link domain */
    bool order_settled;    /* with tp inside it takes more than prefer_within longer */
    bool may_be_chosen; /* by time and where tp lies; the largest fsdp of these is (prefer: fsdp) */
    /* The same mesh in an order in which tp leaves that domain, faster by prefer_within at most,
     * for which it does not; seconds 0: there is none */
    struct {
        struct sw_mesh mesh;
        double seconds; /* as fastest_seconds */
    } passed_over;
    bool explained; /* detail, help and suggestion are complete: sw_search_explain */
};

struct sw_search {
    enum sw_purpose purpose;
    const struct sw_purpose_row *row; /* of the purpose (purpose.h) */
    int32_t accelerators;
    int32_t count; /* meshes enumerated */
    int32_t
        feasible; /* the first `feasible` of `mesh` are candidates, best first; then the rejected */
    int32_t keeping; /* of these, the first keep all goals of the run; training has none */
    int32_t fastest; /* index, -1: none */
    struct sw_candidate *mesh;
    struct sw_help help[SW_MAX_HELPS]; /* the smallest change first; once the first of the rejected
                                          are explained */
    int32_t help_count;
    struct sw_candidate whole_weights;   /* of sw_search_whole_weights; seconds 0: none */
    struct sw_layer_values layer_values; /* of the run's model: what decisions make again */
    struct sw_run_cost run_cost;         /* on the first mesh; terms.steps 0: not priced */
    double seconds;
};

/* headroom.c: bytes of the accelerator's memory that memory_headroom keeps free. */
int64_t sw_headroom_bytes(const struct sw_run_config *run);
enum sw_fit_verdict sw_memory_verdict(const struct sw_memory *memory);
/* A mesh that is rejected for another reason than memory does not fit. */
enum sw_fit_verdict sw_candidate_verdict(const struct sw_candidate *candidate);
/* Whose memory is told, for people: programs in PyTorch need more. */
extern const char sw_memory_whose[];
/* One line on memory without headroom or too little of it; "" where it fits. Returns buffer. */
const char *sw_headroom_warning(const struct sw_memory *memory, char *buffer, size_t bytes);

#define SW_EVERY_ROW INT32_MAX
/* Searches every mesh. rows: candidates that the caller shows, the best first; these and the
 * fastest get the options that need less memory for little time, the others have their fastest
 * options. A mesh that the search chooses by itself keeps memory_headroom free; one that mesh_dim
 * names may use it up, with options that keep it where any do. prefer is run->prefer. When the
 * sizes of mesh_dim do not make the number of accelerators, the only mesh is rejected with
 * SW_REJECT_PRODUCT. Finding no mesh that fits is no error: out->feasible is 0. Errors:
 * SW_BAD_INPUT (mesh_dim, rules; the run says nothing of serving), SW_ENVIRONMENT. Free with
 * sw_search_free. Threads: starts and joins its own. */
int sw_search_run(const struct sw_run_config *run, enum sw_purpose purpose, int32_t rows,
                  struct sw_search *out, struct sw_error *err);
void sw_search_free(struct sw_search *search);
/* The same for callers who look at the rejected only where nothing fits: where some do, it is not
 * said what would help the others. */
int sw_search_choose(const struct sw_run_config *run, enum sw_purpose purpose, int32_t rows,
                     struct sw_search *out, struct sw_error *err);
/* The same for training, and says of no rejected mesh what would help. */
int sw_search_meshes_alone(const struct sw_run_config *run, int32_t rows, struct sw_search *out,
                           struct sw_error *err);

/* sharding.c: fills search->whole_weights of a run that splits weights (zero: 3) with the fastest
 * step of zero 1 or 2, where the chosen mesh takes more than 5 % longer. Looks at the meshes that
 * the search found to fit. Errors: as sw_search_run. */
int sw_search_whole_weights(const struct sw_run_config *run, struct sw_search *search,
                            struct sw_error *err);

/* Whether mesh_dim says which mesh it is to be. */
bool sw_search_mesh_is_named(const struct sw_run_config *run);

/* Whether the run has a mesh, the first: one that fits and keeps its goals. The one rule of all
 * commands, for a mesh that mesh_dim names, too: whoever would have it drops the goal. */
bool sw_search_settles(const struct sw_search *search);

/* Completes detail, help and suggestion of `count` meshes from `first` (sw_search_run does so for
 * the first of the rejected: it costs as much as searching). Errors (SW_ENVIRONMENT): memory. */
int sw_search_explain(const struct sw_run_config *run, struct sw_search *search, int32_t first,
                      int32_t count, struct sw_error *err);

/* counts.c: the run on so many of the cluster's nodes. */
struct sw_run_config sw_run_on_nodes(const struct sw_run_config *run, int32_t nodes);
/* What each number of nodes costs that an elastic run may have. */
struct sw_node_count {
    int32_t nodes;
    bool fits; /* any mesh does; then */
    struct sw_mesh mesh;
    double step_seconds, accelerator_hours; /* of all steps */
};
/* *out is the caller's to free; none (NULL) where the run has one number. Errors: as
 * sw_search_run. */
int sw_search_node_counts(const struct sw_run_config *run, struct sw_node_count **out,
                          int32_t *count, struct sw_error *err);

/* What the search chose on the run's nodes. */
void sw_search_count_nodes(const struct sw_run_config *run, const struct sw_search *search,
                           struct sw_node_count *out);

/* advice.c: what the choice leaves on the table. */
enum { SW_MAX_FEWER = 8 };
struct sw_advice {
    struct sw_candidate
        fastest;   /* of all meshes of these nodes, whatever the run prefers or names */
    double slower; /* the share of its step by which the choice takes longer */
    /* Half of the nodes, a quarter ..., on which the run's own choice is no slower. They are looked
     * for where the step mostly waits, and no mesh or number of nodes is asked for. */
    struct sw_node_count fewer[SW_MAX_FEWER];
    int32_t fewer_count;
    /* Another number of nodes that the cluster has, on which all steps take at least 10 % fewer
     * accelerator-hours and at most 2 % longer: of three quarters, four thirds and twice the run's,
     * where its step leaves room for it; nodes 0: none. */
    struct sw_node_count better;
};
/* `search` (NULL: none at hand) is where `chosen` comes from. Without it a choice within 10 % of
 * the fastest counts as the fastest. Errors: as sw_search_run. */
int sw_search_advise(const struct sw_run_config *run, const struct sw_search *search,
                     const struct sw_candidate *chosen, struct sw_advice *out,
                     struct sw_error *err);

/* Flops of a step that MFU counts: they do not depend on the mesh. */
int sw_search_model_flops(const struct sw_run_config *run, double *out, struct sw_error *err);

/* Prices one set of options. out->reason tells whether it fits, with or without headroom
 * (sw_candidate_verdict). May keep the program (NULL: not
 * wanted). */
int sw_search_evaluate(const struct sw_run_config *run, const struct sw_decision *decision,
                       double model_flops, struct sw_candidate *out, struct sw_program **program,
                       struct sw_error *err);

/* purpose.c: the same of what the run's job does. */
int sw_search_evaluate_job(const struct sw_run_config *run, const struct sw_decision *decision,
                           struct sw_candidate *out, struct sw_error *err);

/* purpose_serve.c: what serving costs on the decision's mesh; serve.stream_weights that is not
 * decided becomes what the mesh needs. out->reason as above. Errors: SW_UNMET, SW_ENVIRONMENT. */
int sw_search_evaluate_serving(const struct sw_run_config *run, const struct sw_decision *decision,
                               struct sw_candidate *out, struct sw_error *err);
/* Decides the same of a run that says something of serving and compiles its programs; *out NULL: it
 * says nothing. Free them with sw_program_set_free. Errors: as above. */
int sw_search_serving_programs(const struct sw_run_config *run, struct sw_decision *decision,
                               struct sw_program_set **out, struct sw_error *err);
/* Whether a rank's memory has room for them, beside what is reserved. */
bool sw_search_serving_fits(const struct sw_run_config *run, const struct sw_program_set *programs);
/* Fills in the digests of the programs of serving of a run that says something of it. Errors: as
 * above; SW_UNMET: they do not fit into the memory of a rank. */
int sw_search_serving_digests(const struct sw_run_config *run, struct sw_decision *decision,
                              uint64_t digest[SW_PROGRAM_KINDS], struct sw_error *err);

/* recompute_fit.c: a value of a layer that backward needs, or those that one op makes, with all
 * that has to be made again for it. */
struct sw_recomputed {
    struct sw_layer_values values;
    int32_t layers; /* in which the decision makes it again */
    double bytes;   /* that this frees, in all layers; nothing else of the layout changes them */
    double seconds; /* that its ops take, in all layers of a step, each alone */
};
/* Of the decision's mesh, in the order in which the search takes them. Returns how many, -1: err
 * (SW_ENVIRONMENT). */
int sw_search_recompute(const struct sw_run_config *run, const struct sw_decision *decision,
                        struct sw_recomputed out[SW_LAYER_VALUES], struct sw_error *err);

/* rank.c: the fastest step of the candidates, in any order of axes; *mesh: of which one. INFINITY:
 * there are none. */
double sw_rank_fastest(const struct sw_search *search, struct sw_mesh *mesh);
/* rank.c: the rule that chose, every clause of it, for people: "the largest fsdp that fits, then
 * ...". Returns buffer. */
const char *sw_rank_why(const struct sw_run_config *run, enum sw_purpose purpose, char *buffer,
                        size_t bytes);

#endif
