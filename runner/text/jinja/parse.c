/* Expressions, with the precedence of Jinja's parser: unlike in Python, filters and tests bind
 * closest. */
#include "runner/text/jinja/parse.h"

#include "core/base/text.h"

#include <string.h>

int sw_jinja_parse_fail(struct jinja_parsing *p, size_t position, const char *what,
                        const char *shown, const char *then)
{
    char text[52];
    p->failed = true;
    return sw_fail_at(p->err, SW_BAD_INPUT, sw_jinja_place(&p->jinja->source, position), "%s%s%s",
                      what, shown != NULL ? sw_text_shown(shown, 48, text) : "", then);
}

struct jinja_node *sw_jinja_node(struct jinja_parsing *p, enum jinja_node_kind kind)
{
    struct jinja_node *node =
        p->failed ? NULL : sw_jinja_arena_take(&p->jinja->arena, sizeof *node);
    if (node == NULL) {
        if (!p->failed)
            sw_fail(p->err, SW_ENVIRONMENT, "out of memory for the chat template");
        p->failed = true;
        p->nowhere = (struct jinja_node){.kind = JINJA_LIST};
        return &p->nowhere;
    }
    node->kind = kind;
    node->position = p->token->position;
    node->before = p->jinja->last;
    p->jinja->last = node;
    return node;
}

void sw_jinja_append(struct jinja_parsing *p, struct jinja_nodes *list, struct jinja_node *node)
{
    if (p->failed)
        return;
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity == 0 ? 4 : 2 * list->capacity;
        struct jinja_node **grown =
            sw_jinja_arena_take(&p->jinja->arena, capacity * sizeof(struct jinja_node *));
        if (grown == NULL) {
            p->failed = true;
            sw_fail(p->err, SW_ENVIRONMENT, "out of memory for the chat template");
            return;
        }
        if (list->count > 0)
            memcpy(grown, list->item, list->count * sizeof(struct jinja_node *));
        list->item = grown;
        list->capacity = capacity;
    }
    list->item[list->count++] = node;
}

bool sw_jinja_is(const struct jinja_parsing *p, enum jinja_token_kind kind, const char *text)
{
    return p->token->kind == kind && strcmp(p->token->text, text) == 0;
}

bool sw_jinja_take_if(struct jinja_parsing *p, enum jinja_token_kind kind, const char *text)
{
    const bool is = !p->failed && sw_jinja_is(p, kind, text);
    p->token += is;
    return is;
}

void sw_jinja_expect(struct jinja_parsing *p, const char *op)
{
    if (p->failed || sw_jinja_take_if(p, JINJA_OPERATOR, op))
        return;
    char what[32] = "expected '";
    strcat(what, op);
    strcat(what, "', not '");
    sw_jinja_parse_fail(p, p->token->position, what, p->token->text, "'");
}

const char *sw_jinja_expect_name(struct jinja_parsing *p)
{
    if (p->failed)
        return "";
    if (p->token->kind != JINJA_NAME) {
        sw_jinja_parse_fail(p, p->token->position, "expected a name, not '", p->token->text, "'");
        return "";
    }
    return p->token++->text;
}

/* Enters one nesting level; false: too deep. */
static bool deepen(struct jinja_parsing *p)
{
    if (++p->depth > JINJA_NESTING && !p->failed)
        sw_jinja_parse_fail(p, p->token->position, "nested too deeply", NULL, "");
    return !p->failed;
}

static struct jinja_node *constant(struct jinja_parsing *p, struct jinja_value value)
{
    struct jinja_node *node = sw_jinja_node(p, JINJA_CONSTANT);
    node->constant = value;
    return node;
}

