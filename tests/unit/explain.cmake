sw_test(unit_explain SOURCES test_explain.c LIBRARIES sw_planner)
add_test(NAME unit_html
         COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_html.sh $<TARGET_FILE:plan>
                 ${CMAKE_BINARY_DIR}/tests/html
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
sw_test(unit_sources SOURCES test_sources.c LIBRARIES sw_planner)
add_test(NAME unit_sources_cli
         COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_sources.sh $<TARGET_FILE:plan>
                 ${CMAKE_BINARY_DIR}/tests/sources
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
