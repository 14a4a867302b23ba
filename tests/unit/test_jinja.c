/* The Jinja subset of chat templates: what each construct writes, where others' words stand, every
 * message, and that no template takes more than it may. Against transformers:
 * tests/oracle/chat_templates.py. */
#include "runner/text/jinja/jinja.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char variables[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi <b>\"},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"name\":\"f\",\"arguments\":"
    "{\"x\":1,\"y\":\"\xc3\xa9\\n\"}}]}],"
    "\"t\":\" a b "
    "\",\"l\":[3,1,2],\"d\":{\"k\":\"v\",\"items\":1},\"e\":[],\"n\":null,\"yes\":true,"
    "\"r\":1.5,\"u\":\"\xc3\xa9\xe6\x97\xa5x\",\"bos_token\":\"<s>\","
    "\"tree\":[{\"n\":1,\"c\":[{\"n\":2,\"c\":[]}]},{\"n\":3,\"c\":[]}]}";

static int render(const char *template, const struct sw_jinja_limits *limits, struct sw_chars *text,
                  struct sw_text_spans *foreign, struct sw_text_spans *generated,
                  struct sw_error *err)
{
    struct sw_jinja_variable variable[16];
    struct sw_jinja *jinja = NULL;
    json_t *root = json_loads(variables, 0, NULL), *value;
    const char *key;
    size_t count = 0;
    char *copy = strdup(template); /* sanitizers watch its end */
    int status;
    json_object_foreach(root, key, value)
    {
        variable[count++] = (struct sw_jinja_variable){key, value, strcmp(key, "bos_token") != 0};
    }
    status = sw_jinja_parse("t.jinja", copy, strlen(copy), &jinja, err);
    free(copy);
    if (status == 0)
        status = sw_jinja_render(jinja, variable, count, limits, 86400 * 366, text, foreign,
                                 generated, err);
    sw_jinja_free(jinja);
    json_decref(root);
    return status;
}

