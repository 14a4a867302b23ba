/* What `plan search --for serve` and `plan explain --for serve` tell. */
#include "core/base/json.h"
#include "planner/command.h"
#include "planner/format.h"
#include "planner/search/serve.h"

#include <inttypes.h>
#include <string.h>

enum { DEFAULT_TOP = 10, NEAREST_REJECTED = 3, WIDTH = 100 };

static const char *limit_words(enum sw_token_limit limit)
{
    static const char *const words[] = {[SW_LIMIT_WEIGHTS] = "reading the weights",
                                        [SW_LIMIT_CACHE] = "reading the cache",
                                        [SW_LIMIT_REDUCTIONS] = "the reductions",
                                        [SW_LIMIT_GATHERS] = "gathering the weights",
                                        [SW_LIMIT_REST] = "small operations"};
    return words[limit];
}

static void print_bytes(FILE *out, const char *name, int64_t bytes)
{
    char text[SW_FORMAT_BYTES];
    fprintf(out, "    %-14s%10s\n", name, sw_format_bytes((double)bytes, text));
}

static void print_memory(FILE *out, const struct sw_serve_candidate *c)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES];
    fprintf(out, "memory    %s of %s per accelerator: %s\n",
            sw_format_bytes((double)c->memory.total, a),
            sw_format_bytes((double)c->memory.limit, b), sw_verdict_text(sw_serve_verdict(c)));
    print_bytes(out, "weights", c->price.weight_bytes);
    print_bytes(out, "cache", c->price.cache_bytes);
    print_bytes(out, "transients", c->price.transient_bytes);
    print_bytes(out, "reserved", c->memory.reserved);
    if (c->memory.training > 0)
        fprintf(out, "          training needs %s there%s\n",
                sw_format_bytes((double)c->memory.training, a),
                c->memory.trains ? "" : " and does not fit");
    else
        fprintf(out, "          no training on this mesh\n");
}

static void print_token(FILE *out, const struct sw_serving_price *p)
{
    const struct sw_cost_parts *t = &p->time;
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], c[SW_FORMAT_BYTES], d[SW_FORMAT_BYTES],
        e[SW_FORMAT_BYTES], count[SW_FORMAT_RATE];
    fprintf(out,
            "token     %s, limited by %s: weights %s, cache %s, rest %s, waiting for messages %s\n",
            sw_format_seconds(p->token_seconds, a), limit_words(sw_serving_limit(t)),
            sw_format_seconds(t->weights, b), sw_format_seconds(t->cache, c),
            sw_format_seconds(t->rest, d), sw_format_seconds(t->waiting, e));
    if (t->messages > 0)
        fprintf(out, "          %s take %s, of which %s are their latency, whatever the context\n",
                sw_format_counted((double)t->messages, "reduction", count),
                sw_format_seconds(t->reduces, a), sw_format_seconds(t->latency, b));
    if (t->gathers > 0)
        fprintf(out, "          weights are gathered in %s, beside the rest\n",
                sw_format_seconds(t->gathers, a));
    fprintf(out, "          a rank sends %s for a token\n",
            sw_format_bytes((double)p->decode_bytes, a));
}

static void print_goal(FILE *out, const char *name, double goal, double seconds, bool missed)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES];
    if (goal > 0)
        fprintf(out, "goal      %s %s: %s, %s\n", name, sw_format_seconds(goal, a),
                missed ? "missed" : "kept", sw_format_seconds(seconds, b));
}

