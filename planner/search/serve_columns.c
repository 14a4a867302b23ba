/* Output of `plan search` and `plan explain` about serving: its columns. */
#include "core/base/json.h"
#include "core/base/quantize.h"
#include "planner/command/format.h"
#include "planner/search/purpose.h"
#include "planner/search/report.h"

#include <inttypes.h>
#include <string.h>

enum limit {
    LIMIT_WEIGHTS,
    LIMIT_CACHE,
    LIMIT_REDUCTIONS,
    LIMIT_GATHERS, /* gathers of streamed weights */
    LIMIT_REST
};

/* The largest part of a token's time. */
static enum limit limit_of(const struct sw_cost_parts *t)
{
    enum limit limit = t->weights >= t->cache ? LIMIT_WEIGHTS : LIMIT_CACHE;
    const double most = t->weights >= t->cache ? t->weights : t->cache;
    if (t->waiting > most && t->waiting >= t->rest)
        return t->gathers > t->reduces ? LIMIT_GATHERS : LIMIT_REDUCTIONS;
    if (t->rest > most)
        limit = LIMIT_REST;
    return limit;
}

static const char *limit_words(enum limit limit)
{
    static const char *const words[] = {[LIMIT_WEIGHTS] = "reading the weights",
                                        [LIMIT_CACHE] = "reading the cache",
                                        [LIMIT_REDUCTIONS] = "the reductions",
                                        [LIMIT_GATHERS] = "gathering the weights",
                                        [LIMIT_REST] = "small operations"};
    return words[limit];
}

static const char *limit_name(enum limit limit)
{
    static const char *const names[] = {[LIMIT_WEIGHTS] = "weights",
                                        [LIMIT_CACHE] = "cache",
                                        [LIMIT_REDUCTIONS] = "reductions",
                                        [LIMIT_GATHERS] = "gathers",
                                        [LIMIT_REST] = "rest"};
    return names[limit];
}

static void print_memory(FILE *out, const struct sw_candidate *c)
{
    char a[SW_FORMAT_BYTES];
    sw_report_memory_line(out, c);
    sw_report_bytes(out, "weights", c->memory.parameters);
    sw_report_bytes(out, "cache", c->memory.cache);
    sw_report_bytes(out, "transients", c->memory.transients);
    sw_report_bytes(out, "reserved", c->memory.reserved);
    if (c->serve.training_bytes > 0)
        fprintf(out, "          training needs %s there%s\n",
                sw_format_bytes((double)c->serve.training_bytes, a),
                c->serve.trains ? "" : " and does not fit");
    else
        fprintf(out, "          no training on this mesh\n");
}

/* Prints times of a token with fewer sequences. */
static void print_sizes(FILE *out, const struct sw_serve_price *p)
{
    char a[SW_FORMAT_BYTES];
    for (int32_t i = 1; i < p->size_count; i++)
        fprintf(out, "%s%s for %" PRId64 "%s", i == 1 ? "          with fewer sequences: " : ", ",
                sw_format_seconds(p->size[i].seconds, a), p->size[i].texts,
                i + 1 == p->size_count ? "\n" : "");
}

static void print_token(FILE *out, const struct sw_candidate *candidate)
{
    const struct sw_cost_parts *t = &candidate->cost.parts;
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], c[SW_FORMAT_BYTES], d[SW_FORMAT_BYTES],
        e[SW_FORMAT_BYTES], count[SW_FORMAT_RATE];
    fprintf(out,
            "token     %s, limited by %s: weights %s, cache %s, rest %s, waiting for messages %s\n",
            sw_format_seconds(candidate->cost.step_seconds, a), limit_words(limit_of(t)),
            sw_format_seconds(t->weights, b), sw_format_seconds(t->cache, c),
            sw_format_seconds(t->rest, d), sw_format_seconds(t->waiting, e));
    sw_report_trust(out, &candidate->cost);
    if (t->messages > 0)
        fprintf(out, "          %s take %s, of which %s are their latency, whatever the context\n",
                sw_format_counted((double)t->messages, "reduction", count),
                sw_format_seconds(t->reduces, a), sw_format_seconds(t->latency, b));
    if (t->gathers > 0)
        fprintf(out, "          weights are gathered in %s, beside the rest\n",
                sw_format_seconds(t->gathers, a));
    fprintf(out, "          a rank sends %s for a token\n",
            sw_format_bytes((double)candidate->serve.decode_bytes, a));
    print_sizes(out, &candidate->serve);
}

