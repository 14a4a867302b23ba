sw_test(test_error SOURCES test_error.c LIBRARIES sw_base)
foreach(part document families fields roundtrip)
  sw_test(test_config_${part} SOURCES test_config_${part}.c LIBRARIES sw_config sw_base)
endforeach()
