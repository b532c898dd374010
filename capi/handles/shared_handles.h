// The one thing that libreprise and libreprise_compiler share besides the C interface: the table of
// handles. The compiler's library has its own copy of the runtime's code, which it does not export,
// so both libraries must be of the same build.
#pragma once

#include "capi/handles/handles.h"
#include "reprise_build_id.h"

namespace reprise::capi {

struct SharedHandles {
  const char* build;  // of libreprise: its version, and the identity of the runtime's archives
  decltype(&Handles::add) add;
  decltype(&Handles::find) find;
  decltype(&Handles::remove) remove;
};

}  // namespace reprise::capi

extern "C" REPRISE_API const reprise::capi::SharedHandles* reprise_private_handles(void);

#define REPRISE_BUILD REPRISE_VERSION " (build " REPRISE_BUILD_ID ")"