void sw_report_serve_mesh(FILE *out, const struct sw_run_config *run,
                          const struct sw_serve_candidate *c)
{
    const int32_t *size = c->decision.mesh.size;
    const struct sw_serving_price *p = &c->price;
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], mesh[64], order[64];
    fprintf(out, "mesh      mesh_dim %s: dp %d, fsdp %d, tp %d, sp %d; ranks in the order %s\n",
            sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh), size[SW_DP], size[SW_FSDP],
            size[SW_TP], size[SW_SP], sw_mesh_format_order(&c->decision.mesh, order, sizeof order));
    fprintf(out,
            "          %" PRId64 " texts at a time of %" PRId64 " tokens, prompts %" PRId64
            " tokens at a time\n          weights %s, cache in %s%s\n",
            p->texts, p->max_tokens, p->chunk,
            p->streams          ? "streamed over fsdp, layer by layer"
            : size[SW_FSDP] > 1 ? "whole on every rank of fsdp"
                                : "in place",
            sw_dtype_name(p->cache), p->scale_bytes > 0 ? " with scales" : "");
    print_memory(out, c);
    print_token(out, p);
    fprintf(out, "first     %s at most, behind a prompt of %" PRId64 " tokens\n",
            sw_format_seconds(p->first_seconds, a), p->prompt_tokens);
    fprintf(out, "rate      %s tokens/s, %s per accelerator\n",
            sw_format_number(p->tokens_per_second, a),
            sw_format_number(p->tokens_per_second / sw_mesh_rank_count(&c->decision.mesh), b));
    print_goal(out, "token_latency", run->serve_token_latency, p->token_seconds, c->misses_token);
    print_goal(out, "first_token_latency", run->serve_first_token_latency, p->first_seconds,
               c->misses_first);
}

static void print_table(FILE *out, const struct sw_serve_search *s, int64_t top)
{
    char mesh[64], memory[SW_FORMAT_BYTES], token[SW_FORMAT_BYTES], first[SW_FORMAT_BYTES],
        rate[SW_FORMAT_BYTES], weights[SW_FORMAT_BYTES], cache[SW_FORMAT_BYTES],
        reduce[SW_FORMAT_BYTES], latency[SW_FORMAT_BYTES];
    const int32_t shown = top < s->feasible ? (int32_t)top : s->feasible;
    fprintf(out, "\n  %-14s %5s %9s %9s %9s %9s | %9s %9s %10s %9s %s\n", "mesh_dim", "texts",
            "memory", "token", "first", "tok/s/acc", "weights", "cache", "reductions", "latency",
            " limited by");
    for (int32_t i = 0; i < shown; i++) {
        const struct sw_serve_candidate *c = &s->mesh[i];
        const struct sw_serving_price *p = &c->price;
        fprintf(
            out, "%s %-14s %5" PRId64 " %9s %9s %9s %9s | %9s %9s %10s %9s  %s%s%s\n",
            i == 0 && s->keeping > 0 ? sw_format_mark(true) : " ",
            sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh), p->texts,
            sw_format_bytes((double)c->memory.total, memory),
            sw_format_seconds(p->token_seconds, token), sw_format_seconds(p->first_seconds, first),
            sw_format_number(p->tokens_per_second / s->accelerators, rate),
            sw_format_seconds(p->time.weights, weights), sw_format_seconds(p->time.cache, cache),
            sw_format_seconds(p->time.reduces, reduce), sw_format_seconds(p->time.latency, latency),
            sw_serving_limit_name(sw_serving_limit(&p->time)),
            c->misses_token ? "; misses token_latency" : "",
            c->misses_first ? "; misses first_token_latency" : "");
    }
    if (shown < s->feasible)
        fprintf(out, "... and %d more (--top %d)\n", s->feasible - shown, s->feasible);
    fprintf(out, "behind |: parts of a token; latency: what its reductions take without a byte\n");
}

static void print_rejected(FILE *out, const struct sw_serve_search *s, int32_t count)
{
    fprintf(out, "%s%s\n", s->feasible > 0 ? "\n" : "",
            count < s->count - s->feasible ? "rejected, nearest first" : "rejected");
    for (int32_t i = s->feasible; i < s->feasible + count; i++) {
        struct sw_candidate c = {.decision = s->mesh[i].decision, .reason = s->mesh[i].reason};
        snprintf(c.detail, sizeof c.detail, "%s", s->mesh[i].detail);
        snprintf(c.help, sizeof c.help, "%s", s->mesh[i].help);
        sw_report_rejected(out, &c);
    }
    if (count < s->count - s->feasible)
        fprintf(out, "... and %d more (--rejected)\n", s->count - s->feasible - count);
}

