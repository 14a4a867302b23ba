#define _DEFAULT_SOURCE /* timegm */
#include "planner/search/budget.h"

#include "core/base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* ---- Units ---- */

struct unit {
    const char *name;
    double factor;
};

/* Any case is accepted. */
static const struct unit times[] = {
    {"s", 1},        {"sec", 1},        {"second", 1},        {"seconds", 1},
    {"min", 60},     {"minute", 60},    {"minutes", 60},      {"h", 3600},
    {"hour", 3600},  {"hours", 3600},   {"d", 86400},         {"day", 86400},
    {"days", 86400}, {"w", 7 * 86400.}, {"week", 7 * 86400.}, {"weeks", 604800}};

/* Prefixes are case-sensitive: mWh is not among them. */
static const struct unit energies[] = {{"J", 1},       {"kJ", 1e3},    {"MJ", 1e6},
                                       {"GJ", 1e9},    {"Wh", 3600},   {"kWh", 3.6e6},
                                       {"kwh", 3.6e6}, {"MWh", 3.6e9}, {"GWh", 3.6e12}};

static const struct {
    const char *name;
    enum sw_cost_kind kind;
} holders[] = {{"accelerator", SW_COST_ACCELERATOR_HOURS},
               {"gpu", SW_COST_ACCELERATOR_HOURS},
               {"tpu", SW_COST_ACCELERATOR_HOURS},
               {"node", SW_COST_NODE_HOURS}};

#define COUNT(array) ((int32_t)(sizeof(array) / sizeof(array)[0]))

static bool find_time(const char *name, double *factor)
{
    for (int32_t i = 0; i < COUNT(times); i++)
        if (strcasecmp(times[i].name, name) == 0) {
            *factor = times[i].factor;
            return true;
        }
    return false;
}

/* Accepts "GPU-hours", "gpu_h", "GPUh": a held resource and a time. */
static bool find_held(const char *name, enum sw_cost_kind *kind, double *factor)
{
    for (int32_t i = 0; i < COUNT(holders); i++) {
        const size_t length = strlen(holders[i].name);
        if (strncasecmp(name, holders[i].name, length) != 0)
            continue;
        const char *rest = name + length;
        rest += *rest == '-' || *rest == '_' || *rest == ' ';
        if (!find_time(rest, factor))
            return false;
        *kind = holders[i].kind;
        *factor /= 3600;
        return true;
    }
    return false;
}

/* Signs before or behind an amount. */
static const struct {
    const char *sign, *code;
} signs[] = {{"$", "USD"}, {"\xe2\x82\xac", "EUR"}, {"\xc2\xa3", "GBP"}};

/* The code of a currency as written; NULL: no currency. */
static const char *currency_of(const char *name, const char *currency)
{
    for (int32_t i = 0; i < COUNT(signs); i++)
        if (strcmp(name, signs[i].sign) == 0)
            return signs[i].code;
    if (currency != NULL && strcasecmp(name, currency) == 0)
        return currency;
    if (strcmp(name, "GPU") == 0 || strcmp(name, "TPU") == 0) /* hours of an accelerator */
        return NULL;
    size_t capitals = 0;
    while (name[capitals] >= 'A' && name[capitals] <= 'Z')
        capitals++;
    return capitals == 3 && name[3] == '\0' ? name : NULL;
}

bool sw_cost_unit(const char *name, const char *currency, enum sw_cost_kind *kind, double *factor)
{
    const char *code = currency_of(name, currency);
    *factor = 1;
    if (code != NULL) {
        *kind = SW_COST_MONEY;
        return currency == NULL || strcasecmp(code, currency) == 0;
    }
    if (find_held(name, kind, factor))
        return true;
    for (int32_t i = 0; i < COUNT(energies); i++)
        if (strcmp(energies[i].name, name) == 0) {
            *kind = SW_COST_ENERGY;
            *factor = energies[i].factor;
            return true;
        }
    *kind = SW_COST_TIME;
    return find_time(name, factor);
}

