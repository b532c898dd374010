// What the caller hands to a run, checked against the model's interface.
#pragma once

#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/plan/bind.h"
#include "runtime/session.h"

namespace reprise {

/// Checked bindings of one run.
struct BoundIo {
  std::vector<const Binding*> inputs;   // parallel to the interface; never null
  std::vector<const Binding*> outputs;  // null: returned as a host tensor
  std::vector<int64_t> symbols;         // kUnbound where a host call will tell
};

class IoBinder {
 public:
  /// `io` must outlive the binder.
  explicit IoBinder(const plan::Interface& io);
  /// `on_device`: whether device buffers may be bound.
  Result<BoundIo> bind(std::span<const Binding> inputs, std::span<const Binding> outputs,
                       bool on_device) const;

 private:
  Status place(std::span<const Binding> given, bool is_input,
               std::vector<const Binding*>& slots) const;
  Status check_input(const plan::Slot& slot, const Binding& b, bool on_device) const;
  Status check_output(const Binding& b, bool on_device) const;

  const plan::Interface& io_;
  std::unordered_map<std::string_view, size_t> inputs_, outputs_;
};

/// Code::InvalidInput unless `bytes` fit the memory bound to an output or input.
Status check_room(const Binding& b, uint64_t bytes, const char* what);
/// Dtype and dims of a bound output, without its bytes.
HostTensor shape_only(DType dtype, std::vector<int64_t> dims);

}  // namespace reprise
