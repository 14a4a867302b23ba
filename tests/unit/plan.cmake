sw_test(unit_plan SOURCES test_plan.c LIBRARIES sw_plan ARGS ${CMAKE_BINARY_DIR}/tests)