/* ---- Numbers ---- */

/* Reads digits, with commas before groups of three or without, and a fraction: "2,797", "1.5";
 * moves *text behind. False: none. */
static bool read_amount(const char **text, double *out)
{
    char digits[40];
    size_t used = 0, group = 0;
    bool grouped = false;
    const char *p = *text;
    for (; isdigit((unsigned char)*p) || (*p == ',' && used > 0); p++) {
        if (*p == ',') {
            if (group > 3 || (grouped && group != 3))
                return false;
            grouped = true;
            group = 0;
            continue;
        }
        if (used + 2 >= sizeof digits)
            return false;
        digits[used++] = *p;
        group++;
    }
    if (grouped && group != 3)
        return false;
    const bool whole = used > 0;
    size_t decimals = 0;
    if (*p == '.') {
        digits[used++] = *p++;
        for (; isdigit((unsigned char)*p) && used + 1 < sizeof digits; p++, decimals++)
            digits[used++] = *p;
    }
    if ((!whole && decimals == 0) || isdigit((unsigned char)*p))
        return false;
    digits[used] = '\0';
    *out = strtod(digits, NULL);
    *text = p;
    return true;
}

static const char *skip_spaces(const char *p)
{
    return p + strspn(p, " \t");
}

enum { SHOWN = 40 };

/* The beginning of the text, without hidden characters. */
static const char *show(const char *text, char out[SHOWN + 1])
{
    snprintf(out, SHOWN + 1, "%s", text);
    return sw_text_show(out);
}

/* ---- Budgets ---- */

static const char budget_help[] =
    "write it as in '2000 GPU-hours', '250 node-hours', '5000 USD' or '300 kWh'";

/* Reads the unit, before or behind the amount. Fails with its mistake. */
static int read_unit(const char *sign, const char *behind, const char *shown, char unit[SHOWN + 1],
                     struct sw_error *err)
{
    size_t length = strlen(behind);
    while (length > 0 && (behind[length - 1] == ' ' || behind[length - 1] == '\t'))
        length--;
    if (length == 0 && sign == NULL)
        return sw_fail(err, SW_BAD_INPUT, "--budget '%s' has no unit; %s", shown, budget_help);
    if (length > 0 && sign != NULL)
        return sw_fail(err, SW_BAD_INPUT, "--budget '%s' has two units; %s", shown, budget_help);
    snprintf(unit, SHOWN + 1, "%.*s", (int)(length < SHOWN ? length : SHOWN), behind);
    if (sign != NULL)
        snprintf(unit, SHOWN + 1, "%s", sign);
    return 0;
}

static int fail_unit(const char *shown, char *unit, const char *currency, struct sw_error *err)
{
    const char *code = currency_of(unit, currency);
    if (code != NULL)
        return sw_fail(
            err, SW_BAD_INPUT,
            "--budget '%s' is in %s, and the cluster's price_per_accelerator_hour in %s; "
            "write it in %s",
            shown, code, currency, currency);
    return sw_fail(err, SW_BAD_INPUT, "--budget '%s' has an unknown unit, '%s'; %s", shown,
                   sw_text_show(unit), budget_help);
}

