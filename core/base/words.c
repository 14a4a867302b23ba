#include "core/base/words.h"

#include <stddef.h>

const struct sw_word sw_words_recompute[] = {{"none", SW_RECOMPUTE_NONE},
                                             {"attention", SW_RECOMPUTE_ATTENTION},
                                             {"full", SW_RECOMPUTE_FULL},
                                             {"auto", SW_RECOMPUTE_AUTO},
                                             {NULL, 0}};
const struct sw_word sw_words_strategy[] = {{"ring", SW_ATTENTION_RING},
                                            {"gather", SW_ATTENTION_GATHER},
                                            {"ulysses", SW_ATTENTION_ULYSSES},
                                            {"auto", SW_ATTENTION_AUTO},
                                            {NULL, 0}};
const struct sw_word sw_words_layout[] = {
    {"zigzag", SW_ZIGZAG}, {"contiguous", SW_CONTIGUOUS}, {NULL, 0}};
const struct sw_word sw_words_precision[] = {{"bf16", SW_BF16_T}, {"fp32", SW_F32}, {NULL, 0}};
const struct sw_word sw_words_device[] = {
    {"cpu", SW_DEVICE_CPU}, {"cuda", SW_DEVICE_CUDA}, {NULL, 0}};

const char *sw_word(const struct sw_word *words, int32_t value)
{
    while (words->text != NULL && words->value != value)
        words++;
    return words->text;
}
