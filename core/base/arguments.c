#include "core/base/arguments.h"

#include "core/base/text.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HELP_COLUMN = 27, HELP_WIDTH = 100, SPELLING_BYTES = 64 };

double sw_arguments_number(const char *text)
{
    char *end;
    errno = 0;
    const double value = strtod(text, &end);
    return end == text || *end != '\0' || errno != 0 ? (double)NAN : value;
}

int sw_arguments_range(const char *text, int32_t *least, int32_t *most)
{
    char *end;
    const long a = strtol(text, &end, 10), b = *end == '-' ? strtol(end + 1, &end, 10) : a;
    if (end == text || *end != '\0' || a < 1 || b < a || b > INT32_MAX)
        return -1;
    *least = (int32_t)a;
    *most = (int32_t)b;
    return 0;
}

/* Reads sixteen hexadecimal digits, as in plans. */
int sw_arguments_take_digest(const struct sw_argument *row, void *to, const char *value,
                             struct sw_error *err)
{
    if (strlen(value) != 16 || strspn(value, "0123456789abcdef") != 16)
        return sw_fail(err, SW_BAD_INPUT,
                       "%s must be the 16 hexadecimal digits of a plan's digest, not '%.60s'",
                       row->name, value);
    *(struct sw_meant *)to = (struct sw_meant){true, strtoull(value, NULL, 16)};
    return 0;
}

int sw_arguments_hint(const char *tool, const char *command, struct sw_error *err)
{
    if (err == NULL || strchr(err->message, ';') != NULL)
        return -1;
    const size_t length = strlen(err->message);
    snprintf(err->message + length, sizeof err->message - length, "; see '%s %.60s --help'", tool,
             command);
    return -1;
}

/* ---- Help ---- */

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

/* Spells an option as users write it: "--top-k". */
static void spell(const char *name, char out[SPELLING_BYTES])
{
    const bool field = name[0] != '-';
    snprintf(out, SPELLING_BYTES, "%s%.60s", field ? "--" : "", name);
    for (char *p = out; field && *p != '\0'; p++)
        *p = *p == '_' ? '-' : *p;
}

static bool is_accepted(const struct sw_argument *row, uint32_t accepted)
{
    return accepted == 0 || row->bit == 0 || (row->bit & accepted) != 0;
}

void sw_arguments_help(FILE *out, const struct sw_argument *options, uint32_t accepted)
{
    for (; options->name != NULL; options++) {
        const char *other = options->other != NULL ? options->other : "";
        char name[SPELLING_BYTES], spelling[3 * SPELLING_BYTES];
        if (options->about == NULL || !is_accepted(options, accepted))
            continue;
        spell(options->name, name);
        snprintf(spelling, sizeof spelling, "%s%s%s%s%.60s", other, *other != '\0' ? ", " : "",
                 name, options->value != NULL ? " " : "",
                 options->value != NULL ? options->value : "");
        sw_arguments_help_line(out, spelling, options->about);
    }
}

/* ---- Suggestions for unknown options ---- */

/* True if all words of `wrong` are in `option` in the same order: max-tokens in max-new-tokens,
 * mesh in mesh_dim. */
static bool has_words_of(const char *option, const char *wrong)
{
    const char *word = wrong + 2, *at = option + 2;
    while (*word != '\0' && *at != '\0') {
        const size_t length = strcspn(word, "-_"), here = strcspn(at, "-_");
        if (length == here && memcmp(at, word, length) == 0)
            word += length + (word[length] != '\0');
        at += here + (at[here] != '\0');
    }
    return *word == '\0' && word > wrong + 2;
}

/* Our option for other tools' name. */
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

/* Our option for other tools' name; else the nearest, or one that has its words. out: "" if none is
 * similar. */
