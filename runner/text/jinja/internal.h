/* Shared by the files of the Jinja subset: tokens (lex.c), nodes (parse.c, tags.c), values
 * (value.c, collection.c, number.c), evaluation (eval.c, statement.c), filters and tests (filter.c,
 * sequence.c, test.c), methods (method.c), JSON (json.c). */
#ifndef SW_JINJA_INTERNAL_H
#define SW_JINJA_INTERNAL_H

#include "runner/text/jinja/jinja.h"

enum { JINJA_NESTING = 1000, JINJA_DEPTH = 1500, JINJA_ARGUMENTS = 16 };

/* ---- memory: freed all at once ---- */

struct jinja_block;
struct jinja_arena {
    struct jinja_block *block;
    size_t used_bytes, most_bytes;
};
void *sw_jinja_arena_take(struct jinja_arena *arena, size_t bytes); /* zeroed; NULL: no memory */
void sw_jinja_arena_free(struct jinja_arena *arena);

/* ---- tokens ---- */

enum jinja_token_kind {
    JINJA_END,
    JINJA_DATA,        /* verbatim text between tags */
    JINJA_BLOCK_BEGIN, /* {% */
    JINJA_BLOCK_END,
    JINJA_OUTPUT_BEGIN, /* {{ */
    JINJA_OUTPUT_END,
    JINJA_NAME,
    JINJA_STRING, /* escapes decoded */
    JINJA_INTEGER,
    JINJA_FLOAT,
    JINJA_OPERATOR
};
struct jinja_token {
    enum jinja_token_kind kind;
    const char *text; /* [bytes], 0-terminated */
    size_t bytes, position;
    int64_t integer;
    double number;
};
struct jinja_source {
    char *file;
    const char *text; /* line ends are '\n' */
    size_t bytes;
};
/* Splits a source into tokens, the last one JINJA_END, in the arena. */
int sw_jinja_lex(const struct jinja_source *source, struct jinja_arena *arena,
                 struct jinja_token **token, struct sw_error *err);
/* Place of a byte of the source. */
struct sw_place sw_jinja_place(const struct jinja_source *source, size_t position);

/* ---- nodes ---- */

enum jinja_node_kind {
    /* expressions */
    JINJA_CONSTANT,
    JINJA_VARIABLE, /* text */
    JINJA_LIST,     /* list */
    JINJA_TUPLE,    /* list */
    JINJA_DICT,     /* list: key, value, ... */
    JINJA_NOT,      /* a */
    JINJA_NEGATIVE, /* a */
    JINJA_POSITIVE, /* a */
    JINJA_AND,      /* a, b */
    JINJA_OR,
    JINJA_BINARY,      /* a, text: the operator, b */
    JINJA_COMPARE,     /* a, list: JINJA_OPERAND */
    JINJA_OPERAND,     /* text, a */
    JINJA_CONDITIONAL, /* a if b else c (NULL) */
    JINJA_ATTRIBUTE,   /* a.text */
    JINJA_ITEM,        /* a[b] */
    JINJA_SLICE,       /* a[list 0:1:2], each may be NULL */
    JINJA_CALL,        /* a(list, named) */
    JINJA_FILTER,      /* a | text(list, named); a NULL: filters a block */
    JINJA_TEST,        /* a is text(list) */
    JINJA_NAMED,       /* text = a */
    /* statements */
    JINJA_WRITE,        /* constant, verbatim */
    JINJA_OUTPUT,       /* a */
    JINJA_IF,           /* a, body, other */
    JINJA_FOR,          /* target, a, b: filter, body, other, flag: recursive */
    JINJA_SET,          /* target, a */
    JINJA_SET_BLOCK,    /* target, list: filters, body */
    JINJA_MACRO,        /* text, named: parameters with defaults a (NULL), body */
    JINJA_CALL_BLOCK,   /* a: the call, b: JINJA_MACRO of caller */
    JINJA_FILTER_BLOCK, /* list: filters, body */
    JINJA_WITH,         /* named, body */
    JINJA_GENERATION,   /* body */
    JINJA_BREAK,
    JINJA_CONTINUE
};

/* Mark bits of a byte: foreign text; inside a generation block. */
enum { JINJA_FOREIGN = 1, JINJA_GENERATED = 2 };
struct jinja_text {
    const char *byte;          /* [count], 0-terminated */
    const unsigned char *mark; /* [count]; NULL: no marks */
    size_t count;
    bool is_safe; /* true after safe and escape: joining escapes the other text */
};

