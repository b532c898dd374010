// The bindings of a run, checked against the model's interface.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/package/package.h"
#include "runtime/plan/bind.h"
#include "runtime/run/binding.h"
#include "runtime/run/session_options.h"

namespace reprise {

/// The checked bindings of one run. Reusing the object for the same sizes allocates nothing.
struct BoundIo {
  std::vector<const Binding*> inputs;   // parallel to the interface; never null
  std::vector<const Binding*> outputs;  // null: the output is returned as a host tensor
  std::vector<int64_t> symbols;         // plan::kUnbound if a host call determines the value

  uint64_t binding = 0;  // a number of its own for each bind()

  /// The dims of input i, whatever is bound to it.
  std::span<const int64_t> dims(size_t i) const { return dims_[i]; }

 private:
  friend class IoBinder;
  /// A range of addresses that a run reads or writes.
  struct Extent {
    uint64_t begin = 0, end = 0;
    bool written = false;
    const Binding* binding = nullptr;
  };
  std::vector<std::span<const int64_t>> dims_;  // per input
  std::vector<std::array<int64_t, 3>> image_dims_;
  std::vector<int64_t> dims_of_symbols_;  // the ranks and dims from which `symbols` follow
  std::vector<int64_t> lengths_;          // and the lengths of states
  bool has_symbols_ = false;
  std::vector<Extent> device_, host_;
};

class IoBinder {
 public:
  /// `io` must outlive the binder.
  explicit IoBinder(const plan::Interface& io);
  /// Loads the values of inputs that runs may leave out. A binding without memory leaves one out.
  Status load_defaults(const package::Package& package);
  /// Checks the bindings and computes the symbols. `device` is the device of the session, whose
  /// buffers may be bound; null for the host.
  /// If a state grows, bind_lengths() computes the symbols.
  Status bind(std::span<const Binding> inputs, std::span<const Binding> outputs,
              const Device* device, BoundIo& bound) const;
  /// Before each run: computes the symbols if states grow, which have these lengths.
  Status bind_lengths(std::span<const int64_t> lengths, BoundIo& bound) const;

 private:
  Status place(std::span<const Binding> given, bool is_input,
               std::vector<const Binding*>& slots) const;
  /// The size of a tensor of the interface.
  struct Size {
    size_t element = 0;  // bytes
    Expr count;
    std::vector<SymbolId> symbols;
  };
  static std::vector<Size> sizes_of(const std::vector<plan::Slot>& slots);
  Status check_input(const plan::Slot& slot, const Binding& b, const Device* device) const;
  Status add_input(size_t i, const Device* device, BoundIo& bound) const;
  Status check_output(const plan::Slot& slot, const Binding& b, const Device* device) const;
  Status check_image(const plan::Slot& slot, const Binding& b, const Device* device,
                     bool written) const;
  Status bind_symbols(std::span<const int64_t> lengths, BoundIo& bound) const;
  Status check_overlaps(BoundIo& bound) const;
  static Status check_disjoint(std::vector<BoundIo::Extent>& extents);

  const plan::Interface& io_;
  const bool grows_;  // a state does
  std::unordered_map<std::string_view, size_t> inputs_, outputs_;
  std::vector<Size> input_sizes_, output_sizes_;
  /// By input. A default is a binding to the tensor.
  std::vector<std::optional<HostTensor>> default_values_;
  std::vector<Binding> defaults_;
};

/// Code::InvalidInput unless the container holds what its type says, on which host kernels rely.
Status check_items(const HostTensor& t);

/// Code::InvalidInput if `bytes` bytes do not fit into the memory of the binding.
Status check_room(const Binding& b, uint64_t bytes, const char* what);

/// The rows of a tensor along its first axis.
struct Rows {
  uint64_t count = 0, bytes = 0;  // of rows, and of each
  uint64_t pitch = 0;             // from one to the next; `bytes` if they are dense

  bool dense() const { return pitch == bytes || count < 2; }
  /// From the first byte to the last, once check_pitch() has passed.
  uint64_t extent() const { return count == 0 ? 0 : (count - 1) * pitch + bytes; }
};
/// `pitch`: Binding::row_pitch.
Rows rows_of(std::span<const int64_t> dims, DType dtype, uint64_t pitch);
/// Code::InvalidInput unless rows with this pitch do not overlap, and the pitch and the extent are
/// possible sizes. `subject` is "input" or "output".
Status check_pitch(const char* subject, const std::string& name, const Rows& rows);
/// Code::InvalidInput unless an output of `bytes` bytes fits into the host memory of the binding.
Status check_rows(const Binding& b, const Rows& rows, uint64_t bytes);
/// Copy between dense bytes and rows.
void pack_rows(const Rows& rows, const std::byte* from, std::byte* dense);
void unpack_rows(const Rows& rows, const std::byte* dense, std::byte* to);
/// The tensor of an input in host memory. Copies it if its rows have a pitch. `rank` is that of the
/// model: a tensor of one element may be bound to a scalar.
HostTensor dense_tensor(const Binding& b, size_t rank);

}  // namespace reprise
