/* Parses tags and whole templates. */
#include "runner/text/jinja/parse.h"
#include "runner/text/tokenizer/utf8.h"

#include <stdlib.h>
#include <string.h>

static void parse_body(struct jinja_parsing *p, struct jinja_nodes *into, const char *const *ends,
                       const struct jinja_token *opened);

static void end_tag(struct jinja_parsing *p)
{
    if (p->failed)
        return;
    if (p->token->kind != JINJA_BLOCK_END)
        sw_jinja_parse_fail(p, p->token->position, "expected the tag's end, not '", p->token->text,
                            "'");
    else
        p->token++;
}

/* Closes a body whose end word was read: expects the tag's end. */
static void close_body(struct jinja_parsing *p)
{
    if (!p->failed)
        p->token++;
    end_tag(p);
}

/* Parses names, for `set` also namespace attributes, separated by commas. */
static struct jinja_node *parse_target(struct jinja_parsing *p, bool attributes)
{
    struct jinja_node *tuple = NULL, *one;
    do {
        const bool bracket = sw_jinja_take_if(p, JINJA_OPERATOR, "(");
        if (bracket) {
            one = parse_target(p, false);
            sw_jinja_expect(p, ")");
        } else {
            one = sw_jinja_node(p, JINJA_VARIABLE);
            one->text = sw_jinja_expect_name(p);
        }
        if (attributes && sw_jinja_take_if(p, JINJA_OPERATOR, ".")) {
            struct jinja_node *of = one;
            one = sw_jinja_node(p, JINJA_ATTRIBUTE);
            one->a = of;
            one->text = sw_jinja_expect_name(p);
        }
        if (tuple == NULL && !sw_jinja_is(p, JINJA_OPERATOR, ","))
            return one;
        if (tuple == NULL)
            tuple = sw_jinja_node(p, JINJA_TUPLE);
        sw_jinja_append(p, &tuple->list, one);
    } while (sw_jinja_take_if(p, JINJA_OPERATOR, ",") && p->token->kind == JINJA_NAME &&
             !sw_jinja_is(p, JINJA_NAME, "in"));
    return tuple;
}

static struct jinja_node *parse_if(struct jinja_parsing *p, const struct jinja_token *opened)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct jinja_node *node = sw_jinja_node(p, JINJA_IF);
    node->a = sw_jinja_tuple(p, true);
    end_tag(p);
    parse_body(p, &node->body, ends, opened);
    if (sw_jinja_take_if(p, JINJA_NAME, "elif")) {
        if (++p->depth > JINJA_NESTING / 4)
            sw_jinja_parse_fail(p, opened->position, "nested too deeply", NULL, "");
        sw_jinja_append(p, &node->other, parse_if(p, opened));
        p->depth--;
        return node;
    }
    if (sw_jinja_take_if(p, JINJA_NAME, "else")) {
        end_tag(p);
        parse_body(p, &node->other, ends + 2, opened);
    }
    close_body(p);
    return node;
}

static struct jinja_node *parse_for(struct jinja_parsing *p, const struct jinja_token *opened)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    struct jinja_node *node = sw_jinja_node(p, JINJA_FOR);
    node->target = parse_target(p, false);
    if (!sw_jinja_take_if(p, JINJA_NAME, "in") && !p->failed)
        sw_jinja_parse_fail(p, p->token->position, "expected 'in', not '", p->token->text, "'");
    node->a = sw_jinja_tuple(p, false);
    if (sw_jinja_take_if(p, JINJA_NAME, "if"))
        node->b = sw_jinja_expression(p);
    node->flag = sw_jinja_take_if(p, JINJA_NAME, "recursive");
    end_tag(p);
    p->loops++;
    parse_body(p, &node->body, ends, opened);
    p->loops--;
    if (sw_jinja_take_if(p, JINJA_NAME, "else")) {
        end_tag(p);
        parse_body(p, &node->other, ends + 1, opened);
    }
    close_body(p);
    return node;
}

static struct jinja_node *parse_set(struct jinja_parsing *p, const struct jinja_token *opened)
{
    static const char *const ends[] = {"endset", NULL};
    struct jinja_node *node = sw_jinja_node(p, JINJA_SET);
    node->target = parse_target(p, true);
    if (sw_jinja_take_if(p, JINJA_OPERATOR, "=")) {
        node->a = sw_jinja_tuple(p, true);
        end_tag(p);
        return node;
    }
    node->kind = JINJA_SET_BLOCK;
    while (sw_jinja_take_if(p, JINJA_OPERATOR, "|"))
        sw_jinja_append(p, &node->list, sw_jinja_filters(p, NULL));
    end_tag(p);
    parse_body(p, &node->body, ends, opened);
    close_body(p);
    return node;
}

