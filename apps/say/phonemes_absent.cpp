#include "apps/say/phonemes.h"

namespace say {

Result<std::vector<std::string>> phonemes_of(const std::string& /*text*/,
                                             const std::string& /*voice*/) {
  return Error{
      REPRISE_UNSUPPORTED,
      "this reprise-say was built without espeak-ng, so it reads no text; give --phonemes, "
      "or install libespeak-ng-dev and build again"};
}

}  // namespace say