static void find_near(const struct sw_command_line *line, const char *wrong,
                      char out[SPELLING_BYTES])
{
    const bool is_long = strncmp(wrong, "--", 2) == 0;
    const char *elsewhere = is_long ? named_elsewhere(wrong) : NULL;
    int32_t best = INT32_MAX; /* number of letters that differ; 1000 and more: it has the words */
    out[0] = '\0';
    for (const struct sw_argument *o = line->options; o->name != NULL && best >= 0; o++) {
        char name[SPELLING_BYTES];
        const char *const names[1] = {name};
        int32_t distance = INT32_MAX;
        spell(o->name, name);
        if (!is_accepted(o, line->accepted))
            continue;
        if (elsewhere != NULL && strcmp(name + 2, elsewhere) == 0)
            distance = -1;
        else if (sw_text_nearest(wrong, names, 1) != NULL)
            distance = sw_text_distance(wrong, name);
        else if (is_long && has_words_of(name, wrong))
            distance = 1000;
        if (distance < best) {
            best = distance;
            snprintf(out, SPELLING_BYTES, "%s", name);
        }
    }
}

/* ---- Values ---- */

/* "a|b|c" as "a, b or c". */
static void name_value(const struct sw_argument *row, char *out, size_t room)
{
    const char *last = strrchr(row->value, '|');
    size_t at = 0;
    out[0] = '\0';
    for (const char *p = row->value; *p != '\0' && at + 8 < room; p++)
        at += (size_t)snprintf(out + at, room - at,
                               p == last   ? " or "
                               : *p == '|' ? ", "
                                           : "%c",
                               *p);
}

static int fail_missing(const struct sw_argument *row, struct sw_error *err)
{
    char name[SPELLING_BYTES], value[128];
    spell(row->name, name);
    name_value(row, value, sizeof value);
    return sw_fail(err, SW_BAD_INPUT, "%s needs a value: %s", name, value);
}

/* Fails because argv[1] is an option where argv[0] needs a value; it might be that value. */
static int fail_forgotten(const struct sw_argument *row, char **argv, struct sw_error *err)
{
    if (row->kind != SW_ARGUMENT_TEXT || row->is_choice)
        return fail_missing(row, err);
    char name[SPELLING_BYTES];
    spell(row->name, name);
    return sw_fail(err, SW_BAD_INPUT, "%s needs a value: %s; write '%.40s=%.40s' if that is meant",
                   name, row->value, argv[0], argv[1]);
}

/* The word that a row takes which is most similar to the value; "": none. */
static void find_choice(const struct sw_argument *row, const char *value, char out[SPELLING_BYTES])
{
    int32_t best = 1000, distance;
    out[0] = '\0';
    for (const struct sw_word *word = row->words; word != NULL && word->text != NULL; word++)
        if (word->why == NULL && sw_text_is_near(value, word->text, &distance) && distance < best) {
            best = distance;
            snprintf(out, SPELLING_BYTES, "%s", word->text);
        }
    if (row->words != NULL || strchr(row->value, '|') == NULL)
        return;
    for (const char *p = row->value + (row->value[0] == '['); *p != '\0'; p += *p == '|') {
        char word[SPELLING_BYTES];
        const size_t here = strcspn(p, "|]");
        snprintf(word, sizeof word, "%.*s", (int)here, p);
        if (sw_text_is_near(value, word, &distance) && distance < best) {
            best = distance;
            memcpy(out, word, sizeof word);
        }
        p += here + (p[here] == ']');
    }
}

static int fail_wrong(const struct sw_argument *row, const char *value, struct sw_error *err)
{
    char name[SPELLING_BYTES], wanted[128], near[SPELLING_BYTES];
    spell(row->name, name);
    name_value(row, wanted, sizeof wanted);
    find_choice(row, value, near);
    if (near[0] != '\0')
        return sw_fail(err, SW_BAD_INPUT, "%s must be %s, not '%.60s'; did you mean '%s'?", name,
                       wanted, value, near);
    return sw_fail(err, SW_BAD_INPUT, "%s must be %s, not '%.60s'", name, wanted, value);
}

/* A whole number, also as "30.0" or "1e3"; *there: true if it is one, in the range of int64. */
static int64_t read_whole(const char *text, bool *there)
{
    static const double exact = 9007199254740992; /* 2^53: all smaller whole numbers are doubles */
    char *end;
    errno = 0;
    const int64_t whole = strtoll(text, &end, 10);
    *there = end != text && *end == '\0' && errno == 0;
    if (*there)
        return whole;
    const double number = sw_arguments_number(text);
    *there = fabs(number) <= exact && floor(number) == number;
    return *there ? (int64_t)number : 0;
}

