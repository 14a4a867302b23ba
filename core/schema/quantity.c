/* Numbers with units. */
#include "core/base/text.h"
#include "core/schema/internal.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
    char dimension;
    const char *name;
    double factor;
};

static const struct unit units[] = {
    {'B', "B", 1},
    {'B', "kB", 1e3},
    {'B', "KB", 1e3},
    {'B', "MB", 1e6},
    {'B', "GB", 1e9},
    {'B', "TB", 1e12},
    {'B', "PB", 1e15},
    {'B', "KiB", 1024.0},
    {'B', "MiB", 1048576.0},
    {'B', "GiB", 1073741824.0},
    {'B', "TiB", 1099511627776.0},
    {'b', "B/s", 1},
    {'b', "kB/s", 1e3},
    {'b', "KB/s", 1e3},
    {'b', "MB/s", 1e6},
    {'b', "GB/s", 1e9},
    {'b', "TB/s", 1e12},
    {'b', "PB/s", 1e15},
    {'b', "KiB/s", 1024.0},
    {'b', "MiB/s", 1048576.0},
    {'b', "GiB/s", 1073741824.0},
    {'b', "TiB/s", 1099511627776.0},
    {'b', "Mb/s", 1e6 / 8},
    {'b', "Gb/s", 1e9 / 8},
    {'b', "Tb/s", 1e12 / 8},
    {'b', "Mbit/s", 1e6 / 8},
    {'b', "Gbit/s", 1e9 / 8},
    {'b', "Tbit/s", 1e12 / 8},
    {'s', "s", 1},
    {'s', "ms", 1e-3},
    {'s', "us", 1e-6},
    {'s', "\xc2\xb5s", 1e-6}, /* micro sign */
    {'s', "\xce\xbcs", 1e-6}, /* Greek mu, which looks the same */
    {'s', "ns", 1e-9},
    {'f', "FLOP/s", 1},
    {'f', "kFLOP/s", 1e3},
    {'f', "MFLOP/s", 1e6},
    {'f', "GFLOP/s", 1e9},
    {'f', "TFLOP/s", 1e12},
    {'f', "PFLOP/s", 1e15},
    {'f', "EFLOP/s", 1e18},
    {'t', "s", 1},
    {'t', "min", 60},
    {'t', "h", 3600},
    {'t', "d", 86400},
    {'W', "W", 1},
    {'W', "kW", 1e3},
    {'%', "%", 0.01},
};

const char *sw_quantity_units(char dimension)
{
    switch (dimension) {
    case 'B':
        return "B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB";
    case 'b':
        return "B/s, kB/s, MB/s, GB/s, TB/s, PB/s, KiB/s, MiB/s, GiB/s, TiB/s; in bits: Mb/s, "
               "Gb/s, Tb/s, Mbit/s, Gbit/s, Tbit/s";
    case 's':
        return "s, ms, us, ns";
    case 't':
        return "s, min, h, d";
    case 'W':
        return "W, kW";
    case '%':
        return "%";
    default:
        return "FLOP/s, kFLOP/s, MFLOP/s, GFLOP/s, TFLOP/s, PFLOP/s, EFLOP/s";
    }
}

/* Bytes of the decimal number at the start of text; 0: none. */
static size_t number_length(const char *text)
{
    size_t i = 0, digits = 0;
    if (text[i] == '-' || text[i] == '+')
        i++;
    for (; isdigit((unsigned char)text[i]); i++)
        digits++;
    if (text[i] == '.') {
        i++;
        for (; isdigit((unsigned char)text[i]); i++)
            digits++;
    }
    if (digits == 0)
        return 0;
    if (text[i] == 'e' || text[i] == 'E') {
        size_t j = i + 1;
        if (text[j] == '-' || text[j] == '+')
            j++;
        if (isdigit((unsigned char)text[j])) {
            while (isdigit((unsigned char)text[j]))
                j++;
            i = j;
        }
    }
    return i;
}

/* Value of a number of that form. Its digits and a power of ten up to 10^22 are exact in a double,
 * so one operation rounds as strtod does, which takes ten times as long: profiles have hundreds of
 * numbers. */
static double read_number(const char *text, size_t length)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const int32_t most = (int32_t)(sizeof powers / sizeof powers[0]) - 1;
    int64_t digits = 0;
    int32_t exponent = 0;
    size_t i = text[0] == '-' || text[0] == '+';
    for (bool fraction = false; i < length && (isdigit((unsigned char)text[i]) || text[i] == '.');
         i++) {
        if (text[i] == '.') {
            fraction = true;
            continue;
        }
        if (digits > (INT64_C(1) << 53) / 10 - 1)
            return strtod(text, NULL);
        digits = digits * 10 + (text[i] - '0');
        exponent -= fraction;
    }
    if (i < length) { /* exponent: a sign and at most two digits */
        const bool negative = text[++i] == '-';
        i += negative || text[i] == '+';
        if (length - i > 2)
            return strtod(text, NULL);
        int32_t power = 0;
        for (; i < length; i++)
            power = power * 10 + (text[i] - '0');
        exponent += negative ? -power : power;
    }
    if (exponent > most || exponent < -most)
        return strtod(text, NULL);
    const double number =
        exponent < 0 ? (double)digits / powers[-exponent] : (double)digits * powers[exponent];
    return text[0] == '-' ? -number : number;
}

bool sw_number_parse(const char *text, double *out)
{
    size_t length = number_length(text);
    if (length == 0 || text[length] != 0)
        return false;
    *out = read_number(text, length);
    return isfinite(*out);
}