static void print_goal(FILE *out, const char *name, double goal, double seconds, bool missed,
                       const char *when)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES];
    if (goal > 0)
        fprintf(out, "goal      %s %s: %s, %s %s\n", name, sw_format_seconds(goal, a),
                missed ? "missed" : "kept", sw_format_seconds(seconds, b), when);
}

static bool streams(const struct sw_candidate *c)
{
    return c->decision.serve.stream_weights == SW_STREAM_ALWAYS;
}

void sw_serve_tell_mesh(FILE *out, const struct sw_run_config *run, const struct sw_candidate *c,
                        const struct sw_run_cost *cost)
{
    (void)cost;
    const struct sw_serve_price *p = &c->serve;
    const bool narrow = sw_has_scales(p->weights);
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES];
    char sequences[SW_FORMAT_RATE], tokens[SW_FORMAT_RATE], prompts[SW_FORMAT_RATE];
    sw_report_mesh_line(out, &c->decision.mesh);
    fprintf(out,
            "          %s at a time of %s, prompts %s %s%s\n"
            "          weights %s%s%s%s, cache in %s%s\n",
            sw_format_counted((double)p->texts, "sequence", sequences),
            sw_format_counted((double)p->max_tokens, "token", tokens),
            sw_format_counted((double)(p->mixes ? p->token_budget : p->chunk), "token", prompts),
            p->mixes ? "per call" : "at a time",
            p->interleaves ? ", interleaved with the other sequences' tokens" : "",
            streams(c)                           ? "streamed over fsdp, layer by layer"
            : c->decision.mesh.size[SW_FSDP] > 1 ? "whole on every rank of fsdp"
                                                 : "in place",
            narrow ? ", those of layers in " : "", narrow ? sw_dtype_name(p->weights) : "",
            narrow ? " with scales" : "", sw_dtype_name(p->cache),
            c->memory.scales > 0 ? " with scales" : "");
    print_memory(out, c);
    print_token(out, c);
    fprintf(out, "first     %s to the first token after a prompt of %s",
            sw_format_seconds(p->first_seconds, a),
            sw_format_counted((double)p->prompt_tokens, "token", tokens));
    if (p->texts > 1)
        fprintf(out,
                ", read alone; at most %s\n"
                "          while all other sequences run, longer when other prompts are queued\n",
                sw_format_seconds(p->first_beside_seconds, b));
    else
        fprintf(out, "; longer when another sequence holds the only slot\n");
    fprintf(out, "beside    a token takes %s while prompts are read, up to %" PRId64 " %s\n",
            sw_format_seconds(p->beside_seconds, a), p->token_budget,
            p->mixes ? "tokens of prompts and sequences per call" : "prompt tokens before it");
    fprintf(
        out,
        "rate      %s tokens/s, %s per accelerator, while only decoding; reading prompts lowers "
        "it\n",
        sw_format_number(c->tokens_per_second, a),
        sw_format_number(c->tokens_per_second / sw_mesh_rank_count(&c->decision.mesh), b));
    print_goal(out, "token_latency", run->serve_token_latency, c->cost.step_seconds,
               p->misses_token, "while no prompt is read");
    print_goal(out, "first_token_latency", run->serve_first_token_latency, p->first_beside_seconds,
               p->misses_first, p->texts > 1 ? "while all other sequences run" : "alone");
}

