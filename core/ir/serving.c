/* From the rules that train to the rules that serve. */
#include "core/ir/serving.h"

#include <inttypes.h>
#include <string.h>

enum {
    DEFAULT_CHUNK = 512,
    READ_ROWS = 128, /* rows of `read`: weights take little time beside so many rows */
    MIX_ROWS = 64    /* most of a prefill that mixes: more rows are faster as chunks */
};

/* `axes`, and those of `more` that are not among them if all together divide the size; else
 * `axes`. */
static struct sw_axes widened(const struct sw_mesh *mesh, struct sw_axes axes, struct sw_axes more,
                              int64_t size)
{
    struct sw_axes wide = axes;
    for (uint8_t i = 0; i < more.count; i++)
        if (!(sw_axes_set(wide) >> more.axis[i] & 1u))
            wide.axis[wide.count++] = more.axis[i];
    return size % sw_axes_size(mesh, wide) == 0 ? wide : axes;
}

static int64_t rounded_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* Number of whole blocks of SW_I4 in a matrix with that many inputs; for other weights, its
 * inputs. */
static int64_t inputs_of(const struct sw_serving *want, int64_t size)
{
    return size / sw_dtype_group(want->weights);
}

/* Sets the rules of serving. A single token has no sequence to split: the sequence's ranks share
 * the output projection, the MLP and the head instead, and each has a part of the cache. Prefill
 * has a sequence, gathers those weights over it as over fsdp, and leaves the cache where decode
 * expects it. */
static void set_rules(const struct sw_program_options *training, const struct sw_serving *want,
                      struct sw_program_options *o)
{
    static const struct sw_axes none = {0};
    const struct sw_rules *given = &training->rules;
    const struct sw_model *m = &o->model;
    const struct sw_axes seq = given->axes[SW_L_CACHE_SEQ], heads = given->axes[SW_L_HEADS];
    const bool decode = o->kind == SW_PROGRAM_DECODE || o->serving.mixes;
    struct sw_rules wide = *given;
    wide.axes[SW_L_MLP] =
        widened(&o->mesh, given->axes[SW_L_MLP], seq, inputs_of(want, m->intermediate_size));
    wide.axes[SW_L_VOCAB] = widened(&o->mesh, given->axes[SW_L_VOCAB], seq, m->vocab_size);
    wide.axes[SW_L_MERGED_HEADS] =
        widened(&o->mesh, heads, seq, inputs_of(want, (int64_t)m->heads * m->head_dim));
    wide.axes[SW_L_EMBED] = want->stream_weights ? (struct sw_axes){1, {SW_FSDP}} : none;
    wide.axes[SW_L_ACT_EMBED] = none;
    wide.axes[SW_L_ATTN_HEADS] = heads;
    o->serving.weights = wide;
    o->rules = wide;
    o->rules.axes[SW_L_SEQ] = o->rules.axes[SW_L_RESIDUAL_SEQ] = decode ? none : seq;
    o->rules.axes[SW_L_ATTN_SEQ] = o->rules.axes[SW_L_KEY_SEQ] = none;
    if (!decode) {
        o->rules.axes[SW_L_MLP] = given->axes[SW_L_MLP];
        o->rules.axes[SW_L_VOCAB] = given->axes[SW_L_VOCAB];
        o->rules.axes[SW_L_MERGED_HEADS] = heads;
    }
}

/* Rejects axes that split both positions and heads: one axis cannot cut both. */
static int check_cache(const struct sw_program_options *training, struct sw_error *err)
{
    const struct sw_mesh *mesh = &training->mesh;
    const struct sw_axes *rules = training->rules.axes;
    const sw_axis_set both = sw_axes_set(sw_axes_effective(mesh, rules[SW_L_CACHE_SEQ])) &
                             sw_axes_set(sw_axes_effective(mesh, rules[SW_L_HEADS]));
    char names[32];
    if (both == 0)
        return 0;
    return sw_fail(err, SW_UNMET,
                   "serving cannot split the cache by %s twice, over its heads (heads) and its "
                   "positions (cache_seq); give each of these rules axes of its own",
                   sw_axes_format(sw_axes_from_set(both), names, sizeof names));
}

