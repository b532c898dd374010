// Fourier transforms of any length, in double, and weights of mel filters.
#include <algorithm>
#include <complex>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"
#include "runtime/operators/root_of_unity.h"

namespace reprise::host {

namespace {

using Complex = std::complex<double>;

/// A plan for transforms of one length: the powers of its root of unity.
class Fourier {
 public:
  Fourier(int64_t length, bool inverse) : roots_(static_cast<size_t>(length)) {
    for (int64_t j = 0; j < length; ++j) {
      const Complex root = root_of_unity(j, length);
      roots_[static_cast<size_t>(j)] = inverse ? root : std::conj(root);
    }
  }

  int64_t length() const { return std::ssize(roots_); }

  /// Not scaled, in either direction.
  void run(const Complex* in, Complex* out) { run(in, 1, out, length()); }

 private:
  static int64_t least_factor(int64_t n) {
    for (int64_t f = 2; f * f <= n; ++f) {
      if (n % f == 0) return f;
    }
    return n;
  }

  const Complex& root(int64_t power) const { return roots_[static_cast<size_t>(power % length())]; }

  /// Transforms the n elements in[0], in[stride], ...: every p-th of them by itself, for the least
  /// factor p of n, and then p results at a time.
  void run(const Complex* in, int64_t stride, Complex* out, int64_t n) {
    if (n == 1) {
      *out = *in;
      return;
    }
    const int64_t p = least_factor(n);
    const int64_t m = n / p;
    for (int64_t r = 0; r < p; ++r) run(in + r * stride, stride * p, out + r * m, m);
    const int64_t step = length() / n;
    std::vector<Complex> terms(static_cast<size_t>(p));
    for (int64_t k = 0; k < m; ++k) {
      for (int64_t r = 0; r < p; ++r)
        terms[static_cast<size_t>(r)] = out[r * m + k] * root(r * k * step);
      for (int64_t q = 0; q < p; ++q) {
        Complex sum = 0;
        for (int64_t r = 0; r < p; ++r)
          sum += terms[static_cast<size_t>(r)] * root(r * q * m * step);
        out[q * m + k] = sum;
      }
    }
  }

  std::vector<Complex> roots_;
};

constexpr int64_t kLongest = int64_t{1} << 31;

/// Element i of a row of complex or real numbers in memory.
struct RowView {
  const double* first;
  int64_t stride;  // between elements
  int64_t parts;   // 1: real numbers