enum quantity_status sw_quantity_scan(const char *text, char dimension, double *out,
                                      const char **unit)
{
    *unit = text;
    size_t length = number_length(text);
    if (length == 0)
        return QUANTITY_NO_NUMBER;
    double number = read_number(text, length), factor = 1;
    const char *name = text + length;
    name += strspn(name, " \t");
    *unit = name;
    if (*name != 0) {
        size_t i = 0, count = sizeof units / sizeof units[0];
        while (i < count && (units[i].dimension != dimension || strcmp(units[i].name, name) != 0))
            i++;
        if (i == count)
            return QUANTITY_BAD_UNIT;
        factor = units[i].factor;
    }
    /* Dividing by an exact power of ten rounds once, so that 3 us is the double 3e-6. */
    *out = factor < 1 ? number / nearbyint(1 / factor) : number * factor;
    return isfinite(*out) ? QUANTITY_OK : QUANTITY_OVERFLOW;
}

const char *sw_quantity_nearest_unit(char dimension, double number, double wanted)
{
    const char *best = "";
    double least = INFINITY;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        const char *prefix = strchr("kMGTPEmun", units[i].name[0]);
        const bool decimal =
            strstr(units[i].name, "iB") == NULL && strchr(units[i].name, 'b') == NULL;
        if (units[i].dimension != dimension || !decimal || (prefix == NULL && dimension != 's'))
            continue;
        const double away = fabs(log10(number * units[i].factor / wanted));
        if (away < least - 1e-9) {
            least = away;
            best = units[i].name;
        }
    }
    return best;
}

/* Spells "Gbps", "GBps" and "TFLOPS" as our units; an existing unit of that name stays. */
static void respell(const char *unit, char dimension, char out[16])
{
    snprintf(out, 16, "%s", unit);
    const size_t length = strlen(out);
    if (dimension == 'b' && length > 2 && strcasecmp(out + length - 2, "ps") == 0)
        snprintf(out + length - 2, 16 - length + 2, "/s");
    if (dimension == 'f' && length > 5 && tolower((unsigned char)out[length - 1]) == 's' &&
        out[length - 2] != '/')
        snprintf(out + length - 1, 16 - length + 1, "/s");
    if (length == 1 && dimension == 'B')
        snprintf(out + 1, 15, "B");
    if (length == 1 && dimension == 'b')
        snprintf(out + 1, 15, "B/s");
    if (length == 1 && dimension == 'f')
        snprintf(out + 1, 15, "FLOP/s");
}

const char *sw_quantity_meant(const char *text, char dimension, char *buffer, size_t bytes)
{
    char unit[16];
    const size_t length = number_length(text);
    const char *name = text + length + strspn(text + length, " \t");
    if (length == 0 || length > 24 || name[0] == 0 || strlen(name) > 10)
        return NULL;
    respell(name, dimension, unit);
    /* bits are not bytes: first as written, then with another prefix, then in any case */
    for (int32_t pass = 0; pass < 3; pass++)
        for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
            const char *known = units[i].name;
            const bool same =
                pass == 0   ? strcmp(unit, known) == 0
                : pass == 1 ? tolower((unsigned char)unit[0]) == tolower((unsigned char)known[0]) &&
                                  strcmp(unit + 1, known + 1) == 0
                            : strcasecmp(unit, known) == 0;
            if (units[i].dimension != dimension || !same)
                continue;
            snprintf(buffer, bytes, "%.*s %s", (int)length, text, known);
            return buffer;
        }
    return NULL;
}

enum { SHOWN_BYTES = 60 };

/* The beginning of a text for a message. */
static const char *shown(const char *text, char out[SHOWN_BYTES + 1])
{
    snprintf(out, SHOWN_BYTES + 1, "%s", text);
    return sw_text_show(out);
}

int sw_quantity_parse(const char *text, char dimension, double *out, struct sw_error *err)
{
    const char *unit;
    char text_shown[SHOWN_BYTES + 1], unit_shown[SHOWN_BYTES + 1];
    double value = 0;
    switch (sw_quantity_scan(text, dimension, &value, &unit)) {
    case QUANTITY_OK:
        *out = value;
        return 0;
    case QUANTITY_NO_NUMBER:
        return sw_fail(err, SW_BAD_INPUT, "'%s' is not a number with a unit; units: %s",
                       shown(text, text_shown), sw_quantity_units(dimension));
    case QUANTITY_OVERFLOW:
        return sw_fail(err, SW_BAD_INPUT, "'%s' is too large", shown(text, text_shown));
    default:
        return sw_fail(err, SW_BAD_INPUT, "unknown unit '%s' in '%s'; units: %s",
                       shown(unit, unit_shown), shown(text, text_shown),
                       sw_quantity_units(dimension));
    }
}

const char *sw_real_format(double value, char buffer[32])
{
    int digits = 1;
    for (; digits < 17; digits++) {
        snprintf(buffer, 32, "%.*e", digits - 1, value);
        if (strtod(buffer, NULL) == value)
            break;
    }
    snprintf(buffer, 32, "%.*e", digits - 1, value);
    const char *e = strchr(buffer, 'e');
    int exponent = e != NULL ? atoi(e + 1) : 0;
    if (exponent >= -4 && exponent < 15) {
        int decimals = digits - 1 - exponent;
        snprintf(buffer, 32, "%.*f", decimals > 1 ? decimals : 1, value);
        return buffer;
    }
    /* YAML 1.1 wants a point in a number with an exponent. */
    char mantissa[24];
    snprintf(mantissa, sizeof mantissa, "%.*s", e != NULL ? (int)(e - buffer) : 0, buffer);
    snprintf(buffer, 32, "%s%se%+d", mantissa, strchr(mantissa, '.') != NULL ? "" : ".0", exponent);
    return buffer;
}
