/* Samples a token from logits (core/ir/sampling.h): a block per slot, no sorting.
 *
 * Tokens ordered by larger logit, ties by smaller token, are kept as a prefix: all above some logit
 * and the first few of those equal to it. Sums over the vocabulary determine the prefix's end: the
 * logit's 32 bits are found from the top, three at a time. Sums are double, over a thread's tokens,
 * a warp's threads, then warps in order: the same logits and settings give the same token. */
#include "runner/device/cuda/kernel.cuh"
#include "runner/device/cuda/serving.h"

#include "core/ir/sampling.h"

#include <math.h>

/* THREADS: one multiprocessor's bandwidth grows with the threads that load at once. */
enum {
    STEP_BITS = 3,
    SUMS = (1 << STEP_BITS) - 1,
    THREADS = 2 * SW_THREADS,
    WARPS = THREADS / SW_WARP
};

struct settings {
    float temperature, penalty, draw;
    int64_t top_k;
    double top_p, min_p;
};

/* One slot's tokens. */
struct candidates {
    const float *logits;
    const uint32_t *seen; /* a bit per token; NULL: no penalty */
    float penalty;
    const float *adjustments; /* [adjusted, SW_ADJUSTMENT_NUMBERS], ordered by token */
    int adjusted;             /* 0: none */
    int64_t vocab;
    float first, temperature; /* first: the largest logit */
};

/* A prefix: all tokens above `key` and the first `equals` of those equal to it. */
struct prefix {
    uint32_t key;
    double equals;
};

/* Sums over a block. */
struct sums {
    double of[SUMS];
};

struct shared {
    double of[WARPS][SUMS], own[THREADS];
    uint64_t rank[THREADS];
    int index[THREADS];
    int found;
};

/* First adjustment of a token >= i. */
__device__ static inline int find_adjustment(const candidates &c, int64_t i)
{
    int first = 0, behind = c.adjusted;
    while (first < behind) {
        const int middle = first + (behind - first) / 2;
        if ((int64_t)c.adjustments[middle * SW_ADJUSTMENT_NUMBERS + SW_ADJUSTMENT_TOKEN] < i)
            first = middle + 1;
        else
            behind = middle;
    }
    return first;
}

/* Adds `sign` times one number of each adjustment to the logits of eight tokens from i; never fused
 * with the penalty's product. */
__device__ static inline void adjust(const candidates &c, int at, sw_adjustment number, float sign,
                                     int64_t i, float *to)
{
#pragma unroll
    for (int k = 0; k < SW_VECTOR; k++) {
        const float *of = c.adjustments + (int64_t)at * SW_ADJUSTMENT_NUMBERS;
        if (at < c.adjusted && (int64_t)of[SW_ADJUSTMENT_TOKEN] == i + k) {
            to[k] = __fadd_rn(to[k], sign * of[number]);
            at++;
        }
    }
}

/* Loads eight tokens' logits from i, adjusted and penalized; returns their number. */
__device__ static inline int load_logits(const candidates &c, int64_t i, float *to)
{
    const int n = sw_left(i, c.vocab);
    sw_load8(c.logits, SW_F32, i, n, to);
    const int adjustment = c.adjusted > 0 ? find_adjustment(c, i) : 0;
    if (c.adjusted > 0)
        adjust(c, adjustment, SW_ADJUSTMENT_BIAS, 1, i, to);
    if (c.seen != nullptr) {
        const uint32_t bits = c.seen[i / 32] >> (i % 32);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            if (bits >> k & 1u)
                to[k] = to[k] > 0 ? to[k] / c.penalty : to[k] * c.penalty;
    }
    if (c.adjusted > 0)
        adjust(c, adjustment, SW_ADJUSTMENT_PENALTY, -1, i, to);
    return n;
}

/* Integer key in the order of the numbers; both zeros have one key. */
__device__ static inline uint32_t key_of(float logit)
{
    sw_bits b;
    b.value = logit == 0 ? 0.0f : logit;
    return b.bits >> 31 ? ~b.bits : b.bits | 0x80000000u;
}

