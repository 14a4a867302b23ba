/* Executes tags and calls; renders a template. */
#include "runner/text/jinja/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

bool sw_jinja_enter(struct jinja_run *run, struct jinja_frame *outer)
{
    struct jinja_frame *frame = sw_jinja_take(run, sizeof *frame);
    if (frame == NULL)
        return false;
    frame->outer = outer;
    run->frame = frame;
    return true;
}

void sw_jinja_name(struct jinja_run *run, const char *name, struct jinja_value v)
{
    struct jinja_frame *frame = run->frame;
    if (run->failed)
        return;
    for (size_t i = 0; i < frame->count; i++)
        if (strcmp(frame->binding[i].name, name) == 0) {
            frame->binding[i].value = v;
            return;
        }
    if (frame->count == frame->capacity) {
        const size_t capacity = frame->capacity < 4 ? 4 : 2 * frame->capacity;
        struct jinja_binding *grown = sw_jinja_take(run, capacity * sizeof *grown);
        if (grown == NULL)
            return;
        if (frame->count > 0)
            memcpy(grown, frame->binding, frame->count * sizeof *grown);
        frame->binding = grown;
        frame->capacity = capacity;
    }
    frame->binding[frame->count++] = (struct jinja_binding){name, v};
}

bool sw_jinja_lookup(struct jinja_run *run, const char *name, struct jinja_value *out)
{
    for (const struct jinja_frame *f = run->frame; f != NULL; f = f->outer)
        for (size_t i = 0; i < f->count; i++)
            if (strcmp(f->binding[i].name, name) == 0)
                return *out = f->binding[i].value, true;
    const struct jinja_function *function = sw_jinja_function_find(name);
    if (function != NULL)
        *out = (struct jinja_value){JINJA_FUNCTION, {.function = function}};
    return function != NULL;
}

void sw_jinja_assign(struct jinja_run *run, const struct jinja_node *target, struct jinja_value v)
{
    if (run->failed)
        return;
    if (target->kind == JINJA_VARIABLE) {
        sw_jinja_name(run, target->text, v);
    } else if (target->kind == JINJA_ATTRIBUTE) {
        const struct jinja_value of = sw_jinja_eval(run, target->a);
        run->at = target;
        if (of.kind != JINJA_NAMESPACE)
            sw_jinja_fail(run, "only a namespace's attributes can be set, not those of %s",
                          sw_jinja_kind_name(of));
        else
            sw_jinja_dict_set(run, of.of.dict, sw_jinja_text(run, target->text), v);
    } else {
        const struct jinja_list *items = sw_jinja_items(run, v);
        if (items->count != target->list.count)
            sw_jinja_fail(run, "%zu values for %zu names", items->count, target->list.count);
        for (size_t i = 0; i < target->list.count && !run->failed; i++)
            sw_jinja_assign(run, target->list.item[i], items->item[i]);
    }
}

/* ---- calls ---- */

void sw_jinja_arguments(struct jinja_run *run, const struct jinja_node *call,
                        struct jinja_arguments *out)
{
    for (size_t i = 0; i < call->list.count; i++)
        out->item[out->count++] = sw_jinja_eval(run, call->list.item[i]);
    for (size_t i = 0; i < call->named.count; i++) {
        out->named[out->named_count].name = call->named.item[i]->text;
        out->named[out->named_count++].value = sw_jinja_eval(run, call->named.item[i]->a);
    }
}

static void bind_parameters(struct jinja_run *run, const struct jinja_node *macro,
                            const struct jinja_arguments *a)
{
    if (a->count > macro->named.count)
        sw_jinja_fail(run, "the macro '%.60s' takes %zu values, not %zu", macro->text,
                      macro->named.count, a->count);
    for (size_t i = 0; i < macro->named.count && !run->failed; i++) {
        const struct jinja_node *parameter = macro->named.item[i];
        if (sw_jinja_has_argument(a, i, parameter->text))
            sw_jinja_name(run, parameter->text,
                          sw_jinja_argument(a, i, parameter->text, jinja_none()));
        else
            sw_jinja_name(run, parameter->text,
                          parameter->a != NULL ? sw_jinja_eval(run, parameter->a)
                                               : jinja_undefined(parameter->text));
    }
    for (size_t i = 0; i < a->named_count && !run->failed; i++) {
        bool known = strcmp(a->named[i].name, "caller") == 0;
        for (size_t k = 0; k < macro->named.count; k++)
            known = known || strcmp(macro->named.item[k]->text, a->named[i].name) == 0;
        if (!known)
            sw_jinja_fail(run, "the macro '%.60s' has no parameter '%.60s'", macro->text,
                          a->named[i].name);
        else if (strcmp(a->named[i].name, "caller") == 0)
            sw_jinja_name(run, "caller", a->named[i].value);
    }
}

