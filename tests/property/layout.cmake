sw_test(test_layout SOURCES test_layout.c ${CMAKE_SOURCE_DIR}/tests/support/rule_draws.c LIBRARIES sw_programs
        ARGS 30)
if(TARGET sw_runner AND TARGET sw_collective)
  sw_test(test_order SOURCES test_order.c LIBRARIES sw_plan sw_runner)
endif()
