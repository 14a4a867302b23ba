sw_test(unit_formulas SOURCES test_formulas.c LIBRARIES sw_plan sw_cost)
sw_test(unit_fit SOURCES test_fit.c LIBRARIES sw_planner)
add_test(NAME unit_fit_cli
         COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_fit_cli.sh $<TARGET_FILE:plan>
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
add_test(NAME unit_ranking
         COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_ranking.sh $<TARGET_FILE:plan>
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
