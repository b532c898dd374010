#include <charconv>
#include <cstdio>

#include "apps/common/devices.h"
#include "apps/common/waiting.h"
#include "apps/generate/decoder_session.h"
#include "apps/generate/language_model.h"
#include "apps/generate/model_text.h"
#include "apps/generate/next_token.h"
#include "apps/generate/text_file.h"
#include "apps/reprise/command.h"
#include "runtime/base/timing.h"

namespace reprise::app {

namespace {

struct GenerateOptions {
  CommonOptions common;
  SamplingOptions sampling;
  std::string model, prompt, tokenizer, ids, ids_file;
  int64_t max_tokens = 128;
  int64_t capacity = 0;
  bool ignore_end = false, chat = false;
  bool has_prompt = false;  // which may be empty
};

/// The beginning of a text that is no list of ids, in characters that a message can have.
std::string shown(std::string_view text) {
  constexpr size_t kMost = 20;
  std::string out;
  for (const char c : text.substr(0, kMost)) out.push_back(c >= ' ' && c <= '~' ? c : '?');
  return out;
}

/// Integers that commas or spaces separate, also as a list of JSON.
Result<std::vector<int64_t>> parse_ids(const std::string& text, const std::string& what) {
  std::vector<int64_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    if (std::string_view(", \n\r\t[]").find(*at) != std::string_view::npos) {
      ++at;
      continue;
    }
    int64_t id = 0;
    const auto [after, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0)
      return Status(Code::Usage,
                    what + " has '" + shown({at, end}) + "', expected ids such as 1,2,3");
    ids.push_back(id);
    at = after;
  }
  if (ids.empty()) return Status(Code::Usage, what + " has no ids");
  return ids;
}

Result<std::vector<int64_t>> prompt_ids(const GenerateOptions& o, const ModelText* text) {
  if (o.has_prompt) {
    RP_ASSIGN(std::vector<int64_t> ids,
              o.chat ? text->encode_chat(o.prompt) : text->encode(o.prompt));
    if (!ids.empty()) return ids;
    return Status(Code::Usage,
                  "the prompt is empty, and the tokenizer adds no token that begins a text");
  }
  if (!o.ids.empty()) return parse_ids(o.ids, "--ids");
  if (o.ids_file.empty())
    return Status(Code::Usage, "there is no prompt; use --prompt, --ids or --ids-file");
  RP_ASSIGN(const std::string ids, read_text_file(o.ids_file));
  return parse_ids(ids, "'" + o.ids_file + "'");
}

/// What decides the contents of compiled models beside the model and the device.
std::string identity_of(const CommonOptions& o) {
  std::string out = "1 " + o.precision + " " + o.nvrtc + (o.fullgraph ? " fullgraph" : "");
  for (const auto* list : {&o.disabled_passes, &o.pass_options, &o.without})
    for (const std::string& item : *list) out += " " + item;
  return out + " " + program_identity();
}

Result<LanguageModel> load(const GenerateOptions& o, const OpenedDevice& device) {
  LanguageModelOptions options;
  RP_ASSIGN(options.compile, o.common.compile_options());
  options.compile.targets = targets_for(device);
  if (device.device) compile_for(device.info, options.compile);
  options.identity = identity_of(o.common);
  const std::string folder = default_backend_options().cache_dir;
  if (!folder.empty()) options.cache_dir = folder + "/models";
  return load_language_model(o.model, device, options);
}

Result<std::unique_ptr<DecoderSession>> open_session(const LanguageModel& model,
                                                     const GenerateOptions& o,
                                                     const OpenedDevice& device, int64_t prompt) {
  Model named;
  named.path = o.model;
  named.package = model.package;
  RP_ASSIGN(std::unique_ptr<Session> session, make_session(named, device, o.common));
  const int64_t needed = prompt + std::min(o.max_tokens, INT64_MAX - prompt);
  int64_t capacity = o.capacity > 0 ? o.capacity : needed;
  if (model.context > 0) capacity = std::min(capacity, model.context);
  if (prompt > capacity)
    return Status(Code::InvalidInput,
                  "the prompt has " + std::to_string(prompt) + " ids, " +
                      (capacity == o.capacity ? "more than --capacity allows: "
                                              : "and the model has at most so many positions: ") +
                      std::to_string(capacity));
  RP_ASSIGN(std::unique_ptr<DecoderSession> out,
            DecoderSession::create(std::move(session), capacity, model.vocabulary));
  if (out->samples()) RP_TRY(out->set_sampling(o.sampling));
  return out;
}

struct Generated {
  std::vector<int64_t> ids;
  std::string text;
  double prompt_ms = 0, decode_ms = 0;
  uint64_t host_bytes = 0, dispatches = 0;
  int64_t steps = 0;
};

Result<Generated> generate(DecoderSession& session, const std::vector<int64_t>& prompt,
                           const GenerateOptions& o, const std::vector<int64_t>& end_tokens,
                           ModelText* text, const Output& out) {
  Generated g;
  const auto show = [&](const std::string& piece) {
    g.text += text != nullptr ? piece : "";
    out.text(piece);
    std::fflush(stdout);
  };
  NextToken next(session, o.sampling);
  double start = now_ms();
  RP_ASSIGN(int64_t id, next(prompt));
  const DecoderStats before = session.stats();
  while (std::ssize(g.ids) < o.max_tokens) {
    g.ids.push_back(id);
    show(text != nullptr ? text->add(id) : (g.ids.size() > 1 ? "," : "") + std::to_string(id));
    if (g.ids.size() == 1) {
      g.prompt_ms = now_ms() - start;
      start = now_ms();
    }
    const bool ends = std::ranges::count(end_tokens, id) > 0 || (text != nullptr && text->ends(id));
    if ((ends && !o.ignore_end) || std::ssize(g.ids) == o.max_tokens) break;
    if (session.length() == session.capacity()) {
      note("the text ends, because the caches have no room for more than " +
           std::to_string(session.capacity()) + " positions");
      break;
    }
    RP_ASSIGN(id, next({&g.ids.back(), 1}));
    g.host_bytes += session.copied_bytes();
    ++g.steps;
  }
  g.decode_ms = now_ms() - start;
  g.dispatches = session.stats().dispatches - before.dispatches;
  if (text != nullptr) show(text->finish());
  out.text("\n");
  return g;
}

Result<std::unique_ptr<ModelText>> open_text(const GenerateOptions& o) {
  auto text = ModelText::open(text_path(o.model, o.tokenizer));
  if (text || !o.tokenizer.empty()) return text;
  const Status s = text.status();
  return s.reworded(s.code(),
                    s.message() + "; --tokenizer names another one, and --ids needs none");
}

Status run_generate(const GenerateOptions& o) {
  RP_TRY(check_sampling(o.sampling));
  if (o.max_tokens < 1) return {Code::Usage, "--max-tokens must be at least 1"};
  std::unique_ptr<ModelText> text;
  if (o.has_prompt || !o.tokenizer.empty()) {
    RP_ASSIGN(text, open_text(o));
  }
  RP_ASSIGN(const std::vector<int64_t> prompt, prompt_ids(o, text.get()));
  const Output out(o.common.json);
  RP_ASSIGN(const OpenedDevice device, open_selected(o.common, {o.model}));
  RP_ASSIGN(const LanguageModel model, load(o, device));
  RP_ASSIGN(const std::unique_ptr<DecoderSession> session,
            open_session(model, o, device, std::ssize(prompt)));
  RP_ASSIGN(const Generated g, generate(*session, prompt, o, model.end_tokens, text.get(), out));
  const DecoderStats stats = session->stats();
  const double steps = static_cast<double>(std::max<int64_t>(g.steps, 1));
  const double per_second = g.decode_ms > 0 ? 1000 * static_cast<double>(g.steps) / g.decode_ms : 0;
  note(std::to_string(prompt.size()) + " ids in " + format_number(g.prompt_ms) + " ms, then " +
       std::to_string(g.steps) + " in " + format_number(g.decode_ms) +
       " ms: " + format_number(per_second) + " a second");
  return out.json({{"model", o.model},
                   {"device", device.info.id},
                   {"compiled", model.compiled},
                   {"load_ms", model.load_ms},
                   {"prompt_tokens", prompt.size()},
                   {"prompt_ms", g.prompt_ms},
                   {"ids", g.ids},
                   {"text", g.text},
                   {"decode_ms", g.decode_ms},
                   {"tokens_per_s", per_second},
                   {"host_bytes_per_step", static_cast<double>(g.host_bytes) / steps},
                   {"launches_per_step", static_cast<double>(g.dispatches) / steps},
                   {"submits", stats.submits},
                   {"device_bytes", stats.device_bytes}});
}

}  // namespace

