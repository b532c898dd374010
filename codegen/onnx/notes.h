// What the importer tells about a model that it accepts.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace reprise::onnx {

class Notes {
 public:
  /// Adds a note unless it was added before.
  void add(std::string text) {
    if (known_.insert(text).second) texts_.push_back(std::move(text));
  }
  /// The first notes, and the number of the others.
  std::vector<std::string> take() {
    constexpr size_t kMost = 20;
    if (texts_.size() > kMost) {
      const size_t others = texts_.size() - kMost;
      texts_.resize(kMost);
      texts_.push_back("the importer has " + std::to_string(others) + " more such notes");
    }
    return std::move(texts_);
  }

 private:
  std::vector<std::string> texts_;
  std::set<std::string> known_;  // the same
};

}  // namespace reprise::onnx
