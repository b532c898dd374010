// The C interface over values: strings, sequences, optionals and maps.
#include "capi/api.h"
#include "runtime/run/session_io.h"

namespace reprise::capi {
namespace {

Status wrong_size(const std::string& subject, const HostTensor& type, size_t needs, size_t given) {
  return invalid_input(subject + " " + describe(type.dtype(), type.dims()) + " needs " +
                       std::to_string(needs) + " bytes, " + std::to_string(given) + " are given");
}

Result<DType> type_of(reprise_kind kind, reprise_dtype dtype) {
  // A C caller can pass any number.
  const auto number = static_cast<uint32_t>(dtype);
  if (static_cast<uint32_t>(kind) > REPRISE_KIND_SEQUENCE_OF_STRING_MAPS || number > 31 ||
      !is_dtype(static_cast<uint8_t>(number))) {
    return Status(Code::Usage, "there is no kind " + std::to_string(static_cast<uint32_t>(kind)) +
                                   " with dtype " + std::to_string(number));
  }
  return in_container(static_cast<Container>(kind), static_cast<DType>(number));
}

}  // namespace

Status read_strings(const reprise_string* from, HostTensor& to) {
  for (size_t i = 0; i < to.mutable_strings().size(); ++i) {
    if (from[i].size == 0) continue;
    if (!from[i].data) return missing("the data of a string");
    to.mutable_strings()[i].assign(from[i].data, from[i].size);
  }
  return {};
}

Status read_value(const reprise_tensor& from, const std::string* input, HostTensor& to) {
  const auto subject = [&] { return input ? "input '" + *input + "'" : "the tensor"; };
  if (from.value) {
    auto held = find_handle(from.value);
    if (!held.ok()) return held.status().with_context(subject());
    to = (*held)->value;
    return {};
  }
  const std::span<const int64_t> dims(from.dims, from.rank);
  const auto number = static_cast<uint32_t>(dtype_number(from));
  if (number > 31 || !is_dtype(static_cast<uint8_t>(number)))
    return invalid_input(subject() + " has the unknown dtype " +
                         std::to_string(static_cast<int32_t>(number)));
  const auto dtype = static_cast<DType>(number);
  const auto count = checked_element_count(dims, dtype);
  if (!count.ok()) return invalid_input(subject() + ": " + count.status().message());
  const bool strings = dtype == DType::String;
  size_t bytes = static_cast<size_t>(*count) * (strings ? sizeof(reprise_string) : size_of(dtype));
  if (from.row_pitch != 0 && !strings) {
    if (dims.empty()) return invalid_input(subject() + " has no rows, but a row pitch");
    const Rows rows = rows_of(dims, dtype, from.row_pitch);
    RP_TRY(check_pitch("input", from.name, rows));
    bytes = static_cast<size_t>(rows.extent());
  }
  to.borrow_again(dtype, dims, {static_cast<const std::byte*>(from.data), strings ? 0 : bytes});
  if (from.bytes != bytes) return wrong_size(subject(), to, bytes, from.bytes);
  if (!strings) return {};
  to = HostTensor(dtype, {dims.begin(), dims.end()});
  return read_strings(static_cast<const reprise_string*>(from.data), to).with_context(subject());
}

Status write_shape(const HostTensor& from, reprise_tensor& to) {
  if (from.dims().size() > REPRISE_MAX_RANK) return unsupported("the rank is over 16");
  to.dtype = static_cast<reprise_dtype>(element_of(from.dtype()));
  to.rank = static_cast<uint32_t>(from.dims().size());
  std::copy(from.dims().begin(), from.dims().end(), to.dims);
  return {};
}

Status write_tensor(const reprise_value& from, const std::string& subject, reprise_tensor& to) {
  const HostTensor& t = from.value;
  if (is_container(t.dtype())) {
    return {Code::Usage,
            subject + " is " + std::string(name_of(t.dtype())) + ", no tensor; get it as a value"};
  }
  RP_TRY(write_shape(t, to).with_context(subject));
  const void* data = t.bytes().data();
  to.bytes = t.bytes().size();
  if (t.dtype() == DType::String) {
    data = from.strings.data();
    to.bytes = from.strings.size() * sizeof(reprise_string);
  }
  to.data = const_cast<void*>(data);  // documented as read-only
  return {};
}

}  // namespace reprise::capi

