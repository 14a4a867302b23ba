/* Caller-owned error object. A function that can fail returns 0 or -1 (or NULL) and fills one of
 * these.
 *
 * Does not own anything; a struct sw_error is plain memory on the caller's stack. */
#ifndef SW_ERROR_H
#define SW_ERROR_H

/* Exit codes of both tools; an error carries the one it should end the process with. */
enum sw_status {
    SW_OK = 0,
    SW_UNMET = 1,      /* the request cannot be met (no mesh fits) */
    SW_BAD_INPUT = 2,  /* YAML, command line, a file's content */
    SW_ENVIRONMENT = 3 /* the machine failed: memory, files, MPI, Slurm */
};

struct sw_error {
    enum sw_status status;
    char message[1024]; /* lower case, no full stop; may end in "; what to do" */
};

/* Fills *err (may be NULL) unless it already holds an error, and returns -1. */
int sw_fail(struct sw_error *err, enum sw_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "context: " before the message that *err (may be NULL) already holds; returns -1. */
int sw_fail_context(struct sw_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
