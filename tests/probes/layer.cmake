# A Vulkan layer that gives the driver faults: see layer/faults.h.
add_library(reprise_faults SHARED ${CMAKE_CURRENT_LIST_DIR}/layer/layer.cpp)
set(faults_folder ${CMAKE_BINARY_DIR}/lib/vulkan-faults)
set_target_properties(reprise_faults PROPERTIES OUTPUT_NAME VkLayer_reprise_faults
  LIBRARY_OUTPUT_DIRECTORY ${faults_folder} CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_link_libraries(reprise_faults PRIVATE reprise_warnings)
target_include_directories(reprise_faults PRIVATE ${PROJECT_SOURCE_DIR})
configure_file(${CMAKE_CURRENT_LIST_DIR}/layer/manifest.json.in ${faults_folder}/VkLayer_reprise_faults.json
               COPYONLY)
