/* Start of a run: a checkpoint of its own, one that it is told, the end of the stage
 * before, a published model, or its initial parameters. Rank 0 looks, the others are told. */
#ifndef SW_RESUME_H
#define SW_RESUME_H

#include "runner/checkpoint/loader.h"
#include "core/checkpoint/store.h"
#include "runner/rank/rank.h"

struct sw_resume_options {
    const char *from;               /* --resume: "auto", "none" or a folder; NULL: auto */
    bool overwrite;                 /* with none: what is there is deleted */
    struct sw_store_damage *damage; /* rank 0's, of the run's folder: what auto passes over */
};

enum sw_start {
    SW_START_FRESH,
    SW_START_RESUME,
    SW_START_MODEL, /* the weights of a folder */
    SW_START_STAGE  /* with the optimizer's moments: of the stage before */
};

struct sw_resume {
    enum sw_start start;
    char folder[4096];       /* that is loaded; "" when fresh */
    char base[4096];         /* the model that adapters stand on; "": initial weights, or none */
    uint64_t base_digest;    /* of that */
    int64_t step;            /* steps done */
    int64_t idle_steps;      /* of these, without an update */
    int64_t earlier_updates; /* before step 1, in the stages before */
    int64_t next_sequence;   /* first sequence that was not trained on */
    struct sw_spikes spikes;
};

bool sw_resume_is_auto(const struct sw_resume_options *options);

/* Collective, for --checkpoint of what does not train: finds the folder on rank 0
 * (sw_store_resolve; its note is said), and loads its parameters into the state, of adapters those
 * of their model (init.from), too. folder, base ("": none), manifest: as found, on every rank.
 * Returns what the ranks agreed on, the error printed once. Errors: as
 * there, and as sw_loader_load; SW_BAD_INPUT: it is no folder. */
enum sw_status sw_resume_load(struct sw_rank *rank, const char *from, char folder[4096],
                              char base[4096], struct sw_manifest *manifest);

/* Collective. data_tokens: of the data, all of it. Prints, on rank 0, what is gone on with (unless
 * `last` steps are done) and what differs from the run that saved it (batch, learning rate, data,
 * schedule). Errors, on rank 0 only: SW_BAD_INPUT: the checkpoint's model or optimizer is another,
 * at the folder; adapters that stand on another model than init.from; --resume none where there are
 * checkpoints; auto where there are such as were meant to be, and none is whole; a folder that is
 * none. SW_ENVIRONMENT. */
int sw_resume_find(const struct sw_launch *launch, const struct sw_plan *plan,
                   const char *plan_path, const struct sw_resume_options *options,
                   int64_t data_tokens, int64_t last, struct sw_resume *out, struct sw_error *err);

/* Collective, behind a load. Whether it failed on account of a damaged checkpoint alone, and auto
 * may look for another one: then rank 0 adds it to options->damage, and the errors are forgotten.
 */
bool sw_resume_again(const struct sw_launch *launch, const struct sw_resume *from,
                     const struct sw_loading *loading, struct sw_resume_options *options,
                     struct sw_error *err);

/* What a checkpoint of the run says of it; `step` steps done, `next_sequence` not yet trained on.
 * The files are left empty. */
void sw_resume_facts(const struct sw_plan *plan, int64_t attempt, int64_t step,
                     int64_t next_sequence, int64_t data_tokens, bool finished,
                     struct sw_manifest *out);

#endif
