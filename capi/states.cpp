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

/// The rows of a state that grows; of another one the dims, and no rows.
Result<StateRows> rows_of(Session& session, const std::string& name, const plan::StateSlot** slot) {
  const auto& states = session.io().states;
  const auto found = std::ranges::find(states, name, &plan::StateSlot::name);
  *slot = found == states.end() ? nullptr : &*found;
  if (!*slot || (*slot)->grows()) return session.state_rows(name);  // or says that there is none
  StateRows out;
  out.dims = static_dims((*slot)->shape);
  return out;
}

uint64_t bytes_of(const plan::StateSlot& slot, const StateRows& rows) {
  uint64_t bytes = size_of(slot.dtype);
  for (const int64_t d : rows.dims) bytes *= static_cast<uint64_t>(d);
  return bytes;
}

Status write(Session& session, const std::string& name, std::span<const std::byte> bytes) {
  const plan::StateSlot* slot = nullptr;
  RP_ASSIGN(StateRows rows, rows_of(session, name, &slot));
  if (slot->grows()) {  // as many rows as the memory has
    int64_t& length = rows.dims[static_cast<size_t>(slot->axis)];
    length = 1;
    const uint64_t row = bytes_of(*slot, rows);
    length = row == 0 ? 0 : static_cast<int64_t>(bytes.size() / row);
  }
  const uint64_t expected = bytes_of(*slot, rows);
  if (slot->grows() && bytes.size() != expected)
    return invalid_input("state '" + name + "' grows, and " + std::to_string(bytes.size()) +
                         " bytes are no whole number of rows of the size that it has; "
                         "reprise_session_write_state_tensor takes a value with its dims");
  RP_TRY(check_size(name, expected, bytes.size()));
  return session.write_state(name, HostTensor::borrow(slot->dtype, rows.dims, bytes, nullptr));
}

Status describe_rows(Session& session, const std::string& name, reprise_state_rows* out) {
  const plan::StateSlot* slot = nullptr;
  RP_ASSIGN(const StateRows rows, rows_of(session, name, &slot));
  if (rows.dims.size() > REPRISE_MAX_RANK) return unsupported("'" + name + "' has a rank over 16");
  reprise_state_rows r = REPRISE_STATE_ROWS_INIT;
  r.axis = slot->axis;
  r.length = rows.length;
  r.capacity = rows.capacity;
  r.limit = rows.limit;
  r.bytes = bytes_of(*slot, rows);
  r.rank = static_cast<uint32_t>(rows.dims.size());
  std::ranges::copy(rows.dims, r.dims);
  write_struct(r, out);
  return {};
}

/// Calls a function of Session for the states that grow; `name` may be null.
reprise_status change(reprise_session* session, const char* name, int64_t rows,
                      Status (Session::*function)(const std::string&, int64_t),
                      reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (name && *name == 0) return {Code::Usage, "name is empty"};
    RP_ASSIGN(const auto held, find_handle(session));
    return (held->session().get()->*function)(name ? name : "", rows);
  });
}

Status hand_out(Result<std::shared_ptr<States>> made, reprise_states** out) {
  if (made.ok()) *out = make_handle(std::make_shared<reprise_states>(*std::move(made)));
  return made.status();
}

}  // namespace

Result<std::shared_ptr<States>> states_of(const reprise_states* states) {
  if (!states) return std::shared_ptr<States>();
  RP_ASSIGN(const auto held, find_handle(states));
  return held->states;
}

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

reprise_status reprise_session_write_state_tensor(reprise_session* session,
                                                  const reprise_tensor* value,
                                                  reprise_error* error) {
  return guarded(error, [&]() -> Status {
    CallBindings call;
    RP_TRY(bind_all({value, 1, nullptr, 0}, call));
    const Binding& given = call.inputs.front();
    if (!given.host || given.row_pitch != 0)
      return invalid_input("state '" + given.name + "': its value must be in host memory, dense");
    RP_ASSIGN(const auto held, find_handle(session));
    return held->session()->write_state(given.name, *given.host);
  });
}

reprise_status reprise_session_state_rows(reprise_session* session, const char* name,
                                          reprise_state_rows* rows, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!rows) return missing("rows");
    RP_TRY(check_arguments(name, rows, 1));
    RP_TRY(check_out(rows, "reprise_state_rows"));
    RP_ASSIGN(const auto held, find_handle(session));
    return describe_rows(*held->session(), name, rows);
  });
}

reprise_status reprise_session_truncate_states(reprise_session* session, const char* name,
                                               int64_t length, reprise_error* error) {
  return change(session, name, length, &Session::truncate_states, error);
}

reprise_status reprise_session_reserve_states(reprise_session* session, const char* name,
                                              int64_t rows, reprise_error* error) {
  return change(session, name, rows, &Session::reserve_states, error);
}

reprise_status reprise_session_limit_states(reprise_session* session, const char* name,
                                            int64_t rows, reprise_error* error) {
  return change(session, name, rows, &Session::limit_states, error);
}

reprise_status reprise_session_reset_states(reprise_session* session, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(session));
    return held->session()->reset_states();
  });
}

reprise_status reprise_states_create(reprise_session* session, reprise_states** out,
                                     reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!out) return missing("out");
    RP_ASSIGN(const auto held, find_handle(session));
    return hand_out(held->session()->make_states(), out);
  });
}

reprise_status reprise_states_fork(reprise_states* states, int64_t length, reprise_states** out,
                                   reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!out) return missing("out");
    if (length < -1) return {Code::Usage, "length must be -1, for all rows, or at least 0"};
    RP_ASSIGN(const auto held, find_handle(states));
    return hand_out(held->states->fork(length), out);
  });
}

reprise_status reprise_states_get_info(reprise_states* states, reprise_states_info* info,
                                       reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!info) return missing("info");
    RP_TRY(check_out(info, "reprise_states_info"));
    RP_ASSIGN(const auto held, find_handle(states));
    RP_ASSIGN(const States::Info has, held->states->info());
    reprise_states_info out = REPRISE_STATES_INFO_INIT;
    out.bytes = has.bytes;
    out.shared_bytes = has.shared_bytes;
    out.length = has.length;
    write_struct(out, info);
    return {};
  });
}

void reprise_states_free(reprise_states* states) {
  free_handle(states);
}

reprise_status reprise_session_bind_states(reprise_session* session, reprise_states* states,
                                           reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(session));
    RP_ASSIGN(auto given, states_of(states));
    return held->session()->bind_states(given);
  });
}