using namespace reprise;
using namespace reprise::capi;

reprise_value::reprise_value(HostTensor of) : value(std::move(of)) {
  if (value.dtype() != DType::String || value.count() == 0) return;
  for (const std::string& s : value.strings()) strings.push_back({s.data(), s.size()});
}

reprise_status reprise_value_from_tensor(const reprise_tensor* tensor, reprise_value** out,
                                         reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!tensor || !out) return missing("tensor or out");
    RP_ASSIGN(const reprise_tensor t,
              read_struct(tensor, reprise_tensor REPRISE_TENSOR_INIT, "reprise_tensor"));
    if (t.buffer)
      return {Code::Usage, "a value is made of a tensor in host memory, not of a buffer"};
    if (t.image || t.row_pitch != 0)
      return {Code::Usage, "a value is made of dense rows in host memory"};
    if (t.rank > REPRISE_MAX_RANK) return invalid_input("the tensor has a rank over 16");
    if (t.bytes > 0 && !t.data) return missing("data");
    HostTensor value;
    RP_TRY(read_value(t, nullptr, value));
    *out = make_handle(std::make_shared<reprise_value>(value.detached()));
    return {};
  });
}

reprise_status reprise_value_create(reprise_kind kind, reprise_dtype dtype,
                                    const reprise_value* const* items, size_t count,
                                    reprise_value** out, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if ((!items && count > 0) || !out) return missing("items or out");
    RP_ASSIGN(const DType type, type_of(kind, dtype));
    if (!is_container(type)) return {Code::Usage, "a tensor has no items"};
    std::vector<HostTensor> held;
    for (size_t i = 0; i < count; ++i) {
      RP_ASSIGN(const auto item, find_handle(items[i]));
      held.push_back(item->value);
    }
    HostTensor value = HostTensor::container(type, std::move(held));
    RP_TRY(check_items(value));
    *out = make_handle(std::make_shared<reprise_value>(std::move(value)));
    return {};
  });
}

reprise_status reprise_value_get_info(const reprise_value* value, reprise_value_info* info,
                                      reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!info) return missing("info");
    RP_TRY(check_out(info, "reprise_value_info"));
    RP_ASSIGN(const auto held, find_handle(value));
    reprise_value_info out = REPRISE_VALUE_INFO_INIT;
    out.kind = static_cast<reprise_kind>(container_of(held->value.dtype()));
    out.dtype = static_cast<reprise_dtype>(element_of(held->value.dtype()));
    out.count = held->value.items().size();
    write_struct(out, info);
    return {};
  });
}

reprise_status reprise_value_get_item(const reprise_value* value, size_t index, reprise_value** out,
                                      reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!out) return missing("out");
    RP_ASSIGN(const auto held, find_handle(value));
    const auto& items = held->value.items();
    if (index >= items.size()) {
      return {Code::Usage, "there is no item " + std::to_string(index) + "; the value has " +
                               std::to_string(items.size())};
    }
    *out = make_handle(std::make_shared<reprise_value>(items[index]));
    return {};
  });
}

reprise_status reprise_value_get_tensor(const reprise_value* value, reprise_tensor* tensor,
                                        reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!tensor) return missing("tensor");
    RP_TRY(check_out(tensor, "reprise_tensor"));
    RP_ASSIGN(const auto held, find_handle(value));
    reprise_tensor t = REPRISE_TENSOR_INIT;
    RP_TRY(write_tensor(*held, "the value", t));
    write_struct(t, tensor);
    return {};
  });
}

void reprise_value_free(reprise_value* value) {
  free_handle(value);
}
