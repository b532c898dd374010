#include "runtime/weights/packer.h"

#include <algorithm>
#include <cstring>

namespace reprise {
namespace {

/// The packed offsets of the indices of an axis, one after the other.
template <typename Digit>
class Walk {
 public:
  explicit Walk(std::span<const Digit> digits) : digits_(digits), at_(digits.size()) {}

  int64_t offset() const { return offset_; }
  void next() {
    for (size_t i = 0; i < digits_.size(); ++i) {
      offset_ += digits_[i].stride;
      if (++at_[i] < digits_[i].size) return;
      offset_ -= digits_[i].stride * digits_[i].size;
      at_[i] = 0;
    }
  }

 private:
  std::span<const Digit> digits_;
  std::vector<int64_t> at_;
  int64_t offset_ = 0;
};

}  // namespace

int64_t WeightPacker::Axis::padded() const {
  int64_t all = in_word;
  for (const Digit& d : digits) all *= d.size;
  return all;
}

int64_t WeightPacker::Axis::offset(int64_t index) const {
  int64_t sum = 0;
  for (const Digit& d : digits) sum += index / d.step % d.size * d.stride;
  return sum;
}

WeightPacker::WeightPacker(const plan::Packing& packing, uint64_t element)
    : packing_(packing), element_(element) {
  if (packing.is_raw()) return;
  const auto axes = static_cast<int64_t>(packing.dims.size());
  for (const int64_t dim : packing.dims) axes_.push_back({dim});
  const int64_t per_word = packing.per_word();
  int64_t stride = 1;
  word_ = {{0, 0}};
  for (size_t i = packing.parts.size(); i > 0; stride *= packing.parts[--i].size) {
    const plan::Packing::Part& part = packing.parts[i - 1];
    Axis& axis = axes_[static_cast<size_t>(part.axis)];
    if (part.size == 1) continue;
    if (stride >= per_word) {
      axis.digits.push_back({part.size, part.step, stride / per_word});
      continue;
    }
    axis.in_word *= part.size;
    const std::vector<InWord> inner = word_;
    for (int64_t n = 1; n < part.size; ++n) {
      for (InWord e : inner) {
        (part.axis == axes - 1 ? e.place : e.line) += n * part.step;
        word_.push_back(e);
      }
    }
  }
  for (Axis& axis : axes_) std::ranges::sort(axis.digits, {}, &Digit::step);
}

int64_t WeightPacker::lines_together() const {
  const Axis& axis = line_axis();
  if (packing_.bits != 0) return axis.in_word;
  return axis.digits.empty() ? 1 : axis.digits[0].size;
}

uint64_t WeightPacker::unit() const {
  if (packing_.is_raw()) return element_;
  const uint64_t line = static_cast<uint64_t>(last_axis().dim) * element_;
  if (packing_.bits == 0) return line;
  int64_t matrices = 1;
  for (size_t i = 0; i + 2 < axes_.size(); ++i) matrices *= axes_[i].dim;
  const int64_t lines = line_axis().dim, together = line_axis().in_word;
  const bool cut = matrices == 1 || lines % together == 0;
  return static_cast<uint64_t>(cut ? together : lines) * line;
}

int64_t WeightPacker::offset_of_outer(int64_t outer) const {
  int64_t sum = 0;
  for (size_t i = axes_.size() - 2; i > 0; --i) {
    const Axis& axis = axes_[i - 1];
    sum += axis.offset(outer % axis.dim);
    outer /= axis.dim;
  }
  return sum;
}

template <typename Use>
void WeightPacker::for_lines(int64_t first, int64_t count, const Use& use) const {
  const Axis& axis = line_axis();
  const int64_t together = lines_together();
  for (int64_t i = 0; i < count;) {
    const int64_t line = (first + i) % axis.dim;
    const int64_t n = std::min({together - line % together, axis.dim - line, count - i});
    use(Lines{n, offset_of_outer((first + i) / axis.dim) + axis.offset(line)}, i);
    i += n;
  }
}

template <typename T>
void WeightPacker::add_columns(const Lines& lines, const T* from, T* out) const {
  const int64_t length = last_axis().dim, padded = last_axis().padded();
  const std::span digits(last_axis().digits);
  const int64_t run = digits.empty() ? 1 : digits[0].size;
  const int64_t between = digits.empty() ? 0 : digits[0].stride;
  Walk<Digit> at(digits.empty() ? digits : digits.subspan(1));
  for (int64_t begin = 0; begin < padded; begin += run, at.next()) {
    T* to = out + lines.offset + at.offset();
    const int64_t end = std::clamp(length, begin, begin + run);
    for (int64_t x = begin; x < end; ++x, to += between)
      for (int64_t i = 0; i < lines.count; ++i) to[i] = from[i * length + x];
    for (int64_t x = end; x < begin + run; ++x, to += between) std::fill_n(to, lines.count, T{});
  }
}

template <typename T>
void WeightPacker::add_rows(const Lines& lines, const T* from, T* out) const {
  const int64_t length = last_axis().dim, padded = last_axis().padded();
  const std::span digits(last_axis().digits);
  const bool runs = !digits.empty() && digits[0].stride == 1;
  const int64_t run = runs ? digits[0].size : 1;
  const int64_t between = line_axis().digits.empty() ? 0 : line_axis().digits[0].stride;
  Walk<Digit> at(runs ? digits.subspan(1) : digits);  // at 0 again after each line
  for (int64_t i = 0; i < lines.count; ++i, from += length) {
    for (int64_t x = 0; x < padded; x += run, at.next()) {
      T* const to = out + lines.offset + i * between + at.offset();
      const int64_t valid = std::clamp<int64_t>(length - x, 0, run);
      std::copy_n(from + x, valid, to);
      std::fill(to + valid, to + run, T{});
    }
  }
}

template <typename T>
void WeightPacker::add_elements(uint64_t offset, std::span<const std::byte> piece,
                                std::byte* out) const {
  const auto* const from = reinterpret_cast<const T*>(piece.data());
  auto* const to = reinterpret_cast<T*>(out);
  const int64_t length = last_axis().dim;
  const auto stride = [](const Axis& a) { return a.digits.empty() ? 0 : a.digits[0].stride; };
  const bool columns = stride(line_axis()) == 1 && stride(last_axis()) != 1;
  const auto first = static_cast<int64_t>(offset / sizeof(T)) / length;
  const auto count = static_cast<int64_t>(piece.size() / sizeof(T)) / length;
  for_lines(first, count, [&](const Lines& lines, int64_t i) {
    if (columns) {
      add_columns<T>(lines, from + i * length, to);
    } else {
      add_rows<T>(lines, from + i * length, to);
    }
  });
}

void WeightPacker::add_words(uint64_t offset, std::span<const std::byte> piece,
                             std::byte* out) const {
  const int64_t length = last_axis().dim, padded = last_axis().padded();
  const int64_t across = last_axis().in_word;
  const auto bits = static_cast<uint32_t>(packing_.bits), mask = (1U << bits) - 1;
  std::vector<int64_t> from_first;
  for (const InWord& e : word_) from_first.push_back(e.line * length + e.place);
  const auto first = static_cast<int64_t>(offset) / length;
  Walk<Digit> at(last_axis().digits);  // at 0 again after each line
  for_lines(first, static_cast<int64_t>(piece.size()) / length, [&](const Lines& lines, int64_t i) {
    const std::byte* const from = piece.data() + i * length;
    const bool whole = lines.count == line_axis().in_word;
    for (int64_t x = 0; x < padded; x += across, at.next()) {
      const bool inside = whole && x + across <= length;
      uint32_t word = 0;
      for (size_t e = 0; e < word_.size(); ++e) {
        if (inside || (word_[e].line < lines.count && x + word_[e].place < length))
          word |= (std::to_integer<uint32_t>(from[x + from_first[e]]) & mask) << (bits * e);
      }
      std::memcpy(out + (lines.offset + at.offset()) * 4, &word, sizeof word);
    }
  });
}

template <typename T>
void WeightPacker::clear_lines(std::byte* out) const {
  auto* const to = reinterpret_cast<T*>(out);
  int64_t outer = 1;
  for (size_t i = 0; i + 2 < axes_.size(); ++i) outer *= axes_[i].padded();
  const Axis& lines = line_axis();
  const int64_t used = (lines.dim + lines.in_word - 1) / lines.in_word * lines.in_word;
  for (int64_t n = 0; n < outer; ++n) {
    int64_t rest = n, base = 0;
    bool outside = false;
    for (size_t i = axes_.size() - 2; i > 0; --i) {
      const Axis& axis = axes_[i - 1];
      const int64_t index = rest % axis.padded();
      rest /= axis.padded();
      outside = outside || index >= axis.dim;
      base += axis.offset(index);
    }
    for (int64_t line = outside ? 0 : used; line < lines.padded(); line += lines.in_word) {
      Walk<Digit> at(last_axis().digits);
      for (int64_t x = 0; x < last_axis().padded(); x += last_axis().in_word, at.next())
        to[base + lines.offset(line) + at.offset()] = T{};
    }
  }
}

void WeightPacker::add(uint64_t offset, std::span<const std::byte> piece,
                       std::span<std::byte> out) const {
  if (packing_.is_raw()) {
    std::ranges::copy(piece, out.begin() + static_cast<std::ptrdiff_t>(offset));
    return;
  }
  if (packing_.bits != 0) {
    if (offset == 0) clear_lines<uint32_t>(out.data());
    return add_words(offset, piece, out.data());
  }
  const auto add_as = [&]<typename T>(T) {
    if (offset == 0) clear_lines<T>(out.data());
    add_elements<T>(offset, piece, out.data());
  };
  switch (element_) {
    case 1:
      return add_as(uint8_t{});
    case 2:
      return add_as(uint16_t{});
    case 4:
      return add_as(uint32_t{});
    default:
      return add_as(uint64_t{});
  }
}

}  // namespace reprise
