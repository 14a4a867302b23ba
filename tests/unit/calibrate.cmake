# What `runner calibrate` measures and writes.
if(TARGET runner)
  find_program(SW_MPIRUN mpirun)
  if(SW_MPIRUN AND TARGET sw_collective_mpi)
    set(sw_calibrate_mpirun ${SW_MPIRUN})
  else()
    set(sw_calibrate_mpirun none)
  endif()
  sw_test(test_calibrate SOURCES test_calibrate.c LIBRARIES sw_runner sw_plan_scheduler sw_config
          ARGS $<TARGET_FILE:runner> ${CMAKE_BINARY_DIR}/tests ${sw_calibrate_mpirun})
  if(TEST test_calibrate)
    add_dependencies(test_calibrate runner plan)
    add_test(NAME test_calibrate_busy
             COMMAND test_calibrate $<TARGET_FILE:runner> ${CMAKE_BINARY_DIR}/tests ${sw_calibrate_mpirun} busy
             WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    sw_test_properties(test_calibrate_busy PROPERTIES TIMEOUT 600 COST 100)
    # with sanitizers nobody looks at what it measures but the test
    if(SW_SANITIZE)
      sw_test_properties(test_calibrate PROPERTIES TIMEOUT 600 PROCESSORS 2 COST 100)
    else()
      sw_test_properties(test_calibrate PROPERTIES TIMEOUT 600 RUN_SERIAL TRUE)
    endif()
  endif()
endif()
if(TARGET sw_runner)
  sw_test(test_batch SOURCES test_batch.c LIBRARIES sw_runner sw_programs)
  sw_test(test_calibrate_products SOURCES test_calibrate_products.c LIBRARIES sw_runner)
endif()
# With stand-ins for GPUs.
if(TARGET sw_runner AND TARGET sw_planner)
  sw_test(test_calibrate_gpu SOURCES test_calibrate_gpu.c ${CMAKE_SOURCE_DIR}/tests/support/fake_gpu.c
          LIBRARIES sw_runner sw_device_cpu sw_planner pthread ARGS ${CMAKE_BINARY_DIR}/tests)
  if(TEST test_calibrate_gpu)
    sw_test_properties(test_calibrate_gpu PROPERTIES TIMEOUT 600)
  endif()
endif()
