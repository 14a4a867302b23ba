if(TARGET sw_planner)
  sw_test(test_search_options SOURCES test_search_options.c LIBRARIES sw_planner)
  sw_test(test_search_suggestions SOURCES test_search_suggestions.c LIBRARIES sw_planner)
endif()
