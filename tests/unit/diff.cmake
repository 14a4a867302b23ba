sw_test(unit_diff SOURCES test_diff.c LIBRARIES sw_planner)
add_test(NAME unit_diff_cli
         COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_diff_cli.sh $<TARGET_FILE:plan>
                 ${CMAKE_BINARY_DIR}/tests/diff_cli
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
add_test(NAME unit_review
         COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_review.sh $<TARGET_FILE:plan>
                 ${CMAKE_BINARY_DIR}/tests/review
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