__device__ static inline float logit_of(uint32_t key)
{
    sw_bits b;
    b.bits = key >> 31 ? key & 0x7fffffffu : ~key;
    return b.value;
}

/* Probability relative to the most probable token. */
__device__ static inline double relative(const candidates &c, float logit)
{
    return (double)expf((logit - c.first) / c.temperature);
}

/* Sums over the threads in order; all get the result. */
__device__ static sums block_sums(shared *s, const sums &mine, int count)
{
    sums total = {};
    for (int k = 0; k < count; k++) {
        double sum = mine.of[k];
        for (int other = 1; other < SW_WARP; other *= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, other);
        if (threadIdx.x % SW_WARP == 0)
            s->of[threadIdx.x / SW_WARP][k] = sum;
    }
    __syncthreads();
    for (int w = 0; w < WARPS; w++)
        for (int k = 0; k < count; k++)
            total.of[k] += s->of[w][k];
    __syncthreads();
    return total;
}

__device__ static uint64_t block_most(shared *s, uint64_t value)
{
    s->rank[threadIdx.x] = value;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half && s->rank[threadIdx.x + half] > s->rank[threadIdx.x])
            s->rank[threadIdx.x] = s->rank[threadIdx.x + half];
    }
    __syncthreads();
    value = s->rank[0];
    __syncthreads();
    return value;
}

#define FOR_EACH_EIGHT(i, vocab)                                                                   \
    for (int64_t i = (int64_t)threadIdx.x * SW_VECTOR; i < (vocab);                                \
         i += (int64_t)THREADS * SW_VECTOR)

/* Largest key at or above which the tokens reach `wanted` or, `beyond`, exceed it, in number or,
 * `mass`, in relative probability. 0: all tokens do not. */
__device__ static uint32_t find_key(const candidates &c, shared *s, bool mass, double wanted,
                                    bool beyond)
{
    uint64_t fixed = 0;
    for (int shift = 32 - 32 % STEP_BITS; shift >= 0; shift -= STEP_BITS) {
        sums mine = {};
        FOR_EACH_EIGHT(i, c.vocab)
        {
            float logit[SW_VECTOR];
            const int n = load_logits(c, i, logit);
#pragma unroll
            for (int k = 0; k < SW_VECTOR; k++) {
                const uint64_t key = key_of(logit[k]);
                if (k >= n || key < fixed + ((uint64_t)1 << shift))
                    continue;
                const double weight = mass ? relative(c, logit[k]) : 1.0;
#pragma unroll
                for (int j = 0; j < SUMS; j++)
                    mine.of[j] += key >= fixed + ((uint64_t)(j + 1) << shift) ? weight : 0.0;
            }
        }
        const sums total = block_sums(s, mine, SUMS);
        int steps = 0;
#pragma unroll
        for (int j = 0; j < SUMS; j++)
            if (beyond ? total.of[j] > wanted : total.of[j] >= wanted)
                steps = j + 1;
        fixed += (uint64_t)steps << shift;
    }
    return fixed > 0xffffffffu ? 0xffffffffu : (uint32_t)fixed;
}

/* Sums over the block: of[0] counts tokens above the key, of[1] tokens equal to it; of[2] is the
 * mass of those above. */
__device__ static sums look_at(const candidates &c, shared *s, uint32_t key)
{
    sums mine = {};
    FOR_EACH_EIGHT(i, c.vocab)
    {
        float logit[SW_VECTOR];
        const int n = load_logits(c, i, logit);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++) {
            const uint32_t its = key_of(logit[k]);
            if (k >= n || its < key)
                continue;
            if (its == key) {
                mine.of[1] += 1;
                continue;
            }
            mine.of[0] += 1;
            mine.of[2] += relative(c, logit[k]);
        }
    }
    return block_sums(s, mine, 3);
}

__device__ static inline double mass_of(const candidates &c, const sums &above, const prefix &p)
{
    return above.of[2] + p.equals * relative(c, logit_of(p.key));
}

__device__ static inline prefix shorter(const prefix &a, const prefix &b)
{
    if (a.key != b.key)
        return a.key > b.key ? a : b;
    return a.equals < b.equals ? a : b;
}

