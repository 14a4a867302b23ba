#include "runner/generate/logprob_diff.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct sw_place place_of(const struct sw_logprob_diff *a)
{
    return (struct sw_place){.file = a->path,
                             .line = a->number > INT32_MAX ? INT32_MAX : (int32_t)a->number,
                             .column = a->number > 0};
}

int sw_logprob_diff_open(struct sw_logprob_diff *a, const char *path, struct sw_error *err)
{
    *a = (struct sw_logprob_diff){.path = path, .file = fopen(path, "re")};
    if (a->file == NULL)
        return sw_fail_at(err, errno == ENOENT ? SW_BAD_INPUT : SW_ENVIRONMENT, place_of(a),
                          "cannot read it: %s; name a file that score --logprobs wrote",
                          strerror(errno));
    return 0;
}

void sw_logprob_diff_close(struct sw_logprob_diff *a)
{
    if (a->file != NULL)
        fclose(a->file);
    free(a->line);
    *a = (struct sw_logprob_diff){0};
}

/* The text's line; NULL: absent. Skips earlier texts, of other parts. */
static json_t *find(struct sw_logprob_diff *a, int64_t index)
{
    ssize_t length;
    while ((length = getline(&a->line, &a->room, a->file)) > 0) {
        json_t *root = json_loadb(a->line, (size_t)length, JSON_ALLOW_NUL, NULL);
        const json_t *number = json_object_get(root, "index");
        a->number++;
        if (json_is_integer(number) && json_integer_value(number) < index) {
            json_decref(root);
            continue;
        }
        return root;
    }
    a->number++;
    return NULL;
}

static void meet(struct sw_logprob_diff *a, int64_t index, int64_t token, double ours,
                 double theirs)
{
    const double apart = fabs(ours - theirs);
    a->tokens++;
    a->sum += ours;
    a->other_sum += theirs;
    a->apart += apart;
    /* the first; then larger ones; the first NaN stays */
    if (a->tokens == 1 || (!isnan(a->most) && !(apart <= a->most))) {
        a->most = apart;
        a->most_text = index;
        a->most_token = token;
    }
}

int sw_logprob_diff_take(struct sw_logprob_diff *a, int64_t index, const float *logprobs,
                         int64_t count, struct sw_error *err)
{
    json_t *root = find(a, index);
    const json_t *number = json_object_get(root, "index"),
                 *theirs = json_object_get(root, "logprobs");
    int status = 0;
    if (ferror(a->file))
        status =
            sw_fail_at(err, SW_ENVIRONMENT, place_of(a), "cannot read it: %s", strerror(errno));
    else if (!json_is_integer(number) || json_integer_value(number) != index)
        status =
            sw_fail_at(err, SW_BAD_INPUT, place_of(a),
                       "text %" PRId64 " is missing; score the same texts with --logprobs", index);
    else if (!json_is_array(theirs) || (int64_t)json_array_size(theirs) != count)
        status = sw_fail_at(err, SW_BAD_INPUT, place_of(a),
                            "text %" PRId64 " has %" PRId64 " log-probabilities, not %" PRId64
                            "; score the same texts with --logprobs",
                            index, (int64_t)json_array_size(theirs), count);
    for (int64_t i = 0; i < count && status == 0; i++) { /* nine digits represent a float */
        const json_t *value = json_array_get(theirs, (size_t)i);
        meet(a, index, i + 1, (double)logprobs[i],
             json_is_number(value) ? (double)(float)json_number_value(value) : NAN);
    }
    json_decref(root);
    return status;
}

void sw_logprob_diff_say(FILE *out, const struct sw_logprob_diff *a)
{
    const double count = (double)a->tokens;
    if (a->tokens == 0)
        return;
    fprintf(out,
            "against %s: %" PRId64 " log-probabilities are %.3g apart on average, %.3g at most "
            "(text %" PRId64 ", token %" PRId64 "); perplexity %.6g, there %.6g\n",
            a->path, a->tokens, a->apart / count, a->most, a->most_text, a->most_token,
            exp(-a->sum / count), exp(-a->other_sum / count));
}
