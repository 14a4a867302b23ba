sw_test(unit_base SOURCES test_base.c LIBRARIES sw_base)
sw_test(unit_text SOURCES test_text.c LIBRARIES sw_base)
sw_test(unit_file SOURCES test_file.c LIBRARIES sw_base)
sw_test(unit_json SOURCES test_json.c LIBRARIES sw_base)