/* Rejects splits inside blocks of SW_I4, which are runs of the whole matrix's inputs. */
static int check_groups(const struct sw_program_options *training, const struct sw_serving *want,
                        struct sw_error *err)
{
    static const struct sw_axes fsdp = {1, {SW_FSDP}}, none = {0};
    const struct sw_model *m = &training->model;
    const int64_t group = sw_dtype_group(want->weights);
    const struct {
        const char *what;
        int64_t inputs;
        struct sw_axes axes;
    } cut[] = {
        {"hidden_size", m->hidden_size, want->stream_weights ? fsdp : none},
        {"intermediate_size", m->intermediate_size, training->rules.axes[SW_L_MLP]},
        {"heads x head_dim", (int64_t)m->heads * m->head_dim, training->rules.axes[SW_L_HEADS]}};
    for (size_t i = 0; group > 1 && i < sizeof cut / sizeof cut[0]; i++) {
        const struct sw_axes axes = sw_axes_effective(&training->mesh, cut[i].axes);
        const int64_t ways = sw_axes_size(&training->mesh, axes);
        char names[32];
        if (cut[i].inputs % group != 0)
            return sw_fail(err, SW_UNMET,
                           "serve.weights int4 needs matrices of whole groups of %" PRId64
                           " inputs, and %s is %" PRId64 "; use int8",
                           group, cut[i].what, cut[i].inputs);
        if (cut[i].inputs / group % ways != 0)
            return sw_fail(err, SW_UNMET,
                           "serve.weights int4: %s %" PRId64 " over %s %" PRId64
                           " would cut a group of %" PRId64 " inputs; use a divisor of %" PRId64
                           " for %s, or int8",
                           cut[i].what, cut[i].inputs, sw_axes_format(axes, names, sizeof names),
                           ways, group, cut[i].inputs / group, names);
    }
    return 0;
}

static int check(const struct sw_program_options *training, const struct sw_serving *want,
                 struct sw_error *err)
{
    if (check_cache(training, err) != 0 || check_groups(training, want, err) != 0)
        return -1;
    if (want->max_batch < 1 || want->max_batch > SW_MAX_SLOTS)
        return sw_fail(err, SW_BAD_INPUT, "max_batch %" PRId64 " is not between 1 and %d",
                       want->max_batch, SW_MAX_SLOTS);
    if (want->interleave && (!training->target.pauses || sw_mesh_rank_count(&training->mesh) > 1))
        return sw_fail(err, SW_UNMET,
                       "serve.interleave true is for one rank, on a CPU: only there a program "
                       "pauses for another one; use auto");
    if (want->token_budget < 0 || want->token_budget >= INT32_MAX)
        return sw_fail(err, SW_BAD_INPUT, "token_budget %" PRId64 " is not between 0 and 2^31 - 1",
                       want->token_budget);
    if (want->max_tokens < 1 || want->max_tokens >= INT32_MAX || want->chunk < 0 ||
        want->chunk >= INT32_MAX)
        return sw_fail(err, SW_BAD_INPUT,
                       "max_tokens %" PRId64 " with chunk %" PRId64
                       ": max_tokens is 1 to 2^31 - 1, chunk 0 to 2^31 - 1",
                       want->max_tokens, want->chunk);
    /* a sampled token is sent as an fp32 number */
    if (training->model.vocab_size > 1 << 24)
        return sw_fail(err, SW_UNMET,
                       "vocab_size %" PRId64 " is above 2^24, the most that serving supports",
                       training->model.vocab_size);
    return 0;
}

const char *sw_prefill_gather_name(enum sw_prefill_gather gathers)
{
    return gathers == SW_GATHER_KV ? "keys and values" : "queries";
}

