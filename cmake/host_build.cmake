# Writes a header with the identity of the classes that pass between the runtime and libreprise_extras:
# cmake -DROOT=... -DCOMPILER=... -DOUTPUT=... -P host_build.cmake
file(GLOB headers ${ROOT}/runtime/base/*.h ${ROOT}/runtime/expr/*.h ${ROOT}/runtime/operators/*.h ${ROOT}/runtime/host/*.h)
list(SORT headers)
set(hashes "${COMPILER}")
foreach(header ${headers})
  file(SHA256 ${header} hash)
  string(APPEND hashes ${hash})
endforeach()
string(SHA256 id "${hashes}")
string(SUBSTRING ${id} 0 16 id)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define REPRISE_HOST_BUILD \"${id}\"\n")