static const struct {
    const char *template, *text;
} written[] = {
    /* values and operators */
    {"{{ 1 + 2 * 3 - 4 // 3 }} {{ 7 % 4 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }}",
     "6 3 -4 2 3.5 1024"},
    {"{{ 'a' ~ 1 ~ none ~ true }} {{ 'a' + \"b\" 'c' }} {{ 'ab' * 2 }}", "a1NoneTrue abc abab"},
    {"{{ [1, 'a', [2.0], (1,), {'k': none}] }}", "[1, 'a', [2.0], (1,), {'k': None}]"},
    {"{{ 'it\\'s' }} {{ ['it\\'s', 'a\"\\'', '\\n'] }} {{ '\\x41\\u00e9\\U0001F600' }}",
     "it's [\"it's\", 'a\"\\'', '\\n'] A\xc3\xa9\xf0\x9f\x98\x80"},
    {"{{ 'a\\\nb' }} {{ 'stra\xc3\x9f' 'e'|upper }} {{ '\xc3\x9f'|title }} {{ "
     "'\xc3\x9f'.capitalize() }}",
     "ab STRASSE Ss Ss"},
    {"{{ '0x1f'|int(base=16) }} {{ ' -1F '|int(0, 16) }} {{ '0b11'|int(base=2) }} "
     "{{ '17'|int(base=8) }} {{ '9'|int(3, 8) }} {{ '0x'|int(base=16) }} {{ '-+1'|int(4, 16) }} "
     "{{ '0x0x5'|int(7, 16) }}",
     "31 -31 3 15 3 0 4 7"},
    {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 2 in l }} {{ 9 not in l }} {{ 'b' in t }} {{ 'k' in d }}",
     "True False True True True True"},
    {"{{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' == 1 }} {{ [1] == [1] }} {{ {'a': 1} == {'a': 1} }}",
     "True True False True True"},
    {"{{ not true or 1 }} {{ '' or 'x' }} {{ 0 and 1 }} {{ 'a' if yes else 'b' }}{{ 'a' if n }}",
     "1 x 0 a"},
    {"{{ r }} {{ 1e20 }} {{ 0.1 + 0.2 }} {{ 1e-7 }} {{ 100.0 }}",
     "1.5 1e+20 0.30000000000000004 1e-07 100.0"},
    /* parts */
    {"{{ d.k }}{{ d['k'] }}{{ d.items }}", NULL},
    {"{{ d.k }} {{ d['k'] }} {{ d['items'] }} {{ d.none }} {{ l[0] }} {{ l[-1] }} {{ l[9] }}",
     "v v 1  3 2 "},
    {"{{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ u[1:] }} {{ u[::-1] }} {{ u[0] }} {{ u[-1] }}",
     "[1, 2] [3, 1] [2, 1, 3] \xe6\x97\xa5x x\xe6\x97\xa5\xc3\xa9 \xc3\xa9 x"},
    {"{{ messages[1].tool_calls[0].arguments.x }} {{ messages|length }}", "1 2"},
    /* loops */
    {"{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}"
     "{{ loop.revindex }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}",
     "10TrueFalse331;21FalseFalse2332;32FalseTrue131;"},
    {"{% for x in l if x > 1 %}{{ x }}{{ loop.length }}{% else %}none{% endfor %}", "3222"},
    {"{% for x in e %}{{ x }}{% else %}none{% endfor %}{% for x in nowhere %}x{% endfor %}",
     "none"},
    {"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}",
     "k=v;items=1;kitems"},
    {"{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}"
     "{% endif %}{{ x }}{% endfor %}",
     "013"},
    {"{% for x in tree recursive %}{{ x.n }}{{ loop.depth }}({{ loop(x.c) }}){% endfor %}",
     "11(22())31()"},
    {"{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}{{ range(3, 0, -1) | list }}",
     "aba[3, 2, 1]"},
    {"{% for c in u %}{{ c }},{% endfor %}", "\xc3\xa9,\xe6\x97\xa5,x,"},
    /* names */
    {"{% set x = 1 %}{% for i in l %}{% set x = 2 %}{% endfor %}{{ x }}"
     "{% if true %}{% set x = 3 %}{% endif %}{{ x }}",
     "13"},
    {"{% set s = namespace(a=1, b='x') %}{% for i in l %}{% set s.a = s.a + i %}{% endfor %}"
     "{{ s.a }}{{ s.b }}",
     "7x"},
    {"{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set x | upper %}in {{ t }}{% endset %}{{ x }}",
     "12IN  A B "},
    {"{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}", "3False"},
    {"{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, c=3) }} "
     "{{ m(b=1, a=0) }}",
     "12x 123 01x"},
    {"{% macro m() %}[{{ caller('i') }}]{% endmacro %}{% call(x) m() %}{{ x }}!{% endcall %}",
     "[i!]"},
    {"{% macro down(n) %}{{ n }}{% if n > 0 %}{{ down(n - 1) }}{% endif %}{% endmacro %}"
     "{{ down(3) }}",
     "3210"},
    {"{% filter upper %}a{{ t }}{% endfilter %}{% generation %}g{% endgeneration %}", "A A B g"},
    /* white space */
    {"a\n  {% if true %}\nb\n  {% endif %}\nc\n", "a\nb\nc"},
    {"a \n {%- if true -%} \n b {%- endif %} c", "ab c"},
    {"  {%+ if true %}x{% endif +%}\ny  {{- 1 -}}  z", "  x\ny1z"},
    {"a\n  {# note #}\nb {#- x -#} c\n\n", "a\nbc\n"},
    {"{% raw %}{{ x }}{% if %}{% endraw %}\n.", "{{ x }}{% if %}."},
    {"a\r\nb{{ '}}' }}{{ {'a': {}} }}", "a\nb}}{'a': {}}"},
    /* tests */
    {"{{ x is defined }}{{ t is defined }}{{ n is none }}{{ t is string }}{{ d is mapping }}"
     "{{ l is sequence }}{{ l is iterable }}{{ r is number }}{{ yes is boolean }}{{ 3 is odd }}",
     "FalseTrueTrueTrueTrueTrueTrueTrueTrueTrue"},
    {"{{ 4 is even }}{{ yes is true }}{{ yes is false }}{{ 1 is integer }}{{ r is float }}"
     "{{ x is undefined }}{{ 9 is divisibleby 3 }}{{ 1 is eq(1) }}{{ 2 is in [1, 2] }}"
     "{{ t is not none }}{{ 1 is ne 2 }}{{ none is sameas none }}{{ 'a' is lower }}",
     "TrueTrueFalseTrueTrueTrueTrueTrueTrueTrueTrueTrueTrue"},
    /* filters */
    {"[{{ t|trim }}][{{ t|upper }}][{{ 'aB c'|title }}][{{ 'aBC'|capitalize }}][{{ 'A'|lower }}]",
     "[a b][ A B ][Ab C][Abc][a]"},
    {"{{ l|sort }}{{ l|sort(reverse=true) }}{{ l|first }}{{ l|last }}{{ l|join('-') }}{{ l|sum }}"
     "{{ l|min }}{{ l|max }}{{ l|reverse|list }}{{ u|length }}",
     "[1, 2, 3][3, 2, 1]323-1-2613[2, 1, 3]3"},
    {"{{ x|default('d') }}{{ ''|default('d', true) }}{{ ''|d('d') }}{{ '7'|int + 1 }}"
     "{{ 'x'|int(5) }}{{ '1.5'|float }}{{ 3|string + '1' }}{{ -3|abs }}{{ 2.6|round|int }}",
     "dd851.53133"},
    {"{{ messages|map(attribute='role')|join(',') }} {{ l|map('string')|list }} "
     "{{ messages|selectattr('content', 'none')|map(attribute='role')|list }} "
     "{{ messages|rejectattr('tool_calls', 'defined')|list|length }} {{ l|select('gt', 1)|list }} "
     "{{ l|reject('odd')|list }}",
     "user,assistant ['3', '1', '2'] ['assistant'] 1 [3, 2] [2]"},
    {"{{ ['b', 'a', 'B']|unique|list }} {{ {'b': 1, 'a': 2}|dictsort }} {{ d|items|list }} "
     "{{ 'a-b-a'|replace('a', 'x') }} {{ 'a-b-a'|replace('a', 'x', 1) }} {{ '%s=%d'|format('a', 2) "
     "}}",
     "['b', 'a'] [('a', 2), ('b', 1)] [('k', 'v'), ('items', 1)] x-b-x x-b-a a=2"},
    {"{{ 'a\nb\n\nc'|indent(2) }}|{{ 'a\nb'|indent(1, true) }} {{ '<'|e }} {{ 'x'|safe }}",
     "a\n  b\n\n  c| a\n b &lt; x"},
    {"{{ '<' + '<b>'|safe }}{{ '<b>'|e ~ '<' }}", "&lt;<b>&lt;b&gt;<"},
    {"{{ messages[1].tool_calls|tojson }} {{ {'a': [1, true, none, 1.0], 'b': '\"\\\\/\t'}|tojson "
     "}} "
     "{{ {}|tojson(indent=2) }} {{ '\xc3\xa9\xf0\x9f\x98\x80\x7f'|tojson(ensure_ascii=true) }}",
     "[{\"name\": \"f\", \"arguments\": {\"x\": 1, \"y\": \"\xc3\xa9\\n\"}}] "
     "{\"a\": [1, true, null, 1.0], \"b\": \"\\\"\\\\/\\t\"} {} \"\\u00e9\\ud83d\\ude00\\u007f\""},
    {"{{ {'a': [1, {'b': 2}], 'c': []}|tojson(indent=2) }}",
     "{\n  \"a\": [\n    1,\n    {\n      \"b\": 2\n    }\n  ],\n  \"c\": []\n}"},
    {"{{ {'b': 1, 'a': 2}|tojson(sort_keys=true, separators=(',', ':')) }} "
     "{{ ('{\"a\": [1]}'|from_json).a[0] }}",
     "{\"a\":2,\"b\":1} 1"},
    /* methods */
    {"[{{ t.strip() }}][{{ t.lstrip() }}][{{ t.rstrip() }}][{{ 'xaxx'.strip('x') }}]"
     "[{{ 'a,b,c'.split(',') }}][{{ t.split() }}][{{ 'a,b,c'.split(',', 1)[-1] }}]",
     "[a b][a b ][ a b][a][['a', 'b', 'c']][['a', 'b']][b,c]"},
    {"{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'a'.upper() }}{{ 'A'.lower() "
     "}}"
     "{{ 'aab'.replace('a', '') }}{{ 'a b'.title() }}{{ 'ab'.find('b') }}{{ 'aa'.count('a') }}"
     "{{ '-'.join(['a', 'b']) }}{{ '{} {x}'.format(1, x=2) }}{{ 'a\nb'.splitlines() }}",
     "TrueTrueAabA B12a-b1 2['a', 'b']"},
    {"{{ d.keys()|list }}{{ d.values()|list }}{{ d.get('k') }}{{ d.get('z', 1) }}{{ d.get('z') }}"
     "{{ 'a.b.c'.rsplit('.', 1) }}{{ 'ab'.removeprefix('a') }}{{ '12'.isdigit() }}",
     "['k', 'items']['v', 1]v1None['a.b', 'c']bTrue"},
    {"{{ dict(a=1) }}{{ strftime_now('%Y-%m-%d') }}{{ {'a': 1}['a'] }}{{ (1, 2)[1] }}",
     "{'a': 1}1971-01-0212"},
};

