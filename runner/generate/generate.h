/* `runner generate`: completes prompts, on the mesh of a plan, with the weights of a checkpoint
 * or of any Hugging Face model directory. */
#ifndef SW_GENERATE_H
#define SW_GENERATE_H

#include "runner/generate/prompts.h"
#include "runner/generate/session.h"

struct sw_generate_options {
    const char *plan_path, *checkpoint;
    bool bytes;               /* --bytes: each byte of a text is a token */
    const char *prompt;       /* NULL: prompts_path */
    const char *prompts_path; /* of lines of JSON; "-": stdin */
    const char *out_path;     /* NULL: stdout */
    struct sw_sampling_params params;
    struct sw_stops stops;
    bool logprobs;
    int32_t top;     /* of the most probable tokens so many with each; 0 .. SW_TOP_TOKENS */
    bool resume;     /* out_path is gone on with: lines.h */
    int64_t part[2]; /* of the prompts: which, from 0, of how many; 0 of 1: all */
};

/* Collective. options: struct sw_generate_options. Writes the texts on rank 0, and errors to
 * stderr, once per job. Returns the exit code.
 */
int sw_generate(struct sw_rank *rank, const void *options);

struct sw_score_options {
    const char *plan_path, *checkpoint;
    bool bytes;         /* as of generating */
    char *const *files; /* [file_count] */
    int32_t file_count;
    bool json;
    const char *texts_path;        /* NULL: files; of lines of JSON, "-": stdin */
    const char *out_path;          /* with texts_path; NULL: stdout */
    bool logprobs, resume;         /* with texts_path, as of generating */
    const char *logprob_diff_path; /* with texts_path: logprob_diff.h; NULL: none */
    int64_t part[2];
};
/* Collective. options: struct sw_score_options. `runner score`: how probable texts are. */
int sw_score(struct sw_rank *rank, const void *options);
/* score_lines.c: the same of a file of texts, a line for each. */
enum sw_status sw_score_lines(struct sw_session *session, const struct sw_score_options *options);

/* A file as it is, or all of stdin ("-"), with a 0 behind it; text is the caller's to free. Errors:
 * SW_BAD_INPUT: there is none; SW_ENVIRONMENT. */
int sw_generate_read(const char *path, char **text, size_t *bytes, struct sw_error *err);

#endif
