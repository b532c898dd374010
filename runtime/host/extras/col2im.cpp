// Col2Im over any number of spatial dimensions.
#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

constexpr int64_t kSizeLimit = int64_t{1} << 31;

/// The windows over an image. Pads are begins, then ends.
struct Blocks {
  Dims image, kernel, strides, dilations, pads;
  Dims windows;  // how many there are along each axis
};

Result<Dims> read_list(const Call& c, const char* name, size_t size, int64_t fallback,
                       int64_t lowest) {
  Dims v = c.attrs.get_ints(name, Dims(size, fallback));
  bool fits = v.size() == size;
  for (int64_t x : v) fits = fits && x >= lowest && x < kSizeLimit;
  if (fits) return v;
  return invalid_model("attribute '" + std::string(name) + "' " + dims_str(v) + " needs " +
                       std::to_string(size) + " numbers in [" + std::to_string(lowest) + ", 2^31)");
}

/// Core form has the kernel as an attribute, and the image in the dims of the result.
Result<Blocks> read_blocks(const Call& c) {
  Blocks w;
  RP_ASSIGN(w.kernel, read_ints(c, "kernel_shape", 2));
  if (has_input(c, 1)) {
    RP_ASSIGN(w.image, tensor_ints(input(c, 1), "image_shape"));
  } else if (c.output_dims && c.output_dims->size() > 2) {
    w.image.assign(c.output_dims->begin() + 2, c.output_dims->end());
  }
  const size_t rank = w.kernel.size();
  if (rank == 0 || w.image.size() != rank) {
    return invalid_input("image_shape " + dims_str(w.image) + " and block_shape " +
                         dims_str(w.kernel) + " must have as many entries as the image has axes");
  }
  RP_ASSIGN(w.strides, read_list(c, "strides", rank, 1, 1));
  RP_ASSIGN(w.dilations, read_list(c, "dilations", rank, 1, 1));
  RP_ASSIGN(w.pads, read_list(c, "pads", 2 * rank, 0, 0));
  for (size_t d = 0; d < rank; ++d) {
    if (w.kernel[d] < 1 || w.kernel[d] >= kSizeLimit || w.image[d] < 0 ||
        w.image[d] >= kSizeLimit) {
      return invalid_input("image_shape " + dims_str(w.image) + " or block_shape " +
                           dims_str(w.kernel) + " is out of range");
    }
    const int64_t extent = (w.kernel[d] - 1) * w.dilations[d] + 1;
    const int64_t room = w.image[d] + w.pads[d] + w.pads[rank + d] - extent;
    w.windows.push_back(room < 0 ? 0 : room / w.strides[d] + 1);
  }
  return w;
}

/// The index with this row-major position.
void unravel(int64_t position, const Dims& dims, Dims& index) {
  for (size_t d = dims.size(); d-- > 0;) {
    index[d] = position % dims[d];
    position /= dims[d];
  }
}

/// The row-major position of the pixel under a tap of a window; -1 outside the image.
int64_t pixel_of(const Blocks& w, const Dims& window, const Dims& tap) {
  int64_t position = 0;
  for (size_t d = 0; d < w.image.size(); ++d) {
    const int64_t at = window[d] * w.strides[d] - w.pads[d] + tap[d] * w.dilations[d];
    if (at < 0 || at >= w.image[d]) return -1;
    position = position * w.image[d] + at;
  }
  return position;
}

KernelResult col2im(const Call& c) {
  RP_TRY(check_arity(c, 1, 3));
  RP_TRY(require_number(c, 0, "input"));
  RP_TRY(require_rank(c, 0, "input", 3, 3));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(const Blocks w, read_blocks(c));
  const int64_t taps = product(w.kernel);
  const int64_t windows = product(w.windows);
  if (x.dims()[1] % taps != 0 || x.dims()[2] != windows) {
    return invalid_input(describe_input(c, 0, "input") + ": must have a multiple of " +
                         std::to_string(taps) + " channels and " + std::to_string(windows) +
                         " windows");
  }
  Dims dims{x.dims()[0], x.dims()[1] / taps};
  const int64_t planes = product(dims);
  dims.insert(dims.end(), w.image.begin(), w.image.end());
  RP_ASSIGN(auto y, allocate(x.dtype(), dims));
  if (y.count() == 0 || x.count() == 0) return one(std::move(y));
  RP_ASSIGN(std::vector<double> sums, allocate_scratch(w.image));
  std::vector<double> line(static_cast<size_t>(windows));
  Dims tap(w.kernel.size());
  Dims window(w.kernel.size());
  for (int64_t p = 0; p < planes; ++p) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t k = 0; k < taps; ++k) {
      unravel(k, w.kernel, tap);
      load(x, (p * taps + k) * windows, 1, windows, line.data());
      for (int64_t i = 0; i < windows; ++i) {
        unravel(i, w.windows, window);
        const int64_t to = pixel_of(w, window, tap);
        if (to >= 0) sums[static_cast<size_t>(to)] += line[static_cast<size_t>(i)];
      }
    }
    store(y, p * std::ssize(sums), std::ssize(sums), sums.data());
  }
  return one(std::move(y));
}

}  // namespace

Table col2im_table() {
  static constexpr Entry kTable[] = {{"Col2Im", col2im}};
  return kTable;
}

}  // namespace reprise::host