/* Parses parameters and defaults, after "(". */
static void parse_parameters(struct jinja_parsing *p, struct jinja_node *macro)
{
    while (!p->failed && !sw_jinja_is(p, JINJA_OPERATOR, ")")) {
        struct jinja_node *one = sw_jinja_node(p, JINJA_NAMED);
        one->text = sw_jinja_expect_name(p);
        if (sw_jinja_take_if(p, JINJA_OPERATOR, "="))
            one->a = sw_jinja_expression(p);
        sw_jinja_append(p, &macro->named, one);
        if (!sw_jinja_take_if(p, JINJA_OPERATOR, ","))
            break;
    }
    if (macro->named.count > JINJA_ARGUMENTS)
        sw_jinja_parse_fail(p, macro->position, "more than 16 parameters", NULL, "");
    sw_jinja_expect(p, ")");
}

/* Parses the body of a macro or generation block, which has its own loops. */
static void parse_macro_body(struct jinja_parsing *p, struct jinja_node *macro,
                             const char *const *ends, const struct jinja_token *opened)
{
    const int32_t loops = p->loops;
    end_tag(p);
    p->loops = 0;
    parse_body(p, &macro->body, ends, opened);
    p->loops = loops;
    close_body(p);
}

static struct jinja_node *parse_macro(struct jinja_parsing *p, const struct jinja_token *opened)
{
    static const char *const ends[] = {"endmacro", NULL};
    struct jinja_node *node = sw_jinja_node(p, JINJA_MACRO);
    node->text = sw_jinja_expect_name(p);
    sw_jinja_expect(p, "(");
    parse_parameters(p, node);
    parse_macro_body(p, node, ends, opened);
    return node;
}

static struct jinja_node *parse_call_block(struct jinja_parsing *p,
                                           const struct jinja_token *opened)
{
    static const char *const ends[] = {"endcall", NULL};
    struct jinja_node *node = sw_jinja_node(p, JINJA_CALL_BLOCK);
    node->b = sw_jinja_node(p, JINJA_MACRO);
    node->b->text = "caller";
    if (sw_jinja_take_if(p, JINJA_OPERATOR, "("))
        parse_parameters(p, node->b);
    node->a = sw_jinja_expression(p);
    if (node->a->kind != JINJA_CALL && !p->failed)
        sw_jinja_parse_fail(p, opened->position, "expected a call of a macro", NULL, "");
    parse_macro_body(p, node->b, ends, opened);
    return node;
}

static struct jinja_node *parse_filter_block(struct jinja_parsing *p,
                                             const struct jinja_token *opened)
{
    static const char *const ends[] = {"endfilter", NULL};
    struct jinja_node *node = sw_jinja_node(p, JINJA_FILTER_BLOCK);
    do
        sw_jinja_append(p, &node->list, sw_jinja_filters(p, NULL));
    while (sw_jinja_take_if(p, JINJA_OPERATOR, "|"));
    end_tag(p);
    parse_body(p, &node->body, ends, opened);
    close_body(p);
    return node;
}

static struct jinja_node *parse_with(struct jinja_parsing *p, const struct jinja_token *opened)
{
    static const char *const ends[] = {"endwith", NULL};
    struct jinja_node *node = sw_jinja_node(p, JINJA_WITH);
    while (!p->failed && p->token->kind == JINJA_NAME) {
        struct jinja_node *one = sw_jinja_node(p, JINJA_NAMED);
        one->text = sw_jinja_expect_name(p);
        sw_jinja_expect(p, "=");
        one->a = sw_jinja_expression(p);
        sw_jinja_append(p, &node->named, one);
        if (!sw_jinja_take_if(p, JINJA_OPERATOR, ","))
            break;
    }
    end_tag(p);
    parse_body(p, &node->body, ends, opened);
    close_body(p);
    return node;
}

static struct jinja_node *parse_generation(struct jinja_parsing *p,
                                           const struct jinja_token *opened)
{
    static const char *const ends[] = {"endgeneration", NULL};
    struct jinja_node *node = sw_jinja_node(p, JINJA_GENERATION);
    p->jinja->has_generation = true;
    parse_macro_body(p, node, ends, opened);
    return node;
}

static struct jinja_node *parse_jump(struct jinja_parsing *p, const struct jinja_token *opened)
{
    struct jinja_node *node =
        sw_jinja_node(p, opened->text[0] == 'b' ? JINJA_BREAK : JINJA_CONTINUE);
    if (p->loops == 0 && !p->failed)
        sw_jinja_parse_fail(p, opened->position, "'", opened->text, "' stands in no loop");
    end_tag(p);
    return node;
}

static const struct {
    const char *name;
    struct jinja_node *(*parse)(struct jinja_parsing *p, const struct jinja_token *opened);
} tags[] = {{"if", parse_if},           {"for", parse_for},
            {"set", parse_set},         {"macro", parse_macro},
            {"call", parse_call_block}, {"filter", parse_filter_block},
            {"with", parse_with},       {"generation", parse_generation},
            {"break", parse_jump},      {"continue", parse_jump}};

static struct jinja_node *parse_tag(struct jinja_parsing *p)
{
    const struct jinja_token *opened = p->token;
    const char *name = sw_jinja_expect_name(p);
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
        if (strcmp(tags[i].name, name) == 0)
            return tags[i].parse(p, opened);
    if (!p->failed)
        sw_jinja_parse_fail(p, opened->position, "no tag '", name,
                            strncmp(name, "end", 3) == 0 || strncmp(name, "el", 2) == 0
                                ? "' belongs here"
                                : "' is in the subset of Jinja that is run here");
    return sw_jinja_node(p, JINJA_GENERATION);
}