/* False for int8: no collective moves it. */
bool sw_serving_may_gather_kv(const struct sw_program_options *training,
                              const struct sw_serving *want)
{
    return sw_axes_size(&training->mesh, training->rules.axes[SW_L_CACHE_SEQ]) > 1 &&
           want->cache != SW_I8 && !training->target.lacks_whole_cache;
}

/* True if programs of single tokens compute each row as with any number of rows. */
static bool is_batch_invariant(const struct sw_program_options *o)
{
    const struct sw_model *m = &o->model;
    const int64_t sizes[] = {m->hidden_size, m->intermediate_size, m->vocab_size,
                             (int64_t)m->heads * m->head_dim};
    bool fits = o->target.invariant_rows > 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        fits = fits && sizes[i] <= o->target.invariant_elems;
    return fits;
}

/* True if prefill takes next tokens of running sequences beside those of prompts: rows are alike in
 * calls of either, the budget has room for both, and the cache's chunks can be single tokens.
 * `budget`, `slots`: of a rank of the batch. */
static bool may_mix(const struct sw_program_options *training, const struct sw_serving *want,
                    int64_t budget, int64_t slots, int64_t ranks)
{
    return want->chunk <= 1 && ranks == 1 && budget > slots && !want->stream_weights &&
           budget <= MIX_ROWS && is_batch_invariant(training);
}

/* Default of chunk, in tokens; budget 0: no limit. */
static int64_t usual_chunk(int64_t max_tokens, int64_t budget)
{
    const int64_t usual = max_tokens < DEFAULT_CHUNK ? max_tokens : DEFAULT_CHUNK;
    return budget > 0 && budget < usual ? budget : usual;
}

/* Sizes on a rank of the batch, in tokens or sequences. */
struct sizes {
    int64_t ways;  /* ranks of the batch */
    int64_t ranks; /* ranks of the sequence */
    int64_t budget, slots, chunk;
    bool mixes;
};

static struct sizes measure(const struct sw_program_options *training,
                            const struct sw_serving *want)
{
    const struct sw_rules *rules = &training->rules;
    const int64_t ways = sw_axes_size(&training->mesh, rules->axes[SW_L_BATCH]);
    struct sizes s = {.ways = ways,
                      .ranks = sw_axes_size(&training->mesh, rules->axes[SW_L_CACHE_SEQ]),
                      .budget = want->token_budget / ways,
                      .slots = (want->max_batch + ways - 1) / ways};
    s.mixes = may_mix(training, want, s.budget, s.slots, s.ranks);
    s.chunk = rounded_up(want->chunk > 0 ? want->chunk
                         : s.mixes       ? 1
                                         : usual_chunk(want->max_tokens, s.budget),
                         s.ranks);
    return s;
}

int32_t sw_serving_sizes(const struct sw_program_options *o, int64_t rows[SW_SERVING_SIZES])
{
    int32_t count = 0;
    int64_t fewer = 1;
    rows[count++] = o->micro_batch_per_rank;
    if (!is_batch_invariant(o) || (o->kind != SW_PROGRAM_DECODE && !o->serving.mixes))
        return count;
    while (2 * fewer < rows[0])
        fewer *= 2;
    for (; fewer > 0 && fewer < rows[0]; fewer /= 2)
        rows[count++] = fewer;
    return count;
}

void sw_serving_resize(struct sw_program_options *o, int64_t rows)
{
    o->global_batch = o->global_batch / o->micro_batch_per_rank * rows;
    o->micro_batch_per_rank = rows;
}

/* Rows of prefill on a rank of the batch. */
static int64_t chunk_rows(const struct sizes *s)
{
    return s->budget < s->chunk ? 1 : s->budget / s->chunk;
}

/* Rows of `read` on a rank of the batch, some of which hold running sequences; 0: there is no
 * `read`. Beside chunks, `read` has no more rows than a call of prefill has tokens, so that running
 * sequences wait no longer. 0 too if it had hardly more rows than prefill. */
