sw_test(test_checkpoint_exchange SOURCES test_checkpoint_exchange.c LIBRARIES sw_programs)
if(TARGET sw_runner AND TARGET sw_device_cpu)
  # The thread sanitizer sees a quarter of the trials: each number of ranks saves and loads; all by tests/soak.sh.
  set(sw_move_part 1)
  if(SW_SANITIZE MATCHES "thread")
    set(sw_move_part 4)
  endif()
  sw_test(test_checkpoint_move SOURCES test_checkpoint_move.c
          LIBRARIES sw_runner sw_device_cpu sw_collective sw_programs Threads::Threads ARGS ${sw_move_part})
  sw_test_properties(test_checkpoint_move PROPERTIES TIMEOUT 600)
  sw_label(threads test_checkpoint_move)
  if(TARGET sw_collective_mpi AND MPIEXEC_EXECUTABLE AND NOT SW_SANITIZE MATCHES "thread")
    add_executable(test_checkpoint_move_mpi test_checkpoint_move.c)
    target_compile_definitions(test_checkpoint_move_mpi PRIVATE SW_TEST_MPI)
    target_link_libraries(test_checkpoint_move_mpi PRIVATE sw_runner sw_device_cpu sw_collective_mpi)
    set_target_properties(test_checkpoint_move_mpi PROPERTIES
                          RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME test_checkpoint_move_mpi
             COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe --allow-run-as-root --mca
                     btl_vader_single_copy_mechanism none -np 8
                     $<TARGET_FILE:test_checkpoint_move_mpi>)
    sw_test_properties(test_checkpoint_move_mpi PROPERTIES TIMEOUT 600
                         ENVIRONMENT "OMPI_MCA_rmaps_base_oversubscribe=1;ASAN_OPTIONS=detect_leaks=0"
                         PASS_REGULAR_EXPRESSION "checkpoint_move_mpi: ok" PROCESSORS 2)
  endif()
endif()

if(TARGET sw_checkpoint_store)
  add_executable(forge_manifest ${CMAKE_SOURCE_DIR}/tests/support/forge_manifest.c)
  target_link_libraries(forge_manifest PRIVATE sw_checkpoint_store sw_base)
  set_target_properties(forge_manifest PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endif()

# The tool itself: runs that are stopped and gone on with, and bits that change in a checkpoint.
if(TARGET runner AND TARGET sw_collective_mpi AND NOT SW_SANITIZE MATCHES "thread")
  add_test(NAME resume
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_resume.sh ${CMAKE_BINARY_DIR}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sw_test_properties(resume PROPERTIES TIMEOUT 900 PROCESSORS 2)
  add_executable(write_documents ${CMAKE_SOURCE_DIR}/tests/support/write_documents.c)
  target_link_libraries(write_documents PRIVATE sw_base)
  set_target_properties(write_documents PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME packed_runs
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_packed_runs.sh ${CMAKE_BINARY_DIR}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sw_test_properties(packed_runs PROPERTIES TIMEOUT 300 PROCESSORS 2)
  # Two ranks; four, eight and one by tests/soak.sh.
  add_test(NAME stages
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_stages.sh ${CMAKE_BINARY_DIR}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sw_test_properties(stages PROPERTIES TIMEOUT 300 PROCESSORS 2)
  add_test(NAME resume_eight_ranks
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_resume.sh ${CMAKE_BINARY_DIR} large
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sw_test_properties(resume_eight_ranks PROPERTIES TIMEOUT 900 PROCESSORS 2 RESOURCE_LOCK ranks)
  # A tensor of 268 MB; with 1 GB it takes minutes.
  add_test(NAME loading_a_large_tensor
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_loading.sh ${CMAKE_BINARY_DIR}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sw_test_properties(loading_a_large_tensor PROPERTIES TIMEOUT 900 PROCESSORS 2 RESOURCE_LOCK ranks)
  add_test(NAME flipped_bits
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_flips.sh ${CMAKE_BINARY_DIR} 16
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sw_test_properties(flipped_bits PROPERTIES TIMEOUT 900 PROCESSORS 2)
endif()

# What a shell asks of a folder of checkpoints.
if(TARGET sw_checkpoint_store)
  add_executable(check_store ${CMAKE_SOURCE_DIR}/tests/support/check_store.c)
  target_link_libraries(check_store PRIVATE sw_checkpoint_store sw_base)
  set_target_properties(check_store PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endif()

# Real jobs that are killed, whose file operations fail, two at once, and checkpoints that are
# damaged (tests/soak.sh has more).
if(TARGET runner AND TARGET check_store AND TARGET sw_collective_mpi AND NOT SW_SANITIZE)
  foreach(name kill faults two_jobs damages)
    set(count_of_kill 3)
    set(count_of_damages 6)
    set(count_of_faults 10)
    add_test(NAME ${name}_test
             COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_${name}.sh ${CMAKE_BINARY_DIR}
                     ${count_of_${name}}
             WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    sw_test_properties(${name}_test PROPERTIES TIMEOUT 600 PROCESSORS 2 RESOURCE_LOCK ranks)
  endforeach()
endif()
