# Not under the thread sanitizer, which knows nothing of Open MPI's own synchronisation; test_collective runs the same
# code there.
if(TARGET sw_collective_mpi AND MPIEXEC_EXECUTABLE AND NOT SW_SANITIZE MATCHES "thread")
  add_executable(test_collective_mpi collective_mpi.c ../unit/collective_reference.c)
  target_link_libraries(test_collective_mpi PRIVATE sw_collective_mpi m -Wl,--wrap=calloc,--wrap=process_vm_readv)
  set_target_properties(test_collective_mpi PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  # No single-copy mechanism: containers forbid process_vm_readv, and Open MPI then prints a warning per rank.
  # Leaks are not looked for: Open MPI leaves some behind.
  foreach(ranks 8 4 2)
    set(test test_collective_mpi)
    if(ranks LESS 8)
      set(test test_collective_mpi_${ranks})
    endif()
    add_test(NAME ${test}
             COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe --allow-run-as-root --mca
                     btl_vader_single_copy_mechanism none -np ${ranks}
                     $<TARGET_FILE:test_collective_mpi>)
    sw_test_properties(${test} PROPERTIES TIMEOUT 600
                         ENVIRONMENT "OMPI_MCA_rmaps_base_oversubscribe=1;ASAN_OPTIONS=detect_leaks=0"
                         PASS_REGULAR_EXPRESSION "collective_mpi: ok" PROCESSORS 2)
  endforeach()
endif()
