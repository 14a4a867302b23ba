/* --budget and --deadline: what is read, what is refused and in which words, and amounts and units
 * that are drawn against what they stand for. */
#include "planner/search/budget.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const struct {
    const char *text;
    enum sw_cost_kind kind;
    double most;
} budgets[] = {{"2000 GPU-hours", SW_COST_ACCELERATOR_HOURS, 2000},
               {"2,797 accelerator-hours", SW_COST_ACCELERATOR_HOURS, 2797},
               {"1,234,567.5 gpu_h", SW_COST_ACCELERATOR_HOURS, 1234567.5},
               {"90GPU-minutes", SW_COST_ACCELERATOR_HOURS, 1.5},
               {"1 TPU-day", SW_COST_ACCELERATOR_HOURS, 24},
               {" 250 node-hours ", SW_COST_NODE_HOURS, 250},
               {"1 node hour", SW_COST_NODE_HOURS, 1},
               {"5000 USD", SW_COST_MONEY, 5000},
               {"5000 usd", SW_COST_MONEY, 5000},
               {"$5,000", SW_COST_MONEY, 5000},
               {"5000 $", SW_COST_MONEY, 5000},
               {".5 USD", SW_COST_MONEY, 0.5},
               {"300 kWh", SW_COST_ENERGY, 300 * 3.6e6},
               {"2 MWh", SW_COST_ENERGY, 7.2e9},
               {"7 GJ", SW_COST_ENERGY, 7e9}};

static void budgets_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; i++) {
        struct sw_cost_limit limit;
        struct sw_error err = {0};
        if (sw_budget_parse(budgets[i].text, "USD", &limit, &err) != 0)
            fail_msg("'%s': %s", budgets[i].text, err.message);
        assert_int_equal(limit.kind, budgets[i].kind);
        assert_true(fabs(limit.most - budgets[i].most) <= 1e-12 * budgets[i].most);
        assert_false(limit.is_date);
    }
}

/* Each with the words that say what is wrong. */
static const struct {
    const char *text, *says;
} wrong_budgets[] = {{"", "has no amount"},
                     {"GPU-hours", "has no amount"},
                     {"-5 USD", "has no amount"},
                     {"0x10 USD", "unknown unit"},
                     {"1,00 USD", "has no amount"},
                     {"1000,000 USD", "has no amount"},
                     {"nan USD", "has no amount"},
                     {"2000", "has no unit"},
                     {"$", "has no amount"},
                     {"$5 USD", "has two units"},
                     {"0 USD", "is nothing"},
                     {"0.0 GPU-hours", "is nothing"},
                     {"36 h", "is a time; use --deadline '36 h'"},
                     {"5 GPU", "unknown unit, 'GPU'"},
                     {"5 GPU-foo", "unknown unit, 'GPU-foo'"},
                     {"5 mWh", "unknown unit, 'mWh'"},
                     {"5000 EUR", "is in EUR, and the cluster's price_per_accelerator_hour in USD"},
                     {"\xe2\x82\xac"
                      "9",
                      "is in EUR"},
                     {"5 1e3 USD", "unknown unit"},
                     {"1 U\x1bSD", "unknown unit, 'U?SD'"}};

static void wrong_budgets_are_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong_budgets / sizeof wrong_budgets[0]; i++) {
        struct sw_cost_limit limit;
        struct sw_error err = {0};
        if (sw_budget_parse(wrong_budgets[i].text, "USD", &limit, &err) == 0)
            fail_msg("'%s' is taken", wrong_budgets[i].text);
        assert_int_equal(err.status, SW_BAD_INPUT);
        if (strstr(err.message, wrong_budgets[i].says) == NULL ||
            strchr(err.message, ';') == NULL || strpbrk(err.message, "\n\x1b") != NULL)
            fail_msg("'%s': %s", wrong_budgets[i].text, err.message);
    }
}

/* 2026-11-30T05:00:00Z */
static const int64_t now = 1796014800;

static const struct {
    const char *text;
    double seconds; /* from now */
    bool is_date;
} deadlines[] = {{"36 h", 36 * 3600, false},
                 {"36h", 36 * 3600, false},
                 {"1 day 12 h", 36 * 3600, false},
                 {"1d12h", 36 * 3600, false},
                 {"1.5 days", 36 * 3600, false},
                 {"2 weeks", 14 * 86400, false},
                 {"90 min", 5400, false},
                 {"1-12:00:00", 36 * 3600, false},
                 {"1-12", 36 * 3600, false},
                 {"36:00:00", 36 * 3600, false},
                 {"2026-12-24", 1798070400 - 1796014800.0, true},
                 {"2026-12-24T08:00", 1798099200 - 1796014800.0, true},
                 {"2026-12-24 08:00:30", 1798099230 - 1796014800.0, true},
                 {"2026-12-24T08:00Z", 1798099200 - 1796014800.0, true},
                 {"2026-12-24T08:00+01:00", 1798095600 - 1796014800.0, true},
                 {"2028-02-29", 1835395200 - 1796014800.0, true}};

static void deadlines_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof deadlines / sizeof deadlines[0]; i++) {
        struct sw_cost_limit limit;
        struct sw_error err = {0};
        if (sw_deadline_parse(deadlines[i].text, now, &limit, &err) != 0)
            fail_msg("'%s': %s", deadlines[i].text, err.message);
        if (limit.most != deadlines[i].seconds || limit.is_date != deadlines[i].is_date)
            fail_msg("'%s': %.0f s, not %.0f", deadlines[i].text, limit.most, deadlines[i].seconds);
        assert_int_equal(limit.kind, SW_COST_TIME);
        assert_true(!limit.is_date || limit.at == now + (int64_t)limit.most);
    }
}