enum jinja_kind {
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOLEAN,
    JINJA_INT,
    JINJA_REAL,
    JINJA_BIG, /* an integer beyond 64 bits, from a conversation: only shown and compared */
    JINJA_TEXT,
    JINJA_SEQUENCE,
    JINJA_MAPPING,
    JINJA_NAMESPACE,
    JINJA_LOOP,
    JINJA_FUNCTION, /* global function */
    JINJA_METHOD,
    JINJA_CLOSURE /* a macro */
};
struct jinja_value {
    enum jinja_kind kind;
    union {
        const char *name; /* an undefined value's; NULL: an element */
        int64_t integer;  /* also for booleans */
        double real;
        const struct jinja_text *text; /* also a big integer's digits */
        struct jinja_list *list;
        struct jinja_dict *dict; /* also for namespaces */
        struct jinja_loop *loop;
        const struct jinja_method *method;
        const struct jinja_function *function;
        const struct jinja_closure *closure;
    } of;
};
struct jinja_list {
    struct jinja_value *item; /* [capacity], [count] set */
    size_t count, capacity;
    bool is_tuple;
    bool is_lazy; /* true for a Python generator: no length, no JSON */
};
struct jinja_dict {
    struct jinja_value *key, *value; /* [capacity], [count] set, in order of insertion */
    size_t count, capacity;
};

struct jinja_nodes {
    struct jinja_node **item; /* [capacity], [count] set */
    size_t count, capacity;
};
struct jinja_node {
    enum jinja_node_kind kind;
    size_t position;
    const char *text;
    struct jinja_value constant;
    struct jinja_node *a, *b, *c, *target;
    struct jinja_nodes list, named, body, other;
    const struct jinja_filter *filter;
    const struct jinja_test *test;
    bool flag;
    struct jinja_node *before; /* node created before this one */
};
struct sw_jinja {
    struct jinja_arena arena;
    struct jinja_source source;
    struct jinja_node *last;
    struct jinja_nodes body;
    bool has_generation;
};

/* ---- a rendering ---- */

struct jinja_frame {
    struct jinja_frame *outer;
    struct jinja_binding {
        const char *name;
        struct jinja_value value;
    } * binding; /* [capacity], [count] set */
    size_t count, capacity;
};
struct jinja_out {
    struct jinja_run *run;
    char *byte;
    unsigned char *mark; /* NULL: no marks */
    size_t count, capacity;
};
struct jinja_run {
    const struct sw_jinja *jinja;
    struct jinja_arena arena;
    struct jinja_frame *frame;
    struct jinja_out *out;
    int64_t steps_left, now;
    int32_t depth;
    enum { JINJA_ON, JINJA_BROKEN, JINJA_CONTINUED } flow;
    bool tracks; /* true to mark generation blocks */
    bool failed; /* true after a failure: values are meaningless, evaluation ends soon */
    const struct jinja_node *at;
    struct sw_error *err;
};
struct jinja_closure {
    const struct jinja_node *macro;
    struct jinja_frame *frame;
};
struct jinja_loop {
    const struct jinja_node *node;
    const struct jinja_list *items;
    struct jinja_frame *frame; /* frame around the loop */
    size_t index;
    int32_t depth;
};
struct jinja_arguments {
    struct jinja_value item[JINJA_ARGUMENTS];
    size_t count;
    struct {
        const char *name;
        struct jinja_value value;
    } named[JINJA_ARGUMENTS];
    size_t named_count;
};
struct jinja_function {
    const char *name;
    struct jinja_value (*call)(struct jinja_run *run, const struct jinja_arguments *a);
};
struct jinja_method_row {
    const char *name;
    enum jinja_kind of;
    struct jinja_value (*call)(struct jinja_run *run, struct jinja_value self,
                               const struct jinja_arguments *a);
};
struct jinja_method {
    struct jinja_value self;
    const struct jinja_method_row *row;
};
struct jinja_filter {
    const char *name;
    struct jinja_value (*apply)(struct jinja_run *run, struct jinja_value v,
                                const struct jinja_arguments *a);
};
struct jinja_test {
    const char *name;
    bool (*holds)(struct jinja_run *run, struct jinja_value v, const struct jinja_arguments *a);
};

