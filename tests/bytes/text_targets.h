// Targets that read the formats of language models.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace reprise::test {

std::string run_json(std::span<const std::byte> bytes);
std::string run_gguf(std::span<const std::byte> bytes);
/// A tokenizer.json, with which texts are encoded and decoded.
std::string run_tokenizer(std::span<const std::byte> bytes);
std::string run_template(std::span<const std::byte> bytes);

/// Seeds of these targets; empty for others.
std::vector<std::string> text_seeds_of(const std::string& target);

}  // namespace reprise::test