static const struct {
    const char *text, *says;
} wrong_deadlines[] = {{"", "is no time"},
                       {"soon", "is no time"},
                       {"36", "is no time"},
                       {"-3 h", "is no time"},
                       {"36:00", "unknown unit, ':'"},
                       {"3 parsecs", "unknown unit, 'parsecs'"},
                       {"3 GPU-hours", "unknown unit"},
                       {"0 h", "is no time at all"},
                       {"0-00:00:00", "is no time at all"},
                       {"2026-02-30", "no date that exists"},
                       {"2026-13-01", "no date that exists"},
                       {"2026-00-10", "no date that exists"},
                       {"2027-02-29", "no date that exists"},
                       {"2026-12-24T25:00", "no date that exists"},
                       {"2026-12-24T08:61", "no date that exists"},
                       {"2026-12-24 tomorrow", "no date that exists"},
                       {"2026-12", "no date that exists"},
                       {"2026-11-30T04:59Z", "has passed, now is 2026-11-30 05:00 +0000"},
                       {"1999-01-01", "has passed"},
                       {"24.12.2026", "unknown unit"}};

static void wrong_deadlines_are_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong_deadlines / sizeof wrong_deadlines[0]; i++) {
        struct sw_cost_limit limit;
        struct sw_error err = {0};
        if (sw_deadline_parse(wrong_deadlines[i].text, now, &limit, &err) == 0)
            fail_msg("'%s' is taken", wrong_deadlines[i].text);
        assert_int_equal(err.status, SW_BAD_INPUT);
        if (strstr(err.message, wrong_deadlines[i].says) == NULL ||
            strchr(err.message, ';') == NULL)
            fail_msg("'%s': %s", wrong_deadlines[i].text, err.message);
    }
}

static uint64_t seed = 20261130;

static uint32_t draw(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

/* Amounts in any spelling, with any unit, are what they say. */
static void drawn_budgets_are_read(void **state)
{
    static const struct {
        const char *unit;
        double factor;
    } units[] = {{"GPU-hours", 1},  {"accelerator-minutes", 1 / 60.},
                 {"node-days", 24}, {"USD", 1},
                 {"kWh", 3.6e6},    {"GJ", 1e9},
                 {"tpu-h", 1},      {"Accelerator-Hours", 1},
                 {"node_h", 1}};
    (void)state;
    for (int32_t i = 0; i < 20000; i++) {
        const uint32_t whole = draw(draw(2) ? 2000000000 : 2000), cents = draw(100);
        const size_t u = draw(sizeof units / sizeof units[0]);
        char text[96], digits[16], amount[32] = "";
        const int length = snprintf(digits, sizeof digits, "%u", whole);
        for (int k = 0, grouped = (int)draw(2); k < length; k++)
            snprintf(amount + strlen(amount), 3, "%s%c",
                     grouped && k > 0 && (length - k) % 3 == 0 ? "," : "", digits[k]);
        snprintf(text, sizeof text, "%s.%02u%s%s", amount, cents, draw(2) ? " " : "",
                 units[u].unit);
        struct sw_cost_limit limit;
        struct sw_error err = {0};
        const double wanted = (whole + cents / 100.) * units[u].factor;
        if (wanted <= 0)
            continue;
        if (sw_budget_parse(text, "USD", &limit, &err) != 0)
            fail_msg("'%s': %s", text, err.message);
        if (fabs(limit.most - wanted) > 1e-9 * wanted)
            fail_msg("'%s': %g, not %g", text, limit.most, wanted);
    }
}

/* Every second of a drawn date comes back as the C library counts it. */
static void drawn_dates_are_read(void **state)
{
    (void)state;
    for (int32_t i = 0; i < 20000; i++) {
        const time_t at = (time_t)(now + 60 + (int64_t)draw(2000000000));
        struct tm tm;
        char text[40];
        struct sw_cost_limit limit;
        struct sw_error err = {0};
        gmtime_r(&at, &tm);
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
        if (sw_deadline_parse(text, now, &limit, &err) != 0)
            fail_msg("'%s': %s", text, err.message);
        assert_true(limit.at == at);
    }
}

/* Whatever is written is read or refused in one line. */
static void drawn_texts_are_answered(void **state)
{
    static const char letters[] = "0123456789..,,--::  TZ$hdGPUnodeWkUSDEmin\xe2\x82\xac\x01";
    (void)state;
    for (int32_t i = 0; i < 200000; i++) {
        char text[64];
        const uint32_t length = draw(sizeof text - 1);
        for (uint32_t k = 0; k < length; k++)
            text[k] = letters[draw(sizeof letters - 1)];
        text[length] = '\0';
        for (int32_t kind = 0; kind < 2; kind++) {
            struct sw_cost_limit limit;
            struct sw_error err = {0};
            const int status = kind == 0
                                   ? sw_budget_parse(text, draw(2) ? "USD" : NULL, &limit, &err)
                                   : sw_deadline_parse(text, now, &limit, &err);
            if (status == 0)
                assert_true(limit.most > 0 && isfinite(limit.most));
            else
                assert_true(err.status == SW_BAD_INPUT && strpbrk(err.message, "\n\x01") == NULL);
        }
    }
}

int main(void)
{
    setenv("TZ", "UTC", 1);
    tzset();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_are_read),        cmocka_unit_test(wrong_budgets_are_told),
        cmocka_unit_test(deadlines_are_read),      cmocka_unit_test(wrong_deadlines_are_told),
        cmocka_unit_test(drawn_budgets_are_read),  cmocka_unit_test(drawn_dates_are_read),
        cmocka_unit_test(drawn_texts_are_answered)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
