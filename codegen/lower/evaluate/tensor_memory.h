// The tensors in memory that a kernel reads and writes: its buffers, and the conversions between
// memory and registers, where values may be wider.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/kernel/build/builder.h"
#include "codegen/lower/evaluate/index_code.h"
#include "codegen/lower/group/group.h"

namespace reprise::lower {

class TensorMemory {
 public:
  /// The arguments must outlive the object.
  TensorMemory(const graph::Graph& g, const Group& group, kernel::Builder& b, IndexCode& index)
      : g_(g), group_(group), b_(b), index_(index) {}

  struct BufferUse {
    graph::ValueId value;  // kNone: of add_scratch()
    int param;
    std::optional<size_t> scratch;  // index into scratch()
    bool writes;                    // scratch memory only
    bool packed;
  };
  // As in Evaluator, which has comments.
  int buffer(graph::ValueId v, bool packed = false);
  const std::vector<BufferUse>& buffers() const { return buffers_; }
  int add_scratch(ScratchBuffer scratch, kernel::Access access);
  const std::vector<ScratchBuffer>& scratch() const { return scratch_; }
  void allow_reloads(graph::ValueId v, bool scratch) { reloads_.try_emplace(v, scratch); }
  Status store_at(graph::ValueId v, const Expr& linear, Val value, int lanes);
  Val to_storage(graph::ValueId id, Val v);

  /// Loads lanes that are consecutive in memory, from a row-major position.
  Val load_consecutive(graph::ValueId v, const Expr& linear, int lanes);
  /// Loads the element at a row-major position of a weight in packed form.
  Val load_packed(graph::ValueId v, const plan::Packing& packing, const Expr& at);
  Val packed_element(graph::ValueId v, const plan::Packing& packing, Index at);

 private:
  int add_parameter(const std::string& prefix, kernel::Ty type, kernel::Access access,
                    BufferUse use);
  int vector_step(int buffer, int lanes) const;
  Val load_vector(int buffer, const Expr& first, int lanes);
  Val from_storage(DType t, Val raw);
  DType memory_type(graph::ValueId v) const;

  const graph::Graph& g_;
  const Group& group_;
  kernel::Builder& b_;
  IndexCode& index_;
  std::map<graph::ValueId, bool> reloads_;  // values that are loaded after stores: from scratch?
  std::vector<BufferUse> buffers_;
  std::vector<ScratchBuffer> scratch_;
  std::vector<kernel::Ty> storage_;  // by buffer parameter
};

/// The type in which kernels compute values of a dtype; Void if there is none.
kernel::Type compute_type(DType t);

}  // namespace reprise::lower
