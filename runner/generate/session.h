/* Shared by generating, scoring and serving besides their rank: a checkpoint's weights, its
 * tokenizer, the engine. Owns these. */
#ifndef SW_SESSION_H
#define SW_SESSION_H

#include "runner/generate/engine.h"
#include "runner/generate/codec.h"
#include "runner/rank/rank.h"

struct sw_session {
    struct sw_rank *rank;
    const char *checkpoint; /* the user's argument */
    bool wants_bytes;       /* --bytes */
    char folder[4096];      /* folder of the loaded checkpoint */
    char base[4096];        /* base model of its adapters; "": none */
    const char *texts;      /* the one of both with the tokenizer */
    struct sw_codec *codec;
    struct sw_engine *engine;
};

/* Collective. kinds, texts: see sw_rank_compile. The caller sets rank, checkpoint and wants_bytes.
 * Returns the agreed status, its error printed once; SW_OK. Call sw_session_close also after an
 * error. */
enum sw_status sw_session_open(struct sw_session *session, uint32_t kinds, int64_t texts);
void sw_session_close(struct sw_session *session);

/* Collective: *text [*bytes] becomes rank 0's, malloc'ed and 0-terminated; other ranks' old text is
 * freed. Errors: in the rank's. */
int sw_session_share(struct sw_session *session, char **text, size_t *bytes);

#endif
