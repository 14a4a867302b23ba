if(TARGET sw_runner AND TARGET sw_device_cpu AND TARGET sw_collective)
  find_package(Threads REQUIRED)
  sw_test(test_oracle SOURCES test_oracle.c ${CMAKE_SOURCE_DIR}/tests/support/harness.c
          LIBRARIES sw_runner sw_device_cpu sw_collective sw_program sw_sharding sw_base Threads::Threads
          ARGS tests/oracle/fixtures)
  sw_test(test_families SOURCES test_families.c ${CMAKE_SOURCE_DIR}/tests/support/harness.c
          LIBRARIES sw_config sw_runner sw_device_cpu sw_collective sw_program sw_sharding sw_base
          Threads::Threads ARGS tests/oracle/fixtures/families)
endif()
