if(TARGET sw_planner)
  sw_test(test_search_rows SOURCES test_search_rows.c LIBRARIES sw_planner)
  add_test(NAME search_for_serving
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_search_serve.sh ${CMAKE_BINARY_DIR}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sw_test(test_search_options SOURCES test_search_options.c LIBRARIES sw_planner)
  sw_test(test_search_nodes SOURCES test_search_nodes.c LIBRARIES sw_planner)
  sw_test(test_search_headroom SOURCES test_search_headroom.c LIBRARIES sw_planner)
  sw_test(test_search_spare SOURCES test_search_spare.c LIBRARIES sw_planner)
  sw_test(test_search_help SOURCES test_search_help.c LIBRARIES sw_planner ARGS 8)
  sw_test(test_search_suggestions SOURCES test_search_suggestions.c LIBRARIES sw_planner)
  sw_test(test_search_margin SOURCES test_search_margin.c LIBRARIES sw_planner ARGS 25)
  sw_test(test_run_cost SOURCES test_run_cost.c LIBRARIES sw_cost ARGS 40)
  sw_test(test_contention SOURCES test_contention.c LIBRARIES sw_planner ARGS 60)
  sw_test(test_search_shardings SOURCES test_search_shardings.c LIBRARIES sw_planner ARGS 6)
  sw_test(test_search_rule SOURCES test_search_rule.c LIBRARIES sw_planner ARGS 300)
  sw_test(test_limits_drawn SOURCES test_limits_drawn.c limits_draw.c LIBRARIES sw_planner ARGS 2000)
  # more of both in tests/soak.sh
endif()
