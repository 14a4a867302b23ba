#include "runner/text/tokenizer/json_mistake.h"

int sw_text_json_mistake(const char *path, const struct sw_json_mistake *why, struct sw_error *err)
{
    if (why->what == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for '%s'", path);
    return sw_fail_at(err, SW_BAD_INPUT,
                      (struct sw_place){.file = path, .line = why->line, .column = why->column},
                      "not valid JSON: %s", why->what);
}