void sw_report_serve_search(FILE *out, const struct sw_run_config *run,
                            const struct sw_serve_search *s, const struct sw_options *options)
{
    char a[SW_FORMAT_RATE], why[320];
    const int32_t rejected = s->count - s->feasible;
    if (s->feasible > 0) {
        fprintf(out, "%s: %s (%s), to serve\n", run->name,
                sw_format_counted(s->accelerators, "accelerator", a), run->cluster.name);
        fprintf(out, "searched  %d mesh%s in %s: %d fit, %d do not", s->count,
                s->count == 1 ? "" : "es", sw_format_seconds(s->seconds, a), s->feasible, rejected);
        if (s->keeping < s->feasible)
            fprintf(out, "; %d miss a latency goal", s->feasible - s->keeping);
        fprintf(out, "\n");
        sw_report_serve_mesh(out, run, &s->mesh[0]);
        fprintf(out, "why       ");
        sw_format_wrapped(out, sw_serve_why(run, why, sizeof why), 10, 10, WIDTH);
        print_table(out, s, options->top > 0 ? options->top : DEFAULT_TOP);
    }
    if (rejected > 0 && (options->rejected || s->feasible > 0))
        print_rejected(
            out, s, options->rejected || rejected < NEAREST_REJECTED ? rejected : NEAREST_REJECTED);
}

/* ---- JSON ---- */

static void write_memory(struct sw_json *j, const struct sw_serve_candidate *c)
{
    const struct sw_serve_memory *m = &c->memory;
    sw_json_object(j, "memory");
    sw_json_number(j, "limit", (double)m->limit);
    sw_json_number(j, "headroom", (double)m->headroom);
    sw_json_number(j, "total", (double)m->total);
    sw_json_number(j, "arena", (double)c->price.arena_bytes);
    sw_json_number(j, "weights", (double)c->price.weight_bytes);
    sw_json_number(j, "cache", (double)c->price.cache_bytes);
    sw_json_number(j, "scales", (double)c->price.scale_bytes);
    sw_json_number(j, "transients", (double)c->price.transient_bytes);
    sw_json_number(j, "reserved", (double)m->reserved);
    if (m->training > 0)
        sw_json_number(j, "training", (double)m->training);
    else
        sw_json_null(j, "training");
    sw_json_end(j);
}

void sw_serve_write_json(struct sw_json *j, const char *key, const struct sw_serve_candidate *c)
{
    const struct sw_serving_price *p = &c->price;
    const struct sw_cost_parts *t = &p->time;
    char mesh[64], order[64];
    sw_json_object(j, key);
    sw_json_text(j, "mesh_dim", sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh));
    sw_json_text(j, "axis_order", sw_mesh_format_order(&c->decision.mesh, order, sizeof order));
    sw_json_text(j, "verdict", sw_verdict_name(sw_serve_verdict(c)));
    sw_json_number(j, "texts", (double)p->texts);
    sw_json_number(j, "max_tokens", (double)p->max_tokens);
    sw_json_number(j, "chunk", (double)p->chunk);
    sw_json_number(j, "prompt_tokens", (double)p->prompt_tokens);
    sw_json_text(j, "cache", sw_dtype_name(p->cache));
    sw_json_bool(j, "stream_weights", p->streams);
    write_memory(j, c);
    sw_json_number(j, "token_seconds", p->token_seconds);
    sw_json_number(j, "weights_seconds", t->weights);
    sw_json_number(j, "cache_seconds", t->cache);
    sw_json_number(j, "rest_seconds", t->rest);
    sw_json_number(j, "waiting_seconds", t->waiting);
    sw_json_number(j, "gather_seconds", t->gathers);
    sw_json_number(j, "reductions", (double)t->messages);
    sw_json_number(j, "reduction_seconds", t->reduces);
    sw_json_number(j, "reduction_latency_seconds", t->latency);
    sw_json_text(j, "limited_by", sw_serving_limit_name(sw_serving_limit(t)));
    sw_json_number(j, "first_token_seconds", p->first_seconds);
    sw_json_number(j, "tokens_per_second", p->tokens_per_second);
    sw_json_number(j, "tokens_per_second_per_accelerator",
                   p->tokens_per_second / sw_mesh_rank_count(&c->decision.mesh));
    sw_json_number(j, "sent_bytes_per_token", (double)p->decode_bytes);
    sw_json_bool(j, "misses_token_latency", c->misses_token);
    sw_json_bool(j, "misses_first_token_latency", c->misses_first);
    sw_json_end(j);
}

