/* Tokens of a conversation that count in training: the assistant's.
 *
 * A template with generation blocks marks them itself. For others, a turn begins where the
 * preceding conversation, rendered with the beginning of an answer, ends; it ends where the
 * conversation up to it ends. Both renderings must be beginnings of the whole. A token counts if it
 * overlaps a counted text, as in `transformers` (return_assistant_tokens_mask). */
#include "runner/text/chat_internal.h"
#include "runner/text/tokenizer/internal.h"
#include "runner/text/tokenizer/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A rendered conversation, or a beginning of one. */
struct written {
    struct sw_chars text;
    struct sw_text_spans foreign, generated;
    struct sw_ids ids;
    struct sw_text_spans offsets; /* positions of ids in the text */
};

struct counting {
    const struct sw_chat_template *chat;
    const struct sw_tokenizer *t;
    struct sw_text_scratch *scratch;
    struct sw_chat_talk talk;
    int64_t now;
    struct written whole;
    struct sw_error *err;
};

static void free_written(struct written *w)
{
    sw_chars_free(&w->text);
    sw_text_spans_free(&w->foreign);
    sw_text_spans_free(&w->generated);
    sw_ids_free(&w->ids);
    sw_text_spans_free(&w->offsets);
}

static int fail_memory(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for a conversation");
}

static int encode(const struct counting *c, struct written *w)
{
    const struct sw_encode_options options = {
        .literal = w->foreign.span, .literal_count = w->foreign.count, .offsets = &w->offsets};
    return sw_tokenizer_encode(c->t, c->scratch, w->text.count > 0 ? w->text.byte : "",
                               w->text.count, &options, &w->ids, c->err);
}

/* Renders the first messages and one more (may be NULL); answer: true to add the beginning of an
 * answer. */
static int write_first(const struct counting *c, size_t messages, json_t *more, bool answer,
                       struct written *out, struct sw_error *err)
{
    json_t *first = json_array();
    struct sw_chat_talk talk = c->talk;
    int status = first == NULL ? fail_memory(err) : 0;
    for (size_t i = 0; status == 0 && i < messages; i++)
        if (json_array_append(first, json_array_get(c->talk.messages, i)) != 0)
            status = fail_memory(err);
    if (status == 0 && more != NULL && json_array_append(first, more) != 0)
        status = fail_memory(err);
    talk.messages = first;
    talk.answer = answer;
    if (status == 0)
        status = sw_chat_write(c->chat, &talk, c->now, &out->text, &out->foreign, NULL, err);
    json_decref(first);
    return status;
}

/* Length of the common beginning of both. */
static size_t common_bytes(const struct written *a, const struct written *b)
{
    const size_t most = a->text.count < b->text.count ? a->text.count : b->text.count;
    size_t i = 0;
    while (i < most && a->text.byte[i] == b->text.byte[i])
        i++;
    return i;
}

static bool begins(const struct written *part, const struct written *whole)
{
    return common_bytes(part, whole) == part->text.count;
}

static int refuse(const struct counting *c, size_t message, const char *why)
{
    return sw_fail(c->err, SW_BAD_INPUT,
                   "message %zu: the tokens that count cannot be told, %s; put {%% generation %%} "
                   "and {%% endgeneration %%} round what the assistant says into the chat template",
                   message + 1, why);
}

static int refuse_as(const struct counting *c, size_t message, const char *what,
                     const struct sw_error *why)
{
    char text[400];
    if (why->status != SW_BAD_INPUT)
        return sw_fail_as(c->err, why);
    snprintf(text, sizeof text, "%s: %.300s", what, why->message);
    return refuse(c, message, text);
}

/* ---- where a turn ends ---- */

/* End of the last foreign text that begins before `at`; 0: none. */
static size_t foreign_before(const struct written *w, size_t at)
{
    size_t end = 0;
    for (size_t i = 0; i < w->foreign.count && w->foreign.span[i].begin < at; i++)
        end = w->foreign.span[i].end;
    return end < at ? end : at;
}

static bool is_blank(const struct written *w, size_t begin, size_t end)
{
    for (size_t step; begin < end; begin += step)
        if (!sw_utf8_is_space(sw_utf8_get(w->text.byte + begin, &step)))
            return false;
    return true;
}

/* Span of a special token without the white space it absorbs (lstrip, rstrip). */
static struct sw_text_span without_blanks(const struct written *w, struct sw_text_span at)
{
    size_t bytes;
    while (at.begin < at.end && sw_utf8_is_space(sw_utf8_get(w->text.byte + at.begin, &bytes)))
        at.begin += bytes;
    for (size_t i = at.begin, end = at.begin; i < at.end; i += bytes) {
        if (!sw_utf8_is_space(sw_utf8_get(w->text.byte + i, &bytes)))
            end = i + bytes;
        if (i + bytes >= at.end) {
            at.end = end;
            break;
        }
    }
    return at;
}

/* End of the last special token in [begin, end) if only white space of the template follows; 0:
 * none. */
