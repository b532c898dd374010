#include "runtime/host/host_kernels.h"

#include <algorithm>
#include <new>
#include <stdexcept>

#include "runtime/host/image_decoder.h"

namespace reprise::host {

namespace {

using TableFunction = Table (*)();

// The list of all families; there is no automatic registration.
constexpr TableFunction kFamilies[] = {
    unary_table,          binary_table,    logic_table,
    cast_table,           shape_table,     movement_table,
    slice_table,          pad_table,       gather_table,
    scatter_table,        reduce_table,    matmul_table,
    conv_table,           pool_table,      softmax_table,
    normalization_table,  resize_table,    quantize_table,
    select_table,         generate_table,  einsum_table,
    attention_table,      gradients_table, boxes_table,
    gridsample_table,     loss_table,      recurrent_table,
    ml_encode_table,      ml_linear_table, ml_trees_table,
    col2im_table,         signal_table,    linear_attention_table,
    ml_svm_table,         strings_table,   tokenizer_table,
    random_table,         ngrams_table,    image_table,
    invalid_branch_table, sequences_table, ml_maps_table,
};
/// The last families: the only ones that take or return sequences, optionals and maps.
constexpr size_t kContainerFamilies = 3;

const Entry* find_entry(std::string_view op, bool* takes_containers = nullptr) {
  for (size_t f = 0; f < std::size(kFamilies); ++f) {
    for (const Entry& e : kFamilies[f]()) {
      if (e.name != op) continue;
      if (takes_containers) *takes_containers = f + kContainerFamilies >= std::size(kFamilies);
      return &e;
    }
  }
  return nullptr;
}

// Converts exceptions of the standard library to errors: sizes are checked, but memory may still be
// insufficient.
template <typename F>
auto without_exceptions(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return out_of_memory("out of memory");
  } catch (const std::length_error&) {
    return unsupported("a temporary array is too large");
  }
}

KernelResult run_checked(const Call& c) {
  bool containers = false;
  const Entry* e = find_entry(c.op, &containers);
  if (e == nullptr) return internal_error("no host kernel for " + std::string(c.op));
  for (const HostTensor* t : c.inputs) {
    if (!containers && t != nullptr && is_container(t->dtype()))
      return invalid_model("it takes tensors, but an input is " + std::string(name_of(t->dtype())));
  }
  return without_exceptions([&] { return e->kernel(c); });
}

}  // namespace

Kernel find(std::string_view op) {
  return find_entry(op) == nullptr ? nullptr : run_checked;
}

bool can_prepare(std::string_view op) {
  const Entry* e = find_entry(op);
  return e != nullptr && e->prepare != nullptr;
}

Result<std::shared_ptr<const Prepared>> prepare(const Call& c) {
  const Entry* e = find_entry(c.op);
  if (e == nullptr || e->prepare == nullptr) return std::shared_ptr<const Prepared>();
  return without_exceptions([&] { return e->prepare(c); });
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> all;
  for (const TableFunction family : kFamilies) {
    for (const Entry& e : family()) all.push_back(e.name);
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace reprise::host