static void write_goal(struct sw_json *j, const char *key, double seconds)
{
    if (seconds > 0)
        sw_json_number(j, key, seconds);
    else
        sw_json_null(j, key);
}

void sw_serve_search_print_json(FILE *out, const struct sw_run_config *run,
                                const struct sw_serve_search *s, const struct sw_options *options)
{
    struct sw_json json = {.out = out, .style = SW_JSON_TABS}, *j = &json;
    char why[320], mesh[64];
    sw_json_object(j, NULL);
    sw_json_text(j, "schema", "shardwright.search.serve/1");
    sw_json_text(j, "run", run->name);
    sw_json_number(j, "accelerators", s->accelerators);
    sw_json_number(j, "evaluated", s->count);
    sw_json_number(j, "feasible", s->feasible);
    sw_json_number(j, "keeping", s->keeping);
    sw_json_number(j, "search_seconds", s->seconds);
    write_goal(j, "token_latency", run->serve_token_latency);
    write_goal(j, "first_token_latency", run->serve_first_token_latency);
    if (s->keeping > 0) {
        sw_json_text(j, "why", sw_serve_why(run, why, sizeof why));
        sw_serve_write_json(j, "chosen", &s->mesh[0]);
    } else {
        sw_json_null(j, "why");
        sw_json_null(j, "chosen");
    }
    sw_json_array(j, "candidates");
    for (int32_t i = 0; i < s->feasible && (options->top < 0 || i < options->top); i++)
        sw_serve_write_json(j, NULL, &s->mesh[i]);
    sw_json_end(j);
    if (options->rejected) {
        sw_json_array(j, "rejected");
        for (int32_t i = s->feasible; i < s->count; i++) {
            const struct sw_serve_candidate *c = &s->mesh[i];
            sw_json_object(j, NULL);
            sw_json_text(j, "mesh_dim", sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh));
            sw_json_text(j, "reason", sw_reject_name(c->reason));
            sw_json_text(j, "verdict", sw_verdict_name(sw_serve_verdict(c)));
            sw_json_text(j, "detail", c->detail);
            sw_json_text(j, "help", c->help);
            sw_json_end(j);
        }
        sw_json_end(j);
    }
    sw_json_end(j);
    fputc('\n', out);
}

/* ---- What cannot be met ---- */

static void fail_goals(const struct sw_run_config *run, const struct sw_serve_search *s,
                       struct sw_error *err)
{
    const struct sw_serve_candidate *c = &s->mesh[0];
    char goal[SW_FORMAT_BYTES], seconds[SW_FORMAT_BYTES], mesh[64];
    const double wanted =
        c->misses_token ? run->serve_token_latency : run->serve_first_token_latency;
    const double taken = c->misses_token ? c->price.token_seconds : c->price.first_seconds;
    sw_fail(err, SW_UNMET,
            "none of %d meshes keeps the latency goals of '%s': mesh_dim %s misses %s %s with %s; "
            "allow more, serve fewer or shorter texts, or on more accelerators",
            s->count, run->name, sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh),
            c->misses_token ? "serve.token_latency" : "serve.first_token_latency",
            sw_format_seconds(wanted, goal), sw_format_seconds(taken, seconds));
}

int sw_serve_unmet(const struct sw_run_config *run, const struct sw_serve_search *s)
{
    struct sw_error err = {0};
    char mesh[64];
    if (s->count == 0) {
        sw_fail(&err, SW_UNMET, "no mesh of %d accelerators; help: use mesh_dim: auto",
                s->accelerators);
    } else if (s->feasible > 0) {
        fail_goals(run, s, &err);
    } else {
        const struct sw_serve_candidate *c = &s->mesh[0];
        sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh);
        if (s->count == 1)
            sw_fail(&err, SW_UNMET, "mesh_dim %s cannot serve '%s': %s", mesh, run->name,
                    c->detail);
        else
            sw_fail(&err, SW_UNMET,
                    "none of %d meshes can serve '%s'; the closest is mesh_dim %s: %s", s->count,
                    run->name, mesh, c->detail);
    }
    sw_command_fail(&err);
    if (s->count > 0 && s->feasible == 0 && s->mesh[0].help[0] != '\0')
        fprintf(stderr, "    help: %s\n", s->mesh[0].help);
    return SW_UNMET;
}
