#include "runner/generate/biases.h"

static bool ban(struct sw_biases *biases, int64_t vocab, int32_t token)
{
    if (token < 0 || token >= vocab)
        return true;
    for (int32_t i = 0; i < biases->banned_count; i++)
        if (biases->banned[i] == token)
            return true;
    if (biases->banned_count == SW_BANNED_TOKENS)
        return false;
    biases->banned[biases->banned_count++] = token;
    return true;
}

bool sw_biases_ban(struct sw_biases *biases, int64_t vocab, const int32_t *tokens, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!ban(biases, vocab, tokens[i]))
            return false;
    return true;
}

bool sw_biases_ban_ends(struct sw_biases *biases, int64_t vocab, const struct sw_codec *codec)
{
    size_t count;
    const int32_t *ends = sw_codec_end_tokens(codec, &count);
    return sw_biases_ban(biases, vocab, ends, count);
}
