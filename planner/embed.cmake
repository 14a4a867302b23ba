# cmake -DOUTPUT=templates.c -DHEADER=planner/command/template.h -DPREFIX=sw_template_ "-DINPUTS=a;b" -P embed.cmake:
# each file as an array of bytes that ends with 0, named by the prefix and the file's name with _ for what C
# does not allow.
set(text "#include \"${HEADER}\"\n")
foreach(input IN LISTS INPUTS)
  get_filename_component(name ${input} NAME)
  string(MAKE_C_IDENTIFIER ${name} name)
  file(READ ${input} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1, " bytes "${bytes}")
  string(APPEND text "\nconst char ${PREFIX}${name}[] = {\n    ${bytes}0x00};\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
