// Large constants that decompositions make of others. A model is decomposed for the host and for
// devices; both then share them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "runtime/base/tensor.h"

namespace reprise::ops {

/// While it exists, decompositions on this thread share what they make of the same memory.
class MadeConstants {
 public:
  MadeConstants();
  MadeConstants(const MadeConstants&) = delete;
  MadeConstants& operator=(const MadeConstants&) = delete;
  ~MadeConstants();

  /// make(), or what it returned before for the memory of this tensor and this key, which tells
  /// what is made of it. Small tensors, and all without a MadeConstants on this thread, are made
  /// each time.
  static HostTensor get(const HostTensor& from, const std::string& key,
                        const std::function<HostTensor()>& make);

 private:
  struct Made {
    HostTensor from;  // so that its memory is not used again
    HostTensor tensor;
  };
  MadeConstants* before_;
  std::map<std::pair<const std::byte*, std::string>, Made> made_;
};

}  // namespace reprise::ops
