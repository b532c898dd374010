# Tests of the Python package, with unittest. They need NumPy, but no torch.
if(TARGET reprise_native)
  set(python_environment ${test_environment}
      "PYTHONPATH=${CMAKE_BINARY_DIR}/python:${CMAKE_CURRENT_SOURCE_DIR}/python"
      "PYTHONDONTWRITEBYTECODE=1")
  add_test(NAME python COMMAND ${REPRISE_PYTHON} -m unittest discover
           -s ${CMAKE_CURRENT_SOURCE_DIR}/python -p "test_*.py"
           -t ${CMAKE_CURRENT_SOURCE_DIR}/python)
  # mypy --strict, ruff, and whether the extension's stub is what stubgen writes.
  add_test(NAME python_types COMMAND ${REPRISE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/python/check_types.py
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(python python_types PROPERTIES LABELS quick TIMEOUT ${quick_timeout}
                       ENVIRONMENT "${python_environment}")
  if(TARGET reprise_cuda_standin)
    add_test(NAME python_cuda COMMAND ${REPRISE_PYTHON} -m unittest test_cuda)
    set_tests_properties(python_cuda PROPERTIES LABELS quick TIMEOUT ${quick_timeout}
      ENVIRONMENT "${python_environment};LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/lib/cuda-standin;REPRISE_KEEP_SOURCE=1")
  endif()
  # The backend of torch.compile. Where PyTorch is not installed, it is skipped and says so.
  set(REPRISE_TORCH_PYTHON ${REPRISE_PYTHON} CACHE FILEPATH "An interpreter that has PyTorch")
  set(torch_tests ${CMAKE_CURRENT_SOURCE_DIR}/python/torch_backend)
  foreach(tier quick full)
    add_test(NAME python_torch_${tier} COMMAND ${REPRISE_TORCH_PYTHON} ${torch_tests}/run.py ${tier})
    set_tests_properties(python_torch_${tier} PROPERTIES LABELS ${tier} SKIP_RETURN_CODE 77
      TIMEOUT 3600 ENVIRONMENT "${python_environment}")
  endforeach()
endif()
