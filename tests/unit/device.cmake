sw_test(test_ops SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_ops.c
        LIBRARIES sw_device_cpu sw_program sw_sharding sw_base pthread)
sw_test(test_cache_int8 SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cache_int8.c
        LIBRARIES sw_device_cpu sw_program sw_sharding sw_base pthread)
sw_test(test_rows SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_rows.c
        LIBRARIES sw_device_cpu sw_program sw_sharding sw_base pthread)
if(TARGET test_rows)
  # what oneDNN does on a processor that has no more (nothing on another one)
  add_test(NAME test_rows_avx2 COMMAND test_rows WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(test_rows_avx2 PROPERTIES ENVIRONMENT DNNL_MAX_CPU_ISA=AVX2)
endif()