  Complex at(int64_t i) const {
    const double* p = first + i * stride;
    return {p[0], parts == 2 ? p[1] : 0.0};
  }
};

Result<int64_t> check_parts(const Call& c, std::string_view role) {
  const int64_t parts = input(c, 0).dims().back();
  if (parts == 1 || parts == 2) return parts;
  return invalid_input(describe_input(c, 0, role) +
                       ": the last dim must be 1 (real) or 2 (complex numbers)");
}

struct DftShape {
  int64_t axis = 0;
  int64_t length = 0;
  int64_t bins = 0;
  bool inverse = false;
  bool mirrored = false;  // the operand is half of a spectrum, and the result is real
};

Result<DftShape> read_dft(const Call& c) {
  const HostTensor& x = input(c, 0);
  DftShape d;
  d.inverse = c.attrs.get_int("inverse", 0) != 0;
  const bool onesided = c.attrs.get_int("onesided", 0) != 0;
  d.mirrored = d.inverse && onesided;
  int64_t axis = c.attrs.get_int("axis", c.opset != 0 && c.opset < 20 ? 1 : -2);
  if (has_input(c, 2)) {
    RP_ASSIGN(const Dims given, tensor_ints(input(c, 2), "axis"));
    if (given.size() != 1) return invalid_input("axis must hold one integer");
    axis = given[0];
  }
  RP_ASSIGN(d.axis, normalize_axis(axis, x.rank()));
  if (d.axis == x.rank() - 1) return invalid_input("axis is that of the complex numbers");
  const int64_t dim = at(x.dims(), d.axis);
  d.length = d.mirrored ? 2 * (dim - 1) : dim;
  if (has_input(c, 1)) {
    RP_ASSIGN(const double given, scalar_value(c, 1, "dft_length"));
    d.length = saturate_i64(given);
  }
  if (d.length < 1 || d.length >= kLongest)
    return invalid_input("dft_length is " + std::to_string(d.length) + ", must be in [1, 2^31)");
  d.bins = onesided && !d.inverse ? d.length / 2 + 1 : d.length;
  return d;
}

/// Fills `row` from the operand. What it lacks is 0 or, of half a spectrum, the mirror image.
void fill_row(const DftShape& d, const RowView& from, int64_t given, std::vector<Complex>& row) {
  std::fill(row.begin(), row.end(), Complex(0));
  const int64_t half = d.length / 2 + 1;
  const int64_t count = std::min(given, d.mirrored ? half : d.length);
  for (int64_t i = 0; i < count; ++i) row[static_cast<size_t>(i)] = from.at(i);
  if (!d.mirrored) return;
  // The signal is real, so that the elements that are their own mirror images are real, too.
  for (int64_t i = 0; i < half; ++i) {
    const int64_t other = (d.length - i) % d.length;
    Complex& e = row[static_cast<size_t>(i)];
    if (other == i) e = e.real();
    row[static_cast<size_t>(other)] = std::conj(e);
  }
}

KernelResult dft(const Call& c) {
  RP_TRY(check_arity(c, 1, 3));
  RP_TRY(require_float(c, 0, "input"));
  RP_TRY(require_rank(c, 0, "input", 2, 64));
  RP_ASSIGN(const int64_t parts, check_parts(c, "input"));
  RP_ASSIGN(const DftShape d, read_dft(c));
  const HostTensor& x = input(c, 0);
  const int64_t parts_out = d.mirrored ? 1 : 2;
  Dims dims = x.dims();
  at(dims, d.axis) = d.bins;
  dims.back() = parts_out;
  RP_ASSIGN(auto y, allocate(x.dtype(), dims));
  if (y.count() == 0) return one(std::move(y));
  RP_ASSIGN(const auto v, load_all(x));
  RP_TRY(allocate_scratch(Dims{d.length, 6}).status());
  Fourier plan(d.length, d.inverse);
  std::vector<Complex> row(static_cast<size_t>(d.length));
  std::vector<Complex> result(row.size());
  const AxisSplit s = split_at(x.dims(), d.axis);
  const int64_t lines = s.inner / parts;
  const double scale = d.inverse ? 1 / static_cast<double>(d.length) : 1;
  for (int64_t i = 0; i < s.outer * lines; ++i) {
    const int64_t outer = i / lines;
    const int64_t line = i % lines;
    const RowView from{v.data() + outer * s.size * s.inner + line * parts, s.inner, parts};
    fill_row(d, from, s.size, row);
    plan.run(row.data(), result.data());
    for (int64_t k = 0; k < d.bins; ++k) {
      const Complex e = result[static_cast<size_t>(k)] * scale;
      const double numbers[] = {e.real(), e.imag()};
      store(y, ((outer * d.bins + k) * lines + line) * parts_out, parts_out, numbers);
    }
  }
  return one(std::move(y));
}

struct StftShape {
  int64_t step = 0;
  int64_t length = 0;  // of a frame
  int64_t frames = 0;
  int64_t bins = 0;
};

Result<StftShape> read_stft(const Call& c) {
  const int64_t signal = input(c, 0).dims()[1];
  StftShape s;
  RP_ASSIGN(const double step, scalar_value(c, 1, "frame_step"));
  s.step = saturate_i64(step);
  s.length = has_input(c, 2) ? input(c, 2).count() : signal;
  if (has_input(c, 3)) {
    RP_ASSIGN(const double length, scalar_value(c, 3, "frame_length"));
    s.length = saturate_i64(length);
  }
  if (s.step < 1)
    return invalid_input("frame_step is " + std::to_string(s.step) + ", must be positive");
  if (s.length < 1 || s.length > signal) {
    return invalid_input("a frame has " + std::to_string(s.length) + " elements, must have 1 to " +
                         std::to_string(signal) + ", the length of the signal");
  }
  if (has_input(c, 2) && input(c, 2).dims() != Dims{s.length}) {
    return invalid_input(describe_input(c, 2, "window") +
                         ": must have one element for each of the " + std::to_string(s.length) +
                         " of a frame");
  }
  s.frames = (signal - s.length) / s.step + 1;
  s.bins = c.attrs.get_int("onesided", 1) != 0 ? s.length / 2 + 1 : s.length;
  return s;
}

KernelResult stft(const Call& c) {
  RP_TRY(check_arity(c, 2, 4));
  RP_TRY(require_float(c, 0, "signal"));
  RP_TRY(require_rank(c, 0, "signal", 2, 3));
  const HostTensor& x = input(c, 0);
  int64_t parts = 1;
  if (x.dims().size() == 3) {
    RP_ASSIGN(parts, check_parts(c, "signal"));
  }
  RP_ASSIGN(const StftShape s, read_stft(c));
  RP_ASSIGN(auto y, allocate(x.dtype(), {x.dims()[0], s.frames, s.bins, 2}));
  if (y.count() == 0) return one(std::move(y));
  RP_ASSIGN(const auto v, load_all(x));
  std::vector<double> window(static_cast<size_t>(s.length), 1.0);
  if (has_input(c, 2)) load(input(c, 2), 0, 1, s.length, window.data());
  Fourier plan(s.length, false);
  std::vector<Complex> row(window.size());
  std::vector<Complex> result(window.size());
  for (int64_t i = 0; i < x.dims()[0] * s.frames; ++i) {
    const int64_t first = i / s.frames * x.dims()[1] + i % s.frames * s.step;
    const RowView from{v.data() + first * parts, parts, parts};
    for (size_t k = 0; k < row.size(); ++k) row[k] = from.at(static_cast<int64_t>(k)) * window[k];
    plan.run(row.data(), result.data());
    for (int64_t k = 0; k < s.bins; ++k) {
      const Complex& e = result[static_cast<size_t>(k)];
      const double numbers[] = {e.real(), e.imag()};
      store(y, (i * s.bins + k) * 2, 2, numbers);
    }
  }
  return one(std::move(y));
}

double mel_of(double hertz) {
  return 2595 * std::log10(1 + hertz / 700);
}

double hertz_of(double mel) {
  return 700 * (std::pow(10, mel / 2595) - 1);
}

/// The weight of a spectrum's bin in a triangle, which is 1 at its centre.
double triangle(int64_t bin, int64_t left, int64_t centre, int64_t right) {
  const auto ratio = [](int64_t a, int64_t b) {
    return static_cast<double>(a) / static_cast<double>(b);
  };
  if (bin == centre) return 1;
  if (bin > left && bin < centre) return ratio(bin - left, centre - left);
  if (bin > centre && bin < right) return ratio(right - bin, right - centre);
  return 0;
}

KernelResult mel_weights(const Call& c) {
  RP_TRY(check_arity(c, 5, 5));
  constexpr std::string_view kRoles[] = {"num_mel_bins", "dft_length", "sample_rate",
                                         "lower_edge_hertz", "upper_edge_hertz"};
  double v[5];
  for (size_t i = 0; i < 5; ++i) {
    RP_ASSIGN(v[i], scalar_value(c, i, kRoles[i]));
  }
  if (!(v[0] >= 0 && v[0] < 0x1p31 && v[1] >= 0 && v[1] < 0x1p31 && v[2] > 0))
    return invalid_input("num_mel_bins, dft_length or sample_rate is out of range");
  RP_ASSIGN(const DType t, dtype_from_onnx(c.attrs.get_int("output_datatype", 1)));
  if (domain_of(t) == Domain::None || t == DType::Bool)
    return unsupported("weights of numbers only");
  const auto bins = static_cast<int64_t>(v[0]);
  const auto length = static_cast<int64_t>(v[1]);
  RP_ASSIGN(auto y, allocate(t, {length / 2 + 1, bins}));
  const double low = mel_of(v[3]);
  const double step = (mel_of(v[4]) - low) / static_cast<double>(bins + 2);
  const auto edge = [&](int64_t i) {
    const double hertz = hertz_of(low + static_cast<double>(i) * step);
    return saturate_i64(std::floor(static_cast<double>(length + 1) * hertz / v[2]));
  };
  for (int64_t m = 0; m < bins; ++m) {
    const int64_t left = edge(m), centre = edge(m + 1), right = edge(m + 2);
    for (int64_t k = 0; k <= length / 2; ++k) {
      const double weight = triangle(k, left, centre, right);
      store(y, k * bins + m, 1, &weight);
    }
  }
  return one(std::move(y));
}

}  // namespace

Table signal_table() {
  static constexpr Entry kTable[] = {
      {"DFT", dft}, {"STFT", stft}, {"MelWeightMatrix", mel_weights}};
  return kTable;
}

}  // namespace reprise::host
