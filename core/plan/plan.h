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

/* Every choice that a search makes: where ranks lie, and what either purpose does there. */
struct sw_decision {
    struct sw_mesh mesh; /* with the order of its axes */
    struct sw_train_decision {
        int64_t micro_batch_size; /* sequences per data-parallel rank and micro-step; 0: the mesh
                                     cannot train */
        int64_t accumulation_steps;
        struct sw_recompute recompute;
        enum sw_attention_strategy strategy; /* not AUTO */
        enum sw_sequence_layout layout;
        int32_t inner_ring;   /* ranks of sp that attend among themselves first; 0: one ring */
        bool residual_seq_tp; /* residual_seq over sp, tp and not sp alone; a rule of the run wins
                               */
        struct sw_sharding_decision {
            uint8_t zero;         /* 1, 2; 0 or 3: weights are split, too */
            bool embed_fsdp;      /* weights over fsdp alone; a rule of the run wins */
            bool moments_over_dp; /* masters and moments over dp, too */
            bool keep_gathered;   /* not reshard_after_forward */
        } sharding;
    } train;
    struct sw_serve_decision {
        enum sw_stream_weights stream_weights; /* AUTO: not decided */
        int64_t token_budget;                  /* 0: as the run says */
    } serve;
};

/* Which values a file means, of a model that has these. Errors (SW_BAD_INPUT): a name of none, at
 * its place. */
int sw_plan_recompute(const struct sw_recompute_config *written, const struct sw_layer_values *has,
                      struct sw_recompute *out, struct sw_error *err);

/* The adapters that a run asks for; {0}: none. Errors (SW_BAD_INPUT, at `lora`): a target that the
 * model has not, or not in a tensor of its own; adapters with weights that 'freeze' names. */
int sw_plan_lora(const struct sw_run_config *run, struct sw_lora *out, struct sw_error *err);

/* What a run says of sharding; zero: auto is 3. */
struct sw_sharding_decision sw_plan_sharding(const struct sw_run_config *run);
/* Options for sw_program_compile. Errors (SW_BAD_INPUT): a rule names an unknown logical axis, at
 * its place. */
int sw_plan_program_options(const struct sw_run_config *run, const struct sw_decision *decision,
                            struct sw_program_options *out, struct sw_error *err);

/* What the run wants of serving, with what it leaves open filled in, as decided. Returns whether it
 * says anything of it: then its plan has digests of prefill, decode, score and, where there
 * is one (sw_serving_has), read. */
bool sw_plan_serving(const struct sw_run_config *run, const struct sw_decision *decision,
                     struct sw_serving *out);
/* What its programs of serving are priced with: the prompt for which the time to the first token is
 * told; nobody asks for the most probable tokens. */
struct sw_workload sw_plan_workload(const struct sw_run_config *run);

/* Writes the plan file: YAML, `schema: shardwright.plan/1`, `digest:` over the rest, the decision,
 * the prediction, the digests of the `programs:`, the inputs (NULL: none) and the whole run
 * (sw_run_config_write) with its paths as it has them: sw_plan_run_relocate gives those that the
 * file needs. Same input, same bytes. digest (may be NULL): that of the file. */
int sw_plan_write(FILE *out, const struct sw_run_config *run, const struct sw_plan_inputs *inputs,
                  const struct sw_decision *decision, const struct sw_plan_prediction *prediction,
                  const uint64_t program_digest[SW_PROGRAM_KINDS], uint64_t *digest,
                  struct sw_error *err);

/* Calls visit for every setting that the plan file would hold, as sw_plan_config_visit does. */
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
    struct sw_plan_inputs inputs; /* what it was written from; count 0: not known */
    struct sw_place decision_place, program_place[SW_PROGRAM_KINDS]; /* of their keys */
};
/* Reads and verifies the digest (errors have their place; any edited byte is found).
 * launchers: as for sw_config_read.
 * The run's paths are resolved against the plan's folder: absolute when `path` is, else seen from
 * the working directory. Free with sw_plan_free. */
int sw_plan_read(const char *path, const struct sw_launchers *launchers, struct sw_plan *out,
                 struct sw_error *err);
void sw_plan_free(struct sw_plan *plan);
/* Says that a program of the plan has another digest than the one made of it here. Returns -1. */
int sw_plan_refuse_program(const struct sw_plan *plan, enum sw_program_kind kind,
                           struct sw_error *err);

#endif
