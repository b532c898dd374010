#include "runtime/package/joined.h"

#include <algorithm>
#include <deque>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/base/join.h"
#include "runtime/package/code_store.h"
#include "runtime/package/header.h"
#include "runtime/package/most_parts.h"
#include "runtime/package/stored_weights.h"

namespace reprise::package {
namespace {

/// Reads a weight from its beginning to its end. Small reads of the file are put together.
class PartReader {
 public:
  /// `most`: the bytes of the file to read at a time. Of a weight of any type, such pieces begin
  /// and end at whole bytes of the file.
  PartReader(const Package& p, uint32_t index, uint64_t most)
      : p_(p), index_(index), most_(most / kWeightAlignment * kWeightAlignment) {}

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
  Status fill() {
    const uint64_t bytes = weight_bytes(form_);
    if (at_ == bytes) return internal_error("a part of a weight is too short");
    buffer_.resize(std::min(most_, bytes - at_));
    RP_TRY(p_.stored_weights->read_at(p_, index_, at_, buffer_));
    hash_.add(buffer_);
    at_ += buffer_.size();
    rest_ = buffer_;
    return at_ == bytes ? p_.stored_weights->check(p_, index_, hash_.plain()) : Status();
  }

  const Package& p_;
  uint32_t index_;
  uint64_t most_;
  HostTensor form_;                  // with its bytes if all of them are in memory
  std::vector<std::byte> buffer_;    // or some of them
  std::span<const std::byte> rest_;  // what of them comes next
  uint64_t at_ = 0;                  // the bytes that were read
  PieceHash hash_;
};

/// Reads parts side by side: a line of each of them for every row. If there is one row, only one
/// part is open at a time; the buffers of all open parts take kPieceBytes.
class Lines {
 public:
  Lines(const Package& p, const WeightParts& from, uint64_t rows)
      : p_(p), from_(from), rows_(rows) {}

  Status next(std::span<std::byte> out) {
    while (!out.empty()) {
      if (rest_ == 0) RP_TRY(begin_line());
      const uint64_t n = std::min<uint64_t>(rest_, out.size());
      RP_TRY(open_[rows_ == 1 ? 0 : part_].next(out.first(n)));
      out = out.subspan(n);
      rest_ -= n;
      if (rest_ == 0) part_ = (part_ + 1) % from_.segments.size();
    }
    return {};
  }

 private:
  Status begin_line() {
    const uint32_t segment = from_.segments[part_];
    if (rows_ == 1) open_.clear();
    if (rows_ == 1 || open_.size() == part_) {
      const uint64_t readers = rows_ == 1 ? 1 : from_.segments.size();
      open_.emplace_back(p_, segment, kPieceBytes / readers);
      RP_TRY(open_.back().open());
    }
    rest_ = weight_bytes(p_.weights[segment]) / rows_;
    return {};
  }

  const Package& p_;
  const WeightParts& from_;
  uint64_t rows_;
  std::deque<PartReader> open_;  // which do not move
  size_t part_ = 0;
  uint64_t rest_ = 0;  // of the part's line
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
  // Weights of a model may be equal, and the package has these once. So a weight may have a part
  // several times. What a small file describes is limited nevertheless: the number of parts is, and
  // no two weights have the same parts.
  std::set<std::tuple<uint32_t, std::vector<int64_t>, std::vector<uint32_t>>> known;
  for (const auto& [index, parts] : p.parts) {
    const std::string where = "weight " + std::to_string(index);
    if (index >= p.weights.size()) return corrupt_package(where + " does not exist");
    RP_TRY(check_parts(p, p.weights[index], parts).with_context(where));
    if (!known.emplace(parts.axis, p.weights[index].dims(), parts.segments).second)
      return corrupt_package(where + ": another weight has the same parts");
  }
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
  Lines lines(p, from, rows_before(form.dims(), from.axis));
  scratch.resize(kPieceBytes);
  for (uint64_t at = 0; at < size; at += most) {
    const auto piece = std::span(scratch).first(std::min(most, size - at));
    RP_TRY(lines.next(piece));
    RP_TRY(use(at, piece));
  }
  return {};
}

}  // namespace reprise::package
