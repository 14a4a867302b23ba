/* Files of text -> a .bin file of tokens, in llm.c's form, and its index: what training reads
 * (core/base/token_index.h).
 *
 * A file is a document; of a .jsonl each line is one, {"text": ...} or {"messages": [...]}. With
 * bytes each file is only its bytes. A document's tokens are what the post-processor puts before a
 * text (nothing where the text begins with that), the text, what it puts behind it, and `end`; of
 * messages they are what the chat template writes, and only what the assistant says counts as
 * labels. Tokens are 16 bits wide where the vocabulary has at most 65536 of them, else 32. */
#ifndef SW_TOKENIZE_FILES_H
#define SW_TOKENIZE_FILES_H

#include "core/base/token_writer.h"
#include "runner/text/tokenizer/tokenizer.h"

struct sw_tokenize_options {
    int32_t end; /* the token behind each document; -1: none; not put twice, nor behind messages */
    /* special tokens that stand in a text are what they say; otherwise plain text */
    bool parses_special;
    bool lines;                /* every input is JSONL, whatever its name */
    const char *folder;        /* of the model, for its chat template; NULL: none is looked for */
    const char *chat_template; /* one of ours, or "none"; NULL: the model's, or by its tokens */
    const char *tokenizer;     /* its path, for the index; NULL: bytes */
};
struct sw_tokenize_counts {
    int64_t documents, bytes;    /* bytes: of the texts and the contents of messages */
    int64_t foreign;             /* of these, what is no UTF-8 and counts as U+FFFD */
    int64_t conversations;       /* documents that are */
    const char *guessed;         /* template by the tokenizer's tokens; static; NULL: none was */
    struct sw_token_counts made; /* as they are written */
};

/* Writes by way of files beside it; on errors, and when a signal ends the process, nothing is left
 * behind and `to` is as it was. from [count], count > 0; counts may be NULL. Errors, with file,
 * line and column where there are any: SW_BAD_INPUT: a file does not exist, is empty, a folder, the
 * one to write, no text, or no JSONL; a text or a line of more than 2^31 - 1 bytes; a conversation
 * that the template refuses, or no template; SW_ENVIRONMENT: a file cannot be read or written, or
 * no memory. */
int sw_tokenize_files(const struct sw_tokenizer *t, const char *const *from, int32_t count,
                      const char *to, const struct sw_tokenize_options *options,
                      struct sw_tokenize_counts *counts, struct sw_error *err);

#endif