/* Fails at the current place; the first failure stays. Returns an undefined value. */
struct jinja_value sw_jinja_fail(struct jinja_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Charges `bytes` examined to the steps. */
void sw_jinja_charge(struct jinja_run *run, size_t bytes);
void *sw_jinja_take(struct jinja_run *run, size_t bytes); /* zeroed; NULL: the run has failed */

/* ---- values ---- */

static inline struct jinja_value jinja_int(int64_t i)
{
    return (struct jinja_value){JINJA_INT, {.integer = i}};
}
static inline struct jinja_value jinja_bool(bool b)
{
    return (struct jinja_value){JINJA_BOOLEAN, {.integer = b}};
}
static inline struct jinja_value jinja_real(double d)
{
    return (struct jinja_value){JINJA_REAL, {.real = d}};
}
static inline struct jinja_value jinja_none(void)
{
    return (struct jinja_value){.kind = JINJA_NONE};
}
static inline struct jinja_value jinja_undefined(const char *name)
{
    return (struct jinja_value){JINJA_UNDEFINED, {.name = name}};
}
static inline unsigned char jinja_mark(const struct jinja_text *text, size_t at)
{
    return text->mark != NULL ? text->mark[at] : 0;
}
static inline bool jinja_is_number(struct jinja_value v)
{
    return v.kind == JINJA_INT || v.kind == JINJA_REAL || v.kind == JINJA_BOOLEAN;
}
static inline double jinja_number(struct jinja_value v)
{
    return v.kind == JINJA_REAL ? v.of.real : (double)v.of.integer;
}

const char *sw_jinja_kind_name(struct jinja_value v); /* Python's name of its type */
bool sw_jinja_is_true(struct jinja_value v);
bool sw_jinja_equal(struct jinja_run *run, struct jinja_value a, struct jinja_value b);
/* -1, 0, 1; fails if the two have no order. */
int32_t sw_jinja_order(struct jinja_run *run, struct jinja_value a, struct jinja_value b);
/* a op b for < <= > >=; false if either is no number. */
bool sw_jinja_compare(struct jinja_run *run, const char *op, struct jinja_value a,
                      struct jinja_value b);
bool sw_jinja_contains(struct jinja_run *run, struct jinja_value in, struct jinja_value what);

/* ---- numbers ---- */

bool sw_jinja_are_numbers(struct jinja_value a, struct jinja_value b); /* big integers included */
bool sw_jinja_is_nan(struct jinja_value v);
/* Integer from its digits, of any length. */
struct jinja_value sw_jinja_integer(struct jinja_run *run, const char *digits, size_t bytes);
struct jinja_value sw_jinja_truncate(struct jinja_run *run, double d);      /* Python's int() */
int32_t sw_jinja_order_numbers(struct jinja_value a, struct jinja_value b); /* numbers only */
struct jinja_value sw_jinja_calculate(struct jinja_run *run, const char *op, struct jinja_value a,
                                      struct jinja_value b);
struct jinja_value sw_jinja_negate(struct jinja_run *run, struct jinja_value v);
struct jinja_value sw_jinja_filter_round(struct jinja_run *run, struct jinja_value v,
                                         const struct jinja_arguments *a);

void sw_jinja_put(struct jinja_out *out, const char *text, size_t bytes, unsigned char mark);
/* Adds the mark to all bytes from `begin`. */
void sw_jinja_mark(struct jinja_out *out, size_t begin, unsigned char mark);
void sw_jinja_put_text(struct jinja_out *out, const struct jinja_text *text, size_t from,
                       size_t to);
void sw_jinja_put_words(struct jinja_out *out, const char *text);     /* 0-terminated, unmarked */
void sw_jinja_put_value(struct jinja_out *out, struct jinja_value v); /* Python's str() */
void sw_jinja_put_shown(struct jinja_out *out, struct jinja_value v); /* Python's repr() */
struct jinja_value sw_jinja_text_of(const struct jinja_out *out);
struct jinja_value sw_jinja_safe(const struct jinja_out *out);             /* a copy that is_safe */
struct jinja_value sw_jinja_text(struct jinja_run *run, const char *text); /* not copied */
struct jinja_value sw_jinja_part(struct jinja_run *run, const struct jinja_text *text, size_t from,
                                 size_t to);
/* A text itself, any other value by str(). */
const struct jinja_text *sw_jinja_as_text(struct jinja_run *run, struct jinja_value v);

struct jinja_value sw_jinja_list(struct jinja_run *run, size_t room);
void sw_jinja_push(struct jinja_run *run, struct jinja_list *list, struct jinja_value v);
struct jinja_value sw_jinja_pair(struct jinja_run *run, struct jinja_value a, struct jinja_value b);
struct jinja_value sw_jinja_dict(struct jinja_run *run, size_t room);
void sw_jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key,
                       struct jinja_value value);
/* NULL: no such key. */
struct jinja_value *sw_jinja_dict_find(struct jinja_run *run, const struct jinja_dict *dict,
                                       struct jinja_value key);
