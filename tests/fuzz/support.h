/* What the fuzzers share: an input as files that only the program under test sees, and how an error
 * message must look.
 *
 * A fuzzer defines fuzz_one. With SW_FUZZ and clang it is a libFuzzer program; without, a program
 * that runs each file, and each file of each folder, that it is given. Fuzzers are linked with
 * --wrap for open, fopen, stat and realpath: while fuzz_one runs, the files named below are the
 * only ones to be read. */
#ifndef SW_FUZZ_SUPPORT_H
#define SW_FUZZ_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One input. Aborts when the program under test does something wrong. */
void fuzz_one(const uint8_t *data, size_t bytes);

enum { FUZZ_FILES = 8 };

/* Cuts an input at lines that are only "%%" (which no YAML, CSV or log has) into the files
 * "main.yaml", "1.yaml", "2.yaml" ... with copies of the parts; those of the last input go away. */
struct fuzz_file {
    char name[32];
    char *text; /* [bytes + 1], ends with a NUL */
    size_t bytes;
};
struct fuzz_file *fuzz_files(const uint8_t *data, size_t bytes, int32_t *count);
/* Names one file more, whose bytes stay the caller's. */
void fuzz_add_file(const char *name, const char *text, size_t bytes);

/* Says what is wrong and aborts. */
void fuzz_require(bool good, const char *what, const char *about);

/* No control character, so that a message is one line and cannot steer a terminal. */
void fuzz_require_plain(const char *text);
/* A message that says something, and a place in a file. */
void fuzz_require_place(const char *file, int32_t line, int32_t column, const char *message);
/* Moreover "FILE:LINE:COLUMN: error: WHAT" with both numbers of at least 1. */
void fuzz_require_positioned(const char *message);

#endif