void register_generate(CLI::App& root, int& status) {
  auto o = std::make_shared<GenerateOptions>();
  CLI::App* command = root.add_subcommand("generate", "Generate text with a language model");
  command
      ->add_option("MODEL", o->model,
                   "A .gguf, a folder of Hugging Face, an .onnx with caches, or a package of one")
      ->required();
  auto* prompt = command->add_option("--prompt", o->prompt, "The text to continue");
  command->add_flag("--chat", o->chat, "The prompt is a message to a model that answers")
      ->needs(prompt);
  auto* ids = command->add_option("--ids", o->ids, "The prompt as ids: 1,2,3")->excludes(prompt);
  command->add_option("--ids-file", o->ids_file, "A file with these ids")
      ->excludes(prompt)
      ->excludes(ids);
  command->add_option("--tokenizer", o->tokenizer,
                      "A tokenizer.json, or a .gguf or folder with one; by default the model's");
  command->add_option("--max-tokens", o->max_tokens, "The most ids to generate")
      ->capture_default_str();
  command->add_option("--capacity", o->capacity, "The most positions, those of the prompt included")
      ->check(whole_number());
  command->add_flag("--ignore-end", o->ignore_end, "Go on after a token that ends the text");
  command->add_option("--temperature", o->sampling.temperature, "0: the most likely token")
      ->check(at_least_zero());
  command->add_option("--top-k", o->sampling.top_k, "Only so many most likely tokens; 0: all");
  command->add_option("--top-p", o->sampling.top_p,
                      "Only the most likely tokens with this probability together");
  command->add_option("--seed", o->sampling.seed, "Of random choices");
  add_common(*command, o->common);
  command->footer(
      "Examples:\n"
      "  reprise generate model.gguf --prompt 'The capital of France is' --max-tokens 32\n"
      "  reprise generate model.gguf --ids-file prompt.txt --temperature 0.8 --top-p 0.95");
  command->callback([o, prompt, &status] {
    o->has_prompt = prompt->count() > 0;
    const Status s = run_generate(*o);
    status = s.ok() ? kDone : report(s);
  });
}

}  // namespace reprise::app
