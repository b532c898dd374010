// Texts with numbers, found by their beginning.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::text {

class Trie {
 public:
  static constexpr uint32_t kNone = 0;  // the root is nobody's child

  Trie() { nodes_.emplace_back(); }
  /// Of texts that are not empty. Numbers are not negative; the last one of a text counts.
  explicit Trie(std::vector<std::pair<std::string, int32_t>> entries);

  uint32_t root() const { return 0; }
  /// The node that one more byte leads to, or kNone.
  uint32_t next(uint32_t node, char byte) const {
    const auto label = static_cast<unsigned char>(byte);
    return node == 0 ? first_[label] : search(nodes_[node], label);
  }
  /// The number of the text that ends here, or -1.
  int32_t value(uint32_t node) const { return nodes_[node].value; }

 private:
  struct Node {
    uint32_t children = 0;
    uint16_t count = 0;
    unsigned char label = 0;
    int32_t value = -1;
  };
  uint32_t search(const Node& node, unsigned char label) const;

  std::vector<Node> nodes_;  // the children of a node follow each other, in the order of labels
  std::array<uint32_t, 256> first_{};
};

}  // namespace reprise::text
