#include "planner/policy/fail_if_internal.h"

#include "core/base/text.h"
#include "core/config/config.h"
#include "planner/command/command.h"
#include "planner/command/format.h"
#include "planner/search/budget.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 32, MAX_EXPONENT = 8 };

static const struct measure_info {
    const char *name;
    struct sw_dimension dimension;
} measures[SW_MEASURE_COUNT] = {
    [SW_MEASURE_STEP] = {"step", {.seconds = 1}},
    [SW_MEASURE_MEMORY] = {"memory", {.bytes = 1}},
    [SW_MEASURE_LIMIT] = {"limit", {.bytes = 1}},
    [SW_MEASURE_TOKENS_PER_SECOND] = {"tokens_per_second", {.seconds = -1}},
    [SW_MEASURE_MFU] = {"mfu", {0}},
    [SW_MEASURE_COMMUNICATION] = {"communication", {.seconds = 1}},
    [SW_MEASURE_COMMUNICATION_BYTES] = {"communication_bytes", {.bytes = 1}},
    [SW_MEASURE_HEADROOM] = {"headroom", {.bytes = 1}},
    [SW_MEASURE_ACCELERATORS] = {"accelerators", {0}},
    [SW_MEASURE_DURATION] = {"duration", {.seconds = 1}},
    [SW_MEASURE_ACCELERATOR_HOURS] = {"accelerator_hours", {0}},
    [SW_MEASURE_TOKEN] = {"token", {.seconds = 1}},
    [SW_MEASURE_FIRST] = {"first", {.seconds = 1}},
    [SW_MEASURE_BESIDE] = {"beside", {.seconds = 1}},
    [SW_MEASURE_END] = {"end", {.seconds = 1}},
    [SW_MEASURE_RUN_HOURS] = {"run_hours", {0}},
    [SW_MEASURE_MONEY] = {"money", {.money = 1}},
    [SW_MEASURE_ENERGY] = {"energy", {.joules = 1}},
    [SW_MEASURE_NODES] = {"nodes", {0}},
    [SW_MEASURE_TIME_LIMIT] = {"time_limit", {.seconds = 1}},
};

const char *sw_measure_name(enum sw_measure measure)
{
    return measures[measure].name;
}

const char *sw_fail_if_verdict_name(enum sw_fail_if_verdict verdict)
{
    static const char *const names[] = {"pass", "fail", "skipped"};
    return names[verdict];
}

static int add_node(struct sw_fail_if_parser *p, struct sw_fail_if_node node)
{
    if (p->out->count == SW_FAIL_IF_NODES)
        return sw_fail_if_mistake(p, node.column, "the condition is too long",
                                  "write several --fail-if");
    p->out->node[p->out->count] = node;
    return p->out->count++;
}

/* Factor and dimension of a unit; false: no unit. */
static bool find_unit(const char *unit, double *factor, struct sw_dimension *dimension)
{
    static const struct {
        char letter;
        struct sw_dimension dimension;
    } kinds[] = {{'B', {.bytes = 1}}, {'b', {.bytes = 1, .seconds = -1}}, {'s', {.seconds = 1}}};
    /* in addition to units of files; a bare node-hour is no measure */
    static const struct sw_dimension costs[SW_COST_KINDS] = {[SW_COST_TIME] = {.seconds = 1},
                                                             [SW_COST_ENERGY] = {.joules = 1},
                                                             [SW_COST_MONEY] = {.money = 1}};
    enum sw_cost_kind kind;
    char text[40];
    if (strcmp(unit, "tokens/s") == 0) {
        *factor = 1;
        *dimension = (struct sw_dimension){.seconds = -1};
        return true;
    }
    snprintf(text, sizeof text, "1 %.30s", unit);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (sw_quantity_parse(text, kinds[i].letter, factor, NULL) == 0) {
            *dimension = kinds[i].dimension;
            return true;
        }
    if (!sw_cost_unit(unit, NULL, &kind, factor) || kind == SW_COST_NODE_HOURS)
        return false;
    *dimension = costs[kind];
    return true;
}

