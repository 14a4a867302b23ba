/* What is wrong with a text that is no JSON, in our words; what jansson says quotes the text. */
#ifndef SW_JSON_TEXT_H
#define SW_JSON_TEXT_H

#include <jansson.h>

/* Static memory; NULL: memory ran out. */
const char *sw_json_mistake(const json_error_t *why);

#endif
