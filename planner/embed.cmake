# cmake -DOUTPUT=templates.c "-DINPUTS=a;b" -P embed.cmake: each file as an array of bytes that ends with 0,
# named sw_template_ and the file's name with _ for what C does not allow.
set(text "#include \"planner/template.h\"\n")
foreach(input IN LISTS INPUTS)
  get_filename_component(name ${input} NAME)
  string(MAKE_C_IDENTIFIER ${name} name)
  file(READ ${input} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1, " bytes "${bytes}")
  string(APPEND text "\nconst char sw_template_${name}[] = {\n    ${bytes}0x00};\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
