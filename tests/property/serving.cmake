find_package(Threads REQUIRED)
if(TARGET sw_runner AND TARGET sw_device_cpu AND TARGET sw_collective)
  sw_test(test_serving SOURCES test_serving.c ${CMAKE_SOURCE_DIR}/tests/support/harness.c
          ${CMAKE_SOURCE_DIR}/tests/support/texts.c
          LIBRARIES sw_runner sw_device_cpu sw_collective sw_programs sw_sharding sw_base Threads::Threads)
  if(TARGET test_serving)
    sw_test_counts_allocations(test_serving)
  endif()
  # "3 0": of the 240 combinations every third; "3 1" below are others. tests/soak.sh runs all.
  set(sw_slots 3 0)
  if(SW_SANITIZE)
    set(sw_slots 8 3)
  endif()
  sw_test(test_slots SOURCES test_slots.c ${CMAKE_SOURCE_DIR}/tests/support/harness.c
          ${CMAKE_SOURCE_DIR}/tests/support/texts.c
          LIBRARIES sw_runner sw_device_cpu sw_collective sw_programs sw_sharding sw_base Threads::Threads
          ARGS ${sw_slots})
  if(TARGET test_slots)
    # what oneDNN does on a processor that has no more (nothing on another one)
    add_test(NAME test_slots_avx2 COMMAND test_slots 3 1 WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    sw_test_properties(test_slots_avx2 PROPERTIES ENVIRONMENT DNNL_MAX_CPU_ISA=AVX2 LABELS variant)
  endif()
  if(TARGET sw_kernels_amx)
    # texts whose tokens meet weights in the processor's tiles, which are emulated (tests/unit/device.cmake)
    sw_test(test_slots_amx SOURCES test_slots.c ${CMAKE_SOURCE_DIR}/tests/support/harness.c
            ${CMAKE_SOURCE_DIR}/tests/support/texts.c $<TARGET_OBJECTS:sw_kernels_amx>
            LIBRARIES sw_runner sw_device_cpu sw_collective sw_programs sw_sharding sw_base Threads::Threads
            ARGS 3 0)
    if(TARGET test_slots_amx)
      target_compile_definitions(test_slots_amx PRIVATE SW_AMX_EMULATED)
    endif()
  endif()
endif()
if(TARGET sw_collective_mpi AND NOT SW_SANITIZE MATCHES "thread")
  # About ten seconds.
  add_test(NAME generate_on_a_mesh
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_generate.sh ${CMAKE_BINARY_DIR}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sw_test_properties(generate_on_a_mesh PROPERTIES TIMEOUT 900 COST 100)
  add_test(NAME generate_killed_and_resumed
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_generate_resume.sh ${CMAKE_BINARY_DIR}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sw_test_properties(generate_killed_and_resumed PROPERTIES TIMEOUT 900)
  if(TARGET sw_serve_http AND SW_MICROHTTPD_FOUND)
    # Hostile requests and clients; tests/soak.sh has more.
    set(sw_serve 90 8)
    if(SW_SANITIZE)
      set(sw_serve 45 4)
    endif()
    add_test(NAME serve
             COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_serve.sh ${CMAKE_BINARY_DIR} ${sw_serve}
             WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    sw_test_properties(serve PROPERTIES TIMEOUT 600 COST 100)
    add_test(NAME test_gpu_served
             COMMAND bash ${CMAKE_SOURCE_DIR}/tests/unit/test_gpu_served.sh $<TARGET_FILE:plan> $<TARGET_FILE:runner>
             WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  endif()
endif()
