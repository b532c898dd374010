// What libreprise gives libreprise_compiler.
#include "capi/handles/shared_handles.h"

const reprise::capi::SharedHandles* reprise_private_handles(void) {
  using reprise::capi::Handles;
  static constexpr reprise::capi::SharedHandles shared{REPRISE_BUILD, Handles::add, Handles::find,
                                                       Handles::remove};
  return &shared;
}