static size_t find_end_token(const struct counting *c, size_t begin, size_t end, int32_t *id)
{
    const struct written *w = &c->whole;
    const size_t words = foreign_before(w, end);
    for (size_t i = w->ids.count; i > 0 && w->offsets.span[i - 1].end > begin; i--) {
        *id = w->ids.id[i - 1];
        if (w->offsets.span[i - 1].begin >= end || !sw_tokenizer_is_special(c->t, *id))
            continue;
        const struct sw_text_span at = without_blanks(w, w->offsets.span[i - 1]);
        if (at.begin >= begin && at.end <= end && at.begin < at.end)
            return at.begin >= words && is_blank(w, at.end, end) ? at.end : 0;
    }
    return 0;
}

/* True if generation stops within [begin, end) of the whole, after all foreign text there. */
static bool has_stop(const struct counting *c, size_t begin, size_t end)
{
    const struct written *w = &c->whole;
    const size_t words = foreign_before(w, end);
    const int32_t stop = sw_chat_end(c->chat, c->t, c->scratch);
    for (size_t i = w->ids.count; i > 0 && w->offsets.span[i - 1].end > begin; i--) {
        const struct sw_text_span at = without_blanks(w, w->offsets.span[i - 1]);
        if (w->ids.id[i - 1] == stop && at.begin >= begin && at.begin >= words && at.end <= end)
            return true;
    }
    return false;
}

/* End of the turn at the end of `upto`, if the conversation continues differently after `common`
 * bytes: some templates add text to a whole conversation (Phi-3) that is not part of the turn,
 * which ended before with the stop token. 0: it did not; *stops: true if generation stops within
 * the common part. */
static size_t end_within(const struct counting *c, const struct written *upto, size_t common,
                         size_t begin, bool *stops)
{
    size_t same = 0, end = 0;
    int32_t id = -1;
    for (size_t i = 0; i < upto->ids.count && upto->offsets.span[i].end <= common; i++)
        same = upto->offsets.span[i].end;
    *stops = foreign_before(upto, upto->text.count) <= same && has_stop(c, begin, same);
    if (*stops)
        end = find_end_token(c, begin, same, &id);
    return end > 0 && id == sw_chat_end(c->chat, c->t, c->scratch) ? end : 0;
}

static int refuse_end(const struct counting *c, size_t message)
{
    return refuse(c, message, "the chat template writes it otherwise when messages follow");
}

/* Finds the end of the last message's turn: adding a user's message shows text outside the turn. */
static int end_of_last(const struct counting *c, size_t begin, size_t *end)
{
    const size_t count = json_array_size(c->talk.messages);
    json_t *more = json_pack("{s:s,s:s}", "role", "user", "content", "a");
    struct written on = {0};
    struct sw_error why = {0};
    int status = more == NULL ? fail_memory(c->err) : 0;
    *end = c->whole.text.count;
    if (status == 0 && write_first(c, count, more, false, &on, &why) == 0 &&
        !begins(&c->whole, &on)) {
        bool stops;
        const size_t within = end_within(c, &c->whole, common_bytes(&c->whole, &on), begin, &stops);
        *end = within > 0 ? within : *end;
        status = within == 0 && stops ? refuse_end(c, count - 1) : 0;
    }
    if (status == 0 && why.status != 0 && why.status != SW_BAD_INPUT)
        status = sw_fail_as(c->err, &why);
    json_decref(more);
    free_written(&on);
    return status;
}

static int end_of_other(const struct counting *c, size_t message, size_t begin, size_t *end)
{
    struct written upto = {0};
    struct sw_error why = {0};
    int status = 0;
    if (write_first(c, message + 1, NULL, false, &upto, &why) != 0) {
        status = refuse_as(c, message, "no conversation ends with it", &why);
    } else if (begins(&upto, &c->whole)) {
        *end = upto.text.count;
    } else if ((status = encode(c, &upto)) == 0) {
        bool stops;
        *end = end_within(c, &upto, common_bytes(&upto, &c->whole), begin, &stops);
        status = *end == 0 ? refuse_end(c, message) : 0;
    }
    free_written(&upto);
    return status;
}

static int find_end(const struct counting *c, size_t message, size_t begin, size_t *end)
{
    const int status = message + 1 == json_array_size(c->talk.messages)
                           ? end_of_last(c, begin, end)
                           : end_of_other(c, message, begin, end);
    int32_t id;
    const size_t token = status == 0 ? find_end_token(c, begin, *end, &id) : 0;
    *end = token > 0 ? token : *end;
    return status;
}

/* ---- where a turn begins ---- */

/* Position of the first foreign text from `at`; without one, the text's end. */
static size_t foreign_from(const struct written *w, size_t at)
{
    for (size_t i = 0; i < w->foreign.count; i++)
        if (w->foreign.span[i].end > at)
            return w->foreign.span[i].begin > at ? w->foreign.span[i].begin : at;
    return w->text.count;
}