/* Length of a possible unit: letters, with "/s" or "-hours" behind if `longer`. */
static size_t unit_length(const char *from, bool longer)
{
    size_t letters = 0;
    while (isalpha((unsigned char)from[letters]) || from[letters] == '_')
        letters++;
    size_t more = from[letters] == '/' || from[letters] == '-';
    if (!longer || more == 0)
        return letters;
    while (isalpha((unsigned char)from[letters + more]))
        more++;
    const char after = from[letters + more];
    return isdigit((unsigned char)after) || after == '_' ? letters : letters + more;
}

/* Requires one currency for all amounts of a condition. */
static int keep_currency(struct sw_fail_if_parser *p, const char *unit, const char *from)
{
    char *kept = p->out->currency;
    if (kept[0] != '\0' && strcasecmp(kept, unit) != 0)
        return sw_fail_if_mistake(p, sw_fail_if_column(p, from), "two currencies in one condition",
                                  "write all amounts in that of the cluster");
    snprintf(kept, sizeof p->out->currency, "%.10s", unit);
    return 0;
}

/* Parses the unit after a number: letters, and "/s" or "-hours" if that is a unit too ("GB/s"). */
static int parse_unit(struct sw_fail_if_parser *p, struct sw_fail_if_node *node)
{
    char unit[32], what[96];
    double factor;
    const char *from = p->at;
    for (int32_t longer = 1; longer >= 0; longer--) {
        const size_t length = unit_length(from, longer == 1);
        snprintf(unit, sizeof unit, "%.*s", (int)length, from);
        if (length < sizeof unit && find_unit(unit, &factor, &node->dimension)) {
            node->number *= factor;
            p->at = from + length;
            return node->dimension.money != 0 ? keep_currency(p, unit, from) : 0;
        }
    }
    snprintf(what, sizeof what, "unknown unit '%.30s'", unit);
    return sw_fail_if_mistake(
        p, sw_fail_if_column(p, from), what,
        "use B, kB, MB, GB, TB, GiB, s, ms, us, min, h, days, GB/s, tokens/s, GPU-hours, kWh, a "
        "currency such as USD, or '*' to multiply");
}

static bool starts_number(const char *at)
{
    return isdigit((unsigned char)at[0]) || (at[0] == '.' && isdigit((unsigned char)at[1]));
}

/* Parses digits, a point, an exponent: strtod alone would also accept 0x10. */
static int parse_digits(struct sw_fail_if_parser *p, double *out)
{
    char *stop;
    const char *from = p->at;
    *out = strtod(from, &stop);
    if ((from[0] == '0' && (from[1] == 'x' || from[1] == 'X')) || !isfinite(*out))
        return sw_fail_if_mistake(p, sw_fail_if_column(p, from), "no number",
                                  "write it as in 0.92 or 70 GB");
    p->at = stop;
    return 0;
}

static int parse_number(struct sw_fail_if_parser *p)
{
    struct sw_fail_if_node node = {
        .kind = '#', .column = sw_fail_if_column(p, p->at), .dimension = {.bare = true}};
    if (parse_digits(p, &node.number) != 0)
        return -1;
    const size_t spaces = strspn(p->at, " \t");
    if (p->at[spaces] == '%') {
        p->at += spaces + 1;
        node.number /= 100;
        /* 'step > 5%' would compare with 0.05 s: a percentage is a pure number */
        node.dimension.bare = false;
        return add_node(p, node);
    }
    sw_fail_if_skip_spaces(p);
    if ((isalpha((unsigned char)*p->at)) && parse_unit(p, &node) != 0)
        return -1;
    return add_node(p, node);
}

