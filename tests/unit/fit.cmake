sw_test(unit_formulas SOURCES test_formulas.c LIBRARIES sw_plan sw_cost)
sw_test(unit_fit SOURCES test_fit.c LIBRARIES sw_planner)
sw_test(unit_published_rows SOURCES test_published_rows.c LIBRARIES sw_planner)
add_test(NAME unit_fit_cli
         COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_fit_cli.sh $<TARGET_FILE:plan>
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
add_test(NAME unit_ranking
         COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_ranking.sh $<TARGET_FILE:plan>
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
# Published times of servers against their prices: 20 % in the mean, no tp's sign beyond 15 %
find_program(SW_PYTHON3 python3)
mark_as_advanced(SW_PYTHON3)
if(SW_PYTHON3)
  add_test(NAME unit_serving_prices
           COMMAND bash ${CMAKE_SOURCE_DIR}/tests/bench/published/serving.sh ${CMAKE_BINARY_DIR} --check)
  sw_label(release unit_serving_prices)
endif()