__device__ static inline double within(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value; /* NaN is kept */
}

/* Smallest key with at least that relative probability; the first token's if none has it. */
__device__ static uint32_t least_probable(const candidates &c, shared *s, double min_p)
{
    /* probabilities fall with the keys: a count finds where they end */
    sums mine = {};
    FOR_EACH_EIGHT(i, c.vocab)
    {
        float logit[SW_VECTOR];
        const int n = load_logits(c, i, logit);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            if (k < n && relative(c, logit[k]) >= min_p)
                mine.of[0] += 1;
    }
    const double count = block_sums(s, mine, 1).of[0];
    return count > 0 ? find_key(c, s, false, count, false) : key_of(c.first);
}

/* Weights of tokens for a search in vocabulary order. */
struct weights {
    bool equals; /* true: 1 for each token of the key; false: relative probabilities */
    uint32_t key;
};

/* Adds up a thread's stretch of the vocabulary. Returns the token at which the sum exceeds `left`;
 * if none, the last with a weight; -1 if no token has one. */
__device__ static int walk(const candidates &c, const weights &w, int64_t begin, int64_t end,
                           double left, double *sum)
{
    int token = -1;
    for (int64_t i = begin; i < end; i += SW_VECTOR) {
        float logit[SW_VECTOR];
        const int n = load_logits(c, i, logit);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++) {
            if (k >= n)
                break;
            const double weight =
                w.equals ? (key_of(logit[k]) == w.key ? 1.0 : 0.0) : relative(c, logit[k]);
            *sum += weight;
            if (weight > 0)
                token = (int)(i + k);
            if (*sum > left)
                return token;
        }
    }
    return token;
}

/* First token in vocabulary order at which the sum of weights exceeds `left`; the last with a
 * weight if rounding leaves none. */
__device__ static int find_token(const candidates &c, shared *s, const weights &w, double left)
{
    const int64_t eights = (c.vocab + SW_VECTOR - 1) / SW_VECTOR;
    const int64_t stretch = (eights + THREADS - 1) / THREADS * SW_VECTOR;
    const int64_t begin = threadIdx.x * stretch;
    const int64_t end = begin + stretch < c.vocab ? begin + stretch : c.vocab;
    double own = 0, before = 0;
    int last = 0;
    s->index[threadIdx.x] = walk(c, w, begin, end, INFINITY, &own);
    s->own[threadIdx.x] = own;
    __syncthreads();
    for (int t = 0; t < THREADS; t++) {
        before += t < (int)threadIdx.x ? s->own[t] : 0.0;
        last = s->index[t] > last ? s->index[t] : last;
    }
    __syncthreads();
    /* first thread whose stretch reaches it; THREADS: none */
    const int winner =
        THREADS - (int)block_most(s, own > 0 && before + own > left ? THREADS - threadIdx.x : 0);
    if ((int)threadIdx.x == winner)
        s->found = walk(c, w, begin, end, left, &before);
    __syncthreads();
    const int token = winner < THREADS ? s->found : last;
    __syncthreads();
    return token;
}

/* Prefix that the filters leave. */
__device__ static prefix filter(const candidates &c, shared *s, const settings &g, double *kept)
{
    const double vocab = (double)c.vocab;
    prefix p;
    p.key = 0;
    p.equals = vocab; /* more than exist: all */
    double all;
    if (g.top_k > 0 && g.top_k < c.vocab) {
        p.key = find_key(c, s, false, (double)g.top_k, false);
        const sums above = look_at(c, s, p.key);
        p.equals = (double)g.top_k - above.of[0];
        all = mass_of(c, above, p);
    } else {
        all = look_at(c, s, 0).of[2];
    }
    if (g.top_p < 1) {
        prefix by_mass;
        const uint32_t highest = key_of(c.first), key = find_key(c, s, true, g.top_p * all, false);
        by_mass.key = key < highest ? key : highest;
        const sums above = look_at(c, s, by_mass.key);
        const double each = relative(c, logit_of(by_mass.key));
        by_mass.equals = within(ceil((g.top_p * all - above.of[2]) / each), 1, above.of[1]);
        p = shorter(p, by_mass);
    }
    if (g.min_p > 0) {
        prefix probable;
        probable.key = least_probable(c, s, g.min_p);
        probable.equals = g.min_p > 1 ? 1.0 : vocab;
        p = shorter(p, probable);
    }
    const sums above = look_at(c, s, p.key);
    p.equals = p.equals < above.of[1] ? p.equals : above.of[1];
    *kept = mass_of(c, above, p);
    return p;
}