static bool is_end(const struct jinja_parsing *p, const char *const *ends)
{
    for (; ends != NULL && *ends != NULL; ends++)
        if (p->token->kind == JINJA_BLOCK_BEGIN && p->token[1].kind == JINJA_NAME &&
            strcmp(p->token[1].text, *ends) == 0)
            return true;
    return false;
}

static struct jinja_node *parse_written(struct jinja_parsing *p)
{
    struct jinja_node *node = sw_jinja_node(p, JINJA_WRITE);
    struct jinja_text *text = sw_jinja_arena_take(&p->jinja->arena, sizeof *text);
    if (text == NULL) {
        p->failed = true;
        sw_fail(p->err, SW_ENVIRONMENT, "out of memory for the chat template");
        return node;
    }
    *text = (struct jinja_text){.byte = p->token->text, .count = p->token->bytes};
    node->constant = (struct jinja_value){JINJA_TEXT, {.text = text}};
    p->token++;
    return node;
}

/* Parses up to a tag of `ends` (NULL: the template's end); its word is then the next token. */
static void parse_body(struct jinja_parsing *p, struct jinja_nodes *into, const char *const *ends,
                       const struct jinja_token *opened)
{
    if (++p->depth > JINJA_NESTING / 4 && !p->failed)
        sw_jinja_parse_fail(p, p->token->position, "nested too deeply", NULL, "");
    while (!p->failed && p->token->kind != JINJA_END && !is_end(p, ends)) {
        struct jinja_node *node;
        if (p->token->kind == JINJA_DATA) {
            node = parse_written(p);
        } else if (p->token->kind == JINJA_OUTPUT_BEGIN) {
            node = sw_jinja_node(p, JINJA_OUTPUT);
            p->token++;
            node->a = sw_jinja_tuple(p, true);
            if (!p->failed && p->token->kind != JINJA_OUTPUT_END)
                sw_jinja_parse_fail(p, p->token->position, "expected the output's end, not '",
                                    p->token->text, "'");
            p->token += !p->failed;
        } else {
            p->token++;
            node = parse_tag(p);
        }
        sw_jinja_append(p, into, node);
    }
    p->depth--;
    if (p->failed || ends == NULL)
        return;
    if (p->token->kind == JINJA_END)
        sw_jinja_parse_fail(p, opened->position, "the tag '", opened->text, "' is never closed");
    else
        p->token++;
}

/* Copies the source with line ends '\n', without its last one. */
static int copy_source(struct sw_jinja *jinja, const char *file, const char *text, size_t bytes,
                       struct sw_error *err)
{
    char *copy = sw_jinja_arena_take(&jinja->arena, bytes + 1);
    char *name = sw_jinja_arena_take(&jinja->arena, strlen(file) + 1);
    size_t count = 0;
    if (copy == NULL || name == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the chat template");
    memcpy(name, file, strlen(file) + 1);
    const struct jinja_source given = {name, text, bytes};
    if (sw_utf8_valid(text, bytes) < bytes)
        return sw_fail_at(err, SW_BAD_INPUT, sw_jinja_place(&given, sw_utf8_valid(text, bytes)),
                          "the template is not UTF-8 here");
    for (size_t i = 0; i < bytes; i++)
        if (text[i] != '\r')
            copy[count++] = text[i];
        else if (i + 1 == bytes || text[i + 1] != '\n')
            copy[count++] = '\n';
    if (count > 0 && copy[count - 1] == '\n')
        count--;
    copy[count] = '\0';
    jinja->source = (struct jinja_source){name, copy, count};
    return 0;
}

int sw_jinja_parse(const char *file, const char *text, size_t bytes, struct sw_jinja **out,
                   struct sw_error *err)
{
    struct sw_jinja *jinja = calloc(1, sizeof *jinja);
    struct jinja_token *token = NULL;
    *out = NULL;
    if (jinja == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the chat template");
    jinja->arena.most_bytes = (size_t)256 << 20;
    if (copy_source(jinja, file, text, bytes, err) != 0 ||
        sw_jinja_lex(&jinja->source, &jinja->arena, &token, err) != 0) {
        sw_jinja_free(jinja);
        return -1;
    }
    struct jinja_parsing p = {.jinja = jinja, .token = token, .err = err};
    parse_body(&p, &jinja->body, NULL, NULL);
    if (p.failed) {
        sw_jinja_free(jinja);
        return -1;
    }
    *out = jinja;
    return 0;
}

void sw_jinja_free(struct sw_jinja *jinja)
{
    if (jinja == NULL)
        return;
    sw_jinja_arena_free(&jinja->arena);
    free(jinja);
}

bool sw_jinja_has_generation(const struct sw_jinja *jinja)
{
    return jinja->has_generation;
}

bool sw_jinja_mentions(const struct sw_jinja *jinja, const char *word)
{
    for (const struct jinja_node *node = jinja->last; node != NULL; node = node->before)
        if (node->text != NULL && strcmp(node->text, word) == 0)
            return true;
    return false;
}
