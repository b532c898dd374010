// ModelText in builds without the libraries that tokenizers need.
#include "apps/generate/model_text.h"

namespace reprise::app {

Result<std::unique_ptr<ModelText>> ModelText::open(const std::string& path) {
  return Status(Code::Unsupported,
                "cannot read the tokenizer of '" + path +
                    "': this build has none, because libicu-dev or libpcre2-dev was missing; pass "
                    "ids with --ids");
}

Result<std::vector<int64_t>> ModelText::encode_chat(const std::string& message) const {
  return encode(message);  // never called
}

}  // namespace reprise::app
