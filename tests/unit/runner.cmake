# The readers and writers of `runner`, and the tool itself as a user starts it.
if(TARGET sw_runner)
  if(TARGET sw_device_cpu)
    sw_test(test_init SOURCES test_init.c LIBRARIES sw_runner sw_device_cpu)
    sw_test(test_accelerator SOURCES test_accelerator.c LIBRARIES sw_rank)
    sw_test(test_probe SOURCES test_probe.c ${CMAKE_SOURCE_DIR}/runner/preflight/probe.c
            LIBRARIES sw_runner sw_rank sw_plan)
    sw_test(test_arguments SOURCES test_arguments.c LIBRARIES sw_rank)
  endif()
  sw_test(test_dataset SOURCES test_dataset.c LIBRARIES sw_text sw_runner sw_plan
          ARGS ${CMAKE_BINARY_DIR}/tests)
  sw_test(test_packing SOURCES test_packing.c LIBRARIES sw_runner)
  sw_test(test_packed_rows SOURCES test_packed_rows.c LIBRARIES sw_runner sw_base
          ARGS ${CMAKE_BINARY_DIR}/tests)
  sw_test(test_attempt SOURCES test_attempt.c LIBRARIES sw_runner ARGS ${CMAKE_BINARY_DIR}/tests)
  sw_test(test_preflight SOURCES test_preflight.c LIBRARIES sw_runner)
  sw_test(test_prefix SOURCES test_prefix.c LIBRARIES sw_runner)
  sw_test(test_batch_scheduler SOURCES test_batch_scheduler.c LIBRARIES sw_runner)
  sw_test(test_adjustments SOURCES test_adjustments.c LIBRARIES sw_runner sw_codec)
  sw_test(test_request_queue SOURCES test_request_queue.c LIBRARIES sw_serve)
  sw_test(test_hours SOURCES test_hours.c LIBRARIES sw_run ARGS ${CMAKE_BINARY_DIR}/tests)
  sw_test(test_next SOURCES test_next.c LIBRARIES sw_runner sw_plan_srun ARGS ${CMAKE_BINARY_DIR}/tests)
  sw_test(test_life SOURCES test_life.c LIBRARIES sw_runner)
  sw_label(threads test_life test_init)
  sw_test(test_check_finite SOURCES test_check_finite.c LIBRARIES sw_runner)
  sw_test(test_spikes SOURCES test_spikes.c LIBRARIES sw_runner)
  sw_test(test_lr_schedule SOURCES test_lr_schedule.c LIBRARIES sw_runner)
endif()
if(TARGET runner AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/test_runner.c)
  sw_test(test_metrics SOURCES test_metrics.c ${CMAKE_SOURCE_DIR}/runner/train/metrics.c
          LIBRARIES sw_plan sw_config sw_programs sw_sharding sw_base
          ARGS ${CMAKE_BINARY_DIR}/tests)
  find_program(SW_MPIRUN mpirun)
  if(SW_MPIRUN AND TARGET sw_collective_mpi)
    set(sw_test_mpirun ${SW_MPIRUN})
  else()
    set(sw_test_mpirun none)
  endif()
  sw_test(test_runner SOURCES test_runner.c LIBRARIES sw_plan sw_config sw_programs sw_sharding sw_base
          ARGS $<TARGET_FILE:runner> ${CMAKE_BINARY_DIR}/tests ${sw_test_mpirun})
  if(TEST test_runner)
    add_dependencies(test_runner runner)
    sw_test_properties(test_runner PROPERTIES TIMEOUT 480 PROCESSORS 2 RESOURCE_LOCK ranks)
  endif()
endif()
# One kind of device in a job: as ranks of a real one, with stand-ins for the GPUs.
if(TARGET sw_collective_mpi AND SW_MPIRUN)
  sw_test(test_kinds SOURCES test_kinds.c LIBRARIES sw_rank)
  if(TEST test_kinds)
    add_test(NAME test_kinds_mpi COMMAND ${SW_MPIRUN} --oversubscribe --bind-to none -np 3
                                         $<TARGET_FILE:test_kinds> mpi)
    sw_test_properties(test_kinds_mpi PROPERTIES TIMEOUT 300 ENVIRONMENT
      "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_mpi_yield_when_idle=1")
  endif()
endif()
if(TARGET sw_text)
  pkg_check_modules(SW_JANSSON REQUIRED IMPORTED_TARGET jansson)
  sw_test(test_tokenizer SOURCES test_tokenizer.c LIBRARIES sw_text sw_base PkgConfig::SW_JANSSON pthread
          ARGS ${CMAKE_BINARY_DIR}/tests)
  sw_label(threads test_tokenizer)
  sw_test(test_chat_counted SOURCES test_chat_counted.c LIBRARIES sw_text sw_base PkgConfig::SW_JANSSON
          ARGS ${CMAKE_BINARY_DIR}/tests)
  sw_test(test_jinja SOURCES test_jinja.c LIBRARIES sw_text sw_base PkgConfig::SW_JANSSON)
endif()
# What starts threads in the tool itself, under every build; the thread sanitizer's above all.
if(TARGET runner)
  add_test(NAME runner_threads
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_runner_threads.sh ${CMAKE_BINARY_DIR}
                   ${CMAKE_BINARY_DIR}/tests/runner_threads $<$<BOOL:${SW_MICROHTTPD_FOUND}>:serve>
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sw_test_properties(runner_threads PROPERTIES TIMEOUT 900)
  sw_label(threads runner_threads)
  sw_label_needs(threads plan runner)
endif()
if(TARGET runner AND TARGET sw_text AND SW_PYTHON3)
  add_test(NAME broken_data
           COMMAND ${SW_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/test_broken_data.py ${CMAKE_BINARY_DIR}
                   ${CMAKE_BINARY_DIR}/tests/broken_data
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sw_label(release broken_data)
endif()
add_test(NAME test_gpu_script COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_gpu_script.sh
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
add_test(NAME test_install COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_install.sh ${CMAKE_COMMAND}
                                   ${CMAKE_BINARY_DIR} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
add_test(NAME test_package COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_package.sh ${CMAKE_CPACK_COMMAND}
                                   ${CMAKE_BINARY_DIR} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
sw_test_properties(test_gpu_script test_install test_package PROPERTIES TIMEOUT 600 LABELS packaging)
