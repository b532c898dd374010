# Writes the documented programs of SOURCE_DIR to WORK_DIR: the very text of README, docs/embedding.md,
# docs/generation.md and the public headers.
file(READ ${SOURCE_DIR}/README.md readme)
if(NOT readme MATCHES "<!-- consumer:begin -->.*```cpp\n(.*)```.*<!-- consumer:end -->")
  message(FATAL_ERROR "README.md holds no example between its consumer markers")
endif()
set(example "${CMAKE_MATCH_1}")
string(REGEX REPLACE "\n```.*" "\n" example "${example}")
file(WRITE ${WORK_DIR}/readme.cpp "${example}")
if(NOT readme MATCHES "<!-- consumer:c:begin -->\n```c\n(.*)```\n<!-- consumer:c:end -->")
  message(FATAL_ERROR "README.md holds no example in C between its consumer markers")
endif()
string(REGEX REPLACE "\n([^\n])" "\n  \\1" excerpt "  ${CMAKE_MATCH_1}")
file(WRITE ${WORK_DIR}/readme_c.c "#include <reprise/reprise.h>
#include <stdio.h>

int main(void) {
  reprise_error error = {REPRISE_OK, \"\"};
  reprise_package* package = NULL;
  reprise_device* device = NULL;
  reprise_session* session = NULL;
  float x[60], y[60];
  for (int i = 0; i < 60; ++i) x[i] = 0.5F;
${excerpt}  if (error.status != REPRISE_OK) return fprintf(stderr, \"%s\\n\", error.message), 1;
  for (int i = 0; i < 60; ++i) printf(\"%g \", (double)y[i]);
  reprise_session_free(session);
  reprise_device_free(device);
  reprise_package_free(package);
  return 0;
}
")
file(READ ${SOURCE_DIR}/docs/embedding.md embedding)
foreach(program minimal frame game image lend graph)
  set(file ${WORK_DIR}/${program}.cpp)
  if(program STREQUAL minimal)
    set(file ${WORK_DIR}/minimal.c)
  endif()
  if(NOT embedding MATCHES "<!-- consumer:${program}:begin -->\n```(c|cpp)\n(.*)```\n<!-- consumer:${program}:end -->")
    message(FATAL_ERROR "docs/embedding.md holds no example between its markers consumer:${program}")
  endif()
  file(WRITE ${file} "${CMAKE_MATCH_2}")
endforeach()

file(READ ${SOURCE_DIR}/docs/generation.md generation)
if(NOT generation MATCHES "<!-- consumer:chat:begin -->\n```c\n(.*)```\n<!-- consumer:chat:end -->")
  message(FATAL_ERROR "docs/generation.md holds no example between its markers consumer:chat")
endif()
string(REGEX REPLACE "\n([^\n])" "\n  \\1" excerpt "  ${CMAKE_MATCH_1}")
# A letter is a token, and an answer has four.
file(WRITE ${WORK_DIR}/chat.c "#include <reprise/reprise.h>
#include <stdio.h>

static int said;

static size_t encode(const char* line, int64_t* ids, size_t most) {
  size_t n = 0;
  for (said = 0; *line >= 'a' && *line <= 'z' && n < most; ++line) ids[n++] = *line - 'a' + 5;
  return n;
}

static int ends(int64_t id) {
  return id < 0 || said == 4;
}

static void show(int64_t id) {
  printf(\"%d \", (int)id);
  ++said;
}

int main(int argc, char** argv) {
  reprise_error error = {REPRISE_OK, \"\"};
  reprise_package* package = NULL;
  reprise_device* device = NULL;
  reprise_session* session = NULL;
  char line[256];
  if (argc != 2 || reprise_package_open(argv[1], &package, &error) != REPRISE_OK ||
      reprise_device_open(\"host\", NULL, &device, &error) != REPRISE_OK ||
      reprise_session_create(package, device, NULL, &session, &error) != REPRISE_OK)
    return fprintf(stderr, \"%s\\n\", error.message), 1;
${excerpt}  if (error.status != REPRISE_OK) return fprintf(stderr, \"%s\\n\", error.message), 1;
  reprise_session_free(session);
  reprise_device_free(device);
  reprise_package_free(package);
  return 0;
}
")

# Each block of code in a header is a program, in_header_NUMBER.
set(in_headers 0)
file(GLOB headers ${SOURCE_DIR}/include/reprise/*)
foreach(header ${headers})
  file(READ ${header} text)
  string(REGEX MATCHALL "@code" blocks "${text}")
  foreach(block ${blocks})
    if(NOT text MATCHES "@code{[.](c|cpp)}\n")
      message(FATAL_ERROR "${header}: a block of code must begin with @code{.c} or @code{.cpp}")
    endif()
    set(suffix ${CMAKE_MATCH_1})
    string(FIND "${text}" "@code{" begin)
    string(SUBSTRING "${text}" ${begin} -1 text)
    string(FIND "${text}" "@endcode" end)
    string(SUBSTRING "${text}" 0 ${end} program)
    string(SUBSTRING "${text}" ${end} -1 text)
    string(REGEX REPLACE "\n *(///|\\*) ?" "\n" program "${program}")
    string(REGEX REPLACE "^@code{[.a-z]*}\n" "" program "${program}")
    math(EXPR in_headers "${in_headers} + 1")
    file(WRITE ${WORK_DIR}/in_header_${in_headers}.${suffix} "${program}")
  endforeach()
endforeach()
if(in_headers EQUAL 0)
  message(FATAL_ERROR "the headers in ${SOURCE_DIR}/include/reprise have no examples")
endif()
