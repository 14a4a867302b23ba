/* Caller-owned error object. A function that can fail returns 0 or -1 (or NULL) and fills one of
 * these. Where in which file the mistake stands is data: only the front ends make a sentence of it.
 *
 * Does not own anything; a struct sw_error is plain memory on the caller's stack, and may be copied
 * with '='. */
#ifndef SW_ERROR_H
#define SW_ERROR_H

#include <stddef.h>
#include <stdint.h>

/* Exit codes of both tools; an error carries the one it should end the process with. */
enum sw_status {
    SW_OK = 0,
    SW_UNMET = 1,      /* the request cannot be met (no mesh fits) */
    SW_BAD_INPUT = 2,  /* YAML, command line, a file's content */
    SW_ENVIRONMENT = 3 /* the machine failed: memory, files, MPI, a scheduler */
};

/* Where something stands. */
struct sw_place {
    const char *file; /* as given or as included; NULL: nowhere */
    int32_t line;     /* from 1; 0: the file as a whole, or a default that is not written */
    int32_t column;   /* from 1 */
};

enum { SW_ERROR_BYTES = 1280, SW_ERROR_TEXT_BYTES = 2 * SW_ERROR_BYTES + 64 };

struct sw_error {
    enum sw_status status;
    int32_t line, column;         /* as in struct sw_place */
    int32_t culprit;              /* the rank whose fault it is, from 1; 0: not told */
    int32_t reason;               /* the errno that whoever failed had; 0: not told */
    char file[SW_ERROR_BYTES];    /* its own copy; "": no place */
    char message[SW_ERROR_BYTES]; /* lower case, no full stop, one line without hidden characters;
                                   * may end in "; what to do" */
};

/* Fills *err (may be NULL) unless it already holds an error, and returns -1. */
int sw_fail(struct sw_error *err, enum sw_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with a place; its file's name is copied, NULL: as sw_fail. */
int sw_fail_at(struct sw_error *err, enum sw_status status, struct sw_place at, const char *format,
               ...) __attribute__((format(printf, 4, 5)));

/* The same with another error, its place included. */
int sw_fail_as(struct sw_error *err, const struct sw_error *from);

/* Puts "context: " before the message that *err (may be NULL) already holds; returns -1. */
int sw_fail_context(struct sw_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Gives a place to the error that *err (may be NULL) holds when it has none; returns -1. */
int sw_fail_place(struct sw_error *err, struct sw_place at);

/* As people read it: "FILE:LINE:COLUMN: error: MESSAGE", "FILE: error: MESSAGE", or without a place
 * "PROGRAM: error: MESSAGE" (program NULL: "error: MESSAGE"). Returns buffer. */
char *sw_error_format(const struct sw_error *err, const char *program,
                      char buffer[SW_ERROR_TEXT_BYTES]);

#endif
