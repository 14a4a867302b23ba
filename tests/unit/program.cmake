sw_test(test_program SOURCES test_program.c LIBRARIES sw_program ARGS ${CMAKE_SOURCE_DIR}/tests/unit/golden)
