/* Warnings of figures that are allowed but hardly meant: without their unit, or far from any known
 * one. Each says what was probably meant; none changes a value. */
#include "core/schema/internal.h"

#include <string.h>

static const double far_from_usual = 1e4; /* largest ratio to the example at which a unit is
                                             guessed */

/* The probable meaning of a figure without a unit, NULL: unknown. */
static const char *guess_unit(struct sw_config *c, const struct field *field, char dimension,
                              const char *text, double number)
{
    double usual = 0, meant = 0;
    const char *end;
    sw_quantity_scan(field->example, dimension, &usual, &end);
    const char *unit = sw_quantity_nearest_unit(dimension, number, usual);
    const char *guess = sw_config_format(c, "%s %s", text, unit);
    if (sw_quantity_scan(guess, dimension, &meant, &end) != QUANTITY_OK || meant < field->least ||
        meant > field->most || meant > usual * far_from_usual || meant < usual / far_from_usual)
        return NULL;
    /* for links, the same figure is found in both units */
    if (field->in_bits && strcmp(unit + 1, "B/s") == 0)
        return sw_config_format(c, "did you mean '%s', or in bits '%s %cb/s'?", guess, text,
                                unit[0]);
    return sw_config_format(c, "did you mean '%s'?", guess);
}

void sw_config_warn_of_quantity(struct sw_config *c, const struct field *field,
                                const struct node *value, double number, const char *unit)
{
    static const char dimensions[] = {'B', 'b', 's', 'f', 't', 'W'};
    static const char *const plain[] = {"bytes",  "bytes per second", "seconds",
                                        "FLOP/s", "seconds",          "watts"};
    const int kind = (int)field->type - (int)FIELD_BYTES;
    /* 0 is special where a row admits it: none, no limit; a default has no position */
    if ((field->least == 0 && field->most == 0) || number == 0 || value->source == NULL ||
        (number >= field->least && number <= field->most))
        return;
    const char *text = sw_config_shown(c, value->text);
    const char *help =
        unit[0] == '\0' ? guess_unit(c, field, dimensions[kind], text, number) : NULL;
    if (help != NULL)
        sw_config_warn_at(
            c, value,
            sw_config_format(c, "'%s: %s' has no unit, so it is %s", field->key, text, plain[kind]),
            help);
    else
        sw_config_warn_at(
            c, value,
            sw_config_format(c, "'%s: %s'%s%s is %s than any known one", field->key, text,
                             unit[0] == '\0' ? " " : "", unit[0] == '\0' ? plain[kind] : "",
                             number < field->least ? "less" : "more"),
            sw_config_format(c, "look at the unit: a usual figure is '%s'", field->example));
}
