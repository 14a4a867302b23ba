/* Caller-owned error object. A function that can fail returns 0 or -1 (or NULL) and fills one of
 * these. File and position are separate members: only the front ends make a sentence of them.
 *
 * Owns nothing; a struct sw_error is plain memory on the caller's stack, and may be copied with
 * '='. */
#ifndef SW_ERROR_H
#define SW_ERROR_H

#include <stddef.h>
#include <stdint.h>

/* Exit codes of both tools; an error carries the one it should end the process with. */
enum sw_status {
    SW_OK = 0,
    SW_UNMET = 1,      /* the request cannot be met (no mesh fits) */
    SW_BAD_INPUT = 2,  /* YAML, command line, contents of a file */
    SW_ENVIRONMENT = 3 /* the machine failed: memory, files, MPI, a scheduler */
};

/* A position in a file. */
struct sw_place {
    const char *file; /* name as given or as included; NULL: nowhere */
    int32_t line;     /* from 1; 0: the whole file, or an unwritten default */
    int32_t column;   /* from 1 */
};

enum { SW_ERROR_BYTES = 1280, SW_ERROR_TEXT_BYTES = 2 * SW_ERROR_BYTES + 64 };

struct sw_error {
    enum sw_status status;
    int32_t line, column;         /* see struct sw_place */
    int32_t culprit;              /* rank at fault, from 1; 0: unknown */
    int32_t reason;               /* errno of the failure; 0: unknown */
    char file[SW_ERROR_BYTES];    /* a copy; "": no position */
    char message[SW_ERROR_BYTES]; /* lower case, no full stop, one line without hidden characters;
                                   * may end in "; what to do" */
};

/* Fills *err (may be NULL) unless it already holds an error, and returns -1. */
int sw_fail(struct sw_error *err, enum sw_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with a position; its file's name is copied, NULL: as sw_fail. */
int sw_fail_at(struct sw_error *err, enum sw_status status, struct sw_place at, const char *format,
               ...) __attribute__((format(printf, 4, 5)));

/* Fails with another error, including its position. */
int sw_fail_as(struct sw_error *err, const struct sw_error *from);

/* Puts "context: " before the message that *err (may be NULL) already holds; returns -1. */
int sw_fail_context(struct sw_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Sets the position of the error in *err (may be NULL) if it has none; returns -1. */
int sw_fail_place(struct sw_error *err, struct sw_place at);

/* Formats for people: "FILE:LINE:COLUMN: error: MESSAGE", "FILE: error: MESSAGE", or without a
 * position "PROGRAM: error: MESSAGE" (program NULL: "error: MESSAGE"). Returns buffer. */
char *sw_error_format(const struct sw_error *err, const char *program,
                      char buffer[SW_ERROR_TEXT_BYTES]);

#endif