static int fail_name(const struct sw_fail_if_parser *p, const char *from, size_t length)
{
    const char *names[SW_MEASURE_COUNT + SW_ASPECT_COUNT + 1] = {"rejected"};
    char name[48], what[128];
    int32_t count = 1;
    for (int32_t i = 0; i < SW_MEASURE_COUNT; i++)
        names[count++] = measures[i].name;
    for (int32_t i = 0; i < SW_ASPECT_COUNT; i++)
        names[count++] = sw_aspect_name((enum sw_aspect)i);
    snprintf(name, sizeof name, "%.*s", (int)(length < 40 ? length : 40), from);
    for (int32_t i = 0; i <= SW_ASPECT_COUNT; i++)
        if (strcmp(name, i == 0 ? names[0] : sw_aspect_name((enum sw_aspect)(i - 1))) == 0) {
            snprintf(what, sizeof what, "'%s' is not a number", name);
            return sw_fail_if_mistake(
                p, sw_fail_if_column(p, from), what,
                "it stands alone, as in 'mesh != old.mesh', 'recompute == full' or "
                "'rejected'");
        }
    const char *near = strcmp(name, "tokens") == 0 ? measures[SW_MEASURE_TOKENS_PER_SECOND].name
                                                   : sw_text_nearest(name, names, count);
    snprintf(what, sizeof what, "unknown name '%s'", name);
    if (near == NULL)
        return sw_fail_if_mistake(
            p, sw_fail_if_column(p, from), what,
            "use step, duration, end, accelerator_hours, run_hours, money, energy, memory, limit, "
            "headroom, "
            "tokens_per_second, mfu, communication, communication_bytes, accelerators, nodes or "
            "time_limit; of serving token, first or beside; mesh, recompute, verdict or partition "
            "with == or !=; or rejected");
    snprintf(name, sizeof name, "did you mean '%.30s'?", near);
    return sw_fail_if_mistake(p, sw_fail_if_column(p, from), what, name);
}

static int parse_name(struct sw_fail_if_parser *p)
{
    struct sw_fail_if_node node = {.kind = 'm', .column = sw_fail_if_column(p, p->at)};
    if (strncmp(p->at, "old.", 4) == 0) {
        if (sw_fail_if_refuse_before(p, p->at) != 0)
            return -1;
        node.kind = 'o';
        p->at += 4;
    }
    const char *from = p->at;
    size_t length = 0;
    while (isalnum((unsigned char)from[length]) || from[length] == '_')
        length++;
    for (int32_t i = 0; i < SW_MEASURE_COUNT; i++)
        if (strlen(measures[i].name) == length && memcmp(measures[i].name, from, length) == 0) {
            node.measure = (enum sw_measure)i;
            node.dimension = measures[i].dimension;
            p->at += length;
            return add_node(p, node);
        }
    return fail_name(p, from, length);
}

static int parse_sum(struct sw_fail_if_parser *p);

static int parse_primary(struct sw_fail_if_parser *p)
{
    sw_fail_if_skip_spaces(p);
    const char *from = p->at;
    if (starts_number(from))
        return parse_number(p);
    if (isalpha((unsigned char)*from))
        return parse_name(p);
    if (*from != '(' && *from != '-' && *from != '+') {
        char what[48];
        if (*from == '\0')
            snprintf(what, sizeof what, "the condition ends too early");
        else
            snprintf(what, sizeof what, "no number and no name");
        return sw_fail_if_mistake(p, sw_fail_if_column(p, from), what,
                                  "write it as in 'memory > limit - headroom' or 'step > +5%'");
    }
    if (++p->depth > MAX_DEPTH)
        return sw_fail_if_mistake(p, sw_fail_if_column(p, from), "too deeply nested",
                                  "write a shorter condition");
    p->at++;
    int node;
    if (*from == '(') {
        node = parse_sum(p);
        if (node < 0)
            return -1;
        sw_fail_if_skip_spaces(p);
        if (*p->at != ')')
            return sw_fail_if_mistake(p, sw_fail_if_column(p, p->at), "a ')' is missing",
                                      "close the parenthesis");
        p->at++;
    } else {
        node = parse_primary(p);
        if (node >= 0 && *from == '-')
            node = add_node(p, (struct sw_fail_if_node){.kind = '_',
                                                        .left = (int8_t)node,
                                                        .column = sw_fail_if_column(p, from),
                                                        .dimension = p->out->node[node].dimension});
    }
    p->depth--;
    return node;
}

static bool same_dimension(struct sw_dimension a, struct sw_dimension b)
{
    return a.bare || b.bare ||
           (a.bytes == b.bytes && a.seconds == b.seconds && a.money == b.money &&
            a.joules == b.joules);
}

static const char *dimension_name(struct sw_dimension d)
{
    static const struct {
        struct sw_dimension dimension;
        const char *name;
    } rows[] = {{{0}, "a pure number"},      {{.bytes = 1}, "bytes"},
                {{.seconds = 1}, "seconds"}, {{.bytes = 1, .seconds = -1}, "bytes/s"},
                {{.seconds = -1}, "1/s"},    {{.money = 1}, "money"},
                {{.joules = 1}, "energy"}};
    d.bare = false;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (same_dimension(rows[i].dimension, d))
            return rows[i].name;
    return "another quantity";
}

