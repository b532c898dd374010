# Writes a header with the identity of the classes that pass between the runtime and libreprise_extras:
# cmake -DROOT=... -DCOMPILER=... -DOUTPUT=... -P host_build.cmake
file(GLOB headers ${ROOT}/runtime/base/*.h ${ROOT}/runtime/expr/*.h ${ROOT}/runtime/operators/*.h ${ROOT}/runtime/host/*.h)
list(SORT headers)
include(${CMAKE_CURRENT_LIST_DIR}/identity.cmake)
write_identity(${OUTPUT} REPRISE_HOST_BUILD "${COMPILER}" ${headers})
