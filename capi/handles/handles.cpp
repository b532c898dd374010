#include "capi/handles/handles.h"

#include <string>

namespace reprise::capi {
namespace {

template <typename Slot>
std::vector<std::string> texts_of(const std::vector<Slot>& slots, std::span<const Symbol> symbols) {
  std::vector<std::string> out;
  out.reserve(slots.size());
  for (const plan::Slot& slot : slots) out.push_back(shape_str(slot.shape, symbols));
  return out;
}

}  // namespace

ShapeTexts::ShapeTexts(const plan::Interface& io)
    : inputs(texts_of(io.inputs, io.symbols)),
      outputs(texts_of(io.outputs, io.symbols)),
      states(texts_of(io.states, io.symbols)) {}

void copy_text(char* out, size_t capacity, std::string_view text) {
  size_t n = std::min(text.size(), capacity - 1);
  while (n > 0 && n < text.size() && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80)
    --n;  // do not split a character
  std::memcpy(out, text.data(), n);
  out[n] = 0;
}

// Allocates no memory, because it also reports that there is none.
reprise_status report(Code code, std::string_view message, reprise_error* error,
                      std::span<const std::string> nodes) noexcept {
  constexpr size_t kMostForNodes = 1000;
  const auto status = static_cast<reprise_status>(code);
  if (!error) return status;
  error->status = status;
  size_t bytes = 1, count = 0;  // of those that fit
  for (; count < nodes.size() && bytes + nodes[count].size() + 1 <= kMostForNodes; ++count)
    bytes += nodes[count].size() + 1;
  copy_text(error->message, sizeof(error->message) - bytes, message);
  char* end = error->message + std::strlen(error->message) + 1;
  for (const std::string& name : nodes.first(count)) {
    if (name.empty()) continue;
    copy_text(end, name.size() + 1, name);
    end += std::strlen(end) + 1;
  }
  *end = 0;
  return status;
}

reprise_status guarded_call(reprise_error* error, Status (*body)(void*), void* context) noexcept {
  try {
    const Status s = body(context);
    return report(s.code(), s.message(), error, s.nodes());
  } catch (const std::bad_alloc&) {
    return report(Code::OutOfMemory, "out of host memory", error);
  } catch (const std::exception& e) {
    return report(Code::Internal, e.what(), error);
  } catch (...) {
    return report(Code::Internal, "an unknown exception", error);
  }
}

Result<Executor> read_executor(const reprise_executor* given) {
  if (!given) return Executor();
  RP_ASSIGN(const auto e,
            read_struct(given, reprise_executor REPRISE_EXECUTOR_INIT, "reprise_executor"));
  if (!e.run) return Status(Code::Usage, "reprise_executor: `run` is null");
  return Executor([e](size_t n, const std::function<void(size_t)>& call) {
    const auto task = [](void* context, size_t index) {
      (*static_cast<const std::function<void(size_t)>*>(context))(index);
    };
    // The application gets the context as a pointer to data of any kind.
    e.run(e.user, task, const_cast<std::function<void(size_t)>*>(&call), n);
  });
}

Status check_struct(const void* given, size_t size, size_t own, std::span<const size_t> ends,
                    const char* name) {
  constexpr size_t kLargest = 4096;  // an upper bound for later versions
  const std::string_view what = name;
  const auto refuse = [&](const char* why) {
    return Status(Code::Usage, std::string(what) + ": struct_size " + std::to_string(size) + why);
  };
  if (size == own) return {};
  if (size == 0) return refuse(": initialise the struct with its REPRISE_..._INIT");
  if (size < own) {
    if (std::find(ends.begin(), ends.end(), size) != ends.end()) return {};
    return refuse(" is not that of any version; initialise the struct with its REPRISE_..._INIT");
  }
  if (size > kLargest || size % sizeof(size_t) != 0)
    return refuse(" is implausible; initialise the struct with its REPRISE_..._INIT");
  const auto* bytes = static_cast<const unsigned char*>(given);
  for (size_t i = own; given && i < size; ++i)
    if (bytes[i] != 0)
      return refuse(
          " is that of a later version, and members that this version does not know are set");
  return {};
}

}  // namespace reprise::capi
