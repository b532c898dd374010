# Tests of the Python package, with unittest. Those of this folder need NumPy, but no torch.
if(NOT TARGET reprise_native)
  return()
endif()
set(python_tests ${CMAKE_CURRENT_SOURCE_DIR}/python)
set(python_results ${CMAKE_BINARY_DIR}/test-results)
set(python_environment ${test_environment}
    "PYTHONPATH=${CMAKE_BINARY_DIR}/python:${python_tests}" "PYTHONDONTWRITEBYTECODE=1")
add_test(NAME python COMMAND ${REPRISE_PYTHON} ${python_tests}/results.py ${python_results}/python.quick.xml)
# mypy --strict, ruff, and whether the extension's stub is what stubgen writes.
add_test(NAME python_types COMMAND ${REPRISE_PYTHON} ${python_tests}/check_types.py
         WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(python python_types PROPERTIES LABELS quick TIMEOUT ${quick_timeout}
                     ENVIRONMENT "${python_environment}")
if(TARGET reprise_cuda_standin)
  add_test(NAME python_cuda COMMAND ${REPRISE_PYTHON} ${python_tests}/results.py
           ${python_results}/python_cuda.quick.xml test_cuda)
  set_tests_properties(python_cuda PROPERTIES LABELS quick TIMEOUT ${quick_timeout}
    ENVIRONMENT "${python_environment};LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/lib/cuda-standin;REPRISE_KEEP_SOURCE=1")
endif()

# The backend of torch.compile, and the examples. Without PyTorch they are skipped and say so. The
# environment of tools/torch may still be in the making while this is configured.
execute_process(COMMAND ${PROJECT_SOURCE_DIR}/tools/torch --where OUTPUT_VARIABLE torch_python
                OUTPUT_STRIP_TRAILING_WHITESPACE)
set(torch_tests ${python_tests}/torch_backend/run.py)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${torch_tests})  # lists the modules
# Each module is a test with a time limit of its own, so that modules run side by side.
set(torch_timeout_quick ${quick_timeout})
set(torch_timeout_full 7200)
foreach(tier quick full)
  execute_process(COMMAND ${REPRISE_PYTHON} ${torch_tests} --list ${tier} OUTPUT_VARIABLE modules
                  COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" modules "${modules}")
  foreach(module ${modules})
    string(REPLACE "torch_test_" "torch_" name python_torch_${module})
    add_test(NAME ${name} COMMAND ${REPRISE_PYTHON} ${torch_tests} ${module} ${python_results}/${name}.${tier}.xml)
    set_tests_properties(${name} PROPERTIES LABELS ${tier} SKIP_RETURN_CODE 77 TIMEOUT ${torch_timeout_${tier}}
                         ENVIRONMENT "${python_environment};REPRISE_TEST_TORCH=${torch_python}")
  endforeach()
endforeach()

# Models of many steps against PyTorch, in the formats of users.
set(families ${CMAKE_CURRENT_SOURCE_DIR}/families)
set(families_results ${CMAKE_BINARY_DIR}/test-results/families)
add_test(NAME families_loops COMMAND ${torch_python} ${families}/loops.py ${families_results}/loops)
add_test(NAME families_smollm2
         COMMAND ${torch_python} ${families}/smollm2.py
                 ${PROJECT_SOURCE_DIR}/.cache/chat/SmolLM2-135M-Instruct.Q4_1.gguf
                 $<TARGET_FILE:reprise_cli> ${families_results}/smollm2)
set_tests_properties(families_loops families_smollm2 PROPERTIES LABELS full TIMEOUT 7200
                     SKIP_RETURN_CODE 77 ENVIRONMENT "${python_environment}")

# The wheels that are released: built, audited and used in empty environments.
add_test(NAME python_wheels COMMAND ${PROJECT_SOURCE_DIR}/tools/wheel)
set_tests_properties(python_wheels PROPERTIES LABELS full TIMEOUT 7200)
