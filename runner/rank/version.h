/* What this build is made of. */
#ifndef SW_RANK_VERSION_H
#define SW_RANK_VERSION_H

#include <stddef.h>

/* {"shardwright":"0.1.0","onednn":"2.6.3","instruction_set":"AVX2","kernel_instruction_set":"AVX2",
 * "mpi":"Open MPI v4.1.4"}: the library's, and that of our own kernels; returns buffer. */
const char *sw_version_json(char *buffer, size_t buffer_bytes);
/* The same for people, with the devices; http: what answers requests, of what version. */
const char *sw_version_text(const char *http, char *buffer, size_t buffer_bytes);

#endif