static int fail_dimensions(const struct sw_fail_if_parser *p, int32_t column, struct sw_dimension a,
                           struct sw_dimension b)
{
    char what[96];
    snprintf(what, sizeof what, "%s and %s do not compare", dimension_name(a), dimension_name(b));
    return sw_fail_if_mistake(
        p, column, what,
        "give both sides the same unit; a change against the old plan is +5% or -5%");
}

static int join(struct sw_fail_if_parser *p, const char *operator_at, int left, int right)
{
    struct sw_fail_if_node node = {.kind = *operator_at,
                                   .left = (int8_t)left,
                                   .right = (int8_t)right,
                                   .column = sw_fail_if_column(p, operator_at)};
    const struct sw_dimension a = p->out->node[left].dimension, b = p->out->node[right].dimension;
    if (node.kind == '+' || node.kind == '-') {
        if (!same_dimension(a, b))
            return fail_dimensions(p, node.column, a, b);
        node.dimension = a.bare ? b : a;
        return add_node(p, node);
    }
    const int32_t sign = node.kind == '*' ? 1 : -1;
    const int32_t bytes = a.bytes + sign * b.bytes, seconds = a.seconds + sign * b.seconds,
                  money = a.money + sign * b.money, joules = a.joules + sign * b.joules;
    if (abs(bytes) > MAX_EXPONENT || abs(seconds) > MAX_EXPONENT || abs(money) > MAX_EXPONENT ||
        abs(joules) > MAX_EXPONENT)
        return sw_fail_if_mistake(p, node.column, "no such quantity", "multiply less");
    node.dimension = (struct sw_dimension){.bytes = (int8_t)bytes,
                                           .seconds = (int8_t)seconds,
                                           .money = (int8_t)money,
                                           .joules = (int8_t)joules,
                                           .bare = a.bare && b.bare};
    return add_node(p, node);
}

static int parse_chain(struct sw_fail_if_parser *p, const char *operators,
                       int (*operand)(struct sw_fail_if_parser *))
{
    int left = operand(p);
    while (left >= 0) {
        sw_fail_if_skip_spaces(p);
        if (*p->at == '\0' || strchr(operators, *p->at) == NULL)
            break;
        const char *operator_at = p->at++;
        const int right = operand(p);
        left = right < 0 ? -1 : join(p, operator_at, left, right);
    }
    return left;
}

static int parse_product(struct sw_fail_if_parser *p)
{
    return parse_chain(p, "*/", parse_primary);
}

static int parse_sum(struct sw_fail_if_parser *p)
{
    return parse_chain(p, "+-", parse_product);
}

/* True if the side has a measure in gigabytes of an accelerator. (Bytes sent by a rank may be
 * few.) */
static bool is_of_memory(const struct sw_fail_if *c, int32_t at)
{
    const struct sw_fail_if_node *node = &c->node[at];
    if (node->kind == '#')
        return false;
    if (node->kind == 'm' || node->kind == 'o')
        return node->measure == SW_MEASURE_MEMORY || node->measure == SW_MEASURE_LIMIT ||
               node->measure == SW_MEASURE_HEADROOM;
    return is_of_memory(c, node->left) || (node->kind != '_' && is_of_memory(c, node->right));
}

/* Refuses a few bytes of memory, where the number lacks its unit. */
static int refuse_few_bytes(const struct sw_fail_if_parser *p)
{
    for (int32_t i = 0; i < 2; i++) {
        const struct sw_fail_if_node *node = &p->out->node[p->out->side[i]];
        const struct sw_dimension other = p->out->node[p->out->side[1 - i]].dimension;
        char what[96], help[64];
        if (node->kind != '#' || !node->dimension.bare || other.bytes != 1 || other.bare ||
            node->number == 0 || fabs(node->number) >= 1e6 ||
            !is_of_memory(p->out, p->out->side[1 - i]))
            continue;
        snprintf(what, sizeof what, "%g means %g bytes", node->number, node->number);
        snprintf(help, sizeof help, "write %g GB, or %g B if bytes are meant", node->number,
                 node->number);
        return sw_fail_if_mistake(p, node->column, what, help);
    }
    return 0;
}

