/* What generating, scoring and serving have besides their rank: the weights of a checkpoint, its
 * tokenizer, the engine. Owns these. */
#ifndef SW_SESSION_H
#define SW_SESSION_H

#include "runner/generate/engine.h"
#include "runner/generate/codec.h"
#include "runner/rank/rank.h"

struct sw_session {
    struct sw_rank *rank;
    const char *checkpoint; /* as given */
    bool wants_bytes;       /* --bytes */
    char folder[4096];      /* of the checkpoint that was loaded */
    char base[4096];        /* of the model that its adapters stand on; "": none */
    const char *texts;      /* the one of the two that the tokenizer is of */
    struct sw_codec *codec;
    struct sw_engine *engine;
};

/* Collective. kinds, texts: as sw_rank_compile. rank, checkpoint and wants_bytes are set by the
 * caller. Returns what the ranks agreed on, an error printed once; SW_OK. sw_session_close also
 * after an error. */
enum sw_status sw_session_open(struct sw_session *session, uint32_t kinds, int64_t texts);
void sw_session_close(struct sw_session *session);

/* Collective: *text [*bytes] becomes rank 0's, malloc'ed, with a 0 behind it; ranks that have
 * another one lose it. Errors are in the rank's. */
int sw_session_share(struct sw_session *session, char **text, size_t *bytes);

#endif
