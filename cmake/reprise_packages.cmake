# Packages: `cpack -G DEB` and `cpack -G TGZ` in the build folder. One package for each component of
# reprise_install.cmake.
set(CPACK_PACKAGE_NAME reprise)
set(CPACK_PACKAGE_VENDOR "The Reprise authors")
set(CPACK_PACKAGE_CONTACT "The Reprise authors <reprise@example.org>")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
if(NOT REPRISE_SHARED)
  return()  # packages are for shared libraries
endif()
set(CPACK_COMPONENTS_ALL runtime dev)
set(reprise_linked "libreprise${REPRISE_ABI_VERSION} (= ${PROJECT_VERSION}-1)")
if(REPRISE_COMPILER)
  list(APPEND CPACK_COMPONENTS_ALL compiler)
  string(APPEND reprise_linked ", libreprise-compiler${REPRISE_ABI_VERSION} (= ${PROJECT_VERSION}-1)")
endif()
if(REPRISE_TOOLS)
  list(APPEND CPACK_COMPONENTS_ALL tools)
endif()
if(TARGET reprise_images)
  list(APPEND CPACK_COMPONENTS_ALL images)
endif()
find_program(GZIP gzip)
if(NOT GZIP)
  return()
endif()

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)

# reprise_deb(COMPONENT PACKAGE SECTION SUMMARY DESCRIPTION [DEPENDS text]): the fields of one package, and
# the two documents that Debian's policy asks for.
function(reprise_deb component package section summary description)
  cmake_parse_arguments(ARG "" "DEPENDS" "" ${ARGN})
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${ARG_DEPENDS}" PARENT_SCOPE)
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${description}" PARENT_SCOPE)
  # Only CPack's installation has a folder of documents for each package.
  install(FILES ${PROJECT_BINARY_DIR}/debian/copyright ${PROJECT_BINARY_DIR}/debian/changelog.Debian.gz
          DESTINATION share/doc/${package} COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

# The year and the day are those of the sources, so that equal sources make equal packages.
find_package(Git QUIET)
set(reprise_date "Thu, 01 Jan 1970 00:00:00 +0000")
if(Git_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${PROJECT_SOURCE_DIR} log -1 --format=%cD OUTPUT_VARIABLE found
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(reprise_date "${found}")
  endif()
endif()
file(CONFIGURE OUTPUT debian/changelog.Debian CONTENT
"reprise (${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Version ${PROJECT_VERSION}; CHANGELOG.md of the sources lists the changes.

 -- ${CPACK_PACKAGE_CONTACT}  ${reprise_date}
")
execute_process(COMMAND ${GZIP} -9nkf ${PROJECT_BINARY_DIR}/debian/changelog.Debian)
file(READ ${PROJECT_SOURCE_DIR}/NOTICE reprise_notice)
file(CONFIGURE OUTPUT debian/copyright CONTENT
"${reprise_notice}
On Debian systems, the full text of the Apache License, Version 2.0 is in
/usr/share/common-licenses/Apache-2.0.
" @ONLY)

set(version "${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")
reprise_deb(runtime libreprise${REPRISE_ABI_VERSION} libs "runtime of compiled models"
"Reprise runs models that were compiled to packages, from one recording, on any
device with Vulkan, on NVIDIA GPUs with CUDA, and on the host. This package
contains the library that applications ship.")
reprise_deb(compiler libreprise-compiler${REPRISE_ABI_VERSION} libs "compiler of ONNX models"
"Reprise compiles ONNX models to packages of fused GPU kernels. This package
contains the compiler as a library."
  DEPENDS "libreprise${REPRISE_ABI_VERSION} (= ${version})")
reprise_deb(images libreprise-images libs "decoder of images for models"
"Reprise opens this library when a model with the operator ImageDecoder is run.")
reprise_deb(dev libreprise-dev libdevel "headers and static libraries of Reprise"
"Reprise compiles ONNX models to fused GPU kernels and runs them on any device
with Vulkan. This package contains what is needed to build applications."
  DEPENDS "${reprise_linked}")
reprise_deb(tools reprise-tools science "command line of Reprise, and sample applications"
"Reprise compiles ONNX models to fused GPU kernels and runs them on any device
with Vulkan. This package contains the command line, which compiles, explains,
measures and verifies models, and sample applications.")
# What packages need that are linked with the libraries, and that the linker's cache has them.
file(WRITE ${PROJECT_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
foreach(pair runtime,reprise,libreprise compiler,reprise_compiler,libreprise-compiler)
  string(REPLACE "," ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 library)
  list(GET pair 2 package)
  string(TOUPPER ${component} upper)
  file(WRITE ${PROJECT_BINARY_DIR}/debian/${component}/shlibs
       "lib${library} ${REPRISE_ABI_VERSION} ${package}${REPRISE_ABI_VERSION} (>= ${PROJECT_VERSION})\n")
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA
      ${PROJECT_BINARY_DIR}/debian/${component}/shlibs ${PROJECT_BINARY_DIR}/debian/triggers)
endforeach()
set(CPACK_DEBIAN_IMAGES_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/triggers)
include(CPack)