struct jinja_value *sw_jinja_dict_get(struct jinja_run *run, const struct jinja_dict *dict,
                                      const char *key);
/* Elements, keys or characters that a loop iterates over. Fails for values that are not
 * iterable. */
const struct jinja_list *sw_jinja_items(struct jinja_run *run, struct jinja_value v);
size_t sw_jinja_characters(struct jinja_run *run, const struct jinja_text *text);

/* ---- JSON ---- */

struct jinja_value sw_jinja_from_json(struct jinja_run *run, const json_t *value, bool marked);
struct jinja_value sw_jinja_filter_tojson(struct jinja_run *run, struct jinja_value v,
                                          const struct jinja_arguments *a);
/* Parses JSON text; not Jinja's, but used by some templates. */
struct jinja_value sw_jinja_filter_from_json(struct jinja_run *run, struct jinja_value v,
                                             const struct jinja_arguments *a);

/* ---- evaluation ---- */

struct jinja_value sw_jinja_eval(struct jinja_run *run, const struct jinja_node *node);
/* a.name: Python's attribute, else its item; below: the reverse, a[name]. */
struct jinja_value sw_jinja_attribute(struct jinja_run *run, struct jinja_value a,
                                      const char *name);
struct jinja_value sw_jinja_index(struct jinja_run *run, struct jinja_value a,
                                  struct jinja_value b);
/* Value at a filter's path like 'function.name'. */
struct jinja_value sw_jinja_path(struct jinja_run *run, struct jinja_value a,
                                 struct jinja_value path);
struct jinja_value sw_jinja_slice(struct jinja_run *run, struct jinja_value v,
                                  const struct jinja_value part[3]);
struct jinja_value sw_jinja_arithmetic(struct jinja_run *run, const char *op, struct jinja_value a,
                                       struct jinja_value b);
void sw_jinja_arguments(struct jinja_run *run, const struct jinja_node *call,
                        struct jinja_arguments *out);
struct jinja_value sw_jinja_call(struct jinja_run *run, struct jinja_value f,
                                 const struct jinja_arguments *a);
struct jinja_value sw_jinja_filter_with(struct jinja_run *run, const struct jinja_nodes *filters,
                                        struct jinja_value v);
void sw_jinja_execute(struct jinja_run *run, const struct jinja_nodes *body);
/* Renders a body to a text. */
struct jinja_value sw_jinja_capture(struct jinja_run *run, const struct jinja_nodes *body);
void sw_jinja_loop(struct jinja_run *run, const struct jinja_node *node, struct jinja_value over,
                   int32_t depth);
bool sw_jinja_enter(struct jinja_run *run, struct jinja_frame *outer); /* a new frame */
void sw_jinja_assign(struct jinja_run *run, const struct jinja_node *target, struct jinja_value v);
void sw_jinja_name(struct jinja_run *run, const char *name, struct jinja_value v);
bool sw_jinja_lookup(struct jinja_run *run, const char *name, struct jinja_value *out);

/* ---- tables ---- */

/* Argument `at`, or the one with this name; `otherwise` if absent. */
struct jinja_value sw_jinja_argument(const struct jinja_arguments *a, size_t at, const char *name,
                                     struct jinja_value otherwise);
bool sw_jinja_has_argument(const struct jinja_arguments *a, size_t at, const char *name);
const struct jinja_filter *sw_jinja_filter_find(const char *name);
extern const struct jinja_filter sw_jinja_text_filters[], sw_jinja_sequence_filters[];
const struct jinja_test *sw_jinja_test_find(const char *name);
const struct jinja_function *sw_jinja_function_find(const char *name);
const struct jinja_method_row *sw_jinja_method_find(const char *name, enum jinja_kind of);
bool sw_jinja_is_method(const char *name); /* true if any kind of value has it */

/* Writes a text with & < > ' " escaped for HTML. */
void sw_jinja_put_escaped(struct jinja_out *out, struct jinja_value v);
/* Python's str.strip; chars NULL: white space. */
struct jinja_value sw_jinja_strip(struct jinja_run *run, const struct jinja_text *text,
                                  const struct jinja_text *chars, bool left, bool right);
struct jinja_value sw_jinja_replace(struct jinja_run *run, const struct jinja_text *text,
                                    const struct jinja_text *from, const struct jinja_text *to,
                                    int64_t most);
enum jinja_case { JINJA_UPPER, JINJA_LOWER, JINJA_TITLE, JINJA_CAPITAL };
struct jinja_value sw_jinja_recase(struct jinja_run *run, const struct jinja_text *text,
                                   enum jinja_case as);

#endif
