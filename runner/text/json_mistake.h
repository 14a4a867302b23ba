/* What is wrong with a JSON file of a tokenizer, as an error in its place. */
#ifndef SW_TEXT_JSON_MISTAKE_H
#define SW_TEXT_JSON_MISTAKE_H

#include "core/base/error.h"

#include <jansson.h>

/* Returns -1. */
int sw_text_json_mistake(const char *path, const json_error_t *why, struct sw_error *err);

#endif
