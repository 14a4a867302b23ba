#include "core/base/token_file.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

enum { LEAST_WORDS = 8 }; /* words that decide a width */

static uint32_t word_at(const unsigned char *data, size_t i)
{
    return (uint32_t)sw_token_at(data, 4, (int64_t)i);
}

/* Other files that begin with a header of this kind (karpathy/llm.c: dev/data, train_gpt2.c,
 * train_llama3.py). */
static const struct {
    uint32_t magic;
    const char *what, *help;
} headers[] = {
    {20240522, "llm.c's questions of an evaluation", "name a file of tokens"},
    {20240326, "weights of llm.c", "name a file of tokens"},
    {20240803, "weights of llm.c", "name a file of tokens"},
    {20240327, "llm.c's state for its tests", "name a file of tokens"},
    {20240328, "a tokenizer of llm.c", "name a file of tokens"},
};
enum { HEADERS = sizeof headers / sizeof headers[0] };

bool sw_token_has_header(const unsigned char *head, size_t bytes)
{
    return bytes >= SW_TOKEN_HEADER_BYTES &&
           (word_at(head, 0) == SW_TOKEN_MAGIC || word_at(head, 0) == SW_TOKEN_MAGIC_LLAMA_3);
}

/* True for a number that reads as a date, before a header's zeros. */
static bool is_unknown_header(const unsigned char *head, size_t bytes)
{
    const uint32_t magic = word_at(head, 0), month = magic / 100 % 100, day = magic % 100;
    if (bytes < SW_TOKEN_HEADER_BYTES || magic / 10000 < 2022 || magic / 10000 > 2040 ||
        month < 1 || month > 12 || day < 1 || day > 31)
        return false;
    for (size_t i = 64; i < SW_TOKEN_HEADER_BYTES; i++)
        if (head[i] != 0)
            return false;
    return true;
}

static int refuse_header(const unsigned char *head, size_t bytes, struct sw_place place,
                         struct sw_error *err)
{
    const uint32_t magic = bytes >= SW_TOKEN_HEADER_BYTES ? word_at(head, 0) : 0;
    for (size_t i = 0; i < HEADERS; i++)
        if (magic == headers[i].magic)
            return sw_fail_at(err, SW_BAD_INPUT, place,
                              "%s (magic %u, version %u), which is not read here; %s",
                              headers[i].what, magic, word_at(head, 1), headers[i].help);
    if (is_unknown_header(head, bytes))
        return sw_fail_at(err, SW_BAD_INPUT, place,
                          "a header of the unknown magic %u; write tokens after one of magic "
                          "20240520, or the numbers alone, 'tail -c +1025 IN.bin >OUT.bin'",
                          magic);
    return 0;
}

static int read_header(const unsigned char *head, int64_t file_bytes, struct sw_place place,
                       struct sw_token_form *out, struct sw_error *err)
{
    const uint32_t version = word_at(head, 1), count = word_at(head, 2);
    if (version != SW_TOKEN_UINT16 && version != SW_TOKEN_UINT32)
        return sw_fail_at(err, SW_BAD_INPUT, place,
                          "a token file of version %u; write version 1 (uint16) or 7 (uint32)",
                          version);
    out->width = version == SW_TOKEN_UINT16 ? 2 : 4;
    out->begin_bytes = SW_TOKEN_HEADER_BYTES;
    out->tokens = (file_bytes - SW_TOKEN_HEADER_BYTES) / out->width;
    /* the count has 32 bits: llm.c writes the lower ones of larger counts */
    if ((uint32_t)out->tokens == count && (file_bytes - SW_TOKEN_HEADER_BYTES) % out->width == 0)
        return 0;
    return sw_fail_at(err, SW_BAD_INPUT, place,
                      "the header says %u token%s, the file holds %" PRId64 "; write or copy it "
                      "again",
                      count, count == 1 ? "" : "s", out->tokens);
}

/* True if words of `width` bytes use only their lower `low` bytes: the others are 0. */
static bool holds_lower(const unsigned char *head, size_t bytes, size_t width, size_t low)
{
    bool any = false;
    if (bytes / width < LEAST_WORDS)
        return false;
    for (size_t i = 0; i < bytes / width * width; i++) {
        if (i % width >= low && head[i] != 0)
            return false;
        any = any || head[i] != 0;
    }
    return any; /* token 0, of any width, if none */
}

int sw_token_form(const unsigned char *head, size_t bytes, int64_t file_bytes, int64_t vocab_size,
                  struct sw_place place, struct sw_token_form *out, struct sw_error *err)
{
    const int32_t usual = vocab_size <= 65536 ? 2 : 4;
    *out = (struct sw_token_form){.width = usual};
    if (sw_token_has_header(head, bytes))
        return read_header(head, file_bytes, place, out, err);
    if (refuse_header(head, bytes, place, err) != 0)
        return -1;
    for (int32_t wide = 8; wide > usual && out->width == usual; wide /= 2)
        if (file_bytes % wide == 0 && holds_lower(head, bytes, (size_t)wide, (size_t)usual))
            out->width = wide;
    if (file_bytes % out->width != 0)
        return sw_fail_at(err, SW_BAD_INPUT, place,
                          "no whole number of %d-byte tokens in %" PRId64 " byte%s; write or copy "
                          "it again",
                          (int)out->width, file_bytes, file_bytes == 1 ? "" : "s");
    out->tokens = file_bytes / out->width;
    return 0;
}

/* The largest of `count` tokens. A loop for each width, which compilers vectorize. */
static uint64_t largest(const unsigned char *data, int32_t width, int64_t count)
{
    uint64_t most = 0;
    uint16_t most16 = 0;
    uint32_t most32 = 0;
    for (int64_t i = 0; width == 2 && i < count; i++) {
        const uint16_t token = (uint16_t)(data[2 * i] | data[2 * i + 1] << 8);
        most16 = token > most16 ? token : most16;
    }
    for (int64_t i = 0; width == 4 && i < count; i++) {
        const uint32_t token = (uint32_t)sw_token_at(data, 4, i);
        most32 = token > most32 ? token : most32;
    }
    for (int64_t i = 0; width != 2 && width != 4 && i < count; i++) {
        const uint64_t token = (uint64_t)sw_token_at(data, width, i);
        most = token > most ? token : most;
    }
    return width == 2 ? most16 : width == 4 ? most32 : most;
}

int64_t sw_token_find_bad(const unsigned char *data, int32_t width, int64_t count,
                          int64_t vocab_size)
{
    enum { BLOCK = 4096 };
    for (int64_t from = 0; from < count; from += BLOCK) {
        const int64_t to = from + BLOCK < count ? from + BLOCK : count;
        const uint64_t most = largest(data + from * width, width, to - from);
        for (int64_t i = from; most >= (uint64_t)vocab_size && i < to; i++)
            if ((uint64_t)sw_token_at(data, width, i) >= (uint64_t)vocab_size)
                return i;
    }
    return -1;
}

int sw_token_refuse(int64_t token, int64_t position, int64_t vocab_size, struct sw_place place,
                    struct sw_error *err)
{
    return sw_fail_at(err, SW_BAD_INPUT, place,
                      "token %" PRId64 " at position %" PRId64
                      " is not below the model's vocab_size %" PRId64
                      "; use a model made for these tokens, or tokenize again",
                      token, position, vocab_size);
}
