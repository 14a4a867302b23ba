/* Files of tokens: llm.c's form (a header of 1024 bytes, magic 20240520 or 20240801, version 1 or
 * 7, the count modulo 2^32), or plain little-endian numbers of 2, 4 or 8 bytes. Pure functions; any
 * thread. */
#ifndef SW_TOKEN_FILE_H
#define SW_TOKEN_FILE_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SW_TOKEN_HEADER_BYTES = 1024, SW_TOKEN_MAGIC = 20240520, SW_TOKEN_MAGIC_LLAMA_3 = 20240801 };
enum { SW_TOKEN_UINT16 = 1, SW_TOKEN_UINT32 = 7 }; /* versions of the header */

struct sw_token_form {
    int32_t width;       /* bytes of a token */
    int64_t begin_bytes; /* offset of the first token */
    int64_t tokens;
};

/* True if a file that begins with head[bytes] has llm.c's header of tokens. */
bool sw_token_has_header(const unsigned char *head, size_t bytes);

/* Form of a file of file_bytes by its first bytes, head[bytes], for a model of vocab_size tokens.
 * Without a header a token has 2 bytes if vocab_size is at most 65536, else 4; or twice or four
 * times as many, if the upper ones are 0 in all bytes examined. Errors (SW_BAD_INPUT, at `place`):
 * a header of another kind or version, a count that is not the file's, part of a token. */
int sw_token_form(const unsigned char *head, size_t bytes, int64_t file_bytes, int64_t vocab_size,
                  struct sw_place place, struct sw_token_form *out, struct sw_error *err);

/* A token of `width` bytes, 1 to 8. */
static inline int64_t sw_token_at(const unsigned char *data, int32_t width, int64_t i)
{
    const unsigned char *at = data + i * width;
    uint64_t token = at[0];
    for (int32_t b = 1; b < width; b++)
        token |= (uint64_t)at[b] << (8 * b);
    return (int64_t)token;
}

/* The first of `count` tokens outside of vocab_size; -1: none. */
int64_t sw_token_find_bad(const unsigned char *data, int32_t width, int64_t count,
                          int64_t vocab_size);
/* Fails (SW_BAD_INPUT, at `place`) because the token at `position` is none of the model's. Returns
 * -1. */
int sw_token_refuse(int64_t token, int64_t position, int64_t vocab_size, struct sw_place place,
                    struct sw_error *err);

#endif
