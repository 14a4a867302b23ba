/* What the ranks do next. Rank 0 decides it, and before each program tells the others which slots
 * take which texts and which are free again; how texts go on follows from what all ranks know
 * (generate/engine.h). */
#ifndef SW_SERVE_CONTROL_H
#define SW_SERVE_CONTROL_H

#include "runner/generate/engine.h"
#include "runner/rank/launch.h"
#include "runner/text/tokenizer/tokenizer.h"

/* Since the last program; {0}: nothing. Rank 0's. */
struct sw_control {
    struct sw_chars bytes;
};
int sw_control_admit(struct sw_control *control, int64_t slot, const struct sw_sequence *sequence);
int sw_control_drop(struct sw_control *control, int64_t slot);
void sw_control_free(struct sw_control *control);

/* Rank 0 tells the others to do that and run a program, or, last, to end. Empties the list. */
void sw_control_send(const struct sw_launch *launch, struct sw_control *control, bool last);

/* In the middle of a call of chunks rank 0 tells the others what has been dropped, and whether a
 * token of every text is made now. Empties the list. */
void sw_control_agree(const struct sw_launch *launch, struct sw_control *control, bool now);

/* Another rank obeys until the end comes; it sleeps while there is nothing to do. Errors: of the
 * engine; SW_ENVIRONMENT: no memory, commands that make no sense. */
int sw_control_obey(const struct sw_launch *launch, struct sw_engine *engine, struct sw_error *err);

#endif