static int64_t read_rows(const struct sw_program_options *training, const struct sw_serving *want,
                         const struct sizes *s)
{
    int64_t rows = want->max_tokens < READ_ROWS ? want->max_tokens : READ_ROWS;
    if (s->mixes)
        return rows >= 2 * s->budget ? rows : 0;
    const int64_t tokens = chunk_rows(s) * s->chunk;
    rows = tokens < rows ? tokens : rows;
    const bool fits = is_batch_invariant(training) && s->ranks == 1 && !want->stream_weights;
    return fits && rows > s->slots && s->chunk > 2 ? rows : 0;
}

bool sw_serving_interleaves(const struct sw_program_options *training,
                            const struct sw_serving *want)
{
    return want->interleave && !measure(training, want).mixes;
}

bool sw_serving_has(const struct sw_program_options *training, const struct sw_serving *want,
                    enum sw_program_kind kind)
{
    const struct sizes s = measure(training, want);
    return kind != SW_PROGRAM_READ || read_rows(training, want, &s) > 0;
}

/* Positions of a sequence that a layer with a window keeps: those that the first query of a call
 * sees, and the most that one call appends. A slot's rows are on one rank of the batch. */
static int64_t ring_tokens(const struct sw_program_options *training, const struct sw_serving *want,
                           const struct sizes *s, int64_t max_tokens)
{
    const int64_t window = training->model.sliding_window;
    const int64_t chunks = chunk_rows(s) * s->chunk, read = read_rows(training, want, s);
    if (window == 0 || window >= max_tokens)
        return max_tokens;
    const int64_t ring = rounded_up(window - 1 + (chunks > read ? chunks : read), s->chunk);
    return ring < max_tokens ? ring : max_tokens;
}

int sw_serving_options(const struct sw_program_options *training, const struct sw_serving *want,
                       enum sw_program_kind kind, struct sw_program_options *out,
                       struct sw_error *err)
{
    if (check(training, want, err) != 0)
        return -1;
    const struct sizes s = measure(training, want);
    const int64_t rows = kind == SW_PROGRAM_DECODE ? s.slots
                         : kind == SW_PROGRAM_READ ? read_rows(training, want, &s)
                                                   : chunk_rows(&s);
    if (rows == 0)
        return sw_fail(err, SW_ENVIRONMENT, "there is no program to read");
    struct sw_program_options o = *training;
    o.kind = kind;
    o.logits = false;
    o.recompute = sw_recompute_none();
    o.layout = SW_CONTIGUOUS;
    o.global_batch = rows * s.ways;
    o.micro_batch_per_rank = rows;
    o.sequence_length = kind == SW_PROGRAM_DECODE || kind == SW_PROGRAM_READ ? 1 : s.chunk;
    o.serving.max_tokens = rounded_up(want->max_tokens, s.chunk);
    o.serving.longest = want->max_tokens;
    o.serving.ring_tokens = ring_tokens(training, want, &s, o.serving.max_tokens);
    o.serving.chunk = s.chunk;
    o.serving.slots_per_rank = s.slots;
    o.serving.planned_slots =
        want->planned_batch > 0 ? (want->planned_batch + s.ways - 1) / s.ways : s.slots;
    o.serving.cache = want->cache;
    o.serving.matrices = sw_is_quantized(want->weights) ? want->weights : training->compute;
    o.serving.mixes = kind == SW_PROGRAM_READ || (s.mixes && kind == SW_PROGRAM_PREFILL);
    /* all programs must read weights as they are stored; prefill gathers some if axes differ */
    o.serving.tiles = training->target.weight_tiles && training->compute != SW_F64 &&
                      s.ranks == 1 && !want->stream_weights;
    o.serving.gathers_cache = kind != SW_PROGRAM_DECODE && want->gathers == SW_GATHER_KV;
    set_rules(training, want, &o);
    *out = o;
    return 0;
}
