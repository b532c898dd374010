// Writes GGUF files, right and wrong ones.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::test {

class GgufWriter {
 public:
  uint32_t version = 3;

  GgufWriter& text(std::string_view key, std::string_view value) {
    return entry(key, 8, sized(value));
  }
  GgufWriter& u32(std::string_view key, uint32_t value) { return entry(key, 4, raw(value)); }
  GgufWriter& i64(std::string_view key, int64_t value) { return entry(key, 11, raw(value)); }
  GgufWriter& f32(std::string_view key, float value) { return entry(key, 6, raw(value)); }
  GgufWriter& boolean(std::string_view key, uint8_t value) { return entry(key, 7, raw(value)); }
  GgufWriter& texts(std::string_view key, const std::vector<std::string>& values) {
    std::string items;
    for (const std::string& v : values) items += sized(v);
    return array(key, 8, values.size(), items);
  }
  template <typename T>
  GgufWriter& numbers(std::string_view key, uint32_t kind, const std::vector<T>& values) {
    std::string items;
    for (const T& v : values) items += raw(v);
    return array(key, kind, values.size(), items);
  }
  GgufWriter& array(std::string_view key, uint32_t kind, uint64_t count, const std::string& items) {
    return entry(key, 9, raw(kind) + raw(count) + items);
  }
  GgufWriter& entry(std::string_view key, uint32_t kind, const std::string& bytes) {
    ++keys_;
    metadata_ += sized(key) + raw(kind) + bytes;
    return *this;
  }
  /// The data begin at the next multiple of 32 bytes.
  GgufWriter& tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                     const std::string& bytes) {
    data_.resize((data_.size() + 31) / 32 * 32);
    tensor_at(name, dims, type, data_.size());
    data_ += bytes;
    return *this;
  }
  GgufWriter& tensor_at(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                        uint64_t offset) {
    ++tensors_;
    directory_ += sized(name) + raw(static_cast<uint32_t>(dims.size()));
    for (const uint64_t d : dims) directory_ += raw(d);
    directory_ += raw(type) + raw(offset);
    return *this;
  }

  std::string bytes() const {
    std::string out = "GGUF" + raw(version) + raw(tensors_) + raw(keys_) + metadata_ + directory_;
    if (!data_.empty()) out.resize((out.size() + 31) / 32 * 32);
    return out + data_;
  }

  template <typename T>
  static std::string raw(const T& value) {
    std::string out(sizeof value, '\0');
    std::memcpy(out.data(), &value, sizeof value);
    return out;
  }
  static std::string sized(std::string_view text) {
    return raw(static_cast<uint64_t>(text.size())) + std::string(text);
  }

 private:
  uint64_t keys_ = 0, tensors_ = 0;
  std::string metadata_, directory_, data_;
};

}  // namespace reprise::test
