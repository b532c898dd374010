// Operators on sequences and optionals.
#include <algorithm>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

Status require_container(const Call& c, size_t i, Container kind, std::string_view wanted) {
  return container_of(input(c, i).dtype()) == kind ? Status()
                                                   : wrong_dtype(c, i, "container", wanted);
}

Status require_sequence(const Call& c) {
  RP_TRY(check_arity(c, 1, 3));
  return require_container(c, 0, Container::Sequence, "a sequence");
}

KernelResult sequence_of(DType element, Tensors items) {
  return one(HostTensor::container(in_container(Container::Sequence, element), std::move(items)));
}

/// Input i, a position in a sequence of `size` tensors. A negative one counts from the end, which
/// is `size` itself where a tensor is inserted.
Result<int64_t> read_position(const Call& c, size_t i, int64_t size, int64_t last) {
  RP_ASSIGN(const Dims list, tensor_ints(input(c, i), "the position"));
  if (list.size() != 1)
    return invalid_input("the position has " + std::to_string(list.size()) + " elements, not one");
  if (list[0] < -size || list[0] > last) {
    return invalid_input("position " + std::to_string(list[0]) + " is not in [" +
                         std::to_string(-size) + ", " + std::to_string(last) +
                         "], the positions for a sequence of " + std::to_string(size) + " tensors");
  }
  return list[0] < 0 ? list[0] + size : list[0];
}

KernelResult identity(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  return one(input(c, 0));
}

KernelResult construct(const Call& c) {
  RP_TRY(check_arity(c, 1, kNoLimit));
  Tensors items;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!has_input(c, i)) return invalid_model("input " + std::to_string(i) + " is missing");
    if (is_container(input(c, i).dtype())) return wrong_dtype(c, i, "item", "a tensor");
    RP_TRY(require_same_dtype(c, 0, i));
    items.push_back(input(c, i));
  }
  return sequence_of(input(c, 0).dtype(), std::move(items));
}

KernelResult empty(const Call& c) {
  RP_ASSIGN(const DType dtype, dtype_from_onnx(c.attrs.get_int("dtype", 1)));
  return sequence_of(dtype, {});
}

KernelResult insert(const Call& c) {
  RP_TRY(require_sequence(c));
  RP_TRY(check_arity(c, 2, 3));
  const DType element = element_of(input(c, 0).dtype());
  if (input(c, 1).dtype() != element) return wrong_dtype(c, 1, "tensor", name_of(element));
  Tensors items = input(c, 0).items();
  const auto size = static_cast<int64_t>(items.size());
  int64_t at = size;
  if (has_input(c, 2)) {
    RP_ASSIGN(at, read_position(c, 2, size, size));
  }
  items.insert(items.begin() + at, input(c, 1));
  return sequence_of(element, std::move(items));
}

KernelResult erase(const Call& c) {
  RP_TRY(require_sequence(c));
  Tensors items = input(c, 0).items();
  const auto size = static_cast<int64_t>(items.size());
  int64_t at = size - 1;
  if (has_input(c, 1)) {
    RP_ASSIGN(at, read_position(c, 1, size, size - 1));
  } else if (size == 0) {
    return invalid_input("the sequence is empty");
  }
  items.erase(items.begin() + at);
  return sequence_of(element_of(input(c, 0).dtype()), std::move(items));
}

KernelResult at_position(const Call& c) {
  RP_TRY(require_sequence(c));
  RP_TRY(check_arity(c, 2, 2));
  const Tensors& items = input(c, 0).items();
  const auto size = static_cast<int64_t>(items.size());
  RP_ASSIGN(const int64_t at, read_position(c, 1, size, size - 1));
  return one(items[static_cast<size_t>(at)]);
}

KernelResult length(const Call& c) {
  RP_TRY(require_sequence(c));
  const auto size = static_cast<int64_t>(input(c, 0).items().size());
  return one(HostTensor::from<int64_t>(DType::I64, {}, {size}));
}