static struct jinja_value call_macro(struct jinja_run *run, const struct jinja_closure *closure,
                                     const struct jinja_arguments *a)
{
    struct jinja_frame *frame = run->frame;
    struct jinja_value v = jinja_undefined(NULL);
    if (sw_jinja_enter(run, closure->frame)) {
        bind_parameters(run, closure->macro, a);
        v = sw_jinja_capture(run, &closure->macro->body);
    }
    run->frame = frame;
    return v;
}

/* Runs a recursive loop again, over its argument. */
static struct jinja_value call_loop(struct jinja_run *run, const struct jinja_loop *loop,
                                    const struct jinja_arguments *a)
{
    struct jinja_frame *frame = run->frame;
    struct jinja_out out = {.run = run}, *before = run->out;
    if (!loop->node->flag || a->count != 1)
        return sw_jinja_fail(run, "only a recursive loop can be called, with one value");
    run->out = &out;
    run->frame = loop->frame;
    sw_jinja_loop(run, loop->node, a->item[0], loop->depth + 1);
    run->frame = frame;
    run->out = before;
    return sw_jinja_text_of(&out);
}

struct jinja_value sw_jinja_call(struct jinja_run *run, struct jinja_value f,
                                 const struct jinja_arguments *a)
{
    if (run->failed)
        return jinja_undefined(NULL);
    if (f.kind == JINJA_FUNCTION)
        return f.of.function->call(run, a);
    if (f.kind == JINJA_METHOD)
        return f.of.method->row->call(run, f.of.method->self, a);
    if (f.kind == JINJA_CLOSURE)
        return call_macro(run, f.of.closure, a);
    if (f.kind == JINJA_LOOP)
        return call_loop(run, f.of.loop, a);
    return sw_jinja_fail(run, "a value that is %s cannot be called", sw_jinja_kind_name(f));
}

struct jinja_value sw_jinja_filter_with(struct jinja_run *run, const struct jinja_nodes *filters,
                                        struct jinja_value v)
{
    for (size_t i = 0; i < filters->count && !run->failed; i++) {
        struct jinja_arguments a = {.count = 0};
        sw_jinja_arguments(run, filters->item[i], &a);
        run->at = filters->item[i];
        if (!run->failed)
            v = filters->item[i]->filter->apply(run, v, &a);
    }
    return v;
}

/* ---- tags ---- */

struct jinja_value sw_jinja_capture(struct jinja_run *run, const struct jinja_nodes *body)
{
    struct jinja_out out = {.run = run}, *before = run->out;
    run->out = &out;
    sw_jinja_execute(run, body);
    run->out = before;
    return sw_jinja_text_of(&out);
}

/* Elements for which a loop's condition holds. */
static const struct jinja_list *chosen(struct jinja_run *run, const struct jinja_node *node,
                                       const struct jinja_list *items)
{
    struct jinja_frame *frame = run->frame;
    const struct jinja_value list = sw_jinja_list(run, 0);
    if (node->b == NULL || !sw_jinja_enter(run, frame))
        return items;
    for (size_t i = 0; i < items->count && !run->failed; i++) {
        run->frame->count = 0;
        sw_jinja_charge(run, 0);
        sw_jinja_assign(run, node->target, items->item[i]);
        if (sw_jinja_is_true(sw_jinja_eval(run, node->b)))
            sw_jinja_push(run, list.of.list, items->item[i]);
    }
    run->frame = frame;
    return run->failed ? items : list.of.list;
}

