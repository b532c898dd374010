// What a program's results are, and how far from them a correct device may be.
//
// The host plan is the reference. A result is compared with it element by element. Where they
// differ by more than the last places, the graph in core form is evaluated again on the host with
// the error of each operator put in: every result is moved by up to what its operator may be wrong
// (the error bounds of scalar_ops.def; for sums, what the order of their terms can do), results
// below the smallest normal number may become zero, zeros may change their sign, and numbers of
// 16 bits may keep the digits of fp32, as they do within a kernel. Over several
// such runs the results spread; an element may be off by a few times its spread. So an element that
// a cancellation makes meaningless is compared loosely, and its neighbours are not.
#pragma once

#include <string>
#include <vector>

#include "tests/fuzz/lib/evaluation.h"

namespace reprise::fuzz {

/// How results are compared.
struct Comparison {
  int64_t elements = 0;
  int64_t analysed = 0;  // compared by their spread
  int64_t skipped = 0;   // no number is wrong there: the spread covers everything
  std::string wrong;     // the first that is; empty where none is
};

/// The results of one run, with what is known of their spread.
class Reference {
 public:
  /// `memory`: what floats are between kernels.
  Reference(const Evaluation& core, std::vector<int64_t> symbols, Tensors inputs, Tensors expected,
            DType memory = DType::F32)
      : core_(core),
        symbols_(std::move(symbols)),
        inputs_(std::move(inputs)),
        expected_(std::move(expected)),
        memory_(memory) {}

  const Tensors& expected() const { return expected_; }
  const Tensors& inputs() const { return inputs_; }
  const std::vector<int64_t>& symbols() const { return symbols_; }
  /// Compares results, in the order of the outputs.
  Comparison compare(const Tensors& results);

 private:
  Status more_samples(size_t count);
  bool sizes_vary(size_t output);
  bool agrees(size_t output, int64_t i, const HostTensor& got, bool& skipped) const;

  const Evaluation& core_;
  std::vector<int64_t> symbols_;
  Tensors inputs_, expected_;
  DType memory_;
  Trace trace_;    // the core form without errors
  Tensors exact_;  // its outputs
  std::vector<Tensors> samples_;
  bool has_infinities_ = false;  // among inputs and constants
  bool overflows_ = false;       // in the core form, some operator's result alone is infinite
};

/// Whether two results have the same bits, but for NaN, any of which stands for any other.
bool same_bits(const HostTensor& a, const HostTensor& b);

}  // namespace reprise::fuzz
