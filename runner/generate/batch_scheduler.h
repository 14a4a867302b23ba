/* Which program runs next, and whose prompt it reads: what each slot waits for, and in which order.
 *
 * Prompts are read in the order in which their texts came, those that go ahead before the others;
 * but where one that went ahead was read in the last call for prompts while others waited, these
 * come first in the next one. So an ahead one waits for one such call of others, and others get
 * every second one. Behind a call for prompts every text that is made gets a token before the next
 * one; in calls of `read`, and of `prefill` where that mixes, in the call itself. Every rank keeps
 * the same record of the same texts. Nothing is allocated after the beginning. */
#ifndef SW_GENERATE_BATCH_SCHEDULER_H
#define SW_GENERATE_BATCH_SCHEDULER_H

#include "core/ir/program.h"

struct sw_scheduled_slot {
    enum sw_program_kind waits; /* for this program; SW_PROGRAM_KINDS: the slot is free */
    bool ahead;
    int64_t arrival; /* texts that came before it */
};
struct sw_batch_scheduler {
    int64_t slots, shards; /* shards: of the batch, each with as many slots, one behind the other */
    bool mixes;            /* `prefill` makes tokens of those that wait for them, too */
    struct sw_scheduled_slot *of; /* [slots] */
    enum sw_program_kind last;    /* what ran last; SW_PROGRAM_KINDS: nothing */
    bool others_first;            /* those that do not go ahead are read first */
    int64_t arrivals;
};

/* false: out of memory, and nothing is left behind. */
bool sw_batch_scheduler_create(int64_t slots, int64_t shards, struct sw_batch_scheduler *out);
void sw_batch_scheduler_free(struct sw_batch_scheduler *scheduler); /* zeros are allowed */

/* A text comes into the slot; its prompt waits for `kind`: prefill, read or score. */
void sw_batch_scheduler_begin(struct sw_batch_scheduler *scheduler, int64_t slot,
                              enum sw_program_kind kind, bool ahead);
/* The rest of its prompt waits for `read`. */
void sw_batch_scheduler_goes_on(struct sw_batch_scheduler *scheduler, int64_t slot);
/* Its prompt is read: it waits for tokens. */
void sw_batch_scheduler_is_read(struct sw_batch_scheduler *scheduler, int64_t slot);
void sw_batch_scheduler_end(struct sw_batch_scheduler *scheduler,
                            int64_t slot); /* the slot is free */
bool sw_batch_scheduler_is_busy(const struct sw_batch_scheduler *scheduler, int64_t slot);
bool sw_batch_scheduler_reads(const struct sw_batch_scheduler *scheduler,
                              int64_t slot); /* its prompt waits */
bool sw_batch_scheduler_any_waits(const struct sw_batch_scheduler *scheduler,
                                  enum sw_program_kind kind);

/* The program that is to run: a token for the texts that are made behind every call for prompts,
 * else that of the prompt which is first. SW_PROGRAM_KINDS: nobody waits. */
enum sw_program_kind sw_batch_scheduler_next(const struct sw_batch_scheduler *scheduler);
/* The same where nobody waits for a token: all prompts first. */
enum sw_program_kind sw_batch_scheduler_next_of_many(const struct sw_batch_scheduler *scheduler);
/* Of the shard's slots that wait for the program the first one behind slot `behind`, -1: of all;
 * -1: there is none. */
int64_t sw_batch_scheduler_first(const struct sw_batch_scheduler *scheduler,
                                 enum sw_program_kind kind, int64_t shard, int64_t behind);
/* The program is run now, on those that are first. */
void sw_batch_scheduler_run(struct sw_batch_scheduler *scheduler, enum sw_program_kind kind);

#endif
