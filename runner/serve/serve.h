/* `runner serve`: a model behind OpenAI's HTTP API, on a plan's mesh. */
#ifndef SW_SERVE_H
#define SW_SERVE_H

#include "core/base/arguments.h"
#include "runner/rank/life.h"
#include "runner/rank/rank.h"

struct sw_serve_options {
    const char *plan_path, *checkpoint;
    bool bytes;                /* --bytes: bytes are tokens */
    const char *listen;        /* "127.0.0.1:8000" */
    const char *token_file;    /* NULL: open to all */
    const char *model;         /* name that clients give; NULL: the run's */
    const char *chat_template; /* NULL: the model's own, or guessed by special tokens */
    int32_t queue, connections, drain_s, client_timeout_s;
    int32_t deadline_s; /* for a whole response; 0: none */
    struct sw_life *life;
};

extern const struct sw_argument sw_serve_rows[];
/* Returns as sw_arguments_parse. */
int sw_serve_arguments(int argc, char **argv, struct sw_serve_options *out, struct sw_error *err);

/* Collective. options: struct sw_serve_options. Serves until a signal. Errors to stderr, once per
 * job. Returns the exit code: 0: a signal, all responses complete; 130 or 143: some were cut
 * off. */
int sw_serve(struct sw_rank *rank, const void *options);

#endif
