/* Synchronises the ranks. Rank 0 decides and, before each program, tells the others which slots get
 * which sequences and which are free; the rest follows from shared knowledge
 * (generate/engine.h). */
#ifndef SW_SERVE_CONTROL_H
#define SW_SERVE_CONTROL_H

#include "runner/generate/engine.h"
#include "runner/rank/launch.h"
#include "runner/text/tokenizer/tokenizer.h"

/* Changes since the last program; {0}: none. On rank 0. */
struct sw_control {
    struct sw_chars bytes;
};
int sw_control_admit(struct sw_control *control, int64_t slot, const struct sw_sequence *sequence);
int sw_control_drop(struct sw_control *control, int64_t slot);
void sw_control_free(struct sw_control *control);

/* Sends the changes and lets the other ranks run a program or, if `last`, end. Empties the list. */
void sw_control_send(const struct sw_launch *launch, struct sw_control *control, bool last);

/* Obeys rank 0 on another rank until the end; sleeps while idle. Errors: the engine's;
 * SW_ENVIRONMENT: no memory, invalid commands. */
int sw_control_obey(const struct sw_launch *launch, struct sw_engine *engine, struct sw_error *err);

#endif
