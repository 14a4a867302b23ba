/* Numbers with Python's rules: integers of 64 bits (longer ones are kept as digits), doubles, and
 * mixed operations. If Python's integer would exceed 64 bits, an operation fails instead of giving
 * another number. */
#include "runner/text/jinja/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_BYTES = 330 }; /* for a double's integer part */

static struct jinja_value fail_long(struct jinja_run *run)
{
    return sw_jinja_fail(run, "a number beyond 64 bits");
}

static struct jinja_value fail_zero(struct jinja_run *run)
{
    return sw_jinja_fail(run, "a division by 0");
}

struct jinja_value sw_jinja_integer(struct jinja_run *run, const char *digits, size_t bytes)
{
    struct jinja_out out = {.run = run};
    const bool minus = bytes > 0 && digits[0] == '-', sign = minus || (bytes > 0 && *digits == '+');
    digits += sign;
    bytes -= sign;
    for (; bytes > 1 && digits[0] == '0'; bytes--)
        digits++;
    sw_jinja_put(&out, "-", minus, false);
    sw_jinja_put(&out, digits, bytes, false);
    struct jinja_value made = sw_jinja_text_of(&out);
    if (run->failed)
        return made;
    errno = 0;
    const long long whole = strtoll(made.of.text->byte, NULL, 10);
    if (errno == 0)
        return jinja_int(whole);
    made.kind = JINJA_BIG;
    return made;
}

static struct jinja_value truncated(struct jinja_run *run, double d)
{
    char digits[DIGITS_BYTES];
    return sw_jinja_integer(run, digits, (size_t)snprintf(digits, sizeof digits, "%.0f", trunc(d)));
}

struct jinja_value sw_jinja_truncate(struct jinja_run *run, double d)
{
    if (!isfinite(d))
        return sw_jinja_fail(run, "no integer is %s", isnan(d) ? "nan" : "inf");
    return fabs(d) < 9e18 ? jinja_int((int64_t)d) : truncated(run, d);
}

/* ---- order ---- */

/* Digits of a number's integer part; of a big one, its own. */
static const char *digits_of(struct jinja_value v, char text[DIGITS_BYTES])
{
    if (v.kind == JINJA_BIG)
        return v.of.text->byte;
    if (v.kind == JINJA_REAL)
        snprintf(text, DIGITS_BYTES, "%.0f", trunc(v.of.real));
    else
        snprintf(text, DIGITS_BYTES, "%" PRId64, v.of.integer);
    return text;
}

static int32_t order_digits(const char *x, const char *y)
{
    const int32_t sign = x[0] == '-' ? -1 : 1;
    if ((x[0] == '-') != (y[0] == '-'))
        return sign;
    const size_t m = strlen(x), n = strlen(y);
    const int32_t order = m != n ? (m > n ? 1 : -1) : strcmp(x, y);
    return order == 0 ? 0 : order > 0 ? sign : -sign;
}

/* Compares an integer to a double, which may not represent the integer's last digits. */
static int32_t order_mixed(int64_t i, double d)
{
    if (d >= 0x1p63 || d < -0x1p63)
        return d > 0 ? -1 : 1;
    const int64_t whole = (int64_t)d;
    const double rest = d - (double)whole;
    return i != whole ? (i > whole ? 1 : -1) : (rest < 0) - (rest > 0);
}

bool sw_jinja_are_numbers(struct jinja_value a, struct jinja_value b)
{
    return (jinja_is_number(a) || a.kind == JINJA_BIG) &&
           (jinja_is_number(b) || b.kind == JINJA_BIG);
}

bool sw_jinja_is_nan(struct jinja_value v)
{
    return v.kind == JINJA_REAL && isnan(v.of.real);
}

