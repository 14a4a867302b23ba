/* What generating and scoring set up on a rank: programs of serving, device, communicator,
 * executor, the weights of a checkpoint, its tokenizer, the engine. Owns all that it opens. */
#ifndef SW_SESSION_H
#define SW_SESSION_H

#include "core/plan/plan.h"
#include "runner/generate/engine.h"
#include "runner/generate/letters.h"
#include "runner/rank/launch.h"

struct sw_session {
    const struct sw_launch *launch;
    const struct sw_plan *plan;
    const char *plan_path, *checkpoint; /* as given */
    bool wants_bytes;                   /* --bytes */
    char folder[4096];                  /* of the checkpoint that was loaded */
    struct sw_program_set *programs;
    struct sw_device *device;
    struct sw_comm *comm;
    struct sw_executor *executor;
    struct sw_letters *letters;
    struct sw_engine *engine;
    struct sw_error err; /* what this rank found wrong */
};

/* Collective. kinds: bits of the programs wanted (sw_program_set_compile_serving); texts: how many
 * there will be at a time at most, for a run that does not say it. launch, plan, plan_path,
 * checkpoint and wants_bytes are set by the caller. Returns what the ranks agreed on, an error
 * printed once; SW_OK. sw_session_close also after an error. */
enum sw_status sw_session_open(struct sw_session *session, uint32_t kinds, int64_t texts);
void sw_session_close(struct sw_session *session);

/* Collective: prints the error of the lowest rank whose session->err holds one. */
enum sw_status sw_session_agree(const struct sw_session *session);

/* Collective: *text [*bytes] becomes rank 0's, malloc'ed, with a 0 behind it; ranks that have
 * another one lose it. Errors are in session->err. */
int sw_session_share(struct sw_session *session, char **text, size_t *bytes);

#endif
