/* Start of a run: its own checkpoint, a given one, the previous stage's end, a published model, or
 * initial parameters. Rank 0 chooses and broadcasts. */
#ifndef SW_RESUME_H
#define SW_RESUME_H

#include "runner/checkpoint/loader.h"
#include "core/checkpoint/store.h"
#include "runner/rank/rank.h"

struct sw_resume_options {
    const char *from;               /* --resume: "auto", "none" or a folder; NULL: auto */
    bool overwrite;                 /* with none: true to delete existing checkpoints */
    struct sw_store_damage *damage; /* rank 0's, of the run's folder: skipped by auto */
};

enum sw_start {
    SW_START_FRESH,
    SW_START_RESUME,
    SW_START_MODEL, /* weights of a folder */
    SW_START_STAGE  /* with optimizer moments: the previous stage's */
};

struct sw_resume {
    enum sw_start start;
    char folder[4096];       /* folder to load; "" if fresh */
    char base[4096];         /* base model of adapters; "": initial weights, or none */
    uint64_t base_digest;    /* the base model's */
    int64_t step;            /* steps done */
    int64_t idle_steps;      /* those without an update */
    int64_t earlier_updates; /* in earlier stages, before step 1 */
    int64_t next_sequence;   /* first sequence not trained on */
    struct sw_spikes spikes;
};

bool sw_resume_is_auto(const struct sw_resume_options *options);

/* Collective, for --checkpoint without training: finds the folder on rank 0 (sw_store_resolve, with
 * its note) and loads its parameters into the state, for adapters also their base model's
 * (init.from). folder, base ("": none), manifest: set on every rank. Returns the agreed status, its
 * error printed once. Errors: as those, and sw_loader_load; SW_BAD_INPUT: not a folder. */
enum sw_status sw_resume_load(struct sw_rank *rank, const char *from, char folder[4096],
                              char base[4096], struct sw_manifest *manifest);

/* Collective. data_tokens: of all data. Rank 0 prints the start (unless `last` steps are done) and
 * differences from the run that saved it (batch, learning rate, data, schedule). Errors, on rank 0
 * only: SW_BAD_INPUT: the checkpoint's model or optimizer differs, at the folder; adapters of
 * another base model than init.from; --resume none with existing checkpoints; auto with only
 * damaged ones; an invalid folder. SW_ENVIRONMENT. */
int sw_resume_find(const struct sw_launch *launch, const struct sw_plan *plan,
                   const char *plan_path, const struct sw_resume_options *options,
                   int64_t data_tokens, int64_t last, struct sw_resume *out, struct sw_error *err);

/* Collective, after a load. True if it failed only because of a damaged checkpoint and auto may try
 * another: rank 0 then adds it to options->damage, and errors are cleared. */
bool sw_resume_again(const struct sw_launch *launch, const struct sw_resume *from,
                     const struct sw_loading *loading, struct sw_resume_options *options,
                     struct sw_error *err);

/* Facts of the run for a checkpoint's manifest; `step`: steps done, `next_sequence`: first not
 * trained on. Leaves files empty. */
void sw_resume_facts(const struct sw_plan *plan, int64_t attempt, int64_t step,
                     int64_t next_sequence, int64_t data_tokens, bool finished,
                     struct sw_manifest *out);

#endif