int32_t sw_jinja_order_numbers(struct jinja_value a, struct jinja_value b)
{
    char x[DIGITS_BYTES], y[DIGITS_BYTES];
    if (a.kind == JINJA_REAL && b.kind == JINJA_REAL)
        return (a.of.real > b.of.real) - (a.of.real < b.of.real);
    if ((a.kind == JINJA_REAL && isinf(a.of.real)) || (b.kind == JINJA_REAL && isinf(b.of.real)))
        return a.kind == JINJA_REAL ? (a.of.real > 0 ? 1 : -1) : b.of.real > 0 ? -1 : 1;
    if (a.kind == JINJA_BIG || b.kind == JINJA_BIG)
        return order_digits(digits_of(a, x), digits_of(b, y));
    if (a.kind == JINJA_REAL)
        return -order_mixed(b.of.integer, a.of.real);
    if (b.kind == JINJA_REAL)
        return order_mixed(a.of.integer, b.of.real);
    return (a.of.integer > b.of.integer) - (a.of.integer < b.of.integer);
}

/* ---- integers ---- */

static bool power(int64_t a, int64_t b, int64_t *result)
{
    bool over = false, square_over = false;
    *result = 1;
    for (; b > 0 && !over; b >>= 1) {
        if ((b & 1) != 0)
            over = square_over || __builtin_mul_overflow(*result, a, result);
        square_over = square_over || __builtin_mul_overflow(a, a, &a);
    }
    return !over;
}

static int32_t bits_of(uint64_t x)
{
    return x == 0 ? 0 : 64 - __builtin_clzll(x);
}

/* a / b, b not 0, rounded once: 64 bits of the quotient, the last one sticky. */
static double quotient(int64_t a, int64_t b)
{
    const uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a,
                   y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    if (x <= UINT64_C(1) << 53 && y <= UINT64_C(1) << 53)
        return (double)a / (double)b;
    const int32_t shift = 127 - bits_of(x);
    const unsigned __int128 wide = (unsigned __int128)x << shift;
    unsigned __int128 whole = wide / y;
    bool rest = wide % y != 0;
    int32_t down = 0;
    for (; whole >> 64 != 0; down++) {
        rest = rest || (whole & 1) != 0;
        whole >>= 1;
    }
    const double result = ldexp((double)((uint64_t)whole | rest), down - shift);
    return (a < 0) != (b < 0) ? -result : result;
}

/* Digits modulo b, not 0; the result has b's sign. */
static int64_t modulo_digits(const char *digits, int64_t b)
{
    const uint64_t y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    unsigned __int128 rest = 0;
    for (const char *c = digits + (digits[0] == '-'); *c != '\0'; c++)
        rest = (rest * 10 + (unsigned)(*c - '0')) % y;
    if (rest != 0 && (digits[0] == '-') != (b < 0))
        rest = y - rest;
    return b < 0 ? -(int64_t)rest : (int64_t)rest;
}

static struct jinja_value divide(struct jinja_run *run, const char *op, int64_t a, int64_t b)
{
    if (b == 0)
        return fail_zero(run);
    if (strcmp(op, "/") == 0)
        return jinja_real(quotient(a, b));
    if (b == -1) /* the least integer's quotient has 65 bits */
        return op[0] == '%' ? jinja_int(0) : a == INT64_MIN ? fail_long(run) : jinja_int(-a);
    const int64_t rest = a % b;
    const bool below = rest != 0 && (rest < 0) != (b < 0);
    return jinja_int(op[0] == '%' ? (below ? rest + b : rest) : a / b - below);
}

static struct jinja_value integers(struct jinja_run *run, const char *op, int64_t a, int64_t b)
{
    int64_t result = 0;
    bool over;
    if (strcmp(op, "+") == 0)
        over = __builtin_add_overflow(a, b, &result);
    else if (strcmp(op, "-") == 0)
        over = __builtin_sub_overflow(a, b, &result);
    else if (strcmp(op, "*") == 0)
        over = __builtin_mul_overflow(a, b, &result);
    else if (strcmp(op, "**") == 0)
        over = !power(a, b, &result);
    else
        return divide(run, op, a, b);
    return over ? fail_long(run) : jinja_int(result);
}

/* ---- doubles ---- */

static struct jinja_value real_power(struct jinja_run *run, double a, double b)
{
    if (a == 0 && b < 0)
        return fail_zero(run);
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
        return sw_jinja_fail(run, "'**' gives no real number");
    const double result = pow(a, b);
    return isinf(result) && isfinite(a) && isfinite(b)
               ? sw_jinja_fail(run, "the result of '**' is too large for a double")
               : jinja_real(result);
}

