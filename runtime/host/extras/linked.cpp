// In a program that is linked with the static library, whose CMake target asks for this symbol.
#include "runtime/host/extras/extras.h"

extern "C" {
extern const bool reprise_extras_linked;
const bool reprise_extras_linked = [] {
  reprise::host::link_extras(reprise::host::extra_kernels());
  return true;
}();
}
