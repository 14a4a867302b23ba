/* The plan file: a run description with every choice made. Written by plan, executed by runner.
 *
 * Owns the file format and the one mapping (description, decision) -> program options that both
 * tools use. */
#ifndef SW_PLAN_H
#define SW_PLAN_H

#include "core/config/config.h"
#include "core/plan/inputs.h"
#include "core/plan/paths.h"
#include "core/ir/serving.h"

/* Every choice of a search: the position of ranks, and the settings of either purpose. */
struct sw_decision {
    struct sw_mesh mesh; /* with its axis order */
    struct sw_train_decision {
        int64_t micro_batch_size; /* sequences per data-parallel rank and micro-step; 0: the
                                     mesh cannot train */
        int64_t accumulation_steps;
        struct sw_recompute recompute;
        enum sw_attention_strategy strategy; /* not AUTO */
        enum sw_sequence_layout layout;
        int32_t inner_ring;   /* ranks of sp that attend among themselves first; 0: one ring */
        bool residual_seq_tp; /* true for residual_seq over sp, tp, false: sp alone; a rule of
                                 the run wins */
        struct sw_sharding_decision {
            uint8_t zero;         /* 1, 2; 0 or 3: weights are split, too */
            bool embed_fsdp;      /* true for weights over fsdp alone; a rule of the run wins */
            bool moments_over_dp; /* true for masters and moments over dp, too */
            bool keep_gathered;   /* opposite of reshard_after_forward */
        } sharding;
    } train;
    struct sw_serve_decision {
        enum sw_stream_weights stream_weights; /* AUTO: not decided */
        enum sw_interleave interleave;         /* AUTO: not decided, as NEVER */
        int64_t token_budget;                  /* 0: the run's */
    } serve;
};

/* Finds the values that a file names, for a model that has these. Errors (SW_BAD_INPUT): an unknown
 * name, at its position. */
int sw_plan_recompute(const struct sw_recompute_config *written, const struct sw_layer_values *has,
                      struct sw_recompute *out, struct sw_error *err);

/* The adapters of a run; {0}: none. Errors (SW_BAD_INPUT, at `lora`): a target that the model
 * lacks, or has only as part of a tensor; adapters with weights that 'freeze' names. */
int sw_plan_lora(const struct sw_run_config *run, struct sw_lora *out, struct sw_error *err);

/* Sharding set by a run; zero: auto is 3. */
struct sw_sharding_decision sw_plan_sharding(const struct sw_run_config *run);
/* Options for sw_program_compile. Errors (SW_BAD_INPUT): a rule names an unknown logical axis, at
 * its position. */
int sw_plan_program_options(const struct sw_run_config *run, const struct sw_decision *decision,
                            struct sw_program_options *out, struct sw_error *err);

/* Serving settings of a run, with open ones filled in from the decision. Returns true if the run
 * mentions serving: then its plan has digests of prefill, decode, score and, if it exists
 * (sw_serving_has), read. */
bool sw_plan_serving(const struct sw_run_config *run, const struct sw_decision *decision,
                     struct sw_serving *out);
/* Workload that prices its serving programs: the prompt whose time to first token is predicted; no
 * request for the most probable tokens. */
struct sw_workload sw_plan_workload(const struct sw_run_config *run);

/* Writes the plan file: YAML, `schema: shardwright.plan/1`, `digest:` over the rest, the decision,
 * the prediction, the digests of the `programs:`, the inputs (NULL: none) and the whole run
 * (sw_run_config_write) with its paths unchanged: sw_plan_run_relocate makes those of the file.
 * Same input, same bytes. digest (may be NULL): that of the file. */
int sw_plan_write(FILE *out, const struct sw_run_config *run, const struct sw_plan_inputs *inputs,
                  const struct sw_decision *decision, const struct sw_plan_prediction *prediction,
                  const uint64_t program_digest[SW_PROGRAM_KINDS], uint64_t *digest,
                  struct sw_error *err);

/* Calls visit for every setting of the plan file, as sw_plan_config_visit does. */
int sw_plan_visit(const struct sw_run_config *run, const struct sw_decision *decision,
                  const struct sw_plan_prediction *prediction,
                  const uint64_t program_digest[SW_PROGRAM_KINDS], sw_config_visitor visit,
                  void *context, struct sw_error *err);

struct sw_plan {
    struct sw_config *config; /* owns run and inputs */
    const struct sw_run_config *run;
    struct sw_decision decision;
    struct sw_plan_prediction prediction;
    uint64_t digest, program_digest[SW_PROGRAM_KINDS];
    struct sw_plan_inputs inputs; /* files it was written from; count 0: unknown */
    struct sw_place decision_place, program_place[SW_PROGRAM_KINDS]; /* positions of their keys */
};
/* Reads a plan and verifies the digest (errors have their position; any edited byte is found).
 * launchers: as for sw_config_read. The run's paths are resolved against the plan's folder:
 * absolute if `path` is, else relative to the working directory. Free with sw_plan_free. */
int sw_plan_read(const char *path, const struct sw_launchers *launchers, struct sw_plan *out,
                 struct sw_error *err);
void sw_plan_free(struct sw_plan *plan);
/* Fails because a program of the plan has another digest than the one compiled here. Returns -1. */
int sw_plan_refuse_program(const struct sw_plan *plan, enum sw_program_kind kind,
                           struct sw_error *err);

#endif
