#include "codegen/interpreter/memory.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "codegen/interpreter/native_error.h"
#include "codegen/kernel/ir/scalar_eval.h"
#include "codegen/kernel/ir/split_float.h"

namespace reprise::kernel {

uint64_t load_element(const std::byte* at, Ty storage) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(byte_size(storage)));
  switch (storage) {
    case Ty::I8:
      return static_cast<uint32_t>(static_cast<int32_t>(static_cast<int8_t>(bits)));
    case Ty::I16:
      return static_cast<uint32_t>(static_cast<int32_t>(static_cast<int16_t>(bits)));
    case Ty::BF16:
      return bits << 16U;
    case Ty::Void:
    case Ty::Bool:
    case Ty::U8:
    case Ty::U16:
    case Ty::I32:
    case Ty::U32:
    case Ty::I64:
    case Ty::U64:
    case Ty::F16:
    case Ty::F32:
    case Ty::F64:
      return bits;
  }
  return bits;
}

void store_element(std::byte* at, Ty storage, uint64_t bits) {
  if (storage == Ty::BF16) {
    bits = float_to_bf16(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  std::memcpy(at, &bits, static_cast<size_t>(byte_size(storage)));
}

double rounded(double element, Ty type) {
  if (type == Ty::BF16)
    return static_cast<double>(bf16_to_float(float_to_bf16(static_cast<float>(element))));
  return number_of(bits_of(element, type), type);
}

void MatrixMemory::clear() {
  for (auto& v : values_) v.clear();
}

namespace {

/// A sum with the products of a row of `left` and a column of `right`, rounded to F32.
double with_products(double total, const double* left, const double* right, uint32_t depth,
                     uint32_t columns, const InterpretOptions& options) {
  double magnitude = std::fabs(total);
  for (uint32_t d = 0; d < depth; ++d) {
    const double product = left[d] * right[size_t{d} * columns];
    total += product;
    magnitude += std::fabs(product);
  }
  total += reordering_error(magnitude, Ty::F32, std::bit_cast<uint64_t>(total), options);
  return static_cast<double>(static_cast<float>(total));
}

struct SplitMatrix {
  std::vector<double> high, low;
};

SplitMatrix split(const std::vector<double>& m) {
  SplitMatrix out;
  for (const double v : m) {
    const SplitFloat parts = split_float(static_cast<float>(v));
    out.high.push_back(static_cast<double>(parts.high));
    out.low.push_back(static_cast<double>(parts.low));
  }
  return out;
}

/// The sum of two numbers of F32.
double rounded_sum(double a, double b, const InterpretOptions& options) {
  const auto x = static_cast<float>(a), y = static_cast<float>(b);
  const bool every = options.native_error == NativeError::Every;
  return static_cast<double>(every ? every_sum(x, y, options.error_seed) : x + y);
}

}  // namespace

bool MatrixMemory::multiply(const MatrixOperands& p, uint32_t subgroup,
                            const InterpretOptions& options) {
  std::vector<double>& sum = of(p.sum, subgroup);
  const std::vector<double>& left = of(p.left, subgroup);
  const std::vector<double>& right = of(p.right, subgroup);
  if (sum.empty() || left.empty() || right.empty()) return false;
  const uint32_t depth = k_.matrices[p.left].columns;
  const uint32_t columns = k_.matrices[p.sum].columns;
  const uint32_t rows = k_.matrices[p.sum].rows;
  const auto each = [&](const auto& next) {
    for (uint32_t r = 0; r < rows; ++r) {
      for (uint32_t c = 0; c < columns; ++c) {
        double& total = sum[size_t{r} * columns + c];
        total = next(total, size_t{r} * depth, c);
      }
    }
  };
  const auto add = [&](double total, const double* row, const double* column) {
    return with_products(total, row, column, depth, columns, options);
  };
  if (k_.matrices[p.left].type != Ty::F32) {
    each([&](double total, size_t row, size_t column) {
      return add(total, &left[row], &right[column]);
    });
    return true;
  }
  const SplitMatrix a = split(left), b = split(right);
  each([&](double total, size_t row, size_t column) {
    double part = add(0, &a.low[row], &b.high[column]);
    part = add(part, &a.high[row], &b.low[column]);
    return rounded_sum(total, add(part, &a.high[row], &b.high[column]), options);
  });
  return true;
}

BufferMemory::BufferMemory(const Kernel& k, std::span<const std::span<std::byte>> buffers) {
  std::vector<size_t> order(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Ty storage = k.buffers[i].storage;
    const auto size = static_cast<size_t>(byte_size(storage));
    views_.push_back({buffers[i].data(), buffers[i].size() / size, size, storage, 0});
    order[i] = i;
  }
  const std::less<const std::byte*> before;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return before(views_[a].data, views_[b].data); });
  for (size_t i : order) {
    View& v = views_[i];
    std::byte* end = v.data + v.elements * v.size;
    if (regions_.empty() || !before(v.data, regions_.back().end)) {
      regions_.push_back({v.data, v.data, 8, {}});
    }
    Region& r = regions_.back();
    r.end = std::max(r.end, end, before);
    r.unit = std::min(r.unit, v.size);
    v.region = regions_.size() - 1;
  }
  for (Region& r : regions_) {
    r.touches.resize(static_cast<size_t>(r.end - r.begin) / r.unit + 1);
  }
}

std::span<Touch> BufferMemory::touches(const View& v, uint64_t index) {
  Region& r = regions_[v.region];
  const size_t begin = static_cast<size_t>(v.data - r.begin) + index * v.size;
  const size_t first = begin / r.unit;
  return std::span(r.touches).subspan(first, (begin + v.size - 1) / r.unit - first + 1);
}

std::optional<Race> BufferMemory::load(const MemoryRow& row) {
  const View& v = views_[row.buffer];
  for (const uint32_t n : row.active.list) {
    for (uint32_t l = 0; l < row.lanes; ++l) {
      const uint64_t index = uint64_t{row.index[n]} + l;
      bool alone = true;
      for (Touch& t : touches(v, index)) alone = t.read(row.agent(n), 0) && alone;
      if (!alone) return Race{n, index};
      if (!row.value.is_null())
        row.value.set(l * row.stride + n, load_element(v.data + index * v.size, v.storage));
    }
  }
  return std::nullopt;
}

std::optional<Race> BufferMemory::store(const MemoryRow& row) {
  const View& v = views_[row.buffer];
  for (const uint32_t n : row.active.list) {
    for (uint32_t l = 0; l < row.lanes; ++l) {
      const uint64_t index = uint64_t{row.index[n]} + l;
      std::byte* at = v.data + index * v.size;
      uint64_t bits = row.value.get(l * row.stride + n);
      if (row.mask != nullptr) {
        // Masked stores are not checked for races: a bit that is written twice shows only as a
        // wrong result.
        const uint64_t mask = row.mask[n];
        bits = (load_element(at, v.storage) & ~mask) | (bits & mask);
      } else {
        bool alone = true;
        for (Touch& t : touches(v, index)) alone = t.write(row.agent(n), 0) && alone;
        if (!alone) return Race{n, index};
      }
      store_element(at, v.storage, bits);
    }
  }
  return std::nullopt;
}

}  // namespace reprise::kernel
