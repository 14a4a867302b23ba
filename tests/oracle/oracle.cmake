if(TARGET sw_runner AND TARGET sw_device_cpu AND TARGET sw_collective)
  find_package(Threads REQUIRED)
  sw_test(test_oracle SOURCES test_oracle.c ${CMAKE_SOURCE_DIR}/tests/support/harness.c
          LIBRARIES sw_runner sw_device_cpu sw_collective sw_programs sw_sharding sw_base Threads::Threads
          ARGS tests/oracle/fixtures)
  sw_test(test_mask_fixtures SOURCES test_mask_fixtures.c
          LIBRARIES sw_runner sw_device_cpu sw_collective sw_programs sw_sharding sw_base)
  sw_test(test_families SOURCES test_families.c ${CMAKE_SOURCE_DIR}/tests/support/harness.c
          LIBRARIES sw_config sw_runner sw_device_cpu sw_collective sw_programs sw_sharding sw_base
          Threads::Threads ARGS tests/oracle/fixtures/families)
  sw_test(test_adapter_fixtures SOURCES test_adapter_fixtures.c
          ${CMAKE_SOURCE_DIR}/tests/support/harness.c
          LIBRARIES sw_config sw_runner sw_device_cpu sw_collective sw_programs sw_sharding sw_base
          Threads::Threads)
  sw_test(test_packed SOURCES test_packed.c ${CMAKE_SOURCE_DIR}/tests/support/harness.c
          LIBRARIES sw_config sw_runner sw_device_cpu sw_collective sw_programs sw_sharding sw_base
          Threads::Threads ARGS ${CMAKE_BINARY_DIR}/tests)
  sw_test(test_rope_parameters SOURCES test_rope_parameters.c LIBRARIES sw_config sw_programs sw_base
          ARGS tests/oracle/fixtures/rope_parameters.txt)
  # "5": each family on every fifth mesh; "1" on all of them.
  set(sw_stride 5)
  if(SW_SANITIZE)
    set(sw_stride 17)
  endif()
  sw_test(test_family_texts SOURCES test_family_texts.c ${CMAKE_SOURCE_DIR}/tests/support/harness.c
          ${CMAKE_SOURCE_DIR}/tests/support/texts.c
          LIBRARIES sw_config sw_runner sw_device_cpu sw_collective sw_programs sw_sharding sw_base
          Threads::Threads ARGS tests/oracle/fixtures/families ${sw_stride})
  sw_label(threads test_oracle)
endif()
# Tokenizers and what PyPI's `tokenizers` makes of texts with them: tokenizer_oracle.py.
if(TARGET sw_text)
  pkg_check_modules(SW_JANSSON REQUIRED IMPORTED_TARGET jansson)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/tests/tokenizers)
  add_test(NAME unpack_tokenizers
           COMMAND ${CMAKE_COMMAND} -E chdir ${CMAKE_BINARY_DIR}/tests/tokenizers
                   ${CMAKE_COMMAND} -E tar xf ${CMAKE_CURRENT_SOURCE_DIR}/fixtures/tokenizers.tar.xz)
  sw_test_properties(unpack_tokenizers PROPERTIES FIXTURES_SETUP tokenizers)
  sw_test(test_tokenizers SOURCES test_tokenizers.c LIBRARIES sw_text sw_base PkgConfig::SW_JANSSON
          ARGS ${CMAKE_BINARY_DIR}/tests/tokenizers)
  sw_test_properties(test_tokenizers PROPERTIES FIXTURES_REQUIRED tokenizers)
  # Folders of transformers 4 and 5, written and edited: tokenizer_folders.py.
  # anew: folders of another archive would be counted
  add_test(NAME unpack_tokenizer_folders
           COMMAND bash -c "rm -rf \"$1\" && mkdir -p \"$1\" && cd \"$1\" && \"$2\" -E tar xf \"$3\"" unpack
                   ${CMAKE_BINARY_DIR}/tests/tokenizer_folders ${CMAKE_COMMAND}
                   ${CMAKE_CURRENT_SOURCE_DIR}/fixtures/tokenizer_folders.tar.xz)
  sw_test_properties(unpack_tokenizer_folders PROPERTIES FIXTURES_SETUP tokenizer_folders)
  sw_test(test_tokenizer_folders SOURCES test_tokenizer_folders.c
          LIBRARIES sw_text sw_base PkgConfig::SW_JANSSON
          ARGS ${CMAKE_BINARY_DIR}/tests/tokenizer_folders 10)
  sw_test_properties(test_tokenizer_folders PROPERTIES FIXTURES_REQUIRED tokenizer_folders)
  # Conversations whose tokens transformers counts: counted_chats.py.
  add_test(NAME unpack_counted_chats
           COMMAND bash -c "rm -rf \"$1\" && mkdir -p \"$1\" && cd \"$1\" && \"$2\" -E tar xf \"$3\"" unpack
                   ${CMAKE_BINARY_DIR}/tests/counted_chats ${CMAKE_COMMAND}
                   ${CMAKE_CURRENT_SOURCE_DIR}/fixtures/counted_chats.tar.xz)
  sw_test_properties(unpack_counted_chats PROPERTIES FIXTURES_SETUP counted_chats)
  sw_test(test_counted_chats SOURCES test_counted_chats.c LIBRARIES sw_text sw_base PkgConfig::SW_JANSSON
          ARGS ${CMAKE_BINARY_DIR}/tests/counted_chats)
  sw_test_properties(test_counted_chats PROPERTIES FIXTURES_REQUIRED counted_chats)
  # no tests: chat_templates.py and counted_chats.py run them beside transformers
  foreach(sw_program render_chats count_chats)
    add_executable(${sw_program} EXCLUDE_FROM_ALL ${sw_program}.c)
    target_link_libraries(${sw_program} PRIVATE sw_text sw_base PkgConfig::SW_JANSSON)
    set_target_properties(${sw_program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  endforeach()
endif()
# Texts of Python's json, made anew by json_texts.py: SEED COUNT FILE.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND AND TARGET sw_text)
  add_test(NAME make_json_texts COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/json_texts.py
                                        1 200 ${CMAKE_BINARY_DIR}/tests/json_texts.txt)
  sw_test_properties(make_json_texts PROPERTIES FIXTURES_SETUP json_texts)
  sw_test(test_json_texts SOURCES test_json_texts.c LIBRARIES sw_text sw_checkpoint sw_config sw_base PkgConfig::SW_JANSSON
          ARGS ${CMAKE_BINARY_DIR}/tests/json_texts.txt)
  sw_test_properties(test_json_texts PROPERTIES FIXTURES_REQUIRED json_texts)
  # Numbers in templates, drawn: SEED COUNT FILE.
  add_test(NAME make_jinja_numbers COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/jinja_numbers.py
                                           1 3000 ${CMAKE_BINARY_DIR}/tests/jinja_numbers.txt)
  sw_test_properties(make_jinja_numbers PROPERTIES FIXTURES_SETUP jinja_numbers)
  sw_test(test_jinja_numbers SOURCES test_jinja_numbers.c LIBRARIES sw_text sw_base PkgConfig::SW_JANSSON
          ARGS ${CMAKE_BINARY_DIR}/tests/jinja_numbers.txt)
  sw_test_properties(test_jinja_numbers PROPERTIES FIXTURES_REQUIRED jinja_numbers)
  sw_label(checked test_json_texts test_jinja_numbers)
endif()
