# The API reference: nothing public is undocumented, and tools/api-reference works. It is about sources, so one
# build tests it.
if(REPRISE_ASAN OR REPRISE_TSAN OR REPRISE_FUZZ)
  return()
endif()
set(api_python ${REPRISE_PYTHON})
if(NOT api_python)  # without pdoc: the headers alone
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(api_python ${Python3_EXECUTABLE})
endif()
add_test(NAME api COMMAND ${api_python} ${CMAKE_CURRENT_SOURCE_DIR}/python/results.py
         ${CMAKE_BINARY_DIR}/test-results/api.quick.xml test_headers test_docstrings test_reference)
set_tests_properties(api PROPERTIES LABELS quick TIMEOUT ${quick_timeout}
  ENVIRONMENT "PYTHONPATH=${CMAKE_CURRENT_SOURCE_DIR}/api;PYTHONDONTWRITEBYTECODE=1")