int sw_budget_parse(const char *text, const char *currency, struct sw_cost_limit *out,
                    struct sw_error *err)
{
    char shown[SHOWN + 1], unit[SHOWN + 1];
    double amount = 0, factor = 1;
    *out = (struct sw_cost_limit){.most = 0};
    snprintf(out->text, sizeof out->text, "%s", show(text, shown));
    const char *p = skip_spaces(text), *sign = NULL;
    for (int32_t i = 0; i < COUNT(signs); i++)
        if (strncmp(p, signs[i].sign, strlen(signs[i].sign)) == 0)
            sign = signs[i].sign;
    if (sign != NULL)
        p = skip_spaces(p + strlen(sign));
    if (!read_amount(&p, &amount))
        return sw_fail(err, SW_BAD_INPUT, "--budget '%s' has no amount; %s", shown, budget_help);
    if (read_unit(sign, skip_spaces(p), shown, unit, err) != 0)
        return -1;
    if (!sw_cost_unit(unit, currency, &out->kind, &factor))
        return fail_unit(shown, unit, currency, err);
    if (out->kind == SW_COST_TIME)
        return sw_fail(err, SW_BAD_INPUT,
                       "--budget '%s' is a time; use --deadline '%s', or say what is held for so "
                       "long, as in '2000 GPU-hours'",
                       shown, shown);
    out->most = amount * factor;
    if (!(out->most > 0))
        return sw_fail(err, SW_BAD_INPUT, "--budget '%s' is nothing; give more than 0", shown);
    return 0;
}

/* ---- Deadlines ---- */

static const char deadline_help[] =
    "write a time as in '36 h', '1 day 12 h' or '1-12:00:00', or a date as in 2026-12-24 or "
    "2026-12-24T08:00";

/* Reads exactly that many digits. */
static bool read_digits(const char **text, int32_t digits, int32_t *out)
{
    *out = 0;
    for (int32_t i = 0; i < digits; i++, (*text)++) {
        if (!isdigit((unsigned char)**text))
            return false;
        *out = *out * 10 + (**text - '0');
    }
    return true;
}

/* Reads "Z", "+01:00", "-0800", or nothing: the process's own zone. *seconds: east of Greenwich. */
static bool read_zone(const char **text, bool *given, int32_t *seconds)
{
    int32_t hours = 0, minutes = 0;
    const char sign = **text;
    *given = sign == 'Z' || sign == 'z' || sign == '+' || sign == '-';
    *seconds = 0;
    if (!*given)
        return true;
    (*text)++;
    if (sign == 'Z' || sign == 'z')
        return true;
    if (!read_digits(text, 2, &hours))
        return false;
    *text += **text == ':';
    if (isdigit((unsigned char)**text) && !read_digits(text, 2, &minutes))
        return false;
    *seconds = (hours * 3600 + minutes * 60) * (sign == '-' ? -1 : 1);
    return hours <= 14 && minutes < 60;
}

/* YYYY-MM-DD[ or T HH:MM[:SS][ZONE]]. 0: no date; 1: a date, *at; -1: one that does not exist. */
static int read_date(const char *text, int64_t *at)
{
    int32_t year, month, day, hour = 0, minute = 0, second = 0, zone = 0;
    bool given = false;
    const char *p = text;
    if (!read_digits(&p, 4, &year) || *p++ != '-')
        return 0;
    if (!read_digits(&p, 2, &month) || *p++ != '-' || !read_digits(&p, 2, &day))
        return -1;
    if (*p == 'T' || *p == 't' || (*p == ' ' && isdigit((unsigned char)p[1]))) {
        p++;
        if (!read_digits(&p, 2, &hour) || *p++ != ':' || !read_digits(&p, 2, &minute))
            return -1;
        if (*p == ':' && (p++, !read_digits(&p, 2, &second)))
            return -1;
        if (!read_zone(&p, &given, &zone))
            return -1;
    }
    if (*skip_spaces(p) != '\0' || hour > 23 || minute > 59 || second > 59)
        return -1;
    struct tm tm = {.tm_year = year - 1900,
                    .tm_mon = month - 1,
                    .tm_mday = day,
                    .tm_hour = hour,
                    .tm_min = minute,
                    .tm_sec = second,
                    .tm_isdst = -1};
    struct tm same = tm;
    const time_t utc = timegm(&same); /* normalizes: the 30th of February becomes another day */
    if (month < 1 || day < 1 || same.tm_mon != month - 1 || same.tm_mday != day)
        return -1;
    *at = given ? (int64_t)utc - zone : (int64_t)mktime(&tm);
    return 1;
}

