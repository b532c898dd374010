#include "apps/text/gguf_patterns.h"

#include <algorithm>
#include <iterator>

namespace reprise::text {

namespace {

// Abbreviations of English: 's, 't, 're, ... in lower case, or in any.
#define REPRISE_SHORT "'s|'t|'re|'ve|'m|'ll|'d"
#define REPRISE_SHORT_ANY "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
// Where a run of spaces ends a piece.
#define REPRISE_LINES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define REPRISE_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define REPRISE_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

constexpr std::string_view kGpt2[] = {REPRISE_SHORT
                                      R"(| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))"};
constexpr std::string_view kDigitsApart[] = {R"(\p{N})", kGpt2[0]};
constexpr std::string_view kDefault[] = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2[0], R"(\p{N}+)",
                                         "[0-9][0-9][0-9]"};
constexpr std::string_view kFalcon[] = {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2[0], "[0-9][0-9][0-9]"};
constexpr std::string_view kLlama3[] = {
    REPRISE_SHORT_ANY
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" REPRISE_LINES};
constexpr std::string_view kQwen2[] = {
    REPRISE_SHORT_ANY
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" REPRISE_LINES};
constexpr std::string_view kGpt4o[] = {R"([^\r\n\p{L}\p{N}]?)" REPRISE_UPPER "*" REPRISE_LOWER
                                       "+" REPRISE_SHORT_ANY R"(?|[^\r\n\p{L}\p{N}]?)" REPRISE_UPPER
                                       "+" REPRISE_LOWER "*" REPRISE_SHORT_ANY
                                       R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" REPRISE_LINES};
constexpr std::string_view kTekken[] = {R"([^\r\n\p{L}\p{N}]?)" REPRISE_UPPER "*" REPRISE_LOWER
                                        "+"
                                        R"(|[^\r\n\p{L}\p{N}]?)" REPRISE_UPPER "+" REPRISE_LOWER
                                        R"(*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" REPRISE_LINES};
constexpr std::string_view kDeepseek3[] = {
    R"(\p{N}{1,3})", R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|)" REPRISE_LINES};
constexpr std::string_view kDeepseekCoder[] = {
    R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
    R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)", R"(\p{N})"};

#undef REPRISE_SHORT
#undef REPRISE_SHORT_ANY
#undef REPRISE_LINES
#undef REPRISE_UPPER
#undef REPRISE_LOWER

constexpr GgufPattern kPatterns[] = {
    {"default", kDefault},
    {"gpt-2", kGpt2},
    {"phi-2", kGpt2},
    {"mpt", kGpt2},
    {"olmo", kGpt2},
    {"jais", kGpt2},
    {"gigachat", kGpt2},
    {"roberta-bpe", kGpt2, false, true},
    {"smollm", kDigitsApart},
    {"starcoder", kDigitsApart},
    {"refact", kDigitsApart},
    {"command-r", kDigitsApart},
    {"codeshell", kDigitsApart},
    {"exaone", kDigitsApart},
    {"minerva-7b", kDigitsApart},
    {"falcon", kFalcon},
    {"llama-bpe", kLlama3, true, true},
    {"llama3", kLlama3, true, true},
    {"llama-v3", kLlama3, true, true},
    {"falcon3", kLlama3, true, true},
    {"dbrx", kLlama3},
    {"smaug-bpe", kLlama3},
    {"qwen2", kQwen2},
    {"stablelm2", kQwen2},
    {"deepseek-r1-qwen", kQwen2},
    {"hunyuan", kQwen2},
    {"megrez", kQwen2},
    {"gpt-4o", kGpt4o},
    {"llama4", kGpt4o},
    {"tekken", kTekken, true, true},
    {"deepseek-v3", kDeepseek3},
    {"deepseek-coder", kDeepseekCoder},
};

}  // namespace

const GgufPattern* find_gguf_pattern(std::string_view name) {
  const auto* at = std::find_if(std::begin(kPatterns), std::end(kPatterns),
                                [&](const GgufPattern& p) { return p.name == name; });
  return at == std::end(kPatterns) ? nullptr : at;
}

}  // namespace reprise::text