/* Joins adjacent string literals. */
static struct jinja_node *parse_string(struct jinja_parsing *p)
{
    struct jinja_node *node = constant(p, jinja_none());
    struct jinja_text *text = sw_jinja_arena_take(&p->jinja->arena, sizeof *text);
    size_t bytes = 0;
    for (const struct jinja_token *t = p->token; t->kind == JINJA_STRING; t++)
        bytes += t->bytes;
    char *copy = text == NULL ? NULL : sw_jinja_arena_take(&p->jinja->arena, bytes + 1);
    if (copy == NULL) {
        p->failed = true;
        sw_fail(p->err, SW_ENVIRONMENT, "out of memory for the chat template");
        return node;
    }
    *text = (struct jinja_text){.byte = copy, .count = bytes};
    for (; p->token->kind == JINJA_STRING; p->token++) {
        memcpy(copy, p->token->text, p->token->bytes);
        copy += p->token->bytes;
    }
    node->text = text->byte;
    node->constant = (struct jinja_value){JINJA_TEXT, {.text = text}};
    return node;
}

static struct jinja_node *parse_name(struct jinja_parsing *p)
{
    static const char *const absent[] = {"cycler", "joiner",  "lipsum", "self",
                                         "super",  "varargs", "kwargs", NULL};
    struct jinja_node *node = sw_jinja_node(p, JINJA_VARIABLE);
    const char *name = p->token->text;
    node->text = name;
    for (size_t i = 0; absent[i] != NULL; i++)
        if (strcmp(name, absent[i]) == 0)
            sw_jinja_parse_fail(p, p->token->position, "'", name,
                                "' is beyond the subset of Jinja that is run here");
    if (strcmp(name, "true") == 0 || strcmp(name, "True") == 0 || strcmp(name, "false") == 0 ||
        strcmp(name, "False") == 0) {
        node->kind = JINJA_CONSTANT;
        node->constant = jinja_bool((name[0] | 32) == 't');
    } else if (strcmp(name, "none") == 0 || strcmp(name, "None") == 0) {
        node->kind = JINJA_CONSTANT;
        node->constant = jinja_none();
    }
    p->token++;
    return node;
}

static void parse_items(struct jinja_parsing *p, struct jinja_node *into, const char *close)
{
    const bool dict = into->kind == JINJA_DICT;
    while (!p->failed && !sw_jinja_is(p, JINJA_OPERATOR, close)) {
        sw_jinja_append(p, &into->list, sw_jinja_expression(p));
        if (dict) {
            sw_jinja_expect(p, ":");
            sw_jinja_append(p, &into->list, sw_jinja_expression(p));
        }
        if (!sw_jinja_take_if(p, JINJA_OPERATOR, ","))
            break;
    }
    sw_jinja_expect(p, close);
}

static struct jinja_node *parse_brackets(struct jinja_parsing *p)
{
    struct jinja_node *node;
    if (sw_jinja_take_if(p, JINJA_OPERATOR, "(")) {
        node = sw_jinja_take_if(p, JINJA_OPERATOR, ")") ? NULL : sw_jinja_tuple(p, true);
        if (node != NULL)
            sw_jinja_expect(p, ")");
        return node != NULL ? node : sw_jinja_node(p, JINJA_TUPLE);
    }
    node = sw_jinja_node(p, sw_jinja_is(p, JINJA_OPERATOR, "[") ? JINJA_LIST : JINJA_DICT);
    if (sw_jinja_take_if(p, JINJA_OPERATOR, "["))
        parse_items(p, node, "]");
    else if (sw_jinja_take_if(p, JINJA_OPERATOR, "{"))
        parse_items(p, node, "}");
    else
        sw_jinja_parse_fail(p, p->token->position, "expected a value, not '", p->token->text, "'");
    return node;
}

static struct jinja_node *parse_primary(struct jinja_parsing *p)
{
    const struct jinja_token *token = p->token;
    if (token->kind == JINJA_NAME)
        return parse_name(p);
    if (token->kind == JINJA_STRING)
        return parse_string(p);
    if (token->kind == JINJA_INTEGER || token->kind == JINJA_FLOAT) {
        struct jinja_node *node =
            constant(p, token->kind == JINJA_INTEGER ? jinja_int(token->integer)
                                                     : jinja_real(token->number));
        p->token++;
        return node;
    }
    return parse_brackets(p);
}