/* Python's float_divmod. */
static struct jinja_value reals(struct jinja_run *run, const char *op, double a, double b)
{
    if (strcmp(op, "+") == 0)
        return jinja_real(a + b);
    if (strcmp(op, "-") == 0)
        return jinja_real(a - b);
    if (strcmp(op, "*") == 0)
        return jinja_real(a * b);
    if (strcmp(op, "**") == 0)
        return real_power(run, a, b);
    if (b == 0)
        return fail_zero(run);
    if (strcmp(op, "/") == 0)
        return jinja_real(a / b);
    double rest = fmod(a, b), times = (a - rest) / b;
    if (rest == 0) {
        rest = copysign(0, b);
    } else if ((rest < 0) != (b < 0)) {
        rest += b;
        times -= 1;
    }
    if (op[0] == '%')
        return jinja_real(rest);
    if (times == 0)
        return jinja_real(copysign(0, a / b));
    const double whole = floor(times);
    return jinja_real(times - whole > 0.5 ? whole + 1 : whole);
}

static double real_of(struct jinja_value v)
{
    return v.kind == JINJA_BIG ? strtod(v.of.text->byte, NULL) : jinja_number(v);
}

struct jinja_value sw_jinja_calculate(struct jinja_run *run, const char *op, struct jinja_value a,
                                      struct jinja_value b)
{
    const bool real = a.kind == JINJA_REAL || b.kind == JINJA_REAL;
    const bool big = a.kind == JINJA_BIG || b.kind == JINJA_BIG;
    if (big && real && (isinf(real_of(a)) || isinf(real_of(b))))
        return sw_jinja_fail(run, "the number is too large for a double");
    if (real)
        return reals(run, op, real_of(a), real_of(b));
    if (big && op[0] == '%' && b.kind != JINJA_BIG)
        return b.of.integer == 0 ? fail_zero(run)
                                 : jinja_int(modulo_digits(a.of.text->byte, b.of.integer));
    if (big)
        return fail_long(run);
    return strcmp(op, "**") == 0 && b.of.integer < 0
               ? reals(run, op, jinja_number(a), jinja_number(b))
               : integers(run, op, a.of.integer, b.of.integer);
}

struct jinja_value sw_jinja_negate(struct jinja_run *run, struct jinja_value v)
{
    char digits[32];
    if (v.kind == JINJA_REAL)
        return jinja_real(-v.of.real);
    if (v.kind != JINJA_BIG && v.of.integer != INT64_MIN)
        return jinja_int(-v.of.integer);
    if (v.kind != JINJA_BIG) {
        snprintf(digits, sizeof digits, "%" PRId64, v.of.integer);
        return sw_jinja_integer(run, digits + 1, strlen(digits + 1));
    }
    struct jinja_out out = {.run = run};
    sw_jinja_put(&out, "-", v.of.text->byte[0] != '-', false);
    sw_jinja_put_text(&out, v.of.text, v.of.text->byte[0] == '-', v.of.text->count);
    const struct jinja_value text = sw_jinja_text_of(&out);
    return run->failed ? text : sw_jinja_integer(run, text.of.text->byte, text.of.text->count);
}

/* ---- rounding ---- */

/* Rounds an integer to a multiple of 10^places, halves to even. */
static struct jinja_value round_integer(struct jinja_run *run, int64_t i, int64_t places)
{
    __int128 unit = 1;
    if (places > 19)
        return jinja_int(0); /* 2^63 is less than half of it */
    for (int64_t p = 0; p < places; p++)
        unit *= 10;
    __int128 times = i / unit, rest = i % unit;
    if (rest < 0) {
        rest += unit;
        times--;
    }
    times += 2 * rest > unit || (2 * rest == unit && times % 2 != 0);
    const __int128 result = times * unit;
    return result > INT64_MAX || result < INT64_MIN ? fail_long(run) : jinja_int((int64_t)result);
}

