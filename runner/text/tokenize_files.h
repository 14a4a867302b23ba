/* Files of text -> a .bin file of tokens, in llm.c's form: what training reads (train/dataset.h).
 *
 * A file is a document; where its name ends in .jsonl, each line is one, {"text": ...}. With bytes
 * each file is only its bytes. A document's tokens are what the post-processor puts before a text
 * (nothing where the text begins with that), the text, what it puts behind it, and `end`. Tokens
 * are 16 bits wide where the vocabulary has at most 65536 of them, else 32. */
#ifndef SW_TOKENIZE_FILES_H
#define SW_TOKENIZE_FILES_H

#include "runner/text/tokenizer/tokenizer.h"

struct sw_tokenize_options {
    int32_t end; /* the token behind each document; -1: none; not put twice */
    /* special tokens that stand in a text are what they say; otherwise plain text */
    bool parses_special;
};
struct sw_tokenize_counts {
    int64_t documents, tokens, bytes; /* bytes: of the texts */
    int64_t foreign;                  /* of these, what is no UTF-8 and counts as U+FFFD */
};

/* Writes by way of a file beside it; on errors nothing is left behind and `to` is as it was. from
 * [count], count > 0; counts may be NULL. Errors: SW_BAD_INPUT: a file does not exist, is empty, a
 * folder, too large, the one to write, no text, or no JSONL; more than 2^31 - 1 tokens;
 * SW_ENVIRONMENT: a file cannot be read or written, or no memory. */
int sw_tokenize_files(const struct sw_tokenizer *t, const char *const *from, int32_t count,
                      const char *to, const struct sw_tokenize_options *options,
                      struct sw_tokenize_counts *counts, struct sw_error *err);

#endif