/* Parses arguments of a call, filter or test, after "(". */
static void parse_arguments(struct jinja_parsing *p, struct jinja_node *call)
{
    while (!p->failed && !sw_jinja_is(p, JINJA_OPERATOR, ")")) {
        if (sw_jinja_is(p, JINJA_OPERATOR, "*") || sw_jinja_is(p, JINJA_OPERATOR, "**"))
            sw_jinja_parse_fail(p, p->token->position, "'", p->token->text,
                                "' in a call is beyond the subset of Jinja that is run here");
        if (p->token->kind == JINJA_NAME && p->token[1].kind == JINJA_OPERATOR &&
            strcmp(p->token[1].text, "=") == 0) {
            struct jinja_node *named = sw_jinja_node(p, JINJA_NAMED);
            named->text = p->token->text;
            p->token += 2;
            named->a = sw_jinja_expression(p);
            sw_jinja_append(p, &call->named, named);
        } else {
            sw_jinja_append(p, &call->list, sw_jinja_expression(p));
        }
        if (!sw_jinja_take_if(p, JINJA_OPERATOR, ","))
            break;
    }
    if (call->list.count > JINJA_ARGUMENTS || call->named.count > JINJA_ARGUMENTS)
        sw_jinja_parse_fail(p, call->position, "more than 16 arguments", NULL, "");
    sw_jinja_expect(p, ")");
}

static struct jinja_node *parse_subscript(struct jinja_parsing *p, struct jinja_node *of)
{
    struct jinja_node *node = sw_jinja_node(p, JINJA_ITEM);
    struct jinja_node *part[3] = {NULL, NULL, NULL};
    size_t count = 0;
    node->a = of;
    while (!p->failed && !sw_jinja_is(p, JINJA_OPERATOR, "]") && count < 3) {
        if (!sw_jinja_is(p, JINJA_OPERATOR, ":"))
            part[count] = sw_jinja_expression(p);
        if (!sw_jinja_take_if(p, JINJA_OPERATOR, ":"))
            break;
        node->kind = JINJA_SLICE;
        count++;
    }
    sw_jinja_expect(p, "]");
    if (node->kind == JINJA_SLICE)
        for (size_t i = 0; i < 3; i++)
            sw_jinja_append(p, &node->list, part[i]);
    else if (part[0] == NULL && !p->failed)
        sw_jinja_parse_fail(p, node->position, "an index or a key is missing in the brackets", NULL,
                            "");
    node->b = part[0];
    return node;
}

static struct jinja_node *parse_call(struct jinja_parsing *p, struct jinja_node *of)
{
    struct jinja_node *node = sw_jinja_node(p, JINJA_CALL);
    node->a = of;
    if (of->kind == JINJA_ATTRIBUTE && !sw_jinja_is_method(of->text))
        sw_jinja_parse_fail(p, of->position, "no method '", of->text,
                            "' is in the subset of Jinja that is run here");
    p->token++;
    parse_arguments(p, node);
    return node;
}

static struct jinja_node *parse_postfix(struct jinja_parsing *p, struct jinja_node *node)
{
    const int32_t depth = p->depth;
    while (deepen(p)) {
        if (sw_jinja_is(p, JINJA_OPERATOR, ".")) {
            struct jinja_node *of = node;
            p->token++;
            node = sw_jinja_node(p, p->token->kind == JINJA_INTEGER ? JINJA_ITEM : JINJA_ATTRIBUTE);
            node->a = of;
            if (node->kind == JINJA_ITEM)
                node->b = parse_primary(p);
            else
                node->text = sw_jinja_expect_name(p);
        } else if (sw_jinja_take_if(p, JINJA_OPERATOR, "[")) {
            node = parse_subscript(p, node);
        } else if (sw_jinja_is(p, JINJA_OPERATOR, "(")) {
            node = parse_call(p, node);
        } else {
            break;
        }
    }
    p->depth = depth;
    return node;
}

struct jinja_node *sw_jinja_filters(struct jinja_parsing *p, struct jinja_node *of)
{
    struct jinja_node *node = sw_jinja_node(p, JINJA_FILTER);
    node->a = of;
    node->text = sw_jinja_expect_name(p);
    node->filter = sw_jinja_filter_find(node->text);
    if (node->filter == NULL && !p->failed)
        sw_jinja_parse_fail(p, node->position, "no filter '", node->text,
                            "' is in the subset of Jinja that is run here");
    if (sw_jinja_take_if(p, JINJA_OPERATOR, "("))
        parse_arguments(p, node);
    return node;
}