__device__ static int draw_token(const candidates &c, shared *s, const settings &g)
{
    weights w;
    w.equals = false;
    w.key = 0;
    if ((g.top_k <= 0 || g.top_k >= c.vocab) && g.top_p >= 1 && g.min_p <= 0)
        return find_token(c, s, w, (double)g.draw * look_at(c, s, 0).of[2]);
    double kept;
    const prefix p = filter(c, s, g, &kept);
    const double left = (double)g.draw * kept;
    const uint32_t highest = key_of(c.first), drawn = find_key(c, s, true, left, true);
    w.equals = true;
    w.key = drawn > highest ? highest : drawn < p.key ? p.key : drawn;
    const sums above = look_at(c, s, w.key);
    const double each = relative(c, logit_of(w.key));
    const double of_key = w.key == p.key ? p.equals : above.of[1];
    /* skips as many of the key's tokens as their shares fit into the rest */
    const double passed = each > 0 ? floor((left - above.of[2]) / each) : 0.0;
    return find_token(c, s, w, within(passed, 0, of_key - 1) + 0.5);
}

__device__ static float largest(const candidates &c, shared *s)
{
    float most = -INFINITY;
    FOR_EACH_EIGHT(i, c.vocab)
    {
        float logit[SW_VECTOR];
        const int n = load_logits(c, i, logit);
        for (int k = 0; k < n; k++)
            most = fmaxf(most, logit[k]);
    }
    return logit_of((uint32_t)block_most(s, key_of(most)));
}

/* Candidates with unchanged logits. */
__device__ static candidates untouched(const float *logits, int64_t vocab, shared *s)
{
    candidates c;
    c.logits = logits;
    c.seen = nullptr;
    c.penalty = 1;
    c.adjustments = nullptr;
    c.adjusted = 0;
    c.vocab = vocab;
    c.temperature = 1;
    c.first = largest(c, s);
    return c;
}

/* A block per slot. */
__global__ static void __launch_bounds__(THREADS)
    sample_kernel(const float *logits, const uint32_t *seen, int64_t words,
                  const float *all_settings, int64_t fields, const float *adjustments,
                  int64_t width, float *to, int64_t vocab)
{
    __shared__ shared s;
    const int64_t b = blockIdx.x;
    const float *set = all_settings + b * fields;
    settings g;
    g.temperature = set[SW_SAMPLING_TEMPERATURE];
    g.penalty = set[SW_SAMPLING_PENALTY];
    g.draw = set[SW_SAMPLING_DRAW];
    g.top_k = (int64_t)set[SW_SAMPLING_TOP_K];
    g.top_p = (double)set[SW_SAMPLING_TOP_P];
    g.min_p = (double)set[SW_SAMPLING_MIN_P];
    const candidates plain = untouched(logits + b * vocab, vocab, &s);
    candidates c = plain;
    const float adjusted = set[SW_SAMPLING_ADJUSTED];
    const float most = (float)(width / SW_ADJUSTMENT_NUMBERS);
    if (adjusted >= 1) {
        c.adjustments = adjustments + b * width;
        c.adjusted = (int)(adjusted < most ? adjusted : most);
    }
    if (g.penalty != 1 && g.penalty > 0) {
        c.seen = seen + b * words;
        c.penalty = g.penalty;
    }
    if (c.adjusted > 0 || c.seen != nullptr)
        c.first = largest(c, &s);
    int token;
    if (g.temperature > 0) {
        c.temperature = g.temperature;
        token = draw_token(c, &s, g);
    } else {
        weights w;
        w.equals = true;
        w.key = key_of(c.first);
        token = find_token(c, &s, w, 0.5);
    }
    const double sum = look_at(plain, &s, 0).of[2];
    if (threadIdx.x == 0) {
        to[2 * b] = (float)token;
        to[2 * b + 1] = (float)((double)plain.logits[token] - (double)plain.first - log(sum));
    }
}

