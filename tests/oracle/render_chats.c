/* Renders what chat_templates.py asks for: of each line {"template": text, "variables": {...},
 * "now": seconds} of the input {"text": ..., "generated": [begin, end, ...]}, in bytes, or
 * {"error":
 * ...}. */
#include "runner/text/jinja/jinja.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VARIABLES = 64 };

static json_t *render(const json_t *asked)
{
    const json_t *text = json_object_get(asked, "template");
    struct sw_jinja_variable variable[MOST_VARIABLES];
    struct sw_jinja *jinja = NULL;
    struct sw_chars out = {0};
    struct sw_text_spans generated = {0};
    struct sw_error err = {0};
    char shown[SW_ERROR_TEXT_BYTES];
    size_t count = 0;
    const char *key;
    json_t *value, *answer;
    json_object_foreach(json_object_get(asked, "variables"), key, value)
    {
        if (count < MOST_VARIABLES)
            variable[count++] = (struct sw_jinja_variable){key, value, true};
    }
    if (sw_jinja_parse("template", json_string_value(text), json_string_length(text), &jinja,
                       &err) == 0 &&
        sw_jinja_render(jinja, variable, count, &SW_JINJA_USUAL_LIMITS,
                        json_integer_value(json_object_get(asked, "now")), &out, NULL, &generated,
                        &err) == 0)
        answer =
            json_pack("{s:s%,s:[]}", "text", out.count > 0 ? out.byte : "", out.count, "generated");
    else
        answer = json_pack("{s:s}", "error", sw_error_format(&err, NULL, shown));
    for (size_t i = 0; i < generated.count; i++) {
        json_t *spans = json_object_get(answer, "generated");
        json_array_append_new(spans, json_integer((json_int_t)generated.span[i].begin));
        json_array_append_new(spans, json_integer((json_int_t)generated.span[i].end));
    }
    sw_text_spans_free(&generated);
    sw_jinja_free(jinja);
    sw_chars_free(&out);
    return answer;
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    for (ssize_t bytes; (bytes = getline(&line, &room, stdin)) > 0;) {
        json_t *asked = json_loadb(line, (size_t)bytes, 0, NULL);
        json_t *answer = render(asked);
        json_dumpf(answer, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(answer);
        json_decref(asked);
    }
    free(line);
    return 0;
}
