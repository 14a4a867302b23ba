sw_test(unit_base SOURCES test_base.c LIBRARIES sw_base)
