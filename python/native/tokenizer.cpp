#include "python/native/tokenizer.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/generate/model_text.h"
#include "python/native/errors.h"

namespace nb = nanobind;

namespace reprise::python {
namespace {

/// The object is one stream of text, and its vocabulary that of all streams.
class Tokenizer {
 public:
  explicit Tokenizer(std::unique_ptr<app::ModelText> text) : text_(std::move(text)) {}

  Tokenizer stream() const { return Tokenizer(text_->another()); }
  std::vector<int64_t> encode(const std::string& text) const { return take(text_->encode(text)); }
  std::vector<int64_t> encode_chat(
      const std::vector<std::pair<std::string, std::string>>& turns) const {
    std::vector<app::ChatTurn> chat;
    chat.reserve(turns.size());
    for (const auto& [role, content] : turns) chat.push_back({role, content});
    return take(text_->encode_prompt(take(text_->chat_prompt(chat)), {}));
  }
  std::string add(int64_t id) { return text_->add(id); }
  std::string finish() { return text_->finish(); }
  bool ends(int64_t id) const { return text_->ends(id); }

 private:
  std::unique_ptr<app::ModelText> text_;
};

Tokenizer open_tokenizer(const std::string& path) {
  const nb::gil_scoped_release release;
  return Tokenizer(take(app::ModelText::open(path)));
}

}  // namespace

void bind_tokenizers(nb::module_& m) {
  nb::class_<Tokenizer>(
      m, "Tokenizer",
      "The tokenizer and the chat template of a language model.\n\n"
      "One object decodes one text at a time; stream() returns others for the same vocabulary.\n"
      "One thread at a time may use an object.")
      .def("stream", &Tokenizer::stream,
           "Returns one for another text that is generated meanwhile.")
      .def("encode", &Tokenizer::encode, nb::arg("text"),
           "Returns the ids of a text, with those that the model expects around it.")
      .def("encode_chat", &Tokenizer::encode_chat, nb::arg("turns"),
           "Returns the ids of a chat, up to the beginning of the next answer.\n\n"
           "The turns are pairs of a role and a content.\n\n"
           "Raises Unsupported if the model has no chat template.")
      .def("add", &Tokenizer::add, nb::arg("id"),
           "Adds an id that was generated, and returns the text that it completes.")
      .def("finish", &Tokenizer::finish,
           "Returns what is left at the end of a text. Another text can begin then.")
      .def("ends", &Tokenizer::ends, nb::arg("id"), "Whether an id ends the text.");
  m.def("open_tokenizer", open_tokenizer, nb::arg("path"),
        "Opens the tokenizer of a .gguf file, of a folder of Hugging Face, of a package, or of a\n"
        "tokenizer.json with the files beside it.");
}

}  // namespace reprise::python
