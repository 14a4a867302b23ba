# Manifests, the folder of checkpoints with faults at every file operation, the lock.
if(TARGET sw_checkpoint_store)
  # For any program: LD_PRELOAD (tests/support/fault_shim.h).
  set(sw_fault_shim ${CMAKE_SOURCE_DIR}/tests/support/fault_shim.c)
  add_library(fault_shim SHARED ${sw_fault_shim})
  set_target_properties(fault_shim PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

  sw_test(test_manifest SOURCES test_manifest.c LIBRARIES sw_checkpoint_store
          ARGS ${CMAKE_BINARY_DIR}/tests)
  sw_test(test_store SOURCES test_store.c LIBRARIES sw_checkpoint_store
          ARGS ${CMAKE_BINARY_DIR}/tests)
  sw_test(test_save_file SOURCES test_save_file.c LIBRARIES sw_checkpoint_store
          ARGS ${CMAKE_BINARY_DIR}/tests)
  if(EXISTS /dev/shm) # a file system without direct I/O, or one that only takes it for the page cache's
    add_test(NAME test_save_file_in_memory COMMAND test_save_file /dev/shm)
  endif()
  sw_test(test_lock SOURCES test_lock.c LIBRARIES sw_checkpoint_store
          ARGS ${CMAKE_BINARY_DIR}/tests)
  sw_test(test_store_faults SOURCES test_store_faults.c ${sw_fault_shim}
          LIBRARIES sw_checkpoint_store ARGS ${CMAKE_BINARY_DIR}/tests 7)
  # "7": every seventh operation; all of them in tests/soak.sh
  sw_label(threads test_lock)

  # The commands.
  add_executable(make_checkpoints make_checkpoints.c)
  target_link_libraries(make_checkpoints PRIVATE sw_checkpoint_store)
  set_target_properties(make_checkpoints PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME test_checkpoint_cli
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_checkpoint_cli.sh $<TARGET_FILE:runner>
                   $<TARGET_FILE:make_checkpoints> $<TARGET_FILE:fault_shim>
                   ${CMAKE_BINARY_DIR}/tests/checkpoint_cli)
endif()
