/* Findings in files, for people (lines on stderr) or for a machine: annotations of GitHub's
 * workflows on stdout, or messages of a JSON document. */
#ifndef SW_COMMAND_ANNOTATE_H
#define SW_COMMAND_ANNOTATE_H

#include "planner/command/options.h"

/* True if findings are for a machine. */
bool sw_annotates(const struct sw_options *options);
/* Reports a finding for a machine: ::error file=...,line=...,col=...::message; level: "error",
 * "warning" or "notice"; line 0: no position; help: NULL or "": none. */
void sw_annotate(const struct sw_options *options, const char *level, const char *file,
                 int32_t line, int32_t column, const char *message, const char *help);
/* Reports a warning, to people or a machine by the options; at->file NULL: about the whole file
 * `path`. */
void sw_warn_at(const struct sw_options *options, const char *path, const struct sw_place *at,
                const char *message);

#endif
