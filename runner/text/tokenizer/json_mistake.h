/* Reports a mistake in a tokenizer's JSON file with its place. */
#ifndef SW_TOKENIZER_JSON_MISTAKE_H
#define SW_TOKENIZER_JSON_MISTAKE_H

#include "core/base/error.h"
#include "runner/checkpoint/json_text.h"

/* Returns -1. */
int sw_text_json_mistake(const char *path, const struct sw_json_mistake *why, struct sw_error *err);

#endif
