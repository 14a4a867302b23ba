#include "runner/checkpoint/json_text.h"

#include <stddef.h>

const char *sw_json_mistake(const json_error_t *why)
{
    switch (json_error_code(why)) {
    case json_error_out_of_memory:
        return NULL;
    case json_error_duplicate_key:
        return "a duplicate key";
    case json_error_invalid_utf8:
        return "a text that is not UTF-8";
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return "a string with a NUL character";
    case json_error_stack_overflow:
        return "values nested too deeply";
    case json_error_numeric_overflow:
        return "a number that is too large";
    case json_error_premature_end_of_input:
        return "the text ends within a value";
    case json_error_end_of_input_expected:
        return "text after the end";
    default:
        return "wrong syntax";
    }
}