void sw_serve_tell_table(FILE *out, const struct sw_search *s, int64_t top)
{
    char mesh[64], memory[SW_FORMAT_BYTES], token[SW_FORMAT_BYTES], first[SW_FORMAT_BYTES],
        rate[SW_FORMAT_BYTES], weights[SW_FORMAT_BYTES], cache[SW_FORMAT_BYTES],
        reduce[SW_FORMAT_BYTES], latency[SW_FORMAT_BYTES], beside[SW_FORMAT_BYTES], missed[96];
    const int32_t shown = top < s->feasible ? (int32_t)top : s->feasible;
    fprintf(out, "\n  %-14s %9s %9s %9s %9s %9s | %9s %9s %10s %9s %s\n", "mesh_dim", "sequences",
            "memory", "token", "first", "tok/s/acc", "weights", "cache", "reductions", "latency",
            " limited by");
    for (int32_t i = 0; i < shown; i++) {
        const struct sw_candidate *c = &s->mesh[i];
        const struct sw_serve_price *p = &c->serve;
        snprintf(missed, sizeof missed, "; misses first_token_latency with %s%s",
                 sw_format_seconds(p->first_beside_seconds, beside),
                 p->texts > 1 ? " while others run" : "");
        fprintf(out, "%s %-14s %9" PRId64 " %9s %9s %9s %9s | %9s %9s %10s %9s  %s%s%s\n",
                i == 0 && s->keeping > 0 ? sw_format_mark(true) : " ",
                sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh), p->texts,
                sw_format_bytes((double)c->memory.total, memory),
                sw_format_seconds(c->cost.step_seconds, token),
                sw_format_seconds(p->first_seconds, first),
                sw_format_number(c->tokens_per_second / s->accelerators, rate),
                sw_format_seconds(c->cost.parts.weights, weights),
                sw_format_seconds(c->cost.parts.cache, cache),
                sw_format_seconds(c->cost.parts.reduces, reduce),
                sw_format_seconds(c->cost.parts.latency, latency),
                limit_name(limit_of(&c->cost.parts)),
                p->misses_token ? "; misses token_latency" : "", p->misses_first ? missed : "");
    }
    sw_report_more(out, s, shown);
    fprintf(out, "first: time to the first token of a prompt that is read alone; tok/s/acc: while "
                 "only decoding\n"
                 "right of |: parts of a token's time; latency: the part of its reductions that "
                 "does not depend on size\n");
}

void sw_serve_tell_work(FILE *out, const struct sw_run_config *run)
{
    (void)run;
    fprintf(out, "to serve\n");
}

void sw_serve_tell_missing(FILE *out, const struct sw_search *s)
{
    if (s->keeping < s->feasible)
        fprintf(out, "; %d miss a latency goal", s->feasible - s->keeping);
}

/* ---- JSON ---- */

static void write_memory(struct sw_json *j, const struct sw_candidate *c)
{
    const struct sw_memory *m = &c->memory;
    sw_json_object(j, "memory");
    sw_json_number(j, "limit", (double)m->limit);
    sw_json_number(j, "headroom", (double)m->headroom);
    sw_json_number(j, "total", (double)m->total);
    sw_json_number(j, "arena", (double)m->arena);
    sw_json_number(j, "weights", (double)m->parameters);
    sw_json_number(j, "cache", (double)m->cache);
    sw_json_number(j, "scales", (double)m->scales);
    sw_json_number(j, "transients", (double)m->transients);
    sw_json_number(j, "reserved", (double)m->reserved);
    if (c->serve.training_bytes > 0)
        sw_json_number(j, "training", (double)c->serve.training_bytes);
    else
        sw_json_null(j, "training");
    sw_json_end(j);
}

void sw_serve_write_sizes(struct sw_json *j, const struct sw_serve_price *p)
{
    sw_json_array(j, "token_seconds_of");
    for (int32_t i = 0; i < p->size_count; i++) {
        sw_json_object(j, NULL);
        sw_json_number(j, "texts", (double)p->size[i].texts);
        sw_json_number(j, "seconds", p->size[i].seconds);
        sw_json_end(j);
    }
    sw_json_end(j);
}

