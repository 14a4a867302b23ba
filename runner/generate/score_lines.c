/* `runner score --texts`: lines of texts, a line of scores for each. Scores as many windows at once
 * as slots, in line order. */
#include "core/base/file.h"
#include "core/base/json.h"
#include "runner/generate/logprob_diff.h"
#include "runner/generate/generate.h"
#include "runner/generate/lines.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct scoring {
    struct sw_session *session;
    const struct sw_score_options *options;
    struct sw_prompts texts;
    int64_t next, end; /* texts of this part not yet scored */
    int64_t done;      /* lines found when continuing */
    struct sw_lines lines;
    FILE *out; /* on rank 0 */
    struct sw_logprob_diff diff;
    bool compares;             /* rank 0, with --against, until an error */
    struct sw_sequence *batch; /* [slots]: windows; number: the text's */
    float **to;                /* [slots] */
    float *made;               /* [slots, window] */
    float *scores;             /* [tokens of the longest text] of the unfinished text */
    int64_t have;              /* scores so far */
};

static int check_line(void *context, int64_t number, const json_t *line, char text[160])
{
    struct scoring *s = context;
    const json_t *index = json_object_get(line, "index"), *tokens = json_object_get(line, "tokens");
    (void)number;
    if (s->next < s->end && json_is_integer(index) && json_integer_value(index) == s->next &&
        json_is_integer(tokens) &&
        json_integer_value(tokens) == s->texts.at[s->next].token_count - 1) {
        s->next++;
        return 0;
    }
    snprintf(text, 160, "it is not of text %" PRId64 ": it was made from other texts", s->next);
    return -1;
}

static enum sw_status read_texts(struct scoring *s)
{
    struct sw_session *session = s->session;
    const struct sw_prompt_limits limits = {.vocab =
                                                session->rank->plan->run->model.shape.vocab_size,
                                            .max_tokens = sw_engine_max_tokens(session->engine),
                                            .scored = true};
    const struct sw_sampling_params params = sw_sampling_params_default();
    const struct sw_stops stops = {0};
    const char *path = s->options->texts_path;
    char *text = NULL;
    size_t bytes = 0;
    if (session->rank->launch->rank == 0)
        (void)sw_generate_read(path, &text, &bytes, &session->rank->err);
    enum sw_status status = sw_rank_agree(session->rank);
    if (status == SW_OK && sw_session_share(session, &text, &bytes) == 0) {
        (void)sw_prompts_read(path, text, bytes, session->codec, &limits, &params, &stops,
                              session->rank->launch->rank == 0 ? stderr : NULL, &s->texts,
                              &session->rank->err);
        status = sw_rank_agree(session->rank);
    } else if (status == SW_OK) {
        status = SW_ENVIRONMENT;
    }
    free(text);
    return status;
}

static void write_line(const struct scoring *s, int64_t index)
{
    struct sw_json j = {.out = s->out, .style = SW_JSON_LINE};
    double sum = 0;
    for (int64_t i = 0; i < s->have; i++)
        sum += (double)s->scores[i];
    sw_json_object(&j, NULL);
    sw_json_integer(&j, "index", index);
    sw_json_integer(&j, "tokens", s->have);
    sw_json_digits(&j, "logprob", sum, 9);
    sw_json_digits(&j, "logprob_per_token", sum / (double)s->have, 9);
    sw_json_digits(&j, "perplexity", exp(-sum / (double)s->have), 9);
    if (s->options->logprobs) {
        sw_json_array(&j, "logprobs");
        for (int64_t i = 0; i < s->have; i++)
            sw_json_digits(&j, NULL, (double)s->scores[i], 9);
        sw_json_end(&j);
    }
    sw_json_end(&j);
    fputc('\n', s->out);
}

/* Fills the batch with windows from token *at of *text. Returns their number. */
static int64_t fill_batch(struct scoring *s, int64_t *text, int64_t *at)
{
    const int64_t window = sw_engine_max_tokens(s->session->engine);
    const int64_t slots = sw_engine_slots(s->session->engine);
    int64_t n = 0;
    for (; n < slots && *text < s->end; n++) {
        const struct sw_prompt *p = &s->texts.at[*text];
        const int64_t left = p->token_count - 1 - *at, these = left < window ? left : window;
        s->batch[n] = (struct sw_sequence){
            .number = *text, .tokens = p->tokens + *at, .token_count = these + 1};
        s->to[n] = s->made + n * window;
        *at += these;
        if (*at + 1 == p->token_count) {
            ++*text;
            *at = 0;
        }
    }
    return n;
}

static void take_batch(struct scoring *s, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t n = s->batch[i].token_count - 1;
        memcpy(s->scores + s->have, s->to[i], (size_t)n * sizeof *s->scores);
        s->have += n;
        if (s->have + 1 < s->texts.at[s->next].token_count)
            continue;
        if (s->out != NULL)
            write_line(s, s->next);
        if (s->compares)
            s->compares = sw_logprob_diff_take(&s->diff, s->next, s->scores, s->have,
                                               &s->session->rank->err) == 0;
        if (s->lines.out != NULL)
            sw_lines_flush(&s->lines);
        s->next++;
        s->have = 0;
    }
}

