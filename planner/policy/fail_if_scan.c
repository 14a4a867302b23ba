/* Positions, mistakes and comparisons of a condition: common to numbers and words. */
#include "planner/policy/fail_if_internal.h"

#include <string.h>

int32_t sw_fail_if_column(const struct sw_fail_if_parser *p, const char *at)
{
    return (int32_t)(at - p->out->text) + 1;
}

int sw_fail_if_mistake(const struct sw_fail_if_parser *p, int32_t column, const char *what,
                       const char *help)
{
    struct sw_place place = {"--fail-if", 1, column};
    if (p->out->at.file != NULL) {
        place = p->out->at;
        place.column += column - 1;
    }
    return sw_fail_at(p->err, SW_BAD_INPUT, place, "%s; %s", what, help);
}

void sw_fail_if_skip_spaces(struct sw_fail_if_parser *p)
{
    p->at += strspn(p->at, " \t");
}

int sw_fail_if_parse_comparison(struct sw_fail_if_parser *p)
{
    sw_fail_if_skip_spaces(p);
    const size_t length = strspn(p->at, "<>=!");
    static const char *const known[] = {"<", "<=", ">", ">=", "==", "!="};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i]) == length && memcmp(known[i], p->at, length) == 0) {
            memcpy(p->out->comparison, p->at, length);
            p->at += length;
            return 0;
        }
    return sw_fail_if_mistake(p, sw_fail_if_column(p, p->at), "expected a comparison",
                              "use < <= > >= == or !=");
}
