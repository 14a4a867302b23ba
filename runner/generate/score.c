/* `runner score`: log-probabilities of every token of texts, and derived numbers. A text longer
 * than the cache is scored in windows; each begins with the last token of the previous one. */
#include "core/base/file.h"
#include "core/base/json.h"
#include "runner/generate/generate.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct scored {
    int64_t tokens; /* tokens with a log-probability */
    double sum;     /* over these */
    size_t bytes;   /* the file's */
};

/* Scores windows of one file, as many at once as slots. */
static int score_tokens(struct sw_session *s, const int32_t *tokens, int64_t count,
                        struct scored *out)
{
    const int64_t window = sw_engine_max_tokens(s->engine), slots = sw_engine_slots(s->engine);
    struct sw_sequence *sequence = calloc((size_t)slots, sizeof *sequence);
    float **to = calloc((size_t)slots, sizeof *to);
    float *logprobs = malloc((size_t)(slots * window) * sizeof *logprobs);
    int status = -1;
    if (sequence == NULL || to == NULL || logprobs == NULL) {
        sw_fail(&s->rank->err, SW_ENVIRONMENT, "out of memory for the scores of a text");
        goto out;
    }
    for (int64_t at = 0; at + 1 < count;) {
        int64_t n = 0;
        for (; n < slots && at + 1 < count; n++) {
            const int64_t left = count - 1 - at, these = left < window ? left : window;
            sequence[n] = (struct sw_sequence){.tokens = tokens + at, .token_count = these + 1};
            to[n] = logprobs + n * window;
            at += these;
        }
        if (sw_engine_score(s->engine, sequence, n, to, &s->rank->err) != 0)
            sw_launch_abort(s->rank->launch, &s->rank->err, (int)s->rank->err.status);
        for (int64_t i = 0; i < n; i++)
            for (int64_t t = 0; t + 1 < sequence[i].token_count; t++) {
                out->sum += (double)to[i][t];
                out->tokens++;
            }
    }
    status = 0;
out:
    free(sequence);
    free(to);
    free(logprobs);
    return status;
}

static void show(const struct sw_score_options *o, const char *path, const struct sw_session *s,
                 const struct scored *scored)
{
    const double mean = scored->sum / (double)scored->tokens;
    const double bits = -scored->sum / log(2) / (double)scored->bytes;
    if (!o->json) {
        printf("%s: %" PRId64 " tokens, log-probability %.6f a token, perplexity %.6g, %.4f "
               "bits/byte\n",
               path, scored->tokens, mean, exp(-mean), bits);
        return;
    }
    struct sw_json j = {.out = stdout, .style = SW_JSON_LINE};
    sw_json_object(&j, NULL);
    sw_json_text(&j, "schema", "shardwright.score/1");
    sw_json_text(&j, "file", path);
    sw_json_text(&j, "checkpoint", s->folder);
    sw_json_integer(&j, "tokens", scored->tokens);
    sw_json_digits(&j, "logprob", scored->sum, 9);
    sw_json_digits(&j, "logprob_per_token", mean, 9);
    sw_json_digits(&j, "perplexity", exp(-mean), 9);
    sw_json_digits(&j, "bits_per_byte", bits, 9);
    sw_json_end(&j);
    putchar('\n');
}

static enum sw_status score_file(struct sw_session *s, const struct sw_score_options *o,
                                 const char *path)
{
    struct scored scored = {0};
    char *text = NULL;
    int32_t *tokens = NULL;
    int64_t count = 0;
    enum sw_status status;
    if (s->rank->launch->rank == 0 &&
        sw_file_read(path, false, (size_t)1 << 40, &text, &scored.bytes, NULL) != 0)
        sw_fail_at(&s->rank->err, sw_path_status(errno, false), (struct sw_place){.file = path},
                   "cannot read it: %s; name a file that can be read", strerror(errno));
    status = sw_rank_agree(s->rank);
    if (status == SW_OK && sw_session_share(s, &text, &scored.bytes) != 0)
        status = SW_ENVIRONMENT;
    if (status != SW_OK)
        goto out;
    if (sw_codec_encode(s->codec, text, scored.bytes, true, &tokens, &count, &s->rank->err) == 0 &&
        count < 2)
        sw_fail_at(&s->rank->err, SW_BAD_INPUT, (struct sw_place){.file = path},
                   "it has %" PRId64 " token%s; what follows the first is scored", count,
                   count == 1 ? "" : "s");
    for (int64_t i = 0; i < count && s->rank->err.status == SW_OK; i++)
        if (tokens[i] < 0 || tokens[i] >= s->rank->plan->run->model.shape.vocab_size)
            sw_fail_at(&s->rank->err, SW_BAD_INPUT, (struct sw_place){.file = path},
                       "token %" PRId32 " is none of the model's %" PRId64, tokens[i],
                       s->rank->plan->run->model.shape.vocab_size);
    status = sw_rank_agree(s->rank);
    if (status != SW_OK)
        goto out;
    (void)score_tokens(s, tokens, count, &scored);
    status = sw_rank_agree(s->rank);
    if (status == SW_OK && s->rank->launch->rank == 0)
        show(o, path, s, &scored);
out:
    free(text);
    free(tokens);
    return status;
}

int sw_score(struct sw_rank *rank, const void *given)
{
    const struct sw_score_options *options = given;
    struct sw_session session = {
        .rank = rank, .checkpoint = options->checkpoint, .wants_bytes = options->bytes};
    enum sw_status status = sw_session_open(&session, 1u << SW_PROGRAM_SCORE, 0);
    if (status == SW_OK && options->texts_path != NULL)
        status = sw_score_lines(&session, options);
    for (int32_t i = 0; i < options->file_count && status == SW_OK; i++)
        status = score_file(&session, options, options->files[i]);
    if (status == SW_OK && rank->launch->rank == 0 && (ferror(stdout) || fflush(stdout) != 0)) {
        fprintf(stderr, "runner: error: cannot write the output: %s\n", strerror(errno));
        status = SW_ENVIRONMENT;
    }
    const enum sw_status worst = (enum sw_status)sw_launch_max(rank->launch, (int64_t)status);
    sw_session_close(&session);
    return (int)worst;
}
