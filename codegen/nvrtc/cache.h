// A cache of images on disk. The key is made of the text, the options and the compiler's version. A
// damaged file counts as absent and is written again. The size of the folder is bounded.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/nvrtc/compile.h"

namespace reprise::nvrtc {

class ImageCache {
 public:
  using Log = std::function<void(const std::string&)>;
  /// With an empty `folder`, nothing is cached. `log` may be called from any thread.
  ImageCache(std::string folder, uint64_t limit, Log log);
  ImageCache(const ImageCache&) = delete;
  ImageCache& operator=(const ImageCache&) = delete;

  /// 32 hexadecimal digits.
  static std::string key(const std::string& text, const std::vector<std::string>& options,
                         const std::string& version);
  /// Thread-safe. An image that is found counts as used now.
  std::optional<Image> find(const std::string& key) const;
  /// Thread-safe; failures are logged.
  void put(const std::string& key, const Image& image) const;
  /// Thread-safe. Stores the text that an image was compiled from (CompileOptions::keep_source).
  void put_source(const Image& image, const std::string& text) const;
  /// Removes the least recently used images, and texts, until each kind is within the limit.
  void bound() const;

 private:
  std::string path(const std::string& key) const;

  std::string folder_;
  uint64_t limit_;
  Log log_;
};

}  // namespace reprise::nvrtc
