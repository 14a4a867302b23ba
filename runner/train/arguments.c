#include "runner/train/arguments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int wrong(const char **problem, const char **which, const char *what, const char *argument)
{
    *problem = what;
    *which = argument;
    return -1;
}

static int parse_steps(const char *text, int64_t *steps)
{
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < 1)
        return -1;
    *steps = value;
    return 0;
}

/* Sixteen digits, as plans have it. */
static int parse_digest(const char *text, uint64_t *digest)
{
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return -1;
    *digest = strtoull(text, NULL, 16);
    return 0;
}

/* One plan, by its place among the arguments. */
static int take_plan(const char *argument, const char **path, const char **problem,
                     const char **which)
{
    if (argument[0] == '-')
        return wrong(problem, which, "unknown option ", argument);
    if (*path != NULL)
        return wrong(problem, which, "one plan at a time, not also ", argument);
    *path = argument;
    return 0;
}

int sw_train_arguments(int argc, char **argv, struct sw_train_options *out, const char **problem,
                       const char **which)
{
    for (int i = 2; i < argc; i++) {
        const bool last = i + 1 == argc;
        if (strcmp(argv[i], "--steps") == 0) {
            if (last || parse_steps(argv[++i], &out->steps) != 0)
                return wrong(problem, which, "--steps needs a positive number", "");
        } else if (strcmp(argv[i], "--resume") == 0) {
            if (last || argv[i + 1][0] == '\0' || argv[i + 1][0] == '-')
                return wrong(problem, which, "--resume needs auto, none or a checkpoint", "");
            out->resume.from = argv[++i];
        } else if (strcmp(argv[i], "--digest") == 0) {
            if (last || parse_digest(argv[++i], &out->digest) != 0)
                return wrong(problem, which, "--digest needs the 16 digits of a plan's digest", "");
            out->wants_digest = true;
        } else if (strcmp(argv[i], "--quiet") == 0) {
            out->quiet = true;
        } else if (strcmp(argv[i], "--overwrite") == 0) {
            out->resume.overwrite = true;
        } else if (take_plan(argv[i], &out->plan_path, problem, which) != 0) {
            return -1;
        }
    }
    if (out->plan_path == NULL || *out->plan_path == '\0')
        return wrong(problem, which, "train needs a plan file", "");
    if (out->resume.overwrite &&
        (out->resume.from == NULL || strcmp(out->resume.from, "none") != 0))
        return wrong(problem, which, "--overwrite deletes checkpoints, with --resume none only",
                     "");
    return 0;
}

int sw_evaluate_arguments(int argc, char **argv, struct sw_evaluate_options *out,
                          const char **problem, const char **which)
{
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--checkpoint") == 0) {
            if (i + 1 == argc || argv[i + 1][0] == '\0')
                return wrong(problem, which, "--checkpoint needs a folder", "");
            out->checkpoint = argv[++i];
        } else if (strcmp(argv[i], "--json") == 0) {
            out->json = true;
        } else if (take_plan(argv[i], &out->plan_path, problem, which) != 0) {
            return -1;
        }
    }
    if (out->plan_path == NULL || *out->plan_path == '\0')
        return wrong(problem, which, "evaluate needs a plan file", "");
    if (out->checkpoint == NULL)
        return wrong(problem, which, "evaluate needs --checkpoint DIR", "");
    return 0;
}

int sw_preflight_arguments(int argc, char **argv, struct sw_preflight_options *out,
                           const char **problem, const char **which)
{
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--full") == 0) {
            out->full = true;
        } else if (strcmp(argv[i], "--digest") == 0) {
            if (i + 1 == argc || parse_digest(argv[++i], &out->digest) != 0)
                return wrong(problem, which, "--digest needs the 16 digits of a plan's digest", "");
            out->wants_digest = true;
        } else if (take_plan(argv[i], &out->plan_path, problem, which) != 0) {
            return -1;
        }
    }
    if (out->plan_path == NULL || *out->plan_path == '\0')
        return wrong(problem, which, "preflight needs a plan file", "");
    return 0;
}