static bool begins_argument(const struct jinja_parsing *p)
{
    static const char *const words[] = {"else", "or", "and", "if", "is", "not", "in", "recursive"};
    const struct jinja_token *t = p->token;
    for (size_t i = 0; t->kind == JINJA_NAME && i < sizeof words / sizeof words[0]; i++)
        if (strcmp(t->text, words[i]) == 0)
            return false;
    return t->kind == JINJA_NAME || t->kind == JINJA_STRING || t->kind == JINJA_INTEGER ||
           t->kind == JINJA_FLOAT || sw_jinja_is(p, JINJA_OPERATOR, "[") ||
           sw_jinja_is(p, JINJA_OPERATOR, "{");
}

static struct jinja_node *parse_test(struct jinja_parsing *p, struct jinja_node *of)
{
    const bool negated = sw_jinja_take_if(p, JINJA_NAME, "not");
    struct jinja_node *node = sw_jinja_node(p, JINJA_TEST), *outer = node;
    node->a = of;
    node->text = sw_jinja_expect_name(p);
    node->test = sw_jinja_test_find(node->text);
    if (node->test == NULL && !p->failed)
        sw_jinja_parse_fail(p, node->position, "no test '", node->text,
                            "' is in the subset of Jinja that is run here");
    if (sw_jinja_take_if(p, JINJA_OPERATOR, "("))
        parse_arguments(p, node);
    else if (!p->failed && begins_argument(p))
        sw_jinja_append(p, &node->list, parse_postfix(p, parse_primary(p)));
    if (negated) {
        outer = sw_jinja_node(p, JINJA_NOT);
        outer->a = node;
    }
    return outer;
}

static struct jinja_node *parse_unary(struct jinja_parsing *p, bool filters)
{
    const int32_t depth = p->depth;
    struct jinja_node *node;
    if (!deepen(p))
        return sw_jinja_node(p, JINJA_LIST);
    if (sw_jinja_is(p, JINJA_OPERATOR, "-") || sw_jinja_is(p, JINJA_OPERATOR, "+")) {
        node = sw_jinja_node(p, p->token->text[0] == '-' ? JINJA_NEGATIVE : JINJA_POSITIVE);
        p->token++;
        node->a = parse_unary(p, false);
    } else {
        node = parse_primary(p);
    }
    node = parse_postfix(p, node);
    while (filters && deepen(p)) {
        if (sw_jinja_take_if(p, JINJA_OPERATOR, "|"))
            node = sw_jinja_filters(p, node);
        else if (sw_jinja_take_if(p, JINJA_NAME, "is"))
            node = parse_test(p, node);
        else if (sw_jinja_is(p, JINJA_OPERATOR, "("))
            node = parse_call(p, node);
        else
            break;
    }
    p->depth = depth;
    return node;
}