void sw_serve_write_mesh(struct sw_json *j, const char *key, const struct sw_layer_values *values,
                         const struct sw_candidate *c)
{
    (void)values;
    const struct sw_serve_price *p = &c->serve;
    const struct sw_cost_parts *t = &c->cost.parts;
    char mesh[64], order[64];
    sw_json_object(j, key);
    sw_json_text(j, "mesh_dim", sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh));
    sw_json_text(j, "axis_order", sw_mesh_format_order(&c->decision.mesh, order, sizeof order));
    sw_json_text(j, "verdict", sw_verdict_name(sw_candidate_verdict(c)));
    sw_json_number(j, "texts", (double)p->texts);
    sw_json_number(j, "max_tokens", (double)p->max_tokens);
    sw_json_number(j, "chunk", (double)p->chunk);
    sw_json_number(j, "prompt_tokens", (double)p->prompt_tokens);
    sw_json_text(j, "cache", sw_dtype_name(p->cache));
    sw_json_text(j, "weights", sw_dtype_name(p->weights));
    sw_json_bool(j, "stream_weights", streams(c));
    sw_json_bool(j, "interleave", p->interleaves);
    write_memory(j, c);
    sw_json_number(j, "token_seconds", c->cost.step_seconds);
    sw_serve_write_sizes(j, p);
    sw_json_number(j, "band_low_seconds", c->cost.band_low_seconds);
    sw_json_number(j, "band_high_seconds", c->cost.band_high_seconds);
    sw_json_text(j, "profile", c->cost.profile != NULL ? c->cost.profile : "");
    sw_json_text(j, "calibration", c->cost.calibration != NULL ? c->cost.calibration : "");
    sw_json_text(j, "note", c->cost.note != NULL ? c->cost.note : "");
    sw_json_number(j, "weights_seconds", t->weights);
    sw_json_number(j, "cache_seconds", t->cache);
    sw_json_number(j, "rest_seconds", t->rest);
    sw_json_number(j, "waiting_seconds", t->waiting);
    sw_json_number(j, "gather_seconds", t->gathers);
    sw_json_number(j, "reductions", (double)t->messages);
    sw_json_number(j, "reduction_seconds", t->reduces);
    sw_json_number(j, "reduction_latency_seconds", t->latency);
    sw_json_text(j, "limited_by", limit_name(limit_of(t)));
    sw_json_number(j, "first_token_seconds", p->first_seconds);
    sw_json_number(j, "first_token_seconds_beside_others", p->first_beside_seconds);
    sw_json_number(j, "token_budget", (double)p->token_budget);
    sw_json_number(j, "token_seconds_beside_prompts", p->beside_seconds);
    sw_json_number(j, "tokens_per_second", c->tokens_per_second);
    sw_json_number(j, "tokens_per_second_per_accelerator",
                   c->tokens_per_second / sw_mesh_rank_count(&c->decision.mesh));
    sw_json_number(j, "sent_bytes_per_token", (double)p->decode_bytes);
    sw_json_bool(j, "misses_token_latency", p->misses_token);
    sw_json_bool(j, "misses_first_token_latency", p->misses_first);
    sw_json_end(j);
}

static void write_goal(struct sw_json *j, const char *key, double seconds)
{
    if (seconds > 0)
        sw_json_number(j, key, seconds);
    else
        sw_json_null(j, key);
}

void sw_serve_write_head(struct sw_json *j, const struct sw_run_config *run,
                         const struct sw_search *s, const struct sw_search_told *told)
{
    char why[320];
    (void)told;
    sw_json_number(j, "keeping", s->keeping);
    sw_json_number(j, "search_seconds", s->seconds);
    write_goal(j, "token_latency", run->serve_token_latency);
    write_goal(j, "first_token_latency", run->serve_first_token_latency);
    if (s->keeping > 0) {
        sw_json_text(j, "why", sw_rank_why(run, SW_FOR_SERVE, why, sizeof why));
        sw_serve_write_mesh(j, "chosen", &s->layer_values, &s->mesh[0]);
    } else {
        sw_json_null(j, "why");
        sw_json_null(j, "chosen");
    }
}
