/* Text files -> a .bin file of tokens, in llm.c's form, and its index, for training
 * (core/base/token_index.h).
 *
 * A file is a document; in a .jsonl each line is one, {"text": ...} or {"messages": [...]}. With
 * byte tokens a file is its bytes. A text's tokens: the post-processor's prefix (unless the text
 * begins with it), the text, its suffix, and `end`. Messages are rendered by the chat template, and
 * only the assistant's texts count as labels. Tokens have 16 bits if the vocabulary has at most
 * 65536, else 32. */
#ifndef SW_TOKENIZE_FILES_H
#define SW_TOKENIZE_FILES_H

#include "core/base/token_writer.h"
#include "runner/text/tokenizer/tokenizer.h"

struct sw_tokenize_options {
    int32_t end; /* token after each document, not repeated, nor after messages; -1: none */
    /* true if special tokens in a text keep their meaning; false: plain text */
    bool parses_special;
    bool lines;                /* true if every input is JSONL, whatever its name */
    const char *folder;        /* the model's, for its chat template; NULL: none */
    const char *chat_template; /* name of ours, or "none"; NULL: the model's, or a guess */
    const char *tokenizer;     /* its path, for the index; NULL: byte tokens */
};
struct sw_tokenize_counts {
    int64_t documents, bytes;    /* bytes: sum over texts and message contents */
    int64_t foreign;             /* bytes that are not UTF-8 and count as U+FFFD */
    int64_t conversations;       /* documents that are conversations */
    const char *guessed;         /* template guessed by the tokens; static; NULL: none */
    struct sw_token_counts made; /* tokens written */
};

/* Writes through temporary files; after an error or a fatal signal nothing is left behind and `to`
 * is unchanged. from [count], count > 0; counts may be NULL. Errors, with file, line and column if
 * known: SW_BAD_INPUT: an input does not exist, is empty, a folder, the output, no text or no
 * JSONL; a text or line of more than 2^31 - 1 bytes; a conversation that the template refuses, or
 * no template; SW_ENVIRONMENT: a file cannot be read or written, or no memory. */
int sw_tokenize_files(const struct sw_tokenizer *t, const char *const *from, int32_t count,
                      const char *to, const struct sw_tokenize_options *options,
                      struct sw_tokenize_counts *counts, struct sw_error *err);

#endif