/* Reads Slurm's D-HH[:MM[:SS]] and HH:MM:SS. */
static bool read_clock(const char *text, double *out)
{
    long part[4] = {0, 0, 0, 0}; /* days, hours, minutes, seconds */
    int32_t count = 0;
    const bool days = text[strspn(text, "0123456789")] == '-';
    const char *p = text;
    for (int32_t i = days ? 0 : 1; i < 4; i++) {
        const size_t digits = strspn(p, "0123456789");
        if (digits < 1 || digits > 6)
            return false;
        part[i] = strtol(p, NULL, 10);
        p += digits;
        count++;
        if (*p == '\0')
            break;
        if (*p != (days && i == 0 ? '-' : ':') || i == 3)
            return false;
        p++;
    }
    if (*p != '\0' || count < (days ? 2 : 3)) /* "36:00" means hours to some, minutes to Slurm */
        return false;
    *out =
        (double)part[0] * 86400 + (double)part[1] * 3600 + (double)part[2] * 60 + (double)part[3];
    return true;
}

/* Reads "36 h", "1 day 12 h". unit: the text found in place of a unit on failure; "": no number. */
static bool read_span(const char *text, double *out, char unit[SHOWN + 1])
{
    const char *p = skip_spaces(text);
    *out = 0;
    unit[0] = '\0';
    do {
        double amount, factor;
        if (!read_amount(&p, &amount))
            return false;
        p = skip_spaces(p);
        const size_t length = strcspn(p, " \t0123456789");
        snprintf(unit, SHOWN + 1, "%.*s", length < SHOWN ? (int)length : SHOWN, p);
        if (length == 0 || !find_time(unit, &factor))
            return false;
        *out += amount * factor;
        p = skip_spaces(p + length);
    } while (*p != '\0');
    return true;
}

static int fail_span(const char *shown, char *unit, struct sw_error *err)
{
    sw_text_show(unit);
    if (unit[0] == '\0')
        return sw_fail(err, SW_BAD_INPUT, "--deadline '%s' is no time; %s", shown, deadline_help);
    return sw_fail(err, SW_BAD_INPUT, "--deadline '%s' has an unknown unit, '%s'; %s", shown, unit,
                   deadline_help);
}

int sw_deadline_parse(const char *text, int64_t now, struct sw_cost_limit *out,
                      struct sw_error *err)
{
    char shown[SHOWN + 1], unit[SHOWN + 1], today[SW_LIMIT_TEXT];
    *out = (struct sw_cost_limit){.kind = SW_COST_TIME};
    snprintf(out->text, sizeof out->text, "%s", show(text, shown));
    const int date = read_date(text, &out->at);
    if (date < 0)
        return sw_fail(err, SW_BAD_INPUT, "--deadline '%s' is no date that exists; %s", shown,
                       deadline_help);
    if (date > 0) {
        out->is_date = true;
        out->most = (double)(out->at - now);
        if (out->at <= now)
            return sw_fail(err, SW_BAD_INPUT,
                           "--deadline '%s' has passed, now is %s; give a later one", shown,
                           sw_date_format(now, today));
        return 0;
    }
    if (!read_clock(text, &out->most) && !read_span(text, &out->most, unit))
        return fail_span(shown, unit, err);
    if (!(out->most > 0))
        return sw_fail(err, SW_BAD_INPUT, "--deadline '%s' is no time at all; give more than 0",
                       shown);
    return 0;
}

char *sw_date_format(int64_t at, char buffer[SW_LIMIT_TEXT])
{
    const time_t time = (time_t)at;
    struct tm tm;
    buffer[0] = '\0';
    if (localtime_r(&time, &tm) != NULL)
        strftime(buffer, SW_LIMIT_TEXT, "%Y-%m-%d %H:%M %z", &tm);
    return buffer;
}