/* Binary operators, loosest first; each level is left associative. */
static const char *const levels[][5] = {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
enum { LEVELS = sizeof levels / sizeof levels[0] };

static struct jinja_node *parse_binary(struct jinja_parsing *p, size_t level)
{
    if (level == LEVELS)
        return parse_unary(p, true);
    const int32_t depth = p->depth;
    struct jinja_node *node = parse_binary(p, level + 1);
    for (size_t i = 0; !p->failed && i < 5 && levels[level][i] != NULL; i++)
        if (sw_jinja_is(p, JINJA_OPERATOR, levels[level][i]) && deepen(p)) {
            struct jinja_node *left = node;
            node = sw_jinja_node(p, JINJA_BINARY);
            node->a = left;
            node->text = levels[level][i];
            p->token++;
            node->b = parse_binary(p, level + 1);
            i = (size_t)-1; /* another one may follow */
        }
    p->depth = depth;
    return node;
}

/* Parses a < b, a not in b, and chains a < b < c. */
static struct jinja_node *parse_compare(struct jinja_parsing *p)
{
    static const char *const operators[] = {"==", "!=", "<", "<=", ">", ">="};
    struct jinja_node *first = parse_binary(p, 0), *node = NULL;
    while (!p->failed) {
        const char *op = NULL;
        for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
            if (sw_jinja_take_if(p, JINJA_OPERATOR, operators[i]))
                op = operators[i];
        if (op == NULL && sw_jinja_take_if(p, JINJA_NAME, "in"))
            op = "in";
        if (op == NULL && sw_jinja_is(p, JINJA_NAME, "not") && p->token[1].kind == JINJA_NAME &&
            strcmp(p->token[1].text, "in") == 0) {
            p->token += 2;
            op = "not in";
        }
        if (op == NULL)
            break;
        struct jinja_node *operand = sw_jinja_node(p, JINJA_OPERAND);
        operand->text = op;
        operand->a = parse_binary(p, 0);
        if (node == NULL)
            node = sw_jinja_node(p, JINJA_COMPARE);
        node->a = first;
        sw_jinja_append(p, &node->list, operand);
    }
    return node != NULL ? node : first;
}

static struct jinja_node *parse_not(struct jinja_parsing *p)
{
    if (!sw_jinja_is(p, JINJA_NAME, "not"))
        return parse_compare(p);
    const int32_t depth = p->depth;
    struct jinja_node *node = sw_jinja_node(p, JINJA_NOT);
    p->token++;
    if (deepen(p))
        node->a = parse_not(p);
    p->depth = depth;
    return node;
}

static struct jinja_node *parse_and(struct jinja_parsing *p)
{
    const int32_t depth = p->depth;
    struct jinja_node *node = parse_not(p);
    while (deepen(p) && sw_jinja_take_if(p, JINJA_NAME, "and")) {
        struct jinja_node *left = node;
        node = sw_jinja_node(p, JINJA_AND);
        node->a = left;
        node->b = parse_not(p);
    }
    p->depth = depth;
    return node;
}

struct jinja_node *sw_jinja_disjunction(struct jinja_parsing *p)
{
    const int32_t depth = p->depth;
    struct jinja_node *node = parse_and(p);
    while (deepen(p) && sw_jinja_take_if(p, JINJA_NAME, "or")) {
        struct jinja_node *left = node;
        node = sw_jinja_node(p, JINJA_OR);
        node->a = left;
        node->b = parse_and(p);
    }
    p->depth = depth;
    return node;
}

struct jinja_node *sw_jinja_expression(struct jinja_parsing *p)
{
    const int32_t depth = p->depth;
    struct jinja_node *node;
    if (!deepen(p))
        return sw_jinja_node(p, JINJA_LIST);
    node = sw_jinja_disjunction(p);
    while (deepen(p) && sw_jinja_take_if(p, JINJA_NAME, "if")) {
        struct jinja_node *then = node;
        node = sw_jinja_node(p, JINJA_CONDITIONAL);
        node->a = then;
        node->b = sw_jinja_disjunction(p);
        if (sw_jinja_take_if(p, JINJA_NAME, "else"))
            node->c = sw_jinja_expression(p);
    }
    p->depth = depth;
    return node;
}

struct jinja_node *sw_jinja_tuple(struct jinja_parsing *p, bool conditions)
{
    struct jinja_node *first = conditions ? sw_jinja_expression(p) : sw_jinja_disjunction(p);
    if (!sw_jinja_is(p, JINJA_OPERATOR, ","))
        return first;
    struct jinja_node *node = sw_jinja_node(p, JINJA_TUPLE);
    sw_jinja_append(p, &node->list, first);
    while (sw_jinja_take_if(p, JINJA_OPERATOR, ",") && p->token->kind != JINJA_BLOCK_END &&
           p->token->kind != JINJA_OUTPUT_END && !sw_jinja_is(p, JINJA_OPERATOR, ")"))
        sw_jinja_append(p, &node->list,
                        conditions ? sw_jinja_expression(p) : sw_jinja_disjunction(p));
    return node;
}
