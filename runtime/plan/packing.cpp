#include "runtime/plan/packing.h"

#include <algorithm>
#include <utility>

#include "runtime/base/align.h"

namespace reprise::plan {
namespace {

constexpr int64_t kMostPacked = int64_t{1} << 40;  // elements
constexpr int64_t kMostPadding = 4096;             // along an axis
constexpr size_t kMostAxes = 8, kMostParts = 16;

/// The parts of an axis from the smallest step on. Of those with equal steps, all but one have one
/// element.
std::vector<Packing::Part> parts_of(const Packing& p, int64_t axis) {
  std::vector<Packing::Part> out;
  for (const Packing::Part& part : p.parts)
    if (part.axis == axis) out.push_back(part);
  std::ranges::sort(out, {},
                    [](const Packing::Part& part) { return std::pair(part.step, part.size); });
  return out;
}

/// Whether the product stays below the limit. Factors are at least 1.
bool multiply(int64_t& product, int64_t factor) {
  return !__builtin_mul_overflow(product, factor, &product) && product <= kMostPacked;
}

/// Whether parts with sizes and steps, from the smallest step on, number each index up to `covered`
/// once.
bool are_digits(const std::vector<Packing::Part>& parts, int64_t& covered) {
  covered = 1;
  for (const Packing::Part& part : parts)
    if (part.step != covered || !multiply(covered, part.size)) return false;
  return true;
}

/// Whether the last parts are a word: lowest digits of the last two axes.
bool ends_in_words(const Packing& p) {
  Packing word;
  int64_t elements = 1;
  for (size_t i = p.parts.size(); i > 0 && elements < p.per_word(); --i) {
    const Packing::Part& part = p.parts[i - 1];
    elements *= std::min(part.size, p.per_word() + 1);
    if (part.axis + 2 < static_cast<int64_t>(p.dims.size())) return false;
    word.parts.push_back(part);
  }
  int64_t covered = 0;
  for (size_t axis = p.dims.size() - 2; axis < p.dims.size(); ++axis)
    if (!are_digits(parts_of(word, static_cast<int64_t>(axis)), covered)) return false;
  return elements == p.per_word();
}

}  // namespace

int64_t Packing::count() const {
  int64_t all = 1;
  for (const Part& part : parts) all *= part.size;
  return all;
}

int64_t Packing::padded(size_t axis) const {
  int64_t all = 1;
  for (const Part& part : parts)
    if (part.axis == static_cast<int64_t>(axis)) all *= part.size;
  return all;
}

int64_t Packing::stride(size_t part) const {
  int64_t all = 1;
  for (size_t i = part + 1; i < parts.size(); ++i) all *= parts[i].size;
  return all;
}

uint64_t Packing::packed_bytes(uint64_t raw_bytes, size_t element) const {
  if (is_raw()) return align_up(raw_bytes, 4);
  const auto elements = static_cast<uint64_t>(count());
  if (bits != 0) return elements / static_cast<uint64_t>(per_word()) * 4;
  return align_up(elements * element, 4);
}

Status Packing::check() const {
  if (is_raw() && parts.empty() && bits == 0) return {};
  const auto wrong = [](const char* what) {
    return Status(Code::CorruptPackage, std::string("its packing ") + what);
  };
  if (dims.size() < 2 || dims.size() > kMostAxes || parts.size() > kMostParts)
    return wrong("has an impossible number of axes");
  if (bits != 0 && bits != 2 && bits != 4) return wrong("has elements of impossible sizes");
  int64_t elements = 1, packed = 1;
  for (const Part& part : parts) {
    if (part.axis < 0 || part.axis >= static_cast<int64_t>(dims.size()) || part.size < 1)
      return wrong("has parts of impossible sizes");
    if (!multiply(packed, part.size)) return wrong("is too large");
  }
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    int64_t covered = 0;
    if (dims[axis] < 1) return wrong("has impossible sizes");
    if (!multiply(elements, dims[axis])) return wrong("is too large");
    if (!are_digits(parts_of(*this, static_cast<int64_t>(axis)), covered) || covered < dims[axis] ||
        covered - dims[axis] > kMostPadding)
      return wrong("does not cover each element once");
  }
  if (bits != 0 && !ends_in_words(*this)) return wrong("does not end in words of 32 bits");
  return {};
}

std::string Packing::str() const {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) out += (i > 0 ? ", " : "") + std::to_string(dims[i]);
  out += "] as";
  for (const Part& part : parts) {
    out += " " + std::to_string(part.axis) + ":" + std::to_string(part.size);
    if (part.step != 1) out += "*" + std::to_string(part.step);
  }
  if (bits != 0) out += " in " + std::to_string(bits) + " bits";
  return out;
}

namespace {

/// The axes of K and N in the raw weight.
struct MatrixAxes {
  explicit MatrixAxes(const MatrixShape& m) : k(m.transposed ? 2 : 1), n(m.transposed ? 1 : 2) {}
  int64_t k, n;
};

Packing of_matrix(const MatrixShape& m) {
  Packing p;
  p.dims = m.transposed ? std::vector{m.batch, m.n, m.k} : std::vector{m.batch, m.k, m.n};
  return p;
}

}  // namespace

Packing in_tiles(const MatrixShape& m, int64_t columns) {
  const MatrixAxes axis(m);
  Packing p = of_matrix(m);
  p.parts = {{0, m.batch, 1},
             {axis.n, (m.n + columns - 1) / columns, columns},
             {axis.k, m.k, 1},
             {axis.n, columns, 1}};
  return p;
}

Packing in_tiles_of_nibbles(const MatrixShape& m, int64_t columns) {
  const MatrixAxes axis(m);
  Packing p = of_matrix(m);
  p.bits = 4;
  p.parts = {{0, m.batch, 1},
             {axis.n, (m.n + columns - 1) / columns, columns},
             {axis.k, (m.k + 7) / 8, 8},
             {axis.n, columns / 4, 4},
             {axis.k, 4, 2},
             {axis.k, 2, 1},
             {axis.n, 4, 1}};
  return p;
}

}  // namespace reprise::plan
