/* The tokenizer in a model's folder. */
#ifndef SW_TOKENIZER_FILE_H
#define SW_TOKENIZER_FILE_H

/* "tokenizer.json", the supported form; else a file of another form ("tokenizer.model"); NULL:
 * none. Static memory. */
const char *sw_tokenizer_file(const char *folder);

#endif
