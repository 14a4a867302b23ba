/* page.html, embedded by the build. */
#ifndef SW_SERVE_PAGE_H
#define SW_SERVE_PAGE_H

#include <stddef.h>

extern const char sw_serve_page[]; /* [sw_serve_page_bytes], not 0-terminated */
extern const size_t sw_serve_page_bytes;

#endif
