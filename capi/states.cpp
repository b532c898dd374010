// The C interface over the states of sessions.
#include <algorithm>
#include <cstring>

#include "capi/api.h"

namespace reprise::capi {
namespace {

Status check_arguments(const char* name, const void* data, size_t bytes) {
  if (!name) return {Code::Usage, "name is null"};
  return data || bytes == 0 ? Status() : Status(Code::Usage, "data is null");
}

Status check_size(const std::string& name, size_t expected, size_t bytes) {
  if (bytes == expected) return {};
  return invalid_input("state '" + name + "' has " + std::to_string(expected) +
                       " bytes, but the memory given for it has " + std::to_string(bytes));
}

Status read(Session& session, const std::string& name, std::span<std::byte> out) {
  RP_ASSIGN(const HostTensor value, session.read_state(name));
  RP_TRY(check_size(name, value.bytes().size(), out.size()));
  if (!out.empty()) std::memcpy(out.data(), value.bytes().data(), out.size());
  return {};
}

Status write(Session& session, const std::string& name, std::span<const std::byte> bytes) {
  const auto& states = session.io().states;
  const auto slot = std::ranges::find(states, name, &plan::StateSlot::name);
  if (slot == states.end()) return session.write_state(name, {});  // which says that there is none
  HostTensor value(slot->dtype, static_dims(slot->shape));
  RP_TRY(check_size(name, value.bytes().size(), bytes.size()));
  if (!bytes.empty()) std::memcpy(value.mutable_bytes().data(), bytes.data(), bytes.size());
  return session.write_state(name, value);
}

}  // namespace
}  // namespace reprise::capi

using namespace reprise;
using namespace reprise::capi;

reprise_status reprise_session_read_state(reprise_session* session, const char* name, void* data,
                                          size_t bytes, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_TRY(check_arguments(name, data, bytes));
    RP_ASSIGN(const auto held, find_handle(session));
    return read(*held->session(), name, {static_cast<std::byte*>(data), bytes});
  });
}

reprise_status reprise_session_write_state(reprise_session* session, const char* name,
                                           const void* data, size_t bytes, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_TRY(check_arguments(name, data, bytes));
    RP_ASSIGN(const auto held, find_handle(session));
    return write(*held->session(), name, {static_cast<const std::byte*>(data), bytes});
  });
}

reprise_status reprise_session_save_states(reprise_session* session, const char* path,
                                           reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!path) return {Code::Usage, "path is null"};
    RP_ASSIGN(const auto held, find_handle(session));
    return held->session()->save_states(path);
  });
}

reprise_status reprise_session_load_states(reprise_session* session, const char* path,
                                           reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!path) return {Code::Usage, "path is null"};
    RP_ASSIGN(const auto held, find_handle(session));
    return held->session()->load_states(path);
  });
}

reprise_status reprise_session_reset_states(reprise_session* session, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(session));
    return held->session()->reset_states();
  });
}