static size_t end_of_token(const struct counting *c, const struct written *w, size_t i)
{
    const struct sw_text_span at = w->offsets.span[i];
    return sw_tokenizer_is_special(c->t, w->ids.id[i]) ? without_blanks(w, at).end : at.end;
}

/* Finds a turn's begin if the template begins an answer with more than it keeps (a <think> dropped
 * later): after the common tokens, if an assistant's text or an added token follows. */
static int begin_within(const struct counting *c, size_t message, struct written *asked,
                        size_t *begin)
{
    const struct written *w = &c->whole;
    struct written before = {0};
    struct sw_error why = {0};
    size_t same = 0;
    if (encode(c, asked) != 0)
        return -1;
    while (same < asked->ids.count && same < w->ids.count &&
           asked->ids.id[same] == w->ids.id[same] &&
           end_of_token(c, asked, same) == end_of_token(c, w, same))
        same++;
    *begin = same > 0 ? end_of_token(c, w, same - 1) : 0;
    const int status = write_first(c, message, NULL, false, &before, &why);
    const bool known = status == 0 && begins(&before, w) && *begin > before.text.count &&
                       (same == w->ids.count || c->t->token[w->ids.id[same]].added > 0 ||
                        foreign_from(w, before.text.count) <= *begin);
    free_written(&before);
    if (status != 0 && why.status != SW_BAD_INPUT)
        return sw_fail_as(c->err, &why);
    return known ? 0
                 : refuse(c, message,
                          "the chat template begins an answer otherwise than this message");
}

/* Finds a turn's begin; the message's own words count even if they also begin an answer. */
static int find_begin(const struct counting *c, size_t message, size_t *begin)
{
    struct written asked = {0};
    struct sw_error why = {0};
    int status = 0;
    if (write_first(c, message, NULL, true, &asked, &why) != 0)
        status = refuse_as(c, message, "no answer can be asked for before it", &why);
    else if (begins(&asked, &c->whole))
        *begin = asked.text.count;
    else
        status = begin_within(c, message, &asked, begin);
    const size_t words = foreign_from(&c->whole, foreign_before(&asked, asked.text.count));
    *begin = words < *begin ? words : *begin;
    free_written(&asked);
    return status;
}

/* Finds the assistant's texts from beginnings of the conversation, into c->whole.generated. */
static int find_turns(struct counting *c)
{
    const size_t count = json_array_size(c->talk.messages);
    for (size_t i = 0; i < count; i++) {
        const json_t *message = json_array_get(c->talk.messages, i);
        const char *role = json_string_value(json_object_get(message, "role"));
        size_t begin = 0, end = 0;
        if (role == NULL || strcmp(role, "assistant") != 0)
            continue;
        if (find_begin(c, i, &begin) != 0 || find_end(c, i, begin, &end) != 0)
            return -1;
        if (end > begin && sw_text_spans_add(&c->whole.generated, begin, end) != 0)
            return fail_memory(c->err);
    }
    return 0;
}

/* ---- all of it ---- */

static void count_overlaps(const struct written *w, uint8_t *counts)
{
    const struct sw_text_spans *spans = &w->generated;
    for (size_t i = 0, next = 0; i < w->ids.count; i++) {
        const struct sw_text_span at = w->offsets.span[i];
        while (next < spans->count && at.begin >= spans->span[next].end)
            next++;
        counts[i] = next < spans->count && at.end > spans->span[next].begin;
    }
}

static int hand_over(const struct counting *c, struct sw_ids *ids, uint8_t **counts)
{
    const struct written *w = &c->whole;
    if (sw_ids_reserve(ids, w->ids.count) != 0 || (*counts = malloc(w->ids.count + 1)) == NULL)
        return fail_memory(c->err);
    if (w->ids.count > 0)
        memcpy(ids->id + ids->count, w->ids.id, w->ids.count * sizeof *w->ids.id);
    ids->count += w->ids.count;
    count_overlaps(w, *counts);
    return 0;
}

int sw_chat_encode_counted(const struct sw_chat_template *chat, const struct sw_tokenizer *t,
                           struct sw_text_scratch *scratch, const struct sw_chat_talk *talk,
                           struct sw_ids *ids, uint8_t **counts, struct sw_error *err)
{
    struct counting c = {.chat = chat,
                         .t = t,
                         .scratch = scratch,
                         .talk = *talk,
                         .now = (int64_t)time(NULL),
                         .err = err};
    const struct sw_jinja *jinja = sw_chat_jinja(chat, talk, err);
    int status = -1;
    c.talk.answer = false;
    *counts = NULL;
    if (jinja == NULL || sw_chat_check_tokens(chat, t, err) != 0)
        return -1;
    const bool says = sw_jinja_has_generation(jinja);
    if (sw_chat_write(chat, &c.talk, c.now, &c.whole.text, &c.whole.foreign,
                      says ? &c.whole.generated : NULL, err) == 0 &&
        encode(&c, &c.whole) == 0)
        status = says ? 0 : find_turns(&c);
    if (status == 0)
        status = hand_over(&c, ids, counts);
    free_written(&c.whole);
    return status;
}
