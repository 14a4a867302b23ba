#include "runner/rank/arguments.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int sw_problem_is(struct sw_problem *problem, const char *what, const char *which)
{
    problem->what = what;
    problem->which = which;
    return -1;
}

double sw_arguments_number(const char *text)
{
    char *end;
    errno = 0;
    const double value = strtod(text, &end);
    return end == text || *end != '\0' || errno != 0 ? (double)NAN : value;
}

/* The option itself, or the field's name with dashes: "--top-k". */
static bool is_named(const char *argument, const char *name)
{
    if (name[0] != '-') {
        if (strncmp(argument, "--", 2) != 0)
            return false;
        argument += 2;
    }
    for (; *name != '\0' && *argument == (*name == '_' ? '-' : *name); name++)
        argument++;
    return *name == '\0' && *argument == '\0';
}

static int lacks(const struct sw_argument *o, const char *argument, struct sw_problem *problem)
{
    const char *needs = o->needs != NULL ? o->needs : " needs a value";
    return needs[0] == ' ' ? sw_problem_is(problem, argument, needs)
                           : sw_problem_is(problem, needs, "");
}

static int take(const struct sw_argument *o, const char *argument, const char *value,
                struct sw_problem *problem)
{
    if (value == NULL || (*value == '\0' && !o->may_be_empty))
        return lacks(o, argument, problem);
    if (o->text != NULL) {
        *o->text = value;
        return 0;
    }
    if (o->number != NULL) {
        const double number = sw_arguments_number(value);
        if (!(number >= o->least && number <= o->most && number == floor(number)))
            return lacks(o, argument, problem);
        *o->number = number;
        return 0;
    }
    if (o->take(o->to, value, problem) == 0)
        return 0;
    return problem->what != NULL ? -1 : lacks(o, argument, problem);
}

static int take_place(char *argument, const char **plan, char **more, int32_t *more_count,
                      struct sw_problem *problem)
{
    if (argument[0] == '-')
        return sw_problem_is(problem, "unknown option ", argument);
    if (plan == NULL && more == NULL)
        return sw_problem_is(problem, "unexpected argument ", argument);
    if (plan != NULL && *plan != NULL && more == NULL)
        return sw_problem_is(problem, "one plan at a time, not also ", argument);
    if (plan != NULL && *plan == NULL)
        *plan = argument;
    else
        more[(*more_count)++] = argument;
    return 0;
}

int sw_arguments_parse(int argc, char **argv, const struct sw_argument *options, const char **plan,
                       char **more, int32_t *more_count, struct sw_problem *problem)
{
    *problem = (struct sw_problem){.which = ""};
    for (int i = 2; i < argc; i++) {
        const struct sw_argument *o = options;
        while (o->name != NULL && !is_named(argv[i], o->name))
            o++;
        if (o->name == NULL) {
            if (take_place(argv[i], plan, more, more_count, problem) != 0)
                return -1;
        } else if (o->flag != NULL) {
            *o->flag = true;
        } else {
            if (take(o, argv[i], i + 1 < argc ? argv[i + 1] : NULL, problem) != 0)
                return -1;
            i++;
        }
    }
    return plan == NULL || (*plan != NULL && **plan != '\0')
               ? 0
               : sw_problem_is(problem, argv[1], " needs a plan file");
}

/* Sixteen digits, as plans have it. */
static int take_digest(void *to, const char *value, struct sw_problem *problem)
{
    struct sw_meant *meant = to;
    (void)problem;
    if (strlen(value) != 16 || strspn(value, "0123456789abcdef") != 16)
        return -1;
    *meant = (struct sw_meant){true, strtoull(value, NULL, 16)};
    return 0;
}

struct sw_argument sw_argument_digest(struct sw_meant *meant)
{
    return (struct sw_argument){.name = "--digest",
                                .needs = "--digest needs the 16 digits of a plan's digest",
                                .take = take_digest,
                                .to = meant};
}
