// Convolution as a matrix multiplication over unfolded inputs. The quantised operators share it.
#pragma once

#include "runtime/host/gemm.h"
#include "runtime/host/nn/window.h"

namespace reprise::host {

struct ConvProblem {
  Window window;
  int64_t batch = 0, channels = 0, outputs = 0, group = 1;
  Dims out;  // [N, M, spatial...]
};
/// Checks x [N, C, spatial...] against w [M, C / group, spatial...].
Result<ConvProblem> conv_problem(const Call& c, const HostTensor& x, const HostTensor& w);

/// Receives `count` results of image n and output channel m, beginning with pixel `at`.
using StorePixels =
    std::function<void(int64_t n, int64_t m, int64_t at, int64_t count, const double* v)>;
/// Sums (x - x_zero) * (w - w_zero). w_zero is empty (0), or has one value, or one per output
/// channel.
void convolve(const ConvProblem& p, const HostTensor& x, const HostTensor& w, double x_zero,
              std::span<const double> w_zero, const StorePixels& store);

}  // namespace reprise::host
