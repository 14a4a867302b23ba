/* Any text as a condition of --fail-if: a mistake has its column, and what is accepted is decided
 * by numbers, with a reason in one line. */
#include "planner/policy/fail_if.h"
#include "tests/fuzz/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void check_condition(const struct sw_fail_if *condition, const struct sw_measures *was,
                            const struct sw_measures *is)
{
    char detail[128] = "";
    const enum sw_fail_if_verdict verdict =
        sw_fail_if_test(condition, was, is, detail, sizeof detail);
    fuzz_require(verdict == SW_FAIL_IF_PASS || verdict == SW_FAIL_IF_FAIL ||
                     (verdict == SW_FAIL_IF_SKIPPED && (was == NULL || was->serves || is->serves)),
                 "not decided", condition->text);
    fuzz_require(detail[0] != '\0', "no reason", condition->text);
    fuzz_require_plain(detail);
}

void fuzz_one(const uint8_t *data, size_t bytes)
{
    static const struct sw_measures was = {.value = {1.5, 70e9, 80e9, 12000, 0.4, 0.25, 3e9, 4e9,
                                                     64, 1e5, 2e3},
                                           .word = {"1,64,1,1", "none", "fits"}},
                                    is = {.value = {1.6, 72e9, 80e9, 11000, 0.38, 0, 4e9, 4e9, 8,
                                                    2e5, 3e3},
                                          .word = {"2,4,1,1", "full", "fits_without_headroom"}},
                                    served = {.value = {NAN, 60e9, 80e9, 900, NAN, NAN, NAN, 4e9, 8,
                                                        NAN, NAN, 0.02, 0.1, 0.06},
                                              .word = {"1,1,8,1", "none", "fits"},
                                              .serves = true},
                                    nothing = {.value = {0}};
    int32_t count;
    const char *text = fuzz_files(data, bytes, &count)->text;
    struct sw_fail_if condition;
    struct sw_error err = {0};
    if (sw_fail_if_parse(text, &condition, &err) != 0) {
        fuzz_require(err.status == SW_BAD_INPUT, "no mistake of the user", err.message);
        fuzz_require_place(err.file, err.line, err.column, err.message);
        fuzz_require(strcmp(err.file, "--fail-if") == 0 && err.line == 1 &&
                         (size_t)err.column <= strlen(text) + 1,
                     "a column outside of the text", err.message);
        fuzz_require(strstr(err.message, "; ") != NULL, "no help", err.message);
        return;
    }
    check_condition(&condition, &was, &is);
    check_condition(&condition, NULL, &is);
    check_condition(&condition, &served, &served);
    check_condition(&condition, &was, &served);
    check_condition(&condition, &nothing, &nothing);
}