static enum sw_status score_all(struct scoring *s)
{
    struct sw_session *session = s->session;
    const size_t window = (size_t)sw_engine_max_tokens(session->engine);
    const size_t slots = (size_t)sw_engine_slots(session->engine);
    int64_t longest = 1, text = s->next, at = 0, n;
    for (int64_t i = s->next; i < s->end; i++)
        longest = s->texts.at[i].token_count > longest ? s->texts.at[i].token_count : longest;
    s->batch = calloc(slots, sizeof *s->batch);
    s->to = calloc(slots, sizeof *s->to);
    s->made = malloc(slots * window * sizeof *s->made);
    s->scores = malloc((size_t)longest * sizeof *s->scores);
    if (s->batch == NULL || s->to == NULL || s->made == NULL || s->scores == NULL)
        sw_fail(&session->rank->err, SW_ENVIRONMENT, "out of memory for the scores of a text");
    const enum sw_status status = sw_rank_agree(session->rank);
    if (status != SW_OK)
        return status;
    while ((n = fill_batch(s, &text, &at)) > 0) {
        if (sw_engine_score(session->engine, s->batch, n, s->to, &session->rank->err) != 0)
            sw_launch_abort(session->rank->launch, &session->rank->err,
                            (int)session->rank->err.status);
        take_batch(s, n);
    }
    return sw_rank_agree(session->rank);
}

/* Opens the output and skips existing lines. file: for a fresh start. */
static enum sw_status open_output(struct scoring *s, struct sw_new_file *file)
{
    struct sw_session *session = s->session;
    const char *path = s->options->out_path;
    const bool first = session->rank->launch->rank == 0;
    const int64_t begin = s->next;
    if (first && s->options->resume)
        (void)sw_lines_open(&s->lines, path, check_line, s, &session->rank->err);
    else if (first && path != NULL)
        (void)sw_lines_begin(file, path, s->options->texts_path, s->options->logprob_diff_path,
                             &session->rank->err);
    s->compares =
        first && s->options->logprob_diff_path != NULL && session->rank->err.status == SW_OK &&
        sw_logprob_diff_open(&s->diff, s->options->logprob_diff_path, &session->rank->err) == 0;
    const enum sw_status status = sw_rank_agree(session->rank);
    if (status != SW_OK) {
        sw_file_abandon(file);
        return status;
    }
    s->done = s->lines.done;
    sw_launch_broadcast(session->rank->launch, &s->done, sizeof s->done);
    s->next = begin + s->done;
    s->out = !first ? NULL : s->options->resume ? s->lines.out : path != NULL ? file->out : stdout;
    return SW_OK;
}

static void say_counts(const struct scoring *s)
{
    const struct sw_engine_counts *c = sw_engine_counts(s->session->engine);
    const int64_t begin =
        sw_lines_part(s->texts.count, s->options->part[0], s->options->part[1]) + s->done;
    if (s->done > 0)
        fprintf(stderr, "%" PRId64 " text%s there already; ", s->done,
                s->done == 1 ? " was" : "s were");
    fprintf(stderr, "%" PRId64 " text%s: %" PRId64 " tokens, %.0f tokens/s\n", s->next - begin,
            s->next - begin == 1 ? "" : "s", c->prompt_tokens,
            c->prefill_seconds > 0 ? (double)c->prompt_tokens / c->prefill_seconds : 0);
}

enum sw_status sw_score_lines(struct sw_session *session, const struct sw_score_options *options)
{
    struct scoring s = {.session = session, .options = options};
    struct sw_new_file file = {0};
    const char *path = options->out_path;
    const bool first = session->rank->launch->rank == 0;
    enum sw_status status = read_texts(&s);
    if (status == SW_OK) {
        s.next = sw_lines_part(s.texts.count, options->part[0], options->part[1]);
        s.end = sw_lines_part(s.texts.count, options->part[0] + 1, options->part[1]);
        status = open_output(&s, &file);
    }
    if (status != SW_OK)
        goto out;
    status = score_all(&s);
    if (first && status == SW_OK && s.lines.out != NULL)
        (void)sw_lines_close(&s.lines, path, &session->rank->err);
    else if (first && status == SW_OK && path != NULL)
        (void)sw_file_commit(&file, &session->rank->err);
    else if (first && file.out != NULL)
        sw_file_abandon(&file);
    if (status == SW_OK)
        status = sw_rank_agree(session->rank);
    if (first && status == SW_OK)
        say_counts(&s);
    if (status == SW_OK && s.compares)
        sw_logprob_diff_say(stderr, &s.diff);
out:
    sw_logprob_diff_close(&s.diff);
    sw_lines_abandon(&s.lines);
    free(s.batch);
    free(s.to);
    free(s.made);
    free(s.scores);
    sw_prompts_free(&s.texts);
    return status;
}