void sw_jinja_loop(struct jinja_run *run, const struct jinja_node *node, struct jinja_value over,
                   int32_t depth)
{
    struct jinja_frame *frame = run->frame;
    run->at = node;
    const struct jinja_list *items = chosen(run, node, sw_jinja_items(run, over));
    struct jinja_loop *loop = sw_jinja_take(run, sizeof *loop);
    if (loop == NULL || !sw_jinja_enter(run, frame))
        return;
    *loop = (struct jinja_loop){node, items, frame, 0, depth};
    for (; loop->index < items->count && !run->failed; loop->index++) {
        run->frame->count = 0;
        sw_jinja_charge(run, 0);
        sw_jinja_name(run, "loop", (struct jinja_value){JINJA_LOOP, {.loop = loop}});
        sw_jinja_assign(run, node->target, items->item[loop->index]);
        sw_jinja_execute(run, &node->body);
        const bool broken = run->flow == JINJA_BROKEN;
        run->flow = JINJA_ON;
        if (broken)
            break;
    }
    run->frame = frame;
    if (items->count == 0)
        sw_jinja_execute(run, &node->other);
}

static struct jinja_value closure_of(struct jinja_run *run, const struct jinja_node *macro)
{
    struct jinja_closure *closure = sw_jinja_take(run, sizeof *closure);
    if (closure == NULL)
        return jinja_undefined(NULL);
    *closure = (struct jinja_closure){macro, run->frame};
    return (struct jinja_value){JINJA_CLOSURE, {.closure = closure}};
}

static void call_block(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_arguments a = {.count = 0};
    const struct jinja_value macro = sw_jinja_eval(run, node->a->a);
    sw_jinja_arguments(run, node->a, &a);
    run->at = node;
    if (a.named_count == JINJA_ARGUMENTS) {
        sw_jinja_fail(run, "more than 16 arguments");
        return;
    }
    a.named[a.named_count].name = "caller";
    a.named[a.named_count++].value = closure_of(run, node->b);
    sw_jinja_put_value(run->out, sw_jinja_call(run, macro, &a));
}

/* Renders a body in its own scope to a text. */
static struct jinja_value capture_within(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_frame *frame = run->frame;
    struct jinja_value v = jinja_undefined(NULL);
    if (sw_jinja_enter(run, frame))
        v = sw_jinja_capture(run, &node->body);
    run->frame = frame;
    return v;
}

static void with(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_frame *frame = run->frame, *inner;
    if (!sw_jinja_enter(run, frame))
        return;
    inner = run->frame;
    for (size_t i = 0; i < node->named.count && !run->failed; i++) {
        run->frame = frame;
        const struct jinja_value v = sw_jinja_eval(run, node->named.item[i]->a);
        run->frame = inner;
        sw_jinja_name(run, node->named.item[i]->text, v);
    }
    sw_jinja_execute(run, &node->body);
    run->frame = frame;
}

/* Renders a generation block like a Jinja call block: its own text and scope. */
static void generation(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_frame *frame = run->frame;
    const size_t begin = run->out->count;
    if (sw_jinja_enter(run, frame))
        sw_jinja_execute(run, &node->body);
    run->frame = frame;
    if (run->tracks)
        sw_jinja_mark(run->out, begin, JINJA_GENERATED);
}

static void execute_one(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value v;
    switch (node->kind) {
    case JINJA_WRITE:
        sw_jinja_put_value(run->out, node->constant);
        break;
    case JINJA_OUTPUT:
        v = sw_jinja_eval(run, node->a);
        run->at = node;
        if (!run->failed)
            sw_jinja_put_value(run->out, v);
        break;
    case JINJA_IF:
        v = sw_jinja_eval(run, node->a);
        sw_jinja_execute(run, sw_jinja_is_true(v) ? &node->body : &node->other);
        break;
    case JINJA_FOR:
        sw_jinja_loop(run, node, sw_jinja_eval(run, node->a), 0);
        break;
    case JINJA_SET:
        sw_jinja_assign(run, node->target, sw_jinja_eval(run, node->a));
        break;
    case JINJA_SET_BLOCK:
        v = sw_jinja_filter_with(run, &node->list, capture_within(run, node));
        sw_jinja_assign(run, node->target, v);
        break;
    case JINJA_MACRO:
        sw_jinja_name(run, node->text, closure_of(run, node));
        break;
    case JINJA_CALL_BLOCK:
        call_block(run, node);
        break;
    case JINJA_FILTER_BLOCK:
        v = sw_jinja_filter_with(run, &node->list, capture_within(run, node));
        if (!run->failed)
            sw_jinja_put_value(run->out, v);
        break;
    case JINJA_WITH:
        with(run, node);
        break;
    case JINJA_BREAK:
    case JINJA_CONTINUE:
        run->flow = node->kind == JINJA_BREAK ? JINJA_BROKEN : JINJA_CONTINUED;
        break;
    default:
        generation(run, node);
        break;
    }
}

