# clang only. The sources are compiled in, so that they are instrumented too.
if(SW_FUZZ)
  set(sw_core ${CMAKE_SOURCE_DIR}/core)
  add_executable(fuzz_mesh_request fuzz_mesh_request.c ${sw_core}/sharding/mesh.c
                 ${sw_core}/sharding/mesh_request.c ${sw_core}/error.c)
  target_compile_options(fuzz_mesh_request PRIVATE -fsanitize=fuzzer,address,undefined
                         -fno-sanitize-recover=undefined)
  target_link_options(fuzz_mesh_request PRIVATE -fsanitize=fuzzer,address,undefined)
endif()
