sw_test(test_error SOURCES test_error.c LIBRARIES sw_base)
sw_test(test_words SOURCES test_words.c LIBRARIES sw_base)
foreach(part document families fields profile roundtrip slurm stages)
  sw_test(test_config_${part} SOURCES test_config_${part}.c LIBRARIES sw_plan_scheduler sw_config sw_base)
endforeach()
add_test(NAME unit_point_schemas
         COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_point_schemas.sh $<TARGET_FILE:plan>
                 ${CMAKE_BINARY_DIR}/tests/point_schemas
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
