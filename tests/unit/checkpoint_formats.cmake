# The files of a checkpoint as other programs have them.
sw_test(test_safetensors SOURCES test_safetensors.c LIBRARIES sw_checkpoint
        ARGS ${CMAKE_BINARY_DIR}/tests)
sw_test(test_adapter_config SOURCES test_adapter_config.c LIBRARIES sw_checkpoint)
sw_test(test_model_config SOURCES test_model_config.c LIBRARIES sw_checkpoint)
sw_test(test_model_folder SOURCES test_model_folder.c LIBRARIES sw_checkpoint sw_programs
        ARGS ${CMAKE_BINARY_DIR}/tests)
sw_test(test_export SOURCES test_export.c LIBRARIES sw_checkpoint sw_programs ARGS ${CMAKE_BINARY_DIR}/tests)