/* Parses '+5%' up to the end. 1: it is one; 0: it is not; -1: failed. */
static int parse_change(struct sw_fail_if_parser *p)
{
    const char *from = p->at;
    double number;
    if ((*from != '+' && *from != '-') || !starts_number(from + 1))
        return 0;
    p->at++;
    if (parse_digits(p, &number) != 0)
        return -1;
    sw_fail_if_skip_spaces(p);
    if (*p->at != '%' || p->at[1 + strspn(p->at + 1, " \t")] != '\0') {
        p->at = from;
        return 0;
    }
    p->at++;
    p->out->is_change = true;
    p->out->side[1] =
        add_node(p, (struct sw_fail_if_node){.kind = '#',
                                             .column = sw_fail_if_column(p, from),
                                             .number = (*from == '-' ? -number : number) / 100});
    return p->out->side[1] < 0 ? -1 : 1;
}

/* The name before a ':', if there is one. */
static int parse_label(struct sw_fail_if_parser *p)
{
    const char *colon = strchr(p->at, ':');
    sw_fail_if_skip_spaces(p);
    const char *from = p->at;
    size_t length = colon == NULL ? strlen(from) : (size_t)(colon - from);
    while (length > 0 && isspace((unsigned char)from[length - 1]))
        length--;
    if (colon != NULL) {
        if (length == 0 || length >= SW_FAIL_IF_NAME)
            return sw_fail_if_mistake(p, sw_fail_if_column(p, from),
                                      "the name before ':' is empty or too long",
                                      "write it as in 'room: memory > limit - headroom'");
        p->at = colon + 1;
    }
    snprintf(p->out->name, sizeof p->out->name, "%.*s", (int)length, from);
    return 0;
}

static int parse(const char *text, const struct sw_place *at, struct sw_fail_if *out,
                 struct sw_error *err)
{
    struct sw_fail_if_parser p = {.out = out, .at = text, .err = err};
    memset(out, 0, sizeof *out);
    out->text = text;
    out->at = *at;
    if (parse_label(&p) != 0)
        return -1;
    const int words = sw_fail_if_parse_words(&p);
    if (words != 0)
        return words < 0 ? -1 : 0;
    out->side[0] = parse_sum(&p);
    if (out->side[0] < 0 || sw_fail_if_parse_comparison(&p) != 0)
        return -1;
    sw_fail_if_skip_spaces(&p);
    const char *right = p.at;
    const int change = parse_change(&p);
    if (change < 0 || (change > 0 && sw_fail_if_refuse_before(&p, right) != 0))
        return -1;
    if (change == 0)
        out->side[1] = parse_sum(&p);
    if (out->side[1] < 0)
        return -1;
    sw_fail_if_skip_spaces(&p);
    if (*p.at != '\0')
        return sw_fail_if_mistake(&p, sw_fail_if_column(&p, p.at), "the condition should end here",
                                  "write another --fail-if for another comparison");
    const struct sw_dimension a = out->node[out->side[0]].dimension;
    const struct sw_dimension b = out->node[out->side[1]].dimension;
    if (!out->is_change && !same_dimension(a, b))
        return fail_dimensions(&p, out->node[out->side[1]].column, a, b);
    if (!out->is_change && refuse_few_bytes(&p) != 0)
        return -1;
    return 0;
}

int sw_fail_if_parse(const char *text, struct sw_fail_if *out, struct sw_error *err)
{
    return parse(text, &(struct sw_place){.file = NULL}, out, err);
}

int sw_fail_if_parse_alone(const char *text, const struct sw_place *at, struct sw_fail_if *out,
                           struct sw_error *err)
{
    return parse(text, at, out, err);
}

/* NAN if an old measure is needed and missing. */
static double evaluate(const struct sw_fail_if *c, int32_t at, const struct sw_measures *was,
                       const struct sw_measures *is)
{
    const struct sw_fail_if_node *node = &c->node[at];
    switch (node->kind) {
    case '#':
        return node->number;
    case 'm':
        return is->value[node->measure];
    case 'o':
        return was == NULL ? NAN : was->value[node->measure];
    case '_':
        return -evaluate(c, node->left, was, is);
    default:
        break;
    }
    const double a = evaluate(c, node->left, was, is), b = evaluate(c, node->right, was, is);
    switch (node->kind) {
    case '+':
        return a + b;
    case '-':
        return a - b;
    case '*':
        return a * b;
    default:
        return a / b;
    }
}

