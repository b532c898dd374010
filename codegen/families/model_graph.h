// The graph of a language model with what generating text needs beside it.
#pragma once

#include "codegen/builder/graph_builder.h"

namespace reprise::families {

// Keys of the metadata of such a graph, and so of its package.
inline constexpr const char* kContextKey = "reprise.context";        // the most positions
inline constexpr const char* kVocabularyKey = "reprise.vocabulary";  // the number of tokens
inline constexpr const char* kEndTokensKey = "reprise.end_tokens";   // "1,2"
/// The files of a folder, with their text.
inline constexpr const char* kTokenizerKey = "reprise.tokenizer.json";
inline constexpr const char* kTokenizerConfigKey = "reprise.tokenizer_config.json";
inline constexpr const char* kChatTemplateKey = "reprise.chat_template.jinja";
/// The keys "tokenizer." of a GGUF file, as such a file in base64.
inline constexpr const char* kGgufTokenizerKey = "reprise.tokenizer.gguf";

/// build_decoder() of open_decoder(), with these metadata. A model without a tokenizer has none of
/// the keys of tokenizers.
Result<builder::BuiltGraph> build_model(const std::string& path);

}  // namespace reprise::families
