/* Versions of this build and its libraries. */
#ifndef SW_RANK_VERSION_H
#define SW_RANK_VERSION_H

#include <stddef.h>

/* {"shardwright":"0.1.0","onednn":"2.6.3","instruction_set":"AVX2","kernel_instruction_set":"AVX2",
 * "mpi":"Open MPI v4.1.4"}: instruction sets of oneDNN and of our own kernels; returns buffer. */
const char *sw_version_json(char *buffer, size_t buffer_bytes);
/* Parts of a build unknown to this folder. */
struct sw_version_parts {
    const char *commit;  /* NULL: unknown */
    const char *http;    /* version of libmicrohttpd; NULL: absent */
    const char *no_http; /* reason that it is absent */
};
/* Text of `runner --version`, with the devices; returns buffer. */
const char *sw_version_text(const struct sw_version_parts *parts, char *buffer,
                            size_t buffer_bytes);
/* JSON of `runner --version --json`; docs/reference/json.md lists its keys. */
const char *sw_version_document(const struct sw_version_parts *parts, char *buffer,
                                size_t buffer_bytes);

#endif