static int read_number(const struct sw_argument *row, const char *value, int64_t *out,
                       struct sw_error *err)
{
    const int64_t room = row->kind == SW_ARGUMENT_INT64 ? INT64_MAX : INT32_MAX;
    const int64_t most = row->most > 0 ? row->most : room;
    char name[SPELLING_BYTES], bound[48] = "";
    bool there;
    *out = read_whole(value, &there);
    if (there && *out >= row->least && *out <= most)
        return 0;
    spell(row->name, name);
    if (row->most > 0 || *out > most)
        snprintf(bound, sizeof bound, " to %lld", (long long)most);
    return sw_fail(err, SW_BAD_INPUT, "%s must be a whole number from %lld%s, not '%.60s'", name,
                   (long long)row->least, bound, value);
}

static int take_word(const struct sw_argument *row, void *to, const char *value,
                     struct sw_error *err)
{
    for (const struct sw_word *word = row->words; word->text != NULL; word++)
        if (strcmp(word->text, value) == 0) {
            *(int *)to = word->value;
            return 0;
        }
    return fail_wrong(row, value, err);
}

/* True if "a|b|c" contains the value. */
static bool is_among(const char *value, const char *choices)
{
    const size_t length = strlen(value);
    for (const char *p = choices; *p != '\0'; p += *p == '|') {
        const size_t here = strcspn(p, "|");
        if (here == length && memcmp(p, value, length) == 0)
            return true;
        p += here;
    }
    return false;
}

static int take(const struct sw_argument *row, void *to, const char *value, struct sw_error *err)
{
    int64_t number = 0;
    if (row->take != NULL) {
        struct sw_error why = {0};
        if (row->take(row, to, value, &why) == 0)
            return 0;
        return why.message[0] != '\0' ? sw_fail_as(err, &why) : fail_wrong(row, value, err);
    }
    if (row->words != NULL)
        return take_word(row, to, value, err);
    if (row->kind == SW_ARGUMENT_TEXT) {
        if (row->is_choice && !is_among(value, row->value))
            return fail_wrong(row, value, err);
        *(const char **)to = value;
        return 0;
    }
    if (read_number(row, value, &number, err) != 0)
        return -1;
    if (row->kind == SW_ARGUMENT_INT64)
        *(int64_t *)to = number;
    else
        *(int32_t *)to = (int32_t)number;
    return 0;
}

/* Takes a number, and that many words behind it; returns the number of arguments taken, or -1. */
static int take_words(const struct sw_argument *row, struct sw_arguments_words *to, int argc,
                      char **argv, struct sw_error *err)
{
    char *end;
    errno = 0;
    const long long number = strtoll(argv[0], &end, 10);
    if (end == argv[0] || *end != '\0' || errno != 0 || number < 0 || number >= argc)
        return sw_fail(err, SW_BAD_INPUT, "%s needs a number and that many words, not '%.60s'",
                       row->name, argv[0]);
    to->word = (const char *const *)argv + 1;
    to->count = (int32_t)number;
    return (int)number + 1;
}

/* ---- The command line ---- */

bool sw_arguments_is(const char *argument, const char *name)
{
    size_t length = strcspn(argument, "=");
    if (name[0] != '-') {
        if (strncmp(argument, "--", 2) != 0)
            return false;
        argument += 2;
        length -= 2;
    }
    for (size_t i = 0; i < length; i++)
        if (argument[i] != name[i] && !(argument[i] == '-' && name[i] == '_') &&
            !(argument[i] == '_' && name[i] == '-'))
            return false;
    return name[length] == '\0';
}

/* The row that an argument spells, preferably one that the command has; NULL: none. */
static const struct sw_argument *find(const struct sw_command_line *line, const char *argument)
{
    const struct sw_argument *found = NULL;
    for (const struct sw_argument *o = line->options; o->name != NULL; o++)
        if (sw_arguments_is(argument, o->name) ||
            (o->other != NULL && sw_arguments_is(argument, o->other))) {
            if (is_accepted(o, line->accepted))
                return o;
            found = o;
        }
    return found;
}

