/* `runner generate`: completes prompts on a plan's mesh, with the weights of a checkpoint or any
 * Hugging Face model directory. */
#ifndef SW_GENERATE_H
#define SW_GENERATE_H

#include "runner/generate/prompts.h"
#include "runner/generate/session.h"

struct sw_generate_options {
    const char *plan_path, *checkpoint;
    bool bytes;               /* --bytes: bytes are tokens */
    const char *prompt;       /* NULL: prompts_path */
    const char *prompts_path; /* file of JSON lines; "-": stdin */
    const char *out_path;     /* NULL: stdout */
    struct sw_sampling_params params;
    struct sw_stops stops;
    bool logprobs;
    int32_t top;     /* number of most probable tokens to report; 0 .. SW_TOP_TOKENS */
    bool resume;     /* true to continue out_path (lines.h) */
    int64_t part[2]; /* part of the prompts: index from 0, number; 0 of 1: all */
};

/* Collective. options: struct sw_generate_options. Rank 0 writes the texts; errors go to stderr,
 * once per job. Returns the exit code. */
int sw_generate(struct sw_rank *rank, const void *options);

struct sw_score_options {
    const char *plan_path, *checkpoint;
    bool bytes;         /* see sw_generate_options */
    char *const *files; /* [file_count] */
    int32_t file_count;
    bool json;
    const char *texts_path;        /* file of JSON lines, "-": stdin; NULL: `files` */
    const char *out_path;          /* with texts_path; NULL: stdout */
    bool logprobs, resume;         /* with texts_path; see sw_generate_options */
    const char *logprob_diff_path; /* with texts_path: logprob_diff.h; NULL: none */
    int64_t part[2];
};
/* Collective. options: struct sw_score_options. `runner score`: log-probabilities of texts. */
int sw_score(struct sw_rank *rank, const void *options);
/* In score_lines.c: scores a file of texts, a line for each. */
enum sw_status sw_score_lines(struct sw_session *session, const struct sw_score_options *options);

/* Reads a file, or all of stdin ("-"), 0-terminated; the caller frees text. Errors: SW_BAD_INPUT:
 * no such file; SW_ENVIRONMENT. */
int sw_generate_read(const char *path, char **text, size_t *bytes, struct sw_error *err);

#endif