/// The sizes of the parts into which SplitToSequence divides `total`.
Result<Dims> part_sizes(const Call& c, int64_t total) {
  if (!has_input(c, 1)) return Dims(static_cast<size_t>(total), 1);
  RP_ASSIGN(Dims sizes, tensor_ints(input(c, 1), "the sizes of the parts"));
  if (input(c, 1).rank() == 0) {
    const int64_t size = sizes[0];
    if (size < 1) return invalid_input("parts of size " + std::to_string(size) + " are impossible");
    sizes.assign(static_cast<size_t>(total / size), size);
    if (total % size != 0) sizes.push_back(total % size);
    return sizes;
  }
  int64_t rest = total;
  bool fit = true;
  for (const int64_t size : sizes) {
    fit = fit && size >= 0 && size <= rest;
    if (fit) rest -= size;
  }
  if (fit && rest == 0) return sizes;
  return invalid_input("the sizes " + dims_str(sizes) + " do not sum to " + std::to_string(total));
}

KernelResult split_to_sequence(const Call& c) {
  RP_TRY(check_arity(c, 1, 2));
  const HostTensor& x = input(c, 0);
  if (x.rank() == 0) return invalid_input("input 0 has rank 0");
  RP_ASSIGN(const int64_t axis, normalize_axis(c.attrs.get_int("axis", 0), x.rank()));
  RP_ASSIGN(const Dims sizes, part_sizes(c, at(x.dims(), axis)));
  const bool keep = has_input(c, 1) || c.attrs.get_int("keepdims", 1) != 0;
  Tensors items;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    RP_ASSIGN(HostTensor part, slice_of(x, axis, begin, size));
    begin += size;
    if (!keep) part = part.reshaped(without(part.dims(), axis));
    items.push_back(std::move(part));
  }
  return sequence_of(x.dtype(), std::move(items));
}

KernelResult concat_from_sequence(const Call& c) {
  RP_TRY(require_sequence(c));
  Tensors items = input(c, 0).items();
  if (items.empty()) return invalid_input("the sequence is empty, so its tensors have no shape");
  AttrMap attrs;
  attrs.set("axis", c.attrs.get_int("axis", 0));
  if (c.attrs.get_int("new_axis", 0) != 0) {
    RP_ASSIGN(const int64_t axis, normalize_axis(c.attrs.get_int("axis", 0), items[0].rank() + 1));
    for (HostTensor& item : items) {
      Dims dims = item.dims();
      dims.insert(dims.begin() + std::min(axis, item.rank()), 1);
      item = item.reshaped(std::move(dims));
    }
    attrs.set("axis", axis);
  }
  std::vector<const HostTensor*> inputs;
  inputs.reserve(items.size());
  for (const HostTensor& item : items) inputs.push_back(&item);
  static constexpr TableFunction kFamily[] = {movement_table};  // find() would bring all
  return KernelSet{kFamily}.run({.op = "Concat", .attrs = attrs, .inputs = inputs});
}

KernelResult optional(const Call& c) {
  RP_TRY(check_arity(c, 0, 1));
  Tensors items;
  if (has_input(c, 0)) items.push_back(input(c, 0));
  const DType held = items.empty()
                         ? dtype_from_name(c.attrs.get_string("type", "")).value_or(DType::Invalid)
                         : items[0].dtype();
  const Container kind = container_of(held);
  if (held == DType::Invalid || (kind != Container::None && kind != Container::Sequence))
    return invalid_model("it needs a tensor or a sequence of tensors, or the type of one");
  const Container made =
      kind == Container::None ? Container::Optional : Container::OptionalSequence;
  return one(HostTensor::container(in_container(made, element_of(held)), std::move(items)));
}

KernelResult get_element(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  if (!is_optional(input(c, 0).dtype())) return one(input(c, 0));
  if (input(c, 0).items().empty()) return invalid_input("the optional has no value");
  return one(input(c, 0).items()[0]);
}

KernelResult has_element(const Call& c) {
  RP_TRY(check_arity(c, 0, 1));
  const bool has =
      has_input(c, 0) && (!is_optional(input(c, 0).dtype()) || !input(c, 0).items().empty());
  return one(HostTensor::from<uint8_t>(DType::Bool, {}, {static_cast<uint8_t>(has)}));
}

}  // namespace

Table sequences_table() {
  static constexpr Entry kTable[] = {
      {"Identity", identity},
      {"SequenceConstruct", construct},
      {"SequenceEmpty", empty},
      {"SequenceInsert", insert},
      {"SequenceErase", erase},
      {"SequenceAt", at_position},
      {"SequenceLength", length},
      {"SplitToSequence", split_to_sequence},
      {"ConcatFromSequence", concat_from_sequence},
      {"Optional", optional},
      {"OptionalGetElement", get_element},
      {"OptionalHasElement", has_element},
  };
  return kTable;
}

}  // namespace reprise::host
