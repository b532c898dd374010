#include "runtime/package/joined.h"

#include <algorithm>
#include <deque>
#include <span>
#include <string>

#include "runtime/base/join.h"
#include "runtime/package/code_store.h"
#include "runtime/package/stored_weights.h"

namespace reprise::package {
namespace {

constexpr size_t kMostParts = 1024;

/// Reads a weight from its beginning to its end. Small reads of the file are put together.
class PartReader {
 public:
  PartReader(const Package& p, uint32_t index) : p_(p), index_(index) {}

  Status open() {
    form_ = p_.weights[index_];
    if (p_.stored_weights && p_.stored_weights->can_read_at(p_, index_)) return {};
    RP_ASSIGN(form_, load_weight(p_, index_));
    rest_ = form_.bytes();
    return {};
  }

  Status next(std::span<std::byte> out) {
    while (!out.empty()) {
      if (rest_.empty()) RP_TRY(fill());
      const size_t n = std::min(out.size(), rest_.size());
      std::copy_n(rest_.begin(), n, out.begin());
      rest_ = rest_.subspan(n);
      out = out.subspan(n);
    }
    return {};
  }

 private:
  /// Of a weight of any type, pieces begin and end at whole bytes of the file.
  static constexpr uint64_t kBufferBytes = uint64_t{1} << 20;

  Status fill() {
    const uint64_t bytes = weight_bytes(form_);
    if (at_ == bytes) return internal_error("a part of a weight is too short");
    buffer_.resize(std::min(kBufferBytes, bytes - at_));
    RP_TRY(p_.stored_weights->read_at(p_, index_, at_, buffer_));
    hash_.add(buffer_);
    at_ += buffer_.size();
    rest_ = buffer_;
    return at_ == bytes ? p_.stored_weights->check(p_, index_, hash_.plain()) : Status();
  }

  const Package& p_;
  uint32_t index_;
  HostTensor form_;                  // with its bytes if all of them are in memory
  std::vector<std::byte> buffer_;    // or some of them
  std::span<const std::byte> rest_;  // what of them comes next
  uint64_t at_ = 0;                  // the bytes that were read
  PieceHash hash_;
};

Status check_parts(const Package& p, const HostTensor& form, const WeightParts& parts) {
  const auto& dims = form.dims();
  const bool sound = parts.axis < dims.size() && form.count() > 0 && size_of(form.dtype()) > 0 &&
                     form.dtype() != DType::String && !parts.segments.empty() &&
                     parts.segments.size() <= kMostParts;
  if (!sound) return corrupt_package("its parts do not fit " + describe(form.dtype(), dims));
  const int64_t slab = form.count() / dims[parts.axis];
  int64_t sum = 0;
  for (const uint32_t s : parts.segments) {
    if (s >= p.weights.size() || p.parts.contains(s))
      return corrupt_package("weight " + std::to_string(s) + " cannot be its part");
    const HostTensor& part = p.weights[s];
    if (part.dtype() != form.dtype() || part.count() == 0 || part.count() % slab != 0)
      return corrupt_package("its part " + describe(part.dtype(), part.dims()) + " does not fit " +
                             describe(form.dtype(), dims));
    sum += part.count() / slab;
  }
  if (sum != dims[parts.axis])
    return corrupt_package("its parts have " + std::to_string(sum) + " lines, not " +
                           std::to_string(dims[parts.axis]));
  return {};
}

}  // namespace

Status check_joined(const Package& p) {
  // A small file must not make a session allocate much memory.
  constexpr uint64_t kMostCopies = 16;
  uint64_t apart = 0, joined = 0;
  for (size_t i = 0; i < p.weights.size(); ++i) {
    const bool has_parts = p.parts.contains(static_cast<uint32_t>(i));
    (has_parts ? joined : apart) += weight_bytes(p.weights[i]);
  }
  for (const auto& [index, parts] : p.parts) {
    const std::string where = "weight " + std::to_string(index);
    if (index >= p.weights.size()) return corrupt_package(where + " does not exist");
    RP_TRY(check_parts(p, p.weights[index], parts).with_context(where));
  }
  if (joined / kMostCopies > apart)
    return corrupt_package("joined weights take more than " + std::to_string(kMostCopies) +
                           " times the memory of their parts");
  return {};
}

Result<HostTensor> load_joined(const Package& p, uint32_t index) {
  const WeightParts& from = p.parts.at(index);
  std::vector<HostTensor> parts;
  parts.reserve(from.segments.size());
  for (const uint32_t s : from.segments) {
    RP_ASSIGN(HostTensor part, load_weight(p, s));
    parts.push_back(std::move(part));
  }
  return join(parts, p.weights[index].dims(), from.axis);
}

Status read_joined(const Package& p, uint32_t index, uint64_t unit, std::vector<std::byte>& scratch,
                   const UseWeightPiece& use) {
  const WeightParts& from = p.parts.at(index);
  const HostTensor& form = p.weights[index];
  const uint64_t most = kPieceBytes / unit * unit, size = weight_bytes(form);
  if (most == 0) {
    RP_ASSIGN(const HostTensor weight, load_joined(p, index));
    return use(0, weight.bytes());
  }
  const uint64_t rows = rows_before(form.dims(), from.axis);
  std::deque<PartReader> parts;  // which do not move
  for (const uint32_t s : from.segments) {
    parts.emplace_back(p, s);
    RP_TRY(parts.back().open());
  }
  scratch.resize(kPieceBytes);
  size_t part = 0;
  uint64_t rest = weight_bytes(p.weights[from.segments[0]]) / rows;  // of the part's line
  for (uint64_t at = 0; at < size; at += most) {
    const auto piece = std::span(scratch).first(std::min(most, size - at));
    for (std::span<std::byte> out = piece; !out.empty();) {
      const uint64_t n = std::min<uint64_t>(rest, out.size());
      RP_TRY(parts[part].next(out.first(n)));
      out = out.subspan(n);
      rest -= n;
      if (rest > 0) continue;
      part = (part + 1) % parts.size();
      rest = weight_bytes(p.weights[from.segments[part]]) / rows;
    }
    RP_TRY(use(at, piece));
  }
  return {};
}

}  // namespace reprise::package