static int fail_unknown(const struct sw_command_line *line, const char *argument,
                        struct sw_error *err)
{
    char name[SPELLING_BYTES], near[SPELLING_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argument, "="), argument);
    find_near(line, name, near);
    return near[0] != '\0'
               ? sw_fail(err, SW_BAD_INPUT, "unknown option '%s'; did you mean '%s'?", name, near)
               : sw_fail(err, SW_BAD_INPUT, "unknown option '%s'", name);
}

/* True if an argument can be the value of an option with an optional one: a word, which no file
 * is. */
static bool is_word(const char *argument)
{
    return argument[0] != '\0' && argument[0] != '-' && strpbrk(argument, "./") == NULL;
}

/* Takes the option argv[0]; returns the number of arguments taken, or -1. */
static int take_option(const struct sw_command_line *line, int argc, char **argv,
                       struct sw_error *err)
{
    const struct sw_argument *row = find(line, argv[0]);
    const char *equals = strchr(argv[0], '='), *value = equals != NULL ? equals + 1 : NULL;
    int taken = 1;
    if (row == NULL)
        return fail_unknown(line, argv[0], err);
    if (!is_accepted(row, line->accepted))
        return sw_fail(err, SW_BAD_INPUT, "'%s %s' has no option '%s'", line->tool, line->command,
                       row->name);
    void *const to = (char *)line->to + row->at;
    if (row->value == NULL) {
        if (value != NULL)
            return sw_fail(err, SW_BAD_INPUT, "option '%s' takes no value", row->name);
        *(bool *)to = true;
        return 1;
    }
    const bool may = row->value[0] == '[';
    /* an option in place of a value means the value was forgotten; '--prompt=--json' has one */
    const struct sw_argument *next = argc > 1 ? find(line, argv[1]) : NULL;
    const bool forgotten = next != NULL && is_accepted(next, line->accepted);
    if (value == NULL && argc > 1 && !forgotten && (!may || is_word(argv[1])))
        value = argv[taken++];
    if (value == NULL && !may)
        return forgotten ? fail_forgotten(row, argv, err) : fail_missing(row, err);
    if (row->kind == SW_ARGUMENT_WORDS) {
        const int words = equals != NULL ? -1 : take_words(row, to, argc - 1, argv + 1, err);
        return words < 0 ? fail_missing(row, err) : words + 1;
    }
    if (value != NULL && *value == '\0' && row->empty != SW_EMPTY_TAKEN)
        return row->empty == SW_EMPTY_SKIPPED ? taken : fail_missing(row, err);
    return take(row, to, value, err) == 0 ? taken : -1;
}

/* Takes arguments beside the options: argv[0..count). */
static int take_files(struct sw_command_line *line, char **argv, int32_t count,
                      struct sw_error *err)
{
    const int32_t most = line->most_files + (line->plan != NULL ? 1 : 0);
    line->files = argv;
    line->file_count = count;
    if (count > most)
        return sw_fail(err, SW_BAD_INPUT,
                       line->plan != NULL ? "one plan at a time, not also '%.200s'"
                                          : "unexpected argument '%.200s'",
                       argv[most]);
    if (line->plan == NULL)
        return 0;
    if (count == 0 || argv[0][0] == '\0')
        return sw_fail(err, SW_BAD_INPUT, "%s needs a plan file", line->command);
    *line->plan = argv[0];
    line->files++;
    line->file_count--;
    return 0;
}

int sw_arguments_parse(int argc, char **argv, struct sw_command_line *line, struct sw_error *err)
{
    int32_t files = 0;
    bool only_files = false;
    for (int i = 0; i < argc;) {
        if (only_files || argv[i][0] != '-' || argv[i][1] == '\0') {
            argv[files++] = argv[i++];
        } else if (strcmp(argv[i], "--") == 0) {
            only_files = true;
            i++;
            if (line->rest == NULL)
                continue;
            *line->rest =
                (struct sw_arguments_words){(const char *const *)argv + i, (int32_t)(argc - i)};
            break;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return -1;
        } else {
            const int taken = take_option(line, argc - i, argv + i, err);
            if (taken < 0)
                return sw_arguments_hint(line->tool, line->command, err);
            i += taken;
        }
    }
    return take_files(line, argv, files, err) == 0
               ? 0
               : sw_arguments_hint(line->tool, line->command, err);
}