static bool holds(const char *comparison, double a, double b)
{
    switch (comparison[0]) {
    case '<':
        return comparison[1] == '=' ? a <= b : a < b;
    case '>':
        return comparison[1] == '=' ? a >= b : a > b;
    case '=':
        return !(a < b) && !(a > b);
    default:
        return a < b || a > b;
    }
}

static const char *opposite(const char *comparison)
{
    static const char *const pairs[][2] = {{"<", ">="}, {"<=", ">"},  {">", "<="},
                                           {">=", "<"}, {"==", "!="}, {"!=", "=="}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (strcmp(comparison, pairs[i][0]) == 0)
            return pairs[i][1];
    return "?";
}

static char *format_value(double value, struct sw_dimension d, const char *currency,
                          char buffer[SW_FORMAT_BYTES])
{
    char text[SW_FORMAT_BYTES];
    const char *sign = value < 0 ? "-" : "";
    const double size = value < 0 ? -value : value;
    if (d.bytes == 1 && (d.seconds == 0 || d.seconds == -1))
        snprintf(buffer, SW_FORMAT_BYTES, "%s%.24s%s", sign, sw_format_bytes(size, text),
                 d.seconds == -1 ? "/s" : "");
    else if (d.bytes == 0 && d.seconds == 1)
        snprintf(buffer, SW_FORMAT_BYTES, "%s%.24s", sign,
                 isinf(size) ? "no end" : sw_format_duration(size, text));
    else if (d.bytes == 0 && d.seconds == 0 && d.money == 1 && d.joules == 0)
        snprintf(buffer, SW_FORMAT_BYTES, "%.16s %.12s", sw_format_number(value, text), currency);
    else if (d.bytes == 0 && d.seconds == 0 && d.money == 0 && d.joules == 1)
        snprintf(buffer, SW_FORMAT_BYTES, "%.24s kWh", sw_format_number(value / 3.6e6, text));
    else
        sw_format_number(value, buffer);
    return buffer;
}

/* Reason why a run lacks the measure. */
static const char *reason_of(enum sw_measure measure, const struct sw_measures *run)
{
    if (measure >= SW_MEASURE_TOKEN && measure <= SW_MEASURE_BESIDE)
        return "serve";
    if (measure == SW_MEASURE_TIME_LIMIT)
        return "have jobs with a time limit";
    if (run->serves)
        return "train";
    if (isnan(run->value[SW_MEASURE_END]))
        return "say optimizer.total_steps";
    return measure == SW_MEASURE_MONEY    ? "say cluster.price_per_accelerator_hour"
           : measure == SW_MEASURE_ENERGY ? "say the accelerator's power"
                                          : "say optimizer.total_steps";
}

/* True if all measures of the condition exist; detail: why not. */
static bool knows_measures(const struct sw_fail_if *condition, const struct sw_measures *was,
                           const struct sw_measures *is, char *detail, size_t detail_bytes)
{
    for (int32_t i = 0; i < condition->count; i++) {
        const struct sw_fail_if_node *node = &condition->node[i];
        const bool is_measure = node->kind == 'm' || node->kind == 'o';
        const bool asks_old = node->kind == 'o' || condition->is_change;
        const char *lacks = !is_measure                                            ? NULL
                            : node->kind == 'm' && isnan(is->value[node->measure]) ? "new"
                            : asks_old && isnan(was->value[node->measure])         ? "old"
                                                                                   : NULL;
        if (lacks == NULL)
            continue;
        snprintf(detail, detail_bytes, "the %s%srun does not %s",
                 condition->at.file == NULL ? lacks : "", condition->at.file == NULL ? " " : "",
                 reason_of(node->measure, lacks[0] == 'n' ? is : was));
        return false;
    }
    return true;
}

/* True if amounts of money are in the runs' currency; detail: why not. */
static bool same_currency(const struct sw_fail_if *c, const struct sw_measures *was,
                          const struct sw_measures *is, char *detail, size_t detail_bytes)
{
    bool asks = false, asks_old = c->is_change;
    for (int32_t i = 0; i < c->count; i++) {
        const bool money = c->node[i].kind != '#' && c->node[i].measure == SW_MEASURE_MONEY;
        asks = asks || (money && (c->node[i].kind == 'm' || c->node[i].kind == 'o'));
        asks_old = asks_old || c->node[i].kind == 'o';
    }
    const char *wanted = c->currency[0] != '\0' ? c->currency : is->currency;
    const char *other = strcasecmp(is->currency, wanted) != 0 ? is->currency
                        : asks_old && was != NULL && strcasecmp(was->currency, wanted) != 0
                            ? was->currency
                            : NULL;
    if (!asks || other == NULL)
        return true;
    snprintf(detail, detail_bytes, "money is in %.15s, not in %.15s", other, wanted);
    return false;
}

/* True if a measure of the condition is unbounded: a run that hardly ends, a job without a
 * limit. */
static bool is_endless(const struct sw_fail_if *c, const struct sw_measures *was,
                       const struct sw_measures *is)
{
    for (int32_t i = 0; i < c->count; i++)
        if ((c->node[i].kind == 'm' && isinf(is->value[c->node[i].measure])) ||
            ((c->node[i].kind == 'o' || (c->is_change && c->node[i].kind == 'm')) && was != NULL &&
             isinf(was->value[c->node[i].measure])))
            return true;
    return false;
}

enum sw_fail_if_verdict sw_fail_if_test(const struct sw_fail_if *condition,
                                        const struct sw_measures *old_measures,
                                        const struct sw_measures *new_measures, char *detail,
                                        size_t detail_bytes)
{
    const struct sw_fail_if_node *left = &condition->node[condition->side[0]];
    const struct sw_fail_if_node *right = &condition->node[condition->side[1]];
    char a_text[SW_FORMAT_BYTES], b_text[SW_FORMAT_BYTES], old_text[SW_FORMAT_BYTES];
    bool needs_old = condition->is_change;
    if (condition->form == SW_FAIL_IF_REJECTED) {
        snprintf(detail, detail_bytes, "a mesh fits");
        return SW_FAIL_IF_PASS;
    }
    if (condition->form == SW_FAIL_IF_WORDS)
        return sw_fail_if_test_words(condition, old_measures, new_measures, detail, detail_bytes);
    for (int32_t i = 0; i < condition->count; i++)
        needs_old = needs_old || condition->node[i].kind == 'o';
    if (needs_old && old_measures == NULL) {
        snprintf(detail, detail_bytes, "there is no old plan to compare with");
        return SW_FAIL_IF_SKIPPED;
    }
    if (!knows_measures(condition, old_measures, new_measures, detail, detail_bytes))
        return SW_FAIL_IF_SKIPPED;
    /* a condition that cannot be judged gives no advice, and must not pass a check */
    const enum sw_fail_if_verdict unjudged =
        condition->at.file != NULL ? SW_FAIL_IF_SKIPPED : SW_FAIL_IF_FAIL;
    if (!same_currency(condition, old_measures, new_measures, detail, detail_bytes))
        return unjudged;
    const double a = evaluate(condition, condition->side[0], old_measures, new_measures);
    double b = evaluate(condition, condition->side[1], old_measures, new_measures);
    struct sw_dimension dimension = left->dimension.bare ? right->dimension : left->dimension;
    double before = 0;
    if (condition->is_change) {
        dimension = left->dimension;
        before = evaluate(condition, condition->side[0], old_measures, old_measures);
        b = before * (1 + b);
    }
    const bool endless = is_endless(condition, old_measures, new_measures);
    if (endless ? isnan(a) || isnan(b) : !isfinite(a) || !isfinite(b)) {
        snprintf(detail, detail_bytes, "a division by zero");
        return unjudged;
    }
    const bool failed = holds(condition->comparison, a, b);
    format_value(a, dimension, new_measures->currency, a_text);
    format_value(b, dimension, new_measures->currency, b_text);
    const char *sign = failed ? condition->comparison : opposite(condition->comparison);
    if (condition->is_change)
        snprintf(detail, detail_bytes, "%s %s %s, which is %s %+.4g %%", a_text, sign, b_text,
                 format_value(before, dimension, old_measures->currency, old_text),
                 right->number * 100);
    else
        snprintf(detail, detail_bytes, "%s %s %s", a_text, sign, b_text);
    return failed ? SW_FAIL_IF_FAIL : SW_FAIL_IF_PASS;
}
