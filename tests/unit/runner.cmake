# The readers and writers of `runner`, and the tool itself as a user starts it.
if(TARGET sw_runner)
  sw_test(test_init SOURCES test_init.c LIBRARIES sw_runner)
  sw_test(test_dataset SOURCES test_dataset.c LIBRARIES sw_runner
          ARGS ${CMAKE_BINARY_DIR}/tests)
  sw_test(test_lr_schedule SOURCES test_lr_schedule.c LIBRARIES sw_runner)
endif()
if(TARGET runner AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/test_runner.c)
  sw_test(test_metrics SOURCES test_metrics.c ${CMAKE_SOURCE_DIR}/runner/metrics.c
          LIBRARIES sw_plan sw_config sw_program sw_sharding sw_error
          ARGS ${CMAKE_BINARY_DIR}/tests)
  find_program(SW_MPIRUN mpirun)
  if(SW_MPIRUN AND TARGET sw_collective_mpi)
    set(sw_test_mpirun ${SW_MPIRUN})
  else()
    set(sw_test_mpirun none)
  endif()
  sw_test(test_runner SOURCES test_runner.c LIBRARIES sw_plan sw_config sw_program sw_sharding sw_error
          ARGS $<TARGET_FILE:runner> ${CMAKE_BINARY_DIR}/tests ${sw_test_mpirun})
  if(TEST test_runner)
    add_dependencies(test_runner runner)
    set_tests_properties(test_runner PROPERTIES TIMEOUT 240 RUN_SERIAL TRUE)
  endif()
endif()
