#include "runner/text/json_mistake.h"

#include "runner/checkpoint/json_text.h"

#include <stddef.h>

int sw_text_json_mistake(const char *path, const json_error_t *why, struct sw_error *err)
{
    const char *mistake = sw_json_mistake(why);
    if (mistake == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for '%s'", path);
    return sw_fail_at(err, SW_BAD_INPUT,
                      (struct sw_place){.file = path,
                                        .line = why->line,
                                        .column = why->column + (why->column == 0)},
                      "not valid JSON: %s", mistake);
}
