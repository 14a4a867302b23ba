# cmake -DSOURCE=DIR -DOUTPUT=commit.c -P commit.cmake: the commit that is built, as sw_commit() tells it; NULL where DIR is no
# clone or git is missing. The file is written when that changes, so that nothing is linked again otherwise.
find_program(git git)
set(text NULL)
if(git AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${git} -C ${SOURCE} describe --always --abbrev=40 --exclude=* --dirty
                  OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(commit MATCHES "^[0-9a-f]+(-dirty)?$")
    set(text "\"${commit}\"")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#include "core/base/commit.h"

const char *sw_commit(void)
{
    return @text@;
}
]])