void sw_jinja_execute(struct jinja_run *run, const struct jinja_nodes *body)
{
    if (++run->depth > JINJA_DEPTH)
        sw_jinja_fail(run, "the chat template goes too deep");
    for (size_t i = 0; i < body->count && !run->failed && run->flow == JINJA_ON; i++) {
        run->at = body->item[i];
        sw_jinja_charge(run, 0);
        execute_one(run, body->item[i]);
    }
    run->depth--;
}

/* ---- a rendering ---- */

/* Finds the spans with this mark in a text that will follow `before` bytes. -1: no memory. */
static int find_spans(const struct jinja_out *out, unsigned char mark, size_t before,
                      struct sw_text_spans *spans)
{
    const unsigned char *m = out->mark;
    size_t runs = 0;
    for (size_t i = 0; m != NULL && i < out->count; i++)
        runs += (m[i] & mark) != 0 && (i == 0 || (m[i - 1] & mark) == 0);
    *spans = (struct sw_text_spans){calloc(runs + 1, sizeof *spans->span), runs, runs + 1};
    if (spans->span == NULL)
        return -1;
    for (size_t i = 0, at = 0; at < runs; i++) {
        if ((m[i] & mark) == 0)
            continue;
        spans->span[at].begin = before + i;
        while (i < out->count && (m[i] & mark) != 0)
            i++;
        spans->span[at++].end = before + i;
    }
    return 0;
}

/* Appends the text to *text and reports marks; foreign, generated may be NULL. */
static int hand_over(const struct jinja_out *out, struct sw_chars *text,
                     struct sw_text_spans *foreign, struct sw_text_spans *generated,
                     struct sw_error *err)
{
    struct sw_text_spans of[2] = {{0}, {0}};
    if ((foreign != NULL && find_spans(out, JINJA_FOREIGN, text->count, &of[0]) != 0) ||
        (generated != NULL && find_spans(out, JINJA_GENERATED, text->count, &of[1]) != 0) ||
        sw_chars_add(text, out->count > 0 ? out->byte : "", out->count) != 0) {
        free(of[0].span);
        free(of[1].span);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for a conversation");
    }
    if (foreign != NULL)
        *foreign = of[0];
    if (generated != NULL)
        *generated = of[1];
    return 0;
}

int sw_jinja_render(const struct sw_jinja *jinja, const struct sw_jinja_variable *variable,
                    size_t count, const struct sw_jinja_limits *limits, int64_t now,
                    struct sw_chars *text, struct sw_text_spans *foreign,
                    struct sw_text_spans *generated, struct sw_error *err)
{
    struct jinja_run run = {.jinja = jinja,
                            .arena = {.most_bytes = limits->memory_bytes},
                            .steps_left = limits->steps,
                            .now = now,
                            .tracks = generated != NULL,
                            .err = err};
    struct jinja_out out = {.run = &run};
    int status = -1;
    run.out = &out;
    if (sw_jinja_enter(&run, NULL))
        for (size_t i = 0; i < count && !run.failed; i++)
            sw_jinja_name(&run, variable[i].name,
                          sw_jinja_from_json(&run, variable[i].value, variable[i].is_foreign));
    if (!run.failed)
        sw_jinja_execute(&run, &jinja->body);
    if (!run.failed)
        status = hand_over(&out, text, foreign, generated, err);
    sw_jinja_arena_free(&run.arena);
    return status;
}