extern "C" cudaError_t sw_cuda_sample(const struct sw_call *call, cudaStream_t stream)
{
    const struct sw_tensor *logits = &call->in[0], *seen = &call->in[1], *settings = &call->in[2];
    if (logits->elems == 0)
        return cudaSuccess;
    SW_LAUNCH(sample_kernel, (unsigned)logits->size[0], THREADS, 0, stream,
              (const float *)logits->data, (const uint32_t *)seen->data, seen->size[1],
              (const float *)settings->data, settings->size[1], (const float *)call->in[3].data,
              call->in[3].size[1], (float *)call->out[0].data, logits->size[2]);
    return cudaGetLastError();
}

/* Rank of a token, unique: larger for larger logits, ties by smaller token. */
__device__ static inline uint64_t rank_of(float logit, int64_t token)
{
    return (uint64_t)key_of(logit) << 32 | (0xffffffffu - (uint32_t)token);
}

/* Largest rank below `before`. */
__device__ static uint64_t next_rank(const candidates &c, shared *s, uint64_t before)
{
    uint64_t most = 0;
    FOR_EACH_EIGHT(i, c.vocab)
    {
        float logit[SW_VECTOR];
        const int n = load_logits(c, i, logit);
        for (int k = 0; k < n; k++) {
            const uint64_t rank = rank_of(logit[k], i + k);
            most = rank < before && rank > most ? rank : most;
        }
    }
    return block_most(s, most);
}

/* A block per slot; reads the vocabulary once for each token requested. */
__global__ static void __launch_bounds__(THREADS)
    top_kernel(const float *logits, const float *all_settings, int64_t fields, const float *sampled,
               float *all, int64_t vocab)
{
    __shared__ shared s;
    const int64_t b = blockIdx.x;
    const float wanted = all_settings[b * fields + SW_SAMPLING_TOP];
    const int most = vocab < SW_TOP_TOKENS ? (int)vocab : (int)SW_TOP_TOKENS;
    const int count = !(wanted >= 1) ? 0 : wanted < (float)most ? (int)wanted : most;
    float *to = all + b * SW_SAMPLED_NUMBERS + 2;
    if (threadIdx.x < 2)
        to[(int)threadIdx.x - 2] = sampled[2 * b + threadIdx.x];
    for (int i = count + (int)threadIdx.x; i < SW_TOP_TOKENS; i += THREADS) {
        to[2 * i] = -1;
        to[2 * i + 1] = 0;
    }
    if (count == 0)
        return;
    const candidates c = untouched(logits + b * vocab, vocab, &s);
    /* same bits as sample_kernel gives for the token it chooses */
    const double log_sum = log(look_at(c, &s, 0).of[2]);
    uint64_t rank = UINT64_MAX;
    for (int i = 0; i < count; i++) {
        rank = next_rank(c, &s, rank);
        if (threadIdx.x == 0) {
            const int64_t token = 0xffffffffu - (uint32_t)rank;
            to[2 * i] = (float)token;
            to[2 * i + 1] = (float)((double)c.logits[token] - (double)c.first - log_sum);
        }
    }
}

extern "C" cudaError_t sw_cuda_top_tokens(const struct sw_call *call, cudaStream_t stream)
{
    const struct sw_tensor *logits = &call->in[0], *settings = &call->in[1];
    if (logits->elems == 0)
        return cudaSuccess;
    SW_LAUNCH(top_kernel, (unsigned)logits->size[0], THREADS, 0, stream,
              (const float *)logits->data, (const float *)settings->data, settings->size[1],
              (const float *)call->in[2].data, (float *)call->out[0].data, logits->size[2]);
    return cudaGetLastError();
}
