find_package(Threads REQUIRED)
if(TARGET sw_runner AND TARGET sw_device_cpu AND TARGET sw_collective)
  # "29": every 29th of the 288 variants on each mesh; "1" runs them all, tests/soak.sh more. Sanitizers look at memory and threads, for
  # which fewer do, and fewer steps of each training.
  set(sw_stride 29)
  set(sw_uneven_stride 193)
  if(SW_SANITIZE)
    set(sw_stride 101 4)
    set(sw_uneven_stride 397 3)
  endif()
  sw_test(test_meshes SOURCES test_meshes.c ${CMAKE_SOURCE_DIR}/tests/support/harness.c
          ${CMAKE_SOURCE_DIR}/tests/support/variants.c
          LIBRARIES sw_runner sw_device_cpu sw_collective sw_programs sw_sharding sw_base Threads::Threads
          ARGS ${sw_stride})
  if(TARGET test_meshes)
    sw_test_counts_allocations(test_meshes)
  endif()
  # Every 193rd of the 288 variants on each of 68 meshes.
  sw_test(test_uneven_meshes SOURCES test_uneven_meshes.c ${CMAKE_SOURCE_DIR}/tests/support/harness.c
          ${CMAKE_SOURCE_DIR}/tests/support/variants.c
          LIBRARIES sw_runner sw_device_cpu sw_collective sw_programs sw_sharding sw_base Threads::Threads
          ARGS ${sw_uneven_stride})
endif()
if(TARGET sw_programs)
  sw_test(test_counts SOURCES test_counts.c LIBRARIES sw_programs sw_sharding sw_base)
  sw_test(test_sharding_counts SOURCES test_sharding_counts.c ../support/variants.c
          LIBRARIES sw_cost sw_programs sw_sharding sw_base)
endif()

# 150 steps, twice; tests/soak.sh takes all 250.
add_test(NAME quickstart_one_rank
         COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_quickstart.sh ${CMAKE_BINARY_DIR} 150
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
sw_test_properties(quickstart_one_rank PROPERTIES TIMEOUT 1200 PROCESSORS 2 COST 100)

# A dozen steps: that all of it goes through, not that it learns.
if(TARGET sw_collective_mpi AND NOT SW_SANITIZE)
  add_test(NAME finetune_example
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_finetune.sh ${CMAKE_BINARY_DIR} 12
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sw_test_properties(finetune_example PROPERTIES TIMEOUT 600 PROCESSORS 2 RESOURCE_LOCK ranks)
endif()

if(TARGET sw_collective_mpi AND NOT SW_SANITIZE MATCHES "thread")
  add_library(stop_shim SHARED ${CMAKE_SOURCE_DIR}/tests/support/stop_shim.c)
  target_link_libraries(stop_shim PRIVATE sw_collective_mpi)
  set_target_properties(stop_shim PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME stalled_rank
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_stall.sh ${CMAKE_BINARY_DIR}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sw_test_properties(stalled_rank PROPERTIES TIMEOUT 900 PROCESSORS 2 RESOURCE_LOCK ranks)
  # About two minutes.
  add_test(NAME life_of_a_run
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_life.sh ${CMAKE_BINARY_DIR}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sw_test_properties(life_of_a_run PROPERTIES TIMEOUT 900 PROCESSORS 2 RESOURCE_LOCK ranks)
endif()
if(TARGET sw_runner AND TARGET sw_device_cpu AND TARGET sw_collective)
  # "2": random sets on each mesh.
  sw_test(test_recompute SOURCES test_recompute.c ${CMAKE_SOURCE_DIR}/tests/support/harness.c
          LIBRARIES sw_runner sw_device_cpu sw_collective sw_programs sw_sharding sw_base Threads::Threads
          ARGS 2)
  # "1": draws on each mesh.
  sw_test(test_periods SOURCES test_periods.c ${CMAKE_SOURCE_DIR}/tests/support/harness.c
          LIBRARIES sw_runner sw_device_cpu sw_collective sw_plan sw_programs sw_sharding sw_base Threads::Threads
          ARGS 1)
  # "1": draws on each mesh.
  sw_test(test_masks SOURCES test_masks.c ${CMAKE_SOURCE_DIR}/tests/support/harness.c
          LIBRARIES sw_runner sw_device_cpu sw_collective sw_programs sw_sharding sw_base Threads::Threads
          ARGS 1)
  # "1": draws on each mesh.
  sw_test(test_adapters SOURCES test_adapters.c ${CMAKE_SOURCE_DIR}/tests/support/harness.c
          LIBRARIES sw_runner sw_device_cpu sw_collective sw_programs sw_sharding sw_base Threads::Threads
          ARGS 1)
  sw_test(test_frozen SOURCES test_frozen.c ${CMAKE_SOURCE_DIR}/tests/support/harness.c
          LIBRARIES sw_runner sw_device_cpu sw_collective sw_programs sw_sharding sw_base Threads::Threads)
  # "9": draws of seed 1; tests/soak.sh has more. Each takes sanitizers ten times as long.
  set(sw_rule_draws 9)
  if(SW_SANITIZE)
    set(sw_rule_draws 3)
  endif()
  sw_test(test_rules SOURCES test_rules.c ${CMAKE_SOURCE_DIR}/tests/support/harness.c
          ${CMAKE_SOURCE_DIR}/tests/support/rule_draws.c ${CMAKE_SOURCE_DIR}/tests/support/texts.c
          LIBRARIES sw_runner sw_device_cpu sw_collective sw_programs sw_sharding sw_base Threads::Threads
          ARGS ${sw_rule_draws} 1)
  # "12": draws of seed 1; tests/soak.sh has more.
  sw_test(test_saves SOURCES test_saves.c ${CMAKE_SOURCE_DIR}/tests/support/harness.c
          LIBRARIES sw_runner sw_device_cpu sw_collective sw_programs sw_sharding sw_base Threads::Threads
          ARGS 12 1)
endif()
