// How tokenizers cut a text into pieces, such as words, before the model sees it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/text/regex.h"
#include "codegen/formats/json.h"

namespace reprise::text {

/// A part of the text. No piece that stands between two steps is empty.
struct Piece {
  std::string text;
  bool first = false;  // whether the whole text begins with it
};
using Pieces = std::vector<Piece>;

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Cuts one piece and appends what results to `out`.
  virtual Status cut(Piece piece, Pieces& out) const = 0;
};

/// Cuts every piece.
Status cut_all(const PreTokenizer& cutter, Pieces& pieces);

/// From the member "pre_tokenizer" of a tokenizer.json.
Result<std::unique_ptr<PreTokenizer>> make_pre_tokenizer(const formats::Json& json);
/// Cuts at the matches of the patterns, one after the other, and then writes bytes as characters.
std::unique_ptr<PreTokenizer> make_byte_level(std::vector<Regex> patterns);

}  // namespace reprise::text
