#include "core/base/words.h"

#include <signal.h>
#include <stddef.h>

const struct sw_word sw_words_strategy[] = {{"ring", SW_ATTENTION_RING, NULL},
                                            {"gather", SW_ATTENTION_GATHER, NULL},
                                            {"ulysses", SW_ATTENTION_ULYSSES, NULL},
                                            {"auto", SW_ATTENTION_AUTO, NULL},
                                            {NULL, 0, NULL}};
const struct sw_word sw_words_collective[] = {{"slice", SW_SLICE, NULL},
                                              {"all_gather", SW_ALL_GATHER, NULL},
                                              {"reduce_scatter", SW_REDUCE_SCATTER, NULL},
                                              {"all_reduce", SW_ALL_REDUCE, NULL},
                                              {"all_to_all", SW_ALL_TO_ALL, NULL},
                                              {NULL, 0, NULL}};
const struct sw_word sw_words_layout[] = {
    {"zigzag", SW_ZIGZAG, NULL}, {"contiguous", SW_CONTIGUOUS, NULL}, {NULL, 0, NULL}};
const struct sw_word sw_words_precision[] = {
    {"bf16", SW_BF16_T, NULL}, {"fp32", SW_F32, NULL}, {NULL, 0, NULL}};
const struct sw_word sw_words_zero[] = {{"1", SW_ZERO_1, NULL},
                                        {"2", SW_ZERO_2, NULL},
                                        {"3", SW_ZERO_3, NULL},
                                        {"auto", SW_ZERO_AUTO, NULL},
                                        {NULL, 0, NULL}};
const struct sw_word sw_words_moments[] = {
    {"fp32", SW_F32, NULL}, {"bf16", SW_BF16_T, NULL}, {"int8", SW_CODES, NULL}, {NULL, 0, NULL}};
const struct sw_word sw_words_cache[] = {{"bf16", SW_BF16_T, NULL},
                                         {"fp32", SW_F32, NULL},
                                         {"int8", SW_I8, NULL},
                                         {"auto", SW_DTYPE_COUNT, NULL},
                                         {NULL, 0, NULL}};
const struct sw_word sw_words_weights[] = {{"int8", SW_I8, NULL},
                                           {"e4m3", SW_E4M3, NULL},
                                           {"int4", SW_I4, NULL},
                                           {"auto", SW_DTYPE_COUNT, NULL},
                                           {NULL, 0, NULL}};
const struct sw_word sw_words_base[] = {{"bf16", SW_BF16_T, NULL},      {"fp32", SW_F32, NULL},
                                        {"int8", SW_I8, NULL},          {"e4m3", SW_E4M3, NULL},
                                        {"auto", SW_DTYPE_COUNT, NULL}, {NULL, 0, NULL}};
const struct sw_word sw_words_device[] = {
    {"cpu", SW_DEVICE_CPU, NULL}, {"cuda", SW_DEVICE_CUDA, NULL}, {NULL, 0, NULL}};
const struct sw_word sw_words_continue[] = {{"none", SW_CONTINUE_NONE, NULL},
                                            {"requeue", SW_CONTINUE_REQUEUE, NULL},
                                            {"chain", SW_CONTINUE_CHAIN, NULL},
                                            {NULL, 0, NULL}};
const struct sw_word sw_words_preflight[] = {{"off", SW_PREFLIGHT_OFF, NULL},
                                             {"quick", SW_PREFLIGHT_QUICK, NULL},
                                             {"full", SW_PREFLIGHT_FULL, NULL},
                                             {NULL, 0, NULL}};
const struct sw_word sw_words_signal[] = {
    {"USR1", SIGUSR1, NULL}, {"USR2", SIGUSR2, NULL}, {NULL, 0, NULL}};

const char *sw_word(const struct sw_word *words, int32_t value)
{
    while (words->text != NULL && (words->value != value || words->why != NULL))
        words++;
    return words->text;
}
