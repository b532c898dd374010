// The handles of libreprise_compiler are those of libreprise: this file takes the place of
// capi/handles/handle_table.cpp.
#include <cstring>

#include "capi/handles/shared_handles.h"

namespace reprise::capi {

Status Handles::check() {
  const char* const other = reprise_private_handles()->build;
  if (std::strcmp(other, REPRISE_BUILD) == 0) return {};
  return {Code::Usage,
          std::string("libreprise_compiler " REPRISE_BUILD " does not fit libreprise ") + other +
              "; install both libraries from one build"};
}

void* Handles::add(std::shared_ptr<void> object, std::string_view kind) {
  return reprise_private_handles()->add(std::move(object), kind);
}

Result<std::shared_ptr<void>> Handles::find(const void* handle, std::string_view kind) {
  RP_TRY(check());
  return reprise_private_handles()->find(handle, kind);
}

std::shared_ptr<void> Handles::remove(const void* handle, std::string_view kind) noexcept {
  return reprise_private_handles()->remove(handle, kind);
}

}  // namespace reprise::capi
