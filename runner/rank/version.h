/* What this build is made of. */
#ifndef SW_RANK_VERSION_H
#define SW_RANK_VERSION_H

#include <stddef.h>

/* {"shardwright":"0.1.0","onednn":"2.6.3","instruction_set":"AVX2","kernel_instruction_set":"AVX2",
 * "mpi":"Open MPI v4.1.4"}: the library's, and that of our own kernels; returns buffer. */
const char *sw_version_json(char *buffer, size_t buffer_bytes);
/* Parts of a build that this folder does not know. */
struct sw_version_parts {
    const char *commit;  /* NULL: unknown */
    const char *http;    /* version of libmicrohttpd; NULL: there is none */
    const char *no_http; /* then why */
};
/* `runner --version`, with the devices; returns buffer. */
const char *sw_version_text(const struct sw_version_parts *parts, char *buffer,
                            size_t buffer_bytes);
/* The same with --json: docs/reference/json.md has its keys. */
const char *sw_version_document(const struct sw_version_parts *parts, char *buffer,
                                size_t buffer_bytes);

#endif
