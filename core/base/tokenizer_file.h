/* Which file of a model's folder is its tokenizer. */
#ifndef SW_TOKENIZER_FILE_H
#define SW_TOKENIZER_FILE_H

/* "tokenizer.json", the form that is read here; else one of another form ("tokenizer.model"); NULL:
 * the folder has none. Static memory. */
const char *sw_tokenizer_file(const char *folder);

#endif
