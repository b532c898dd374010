// How tokenizers change a text before they cut it.
#pragma once

#include <memory>
#include <string>

#include "codegen/formats/json.h"
#include "runtime/base/status.h"

namespace reprise::text {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// `text` is valid UTF-8 and stays so. It may become longer, within a bound.
  virtual Status apply(std::string& text) const = 0;
};

/// From the member "normalizer" of a tokenizer.json.
Result<std::unique_ptr<Normalizer>> make_normalizer(const formats::Json& json);

}  // namespace reprise::text
