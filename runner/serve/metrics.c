#include "runner/serve/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Histogram: every bucket includes those below it. If memory runs out, the text ends early. */
static void write_times(struct sw_chars *out, const char *name, const char *help,
                        const struct sw_times *times)
{
    char text[400];
    snprintf(text, sizeof text, "# HELP shardwright_%s %s\n# TYPE shardwright_%s histogram\n", name,
             help, name);
    (void)sw_chars_add(out, text, strlen(text));
    for (int32_t i = 0; i < SW_TIME_BUCKETS; i++) {
        snprintf(text, sizeof text, "shardwright_%s_bucket{le=\"%g\"} %" PRId64 "\n", name,
                 sw_time_bucket(i), times->at_most[i]);
        (void)sw_chars_add(out, text, strlen(text));
    }
    snprintf(text, sizeof text,
             "shardwright_%s_bucket{le=\"+Inf\"} %" PRId64 "\nshardwright_%s_sum %.17g\n"
             "shardwright_%s_count %" PRId64 "\n",
             name, times->count, name, times->sum, name, times->count);
    (void)sw_chars_add(out, text, strlen(text));
}

void sw_serve_metrics(const struct sw_request_queue_counts *c, int64_t slots, int64_t max_tokens,
                      struct sw_chars *out)
{
    const struct {
        const char *name, *type, *help;
        double value;
    } rows[] = {
        {"requests_total", "counter", "Requests accepted.", (double)c->requests},
        {"requests_refused_total", "counter", "Requests rejected as invalid.", (double)c->refused},
        {"requests_busy_total", "counter", "Requests rejected because the queue was full.",
         (double)c->busy},
        {"requests_gone_total", "counter", "Requests whose client disconnected.", (double)c->gone},
        {"requests_late_total", "counter", "Requests that exceeded --deadline.", (double)c->late},
        {"requests_failed_total", "counter", "Requests that failed in the server.",
         (double)c->failed},
        {"requests_answered_total", "counter", "Requests answered.", (double)c->answered},
        {"sequences_total", "counter", "Sequences started.", (double)c->sequences},
        {"sequences_yielded_total", "counter", "Sequences that gave a slot to another client.",
         (double)c->yielded},
        {"sequences_waiting", "gauge", "Sequences waiting for a slot.", (double)c->waiting},
        {"sequences_running", "gauge", "Sequences in a slot.", (double)c->running},
        {"slots", "gauge", "Slots: sequences generated at a time.", (double)slots},
        {"calls_total", "counter", "Calls of the prefill and decode programs.", (double)c->calls},
        {"first_token_calls_total", "counter", "Calls between requests and their first tokens.",
         (double)c->first_token_calls},
        {"prompt_tokens_total", "counter", "Prompt tokens computed.", (double)c->prompt_tokens},
        {"prompt_tokens_cached_total", "counter", "Prompt tokens taken from the KV cache.",
         (double)c->prompt_tokens_cached},
        {"new_tokens_total", "counter", "Tokens generated.", (double)c->new_tokens},
        {"cache_tokens", "gauge", "Positions of the KV cache, over all slots.",
         (double)(slots * max_tokens)},
        {"cache_tokens_used", "gauge", "Positions of the KV cache in use.", (double)c->cached},
    };
    char text[400];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(text, sizeof text,
                 "# HELP shardwright_%s %s\n# TYPE shardwright_%s %s\nshardwright_%s %.17g\n",
                 rows[i].name, rows[i].help, rows[i].name, rows[i].type, rows[i].name,
                 rows[i].value);
        if (sw_chars_add(out, text, strlen(text)) != 0)
            break;
    }
    write_times(out, "first_token_seconds", "Seconds from a request to its first token.",
                &c->first_token);
    write_times(out, "token_seconds", "Seconds between two tokens of a sequence.", &c->token);
    write_times(out, "answer_seconds", "Seconds from a request to its complete answer.",
                &c->answer);
}
