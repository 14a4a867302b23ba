/* Scheduler: chooses the next program and the prompts it reads, from the state of each slot.
 *
 * Prompts are read in order of arrival, priority ones (`ahead`) first. But if the last call for
 * prompts read a priority one while others waited, the others go first in the next. So a priority
 * prompt waits for one such call, and the others get every second one. After a call for prompts,
 * every running sequence gets a token before the next call; in calls of `read`, and of `prefill` if
 * it mixes, in the call itself. Every rank keeps the same record. Allocates only at creation. */
#ifndef SW_GENERATE_BATCH_SCHEDULER_H
#define SW_GENERATE_BATCH_SCHEDULER_H

#include "core/ir/program.h"

struct sw_scheduled_slot {
    enum sw_program_kind waits; /* for this program; SW_PROGRAM_KINDS: the slot is free */
    bool ahead;
    int64_t arrival; /* number of earlier sequences */
};
struct sw_batch_scheduler {
    int64_t slots, shards;        /* shards: of the batch, with equally many consecutive slots */
    bool mixes;                   /* true if `prefill` also makes tokens for running sequences */
    struct sw_scheduled_slot *of; /* [slots] */
    enum sw_program_kind last;    /* latest program; SW_PROGRAM_KINDS: none */
    bool others_first;            /* true if prompts without priority are read first */
    int64_t arrivals;
};

/* False: out of memory, with nothing left behind. */
bool sw_batch_scheduler_create(int64_t slots, int64_t shards, struct sw_batch_scheduler *out);
void sw_batch_scheduler_free(struct sw_batch_scheduler *scheduler); /* may be zeroed */

/* Puts a sequence into the slot; its prompt waits for `kind`: prefill, read or score. */
void sw_batch_scheduler_begin(struct sw_batch_scheduler *scheduler, int64_t slot,
                              enum sw_program_kind kind, bool ahead);
/* Makes the rest of the slot's prompt wait for `read`. */
void sw_batch_scheduler_goes_on(struct sw_batch_scheduler *scheduler, int64_t slot);
/* Marks the slot's prompt as read: it waits for tokens. */
void sw_batch_scheduler_is_read(struct sw_batch_scheduler *scheduler, int64_t slot);
void sw_batch_scheduler_end(struct sw_batch_scheduler *scheduler,
                            int64_t slot); /* frees the slot */
bool sw_batch_scheduler_is_busy(const struct sw_batch_scheduler *scheduler, int64_t slot);
bool sw_batch_scheduler_reads(const struct sw_batch_scheduler *scheduler,
                              int64_t slot); /* true if its prompt waits */
bool sw_batch_scheduler_any_waits(const struct sw_batch_scheduler *scheduler,
                                  enum sw_program_kind kind);

/* Program to run next: a token for running sequences after every call for prompts, else the first
 * prompt's. SW_PROGRAM_KINDS: nothing waits. */
enum sw_program_kind sw_batch_scheduler_next(const struct sw_batch_scheduler *scheduler);
/* Program to run next if no client waits for tokens: all prompts first. */
enum sw_program_kind sw_batch_scheduler_next_of_many(const struct sw_batch_scheduler *scheduler);
/* First of the shard's slots that wait for the program, after slot `behind` (-1: of all); -1:
 * none. */
int64_t sw_batch_scheduler_first(const struct sw_batch_scheduler *scheduler,
                                 enum sw_program_kind kind, int64_t shard, int64_t behind);
/* Records that the program runs now, on the first slots. */
void sw_batch_scheduler_run(struct sw_batch_scheduler *scheduler, enum sw_program_kind kind);

#endif
