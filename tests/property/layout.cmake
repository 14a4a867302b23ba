sw_test(test_layout SOURCES test_layout.c LIBRARIES sw_program)