/* Rounds the decimal digits of the double's exact value, not of its shortest form. */
static struct jinja_value round_real(struct jinja_run *run, double d, int64_t places)
{
    char text[DIGITS_BYTES + 64];
    if (!isfinite(d) || places > 323)
        return jinja_real(d);
    if (places >= 0) {
        char *long_text = NULL;
        if (asprintf(&long_text, "%.*f", (int)places, d) < 0)
            return sw_jinja_fail(run, "the chat template takes too much memory");
        const double result = strtod(long_text, NULL);
        free(long_text);
        return isinf(result) ? sw_jinja_fail(run, "the rounded number is too large for a double")
                             : jinja_real(result);
    }
    if (places < -308)
        return jinja_real(copysign(0, d));
    /* d = whole 'e' places: digits before the point, cut at the rounding place */
    const int32_t cut = (int32_t)-places;
    const int32_t count = snprintf(text, sizeof text, "%0*.0f", (int)cut + 1, trunc(fabs(d)));
    const char *tail = text + (count - cut);
    const int32_t half = strspn(tail + 1, "0") == (size_t)(cut - 1) && fabs(d) == trunc(fabs(d));
    const bool odd = (tail[-1] - '0') % 2 != 0;
    const bool up = tail[0] > '5' || (tail[0] == '5' && (!half || odd));
    char made[DIGITS_BYTES + 64];
    snprintf(made, sizeof made, "%.*s", (int)(count - cut), text);
    for (int32_t k = count - cut - 1; up && k >= 0; k--) {
        made[k] = made[k] == '9' ? '0' : (char)(made[k] + 1);
        if (made[k] != '0')
            break;
        if (k == 0) {
            memmove(made + 1, made, strlen(made) + 1);
            made[0] = '1';
        }
    }
    const size_t used = strlen(made);
    snprintf(made + used, sizeof made - used, "e%d", (int)cut);
    const double result = copysign(strtod(made, NULL), d);
    return isinf(result) ? sw_jinja_fail(run, "the rounded number is too large for a double")
                         : jinja_real(result);
}

/* func(value * 10**places) / 10**places, as in the filter. */
static struct jinja_value round_toward(struct jinja_run *run, struct jinja_value v, int64_t places,
                                       bool up)
{
    const double unit = pow(10, (double)places), x = real_of(v) * unit;
    if (v.kind != JINJA_REAL && places >= 0)
        return jinja_real(real_of(v));
    if (!isfinite(x) || places < -308 || places > 308)
        return sw_jinja_fail(run, "no integer is %s", isnan(x) ? "nan" : "inf");
    const double whole = up ? ceil(x) : floor(x);
    return jinja_real((whole == 0 ? 0 : whole) / unit); /* integers have no -0 */
}

struct jinja_value sw_jinja_filter_round(struct jinja_run *run, struct jinja_value v,
                                         const struct jinja_arguments *a)
{
    const struct jinja_value digits = sw_jinja_argument(a, 0, "precision", jinja_int(0));
    const struct jinja_text *how =
        sw_jinja_as_text(run, sw_jinja_argument(a, 1, "method", sw_jinja_text(run, "common")));
    const bool common = strcmp(how->byte, "common") == 0, up = strcmp(how->byte, "ceil") == 0;
    const bool none = digits.kind == JINJA_NONE && common;
    if (run->failed || !sw_jinja_are_numbers(v, v) ||
        (digits.kind != JINJA_INT && digits.kind != JINJA_BOOLEAN && !none))
        return sw_jinja_fail(run, "round of %s", sw_jinja_kind_name(v));
    if (!common && !up && strcmp(how->byte, "floor") != 0)
        return sw_jinja_fail(run, "the method of round is common, ceil or floor");
    const int64_t places = none ? 0 : digits.of.integer;
    if (!common)
        return round_toward(run, v, places, up);
    if (v.kind == JINJA_REAL)
        return none ? sw_jinja_truncate(run, nearbyint(v.of.real))
                    : round_real(run, v.of.real, places);
    if (v.kind == JINJA_BIG)
        return places >= 0 ? v : fail_long(run);
    return places >= 0 ? jinja_int(v.of.integer)
                       : round_integer(run, v.of.integer, places == INT64_MIN ? 99 : -places);
}
