#include "core/base/arguments.h"

#include "core/base/text.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sw_problem_is(struct sw_problem *problem, const char *what, const char *which)
{
    problem->what = what;
    problem->which = which;
    return -1;
}

const char *sw_problem_text(const struct sw_problem *problem, const char *command,
                            char buffer[SW_PROBLEM_BYTES])
{
    const bool near = problem->near[0] != '\0';
    snprintf(buffer, SW_PROBLEM_BYTES,
             near ? "%.300s%.300s; did you mean %s?" : "%.300s%.300s; see 'runner %.32s --help'",
             problem->what, problem->which, near ? problem->near : command);
    return buffer;
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

/* ---- Help ---- */

enum { HELP_COLUMN = 27, HELP_WIDTH = 100, SPELLING_BYTES = 64, MOST_OPTIONS = 48 };

void sw_arguments_help_line(FILE *out, const char *spelling, const char *about)
{
    int at = fprintf(out, "  %s", spelling);
    if (at + 1 >= HELP_COLUMN) {
        fputc('\n', out);
        at = 0;
    }
    at += fprintf(out, "%*s", HELP_COLUMN - at, "");
    for (const char *word = about; *word != '\0'; word += *word == ' ') {
        const int length = (int)strcspn(word, " ");
        if (word > about && at + 1 + length > HELP_WIDTH)
            at = fprintf(out, "\n%*s", HELP_COLUMN, "") - 1;
        else if (word > about)
            at += fprintf(out, " ");
        at += fprintf(out, "%.*s", length, word);
        word += length;
    }
    fputc('\n', out);
}

/* As it is written: "--top-k". */
static void spell(const char *name, char out[SPELLING_BYTES])
{
    snprintf(out, SPELLING_BYTES, "%s%.60s", name[0] == '-' ? "" : "--", name);
    for (char *p = out; *p != '\0'; p++)
        *p = *p == '_' ? '-' : *p;
}

void sw_arguments_help(FILE *out, const struct sw_argument *options)
{
    for (; options->name != NULL; options++) {
        char name[SPELLING_BYTES], spelling[2 * SPELLING_BYTES];
        if (options->about == NULL)
            continue;
        spell(options->name, name);
        snprintf(spelling, sizeof spelling, "%s%s%.60s", name, options->value != NULL ? " " : "",
                 options->value != NULL ? options->value : "");
        sw_arguments_help_line(out, spelling, options->about);
    }
}

/* ---- What an unknown option was meant to be ---- */

/* Whether the words of max-tokens stand in max-new-tokens, in the same order. */
static bool has_words_of(const char *option, const char *wrong)
{
    const char *word = wrong + 2, *at = option + 2;
    while (*word != '\0' && *at != '\0') {
        const size_t length = strcspn(word, "-"), here = strcspn(at, "-");
        if (length == here && memcmp(at, word, length) == 0)
            word += length + (word[length] == '-');
        at += here + (at[here] == '-');
    }
    return *word == '\0' && word > wrong + 2;
}

/* What other tools call it. */
static const char *named_elsewhere(const char *wrong) /* with its dashes; the answer has none */
{
    static const char *const names[][2] = {{"port", "listen"},        {"host", "listen"},
                                           {"bind", "listen"},        {"address", "listen"},
                                           {"api-key", "token-file"}, {"ckpt", "checkpoint"},
                                           {"weights", "checkpoint"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i][0], wrong + 2) == 0)
            return names[i][1];
    return NULL;
}

/* The same in another spelling, or as other tools call it; else the nearest, or one that has its
 * words. out: "" where none is like it. */
static void find_near(const struct sw_argument *options, const char *wrong,
                      char out[SPELLING_BYTES])
{
    char option[MOST_OPTIONS][SPELLING_BYTES], spelled[SPELLING_BYTES];
    const char *names[MOST_OPTIONS], *found = NULL, *elsewhere;
    int32_t count = 0;
    spell(wrong, spelled);
    spelled[strcspn(spelled, "=")] = '\0';
    const bool is_long = strncmp(spelled, "--", 2) == 0;
    elsewhere = is_long ? named_elsewhere(spelled) : NULL;
    for (; options[count].name != NULL && count < MOST_OPTIONS; count++) {
        spell(options[count].name, option[count]);
        names[count] = option[count];
        if (strcmp(option[count], spelled) == 0 ||
            (found == NULL && elsewhere != NULL && strcmp(option[count] + 2, elsewhere) == 0))
            found = option[count];
    }
    if (found == NULL && count > 0)
        found = sw_text_nearest(spelled, names, count);
    for (int32_t i = 0; found == NULL && is_long && i < count; i++)
        if (has_words_of(option[i], spelled))
            found = option[i];
    snprintf(out, SPELLING_BYTES, "%.63s", found != NULL ? found : "");
}

static int take_place(char *argument, const struct sw_argument *options, const char **plan,
                      char **more, int32_t *more_count, struct sw_problem *problem)
{
    if (argument[0] == '-') {
        find_near(options, argument, problem->near);
        return sw_problem_is(problem, "unknown option ", argument);
    }
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
    if (argc > 2 && strcmp(argv[2], "--help") == 0) {
        sw_arguments_help(stdout, options);
        problem->help = true;
        return -1;
    }
    for (int i = 2; i < argc; i++) {
        const struct sw_argument *o = options;
        while (o->name != NULL && !is_named(argv[i], o->name))
            o++;
        if (o->name == NULL) {
            if (take_place(argv[i], options, plan, more, more_count, problem) != 0)
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
    return (struct sw_argument){
        .name = "--digest",
        .value = "HEX",
        .about = "refuse another plan than the one of that digest; job scripts say it",
        .needs = "--digest needs the 16 digits of a plan's digest",
        .take = take_digest,
        .to = meant};
}
