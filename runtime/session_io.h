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
  /// `device`: whose buffers may be bound; null for the host.
  Result<BoundIo> bind(std::span<const Binding> inputs, std::span<const Binding> outputs,
                       const Device* device) const;

 private:
  Status place(std::span<const Binding> given, bool is_input,
               std::vector<const Binding*>& slots) const;
  /// How many bytes a tensor of the interface has.
  struct Size {
    size_t element = 0;
    Expr count;
    std::vector<SymbolId> symbols;
  };
  static std::vector<Size> sizes_of(const std::vector<plan::Slot>& slots);
  Status check_input(const plan::Slot& slot, const Binding& b, const Device* device) const;
  Status check_output(const plan::Slot& slot, const Binding& b, const Device* device) const;
  Status check_overlaps(const BoundIo& bound) const;

  const plan::Interface& io_;
  std::unordered_map<std::string_view, size_t> inputs_, outputs_;
  std::vector<Size> input_sizes_, output_sizes_;
};

/// Code::InvalidInput unless `bytes` fit the memory bound to an output or input.
Status check_room(const Binding& b, uint64_t bytes, const char* what);
/// Dtype and dims of a bound output, without its bytes.
HostTensor shape_only(DType dtype, std::vector<int64_t> dims);

}  // namespace reprise