static void test_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        struct sw_chars text = {0};
        struct sw_error err = {0};
        const int status =
            render(written[i].template, &SW_JINJA_USUAL_LIMITS, &text, NULL, NULL, &err);
        if (written[i].text == NULL)
            assert_int_equal(status, -1);
        else if (status != 0)
            fail_msg("%s: %d:%d: %s", written[i].template, (int)err.line, (int)err.column,
                     err.message);
        else if (strcmp(text.count > 0 ? text.byte : "", written[i].text) != 0)
            fail_msg("%s: %s", written[i].template, text.byte);
        sw_chars_free(&text);
    }
}

static const struct {
    const char *template;
    int32_t line, column;
    const char *message;
} refused[] = {
    {"a\n{{ x|nothing }}", 2, 6, "no filter 'nothing' is in the subset of Jinja that is run here"},
    {"{{ x is nothing }}", 1, 9, "no test 'nothing' is in the subset of Jinja that is run here"},
    {"{{ x.nothing() }}", 1, 6, "no method 'nothing' is in the subset of Jinja that is run here"},
    {"{% include 'x' %}", 1, 4, "no tag 'include' is in the subset of Jinja that is run here"},
    {"{{ f(*x) }}", 1, 6, "'*' in a call is beyond the subset of Jinja that is run here"},
    {"{{ cycler('a') }}", 1, 4, "'cycler' is beyond the subset of Jinja that is run here"},
    {"{% endif %}", 1, 4, "no tag 'endif' belongs here"},
    {"x{% if a %}", 1, 5, "the tag 'if' is never closed"},
    {"{% break %}", 1, 4, "'break' stands in no loop"},
    {"{% for x of y %}", 1, 10, "expected 'in', not 'of'"},
    {"{% if a b %}", 1, 9, "expected the tag's end, not 'b'"},
    {"{{ a b }}", 1, 6, "expected the output's end, not 'b'"},
    {"{{ (1 }}", 1, 1, "this output has no end; close it with }}"},
    {"{{ ) }}", 1, 4, "expected a value, not ')'"},
    {"{{ a[] }}", 1, 6, "an index or a key is missing in the brackets"},
    {"{{ a.'x' }}", 1, 6, "expected a name, not 'x'"},
    {"{{ {1 2} }}", 1, 7, "expected ':', not '2'"},
    {"{{ 'a }}", 1, 4, "this text has no end; close it with the same quote"},
    {"{{ '\\xg1' }}", 1, 5, "this is not a character; write \\xHH, \\uHHHH or \\UHHHHHHHH"},
    {"{{ 1234567890123456789 }}", 1, 4, "this number is too long; 18 digits are the most"},
    {"{{ a ? b }}", 1, 6, "an expression cannot have this character"},
    {"{% if", 1, 1, "this tag has no end; close it with %}"},
    {"{# a", 1, 1, "this comment has no end; close it with #}"},
    {"{% raw %}a", 1, 1, "this raw has no end; close it with {% endraw %}"},
    {"{% call x %}{% endcall %}", 1, 4, "expected a call of a macro"},
    {"{{ f(1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17) }}", 1, 5, "more than 16 arguments"},
    {"{% macro m(a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q) %}{% endmacro %}", 1, 10,
     "more than 16 parameters"},
    {"a\n\xff", 2, 1, "the template is not UTF-8 here"},
    /* when rendered */
    {"{{ x.y.z }}", 1, 6, "'x' is undefined"},
    {"{{ nothing() }}", 1, 11, "'nothing' is undefined"},
    {"{{ 'a' + nothing }}", 1, 8, "'nothing' is undefined"},
    {"{{ l[9].x }}", 1, 9, "there is no such element"},
    {"{{ 'a' + 1 }}", 1, 8, "no '+' between str and int"},
    {"{{ 1 // 0 }}", 1, 6, "a division by 0"},
    {"{{ 1.0 / 0 }}", 1, 8, "a division by 0"},
    {"{{ 10 ** 30 }}", 1, 7, "a number beyond 64 bits"},
    {"{{ 'a' < 1 }}", 1, 10, "'str' and 'int' have no order"},
    {"{% for x in 5 %}{% endfor %}", 1, 8, "a value that is int has no elements"},
    {"{{ 1 in 5 }}", 1, 9, "'in' cannot look into a value that is int"},
    {"{% set a, b = [1] %}", 1, 16, "1 values for 2 names"},
    {"{% set d.x = 1 %}", 1, 10, "only a namespace's attributes can be set, not those of dict"},
    {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", 1, 35, "the macro 'm' takes 1 values, not 2"},
    {"{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", 1, 35, "the macro 'm' has no parameter 'b'"},
    {"{{ 5() }}", 1, 5, "a value that is int cannot be called"},
    {"{% for x in l %}{{ loop(l) }}{% endfor %}", 1, 24,
     "only a recursive loop can be called, with one value"},
    {"{{ l.append(1) }}", 1, 12, "a template cannot change a list"},
    {"{{ -t }}", 1, 4, "cannot negate a value that is str"},
    {"{{ l[::0] }}", 1, 6, "a slice in steps of 0"},
    {"{{ r[1:] }}", 1, 6, "no part of float"},
    {"{{ nothing|tojson }}", 1, 12, "a value that is undefined value cannot be JSON"},
    {"{{ l|map('string')|tojson }}", 1, 20, "a value that is generator cannot be JSON"},
    {"{{ n|length }}", 1, 6, "no length of None"},
    {"{{ l|map }}", 1, 6, "map takes the name of a filter, or attribute='...'"},
    {"{{ l|select('x') }}", 1, 6, "no test has this name"},
    {"{{ l|selectattr }}", 1, 6, "the name of an attribute is missing"},
    {"{{ {l: 1} }}", 1, 8, "a list is not a key of a dict"},
    {"{{ 1 is divisibleby }}", 1, 9, "the test needs a value to compare with"},
    {"{{ range('a') }}", 1, 9, "range takes whole numbers"},
    {"{{ range(1, 2, 0) }}", 1, 9, "range takes 1 to 3 whole numbers, the last of them not 0"},
    {"{{ dict(1) }}", 1, 8, "a dict is made of a dict and of NAME=VALUE"},
    {"{{ strftime_now('') }}", 1, 16, "strftime_now takes a format of 1 to 64 letters"},
    {"{{ 'a'.split('') }}", 1, 13, "split by an empty text"},
    {"{{ '{'.format() }}", 1, 14, "format has {}, {0} or {name}, and a value for each"},
    {"{{ 'x'|from_json }}", 1, 8, "from_json of a string that is not JSON"},
    {"{{ range }}", 1, 1, "a function is not written"},
    {"{{ raise_exception('Only ' ~ 2 ~ ' roles!') }}", 0, 0, "Only 2 roles!"},
    /* what takes too much */
    {"{% set x = range(3000) %}{% for a in x %}{% for b in x %}{% endfor %}{% endfor %}", -1, -1,
     "the chat template takes too many steps"},
    {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", -1, -1, "the chat template goes too deep"},
    {"{% set x = namespace(t='aaaaaaaaaaaaaaaa') %}{% for i in range(64) %}"
     "{% set x.t = x.t + x.t %}{% endfor %}",
     -1, -1, "the chat template takes too much memory"},
    {"{{ 'abc' * 999999999999 }}", -1, -1, "the chat template takes too much memory"},
    {"{{ ''|indent(99999999999) }}", -1, -1, "the chat template takes too many steps"},
};

static void test_refused(void **state)
{
    (void)state;
    int32_t other = 0;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const struct sw_jinja_limits limits = {2000000, (size_t)8 << 20};
        struct sw_chars text = {0};
        struct sw_error err = {0};
        const int status = render(refused[i].template, &limits, &text, NULL, NULL, &err);
        if (status == 0 || strcmp(err.message, refused[i].message) != 0 ||
            (refused[i].line >= 0 &&
             (err.line != refused[i].line || err.column != refused[i].column))) {
            print_error("%s: %d:%d: %s\n", refused[i].template, (int)err.line, (int)err.column,
                        err.message);
            other++;
        }
        assert_int_equal(err.status, SW_BAD_INPUT);
        assert_int_equal(text.count, 0);
        sw_chars_free(&text);
    }
    assert_int_equal(other, 0);
}

/* Templates that nest without end are refused, not run into the stack's end. */
static void test_nesting(void **state)
{
    (void)state;
    static const char *const opening[] = {"{{ (",  "{{ [",       "{{ not ",
                                          "{{ -",  "{% if x %}", "{% for x in y %}",
                                          "{{ a[", "{{ f(",      "{{ a if "};
    for (size_t i = 0; i < sizeof opening / sizeof opening[0]; i++) {
        const char *again = opening[i][1] == '{' ? opening[i] + 3 : opening[i];
        struct sw_chars template = {0}, text = {0};
        struct sw_error err = {0};
        assert_int_equal(sw_chars_add(&template, opening[i], strlen(opening[i])), 0);
        for (size_t k = 0; k < 20000; k++)
            assert_int_equal(sw_chars_add(&template, again, strlen(again)), 0);
        if (opening[i][1] == '{')
            assert_int_equal(sw_chars_add(&template, "]]]] }}", 7), 0);
        assert_int_equal(render(template.byte, &SW_JINJA_USUAL_LIMITS, &text, NULL, NULL, &err),
                         -1);
        sw_chars_free(&template);
        sw_chars_free(&text);
    }
}

/* The spans' texts, a '/' between them. */
static void check_spans(const struct sw_chars *text, const struct sw_text_spans *spans,
                        const char *wanted)
{
    struct sw_chars marked = {0};
    assert_int_equal(sw_chars_add(&marked, "", 0), 0);
    for (size_t k = 0; k < spans->count; k++) {
        const struct sw_text_span *span = &spans->span[k];
        assert_true(span->begin < span->end && span->end <= text->count);
        assert_int_equal(sw_chars_add(&marked, "/", k > 0), 0);
        assert_int_equal(sw_chars_add(&marked, text->byte + span->begin, span->end - span->begin),
                         0);
    }
    assert_string_equal(marked.byte, wanted);
    sw_chars_free(&marked);
}

/* Words of others and generation blocks, whatever a template makes of them. */
static void test_spans(void **state)
{
    (void)state;
    static const struct {
        const char *template, *foreign, *generated;
    } cases[] = {
        {"<{{ messages[0].content }}>", "Hi <b>", ""},
        {"{{ bos_token }}{{ messages[0].content|upper }}", "HI <B>", ""},
        {"{{ '<' ~ messages[0].content[:2] ~ '|' ~ messages[0].content.split(' ')[1] }}", "Hi/<b>",
         ""},
        {"{{ messages[0].content|tojson }}", "Hi <b>", ""},
        {"{{ messages[0].content.replace('i', '<s>') }}", "H/ <b>", ""},
        {"{% set x %}[{{ t|trim }}]{% endset %}{{ x }}", "a b", ""},
        {"{% macro m(x) %}({{ x }}){% endmacro %}{{ m(t.strip()) }}", "a b", ""},
        {"{{ bos_token }}x", "", ""},
        {"a{% generation %}b {{ t|trim }} c{% endgeneration %}d", "a b", "b a b c"},
        {"{% for x in [1, 2] %}{{ x }}{% generation %}({{ x }}){% endgeneration %}{% endfor %}", "",
         "(1)/(2)"},
        {"a {%- generation -%} b {%- endgeneration -%} c", "", "b"},
        {"{% generation %}{% if false %}x{% endif %}{% endgeneration %}y", "", ""},
        {"{% generation %}a{% generation %}b{% endgeneration %}c{% endgeneration %}d", "", "abc"},
        {"{% set x %}a{% generation %} b{{ t }}{% endgeneration %}{% endset %}[{{ x|trim|upper }}]",
         " A B", " B A B"},
        {"{% macro m(x) %}({% generation %}{{ x }}{% endgeneration %}){% endmacro %}{{ m('a') }}",
         "", "a"},
        {"{% set x = 'a' %}{% generation %}{% set x = 'b' %}{{ x }}{% endgeneration %}{{ x }}", "",
         "b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sw_chars text = {0};
        struct sw_text_spans foreign = {0}, generated = {0};
        struct sw_error err = {0};
        assert_int_equal(sw_chars_add(&text, "..", 2), 0);
        assert_int_equal(
            render(cases[i].template, &SW_JINJA_USUAL_LIMITS, &text, &foreign, &generated, &err),
            0);
        check_spans(&text, &foreign, cases[i].foreign);
        check_spans(&text, &generated, cases[i].generated);
        sw_text_spans_free(&foreign);
        sw_text_spans_free(&generated);
        sw_chars_free(&text);
    }
}

static void test_mentions(void **state)
{
    (void)state;
    static const char template[] = "tools{# tools #}{{ m.tool_calls }}{{ m['name'] }}{{ x }}";
    struct sw_jinja *jinja = NULL;
    struct sw_error err = {0};
    assert_int_equal(sw_jinja_parse("t", template, strlen(template), &jinja, &err), 0);
    assert_true(sw_jinja_mentions(jinja, "tool_calls"));
    assert_true(sw_jinja_mentions(jinja, "name"));
    assert_true(sw_jinja_mentions(jinja, "x"));
    assert_false(sw_jinja_mentions(jinja, "tools"));
    sw_jinja_free(jinja);
    sw_jinja_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_nesting),  cmocka_unit_test(test_spans),
        cmocka_unit_test(test_mentions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
