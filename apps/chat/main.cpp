// reprise-chat: conversations with a language model in a terminal. It is a sample of caches that
// stay on the device from answer to answer.
#include <CLI/CLI.hpp>

#include "apps/chat/commands.h"
#include "apps/common/devices.h"
#include "apps/common/model.h"
#include "apps/common/status.h"
#include "apps/common/utf8.h"
#include "apps/common/waiting.h"
#include "apps/generate/language_model.h"
#include "runtime/platform/child/environment.h"
#include "runtime/platform/path.h"

namespace reprise::chat {
namespace {

struct Options {
  std::string model, tokenizer, device = "auto";
  int64_t capacity = 4096;
  ChatOptions chat;
};

/// Opens the device; "auto" passes over those that a package does not fit.
Result<OpenedDevice> open_device_for(const Options& o) {
  Refusal refusal;
  if (utf8_path(o.model).extension() == ".rpk") {
    RP_ASSIGN(const auto package, package::read(o.model));
    refusal = app::refusal_of(package);
  }
  return app::open_named_device(o.device, app::default_backend_options(), refusal);
}

Result<app::LanguageModel> load_model(const Options& o, const OpenedDevice& device) {
  app::LanguageModelOptions options;
  options.compile.targets = app::targets_for(device);
  if (device.device) compile_for(device.info, options.compile);
  options.identity = "chat 1 " + app::program_identity();
  const std::string folder = app::default_backend_options().cache_dir;
  if (!folder.empty()) options.cache_dir = folder + "/models";
  const app::Waiting waiting("compiling '" + o.model + "', which later starts need not do");
  return app::load_language_model(o.model, device, options);
}

Result<std::unique_ptr<app::DecoderSession>> open_session(const app::LanguageModel& model,
                                                          const OpenedDevice& device,
                                                          const Options& o) {
  const app::Waiting waiting(app::builds_kernels(device.info, o.model));
  RP_ASSIGN(std::unique_ptr<Session> session, Session::create(model.package, device.device, {}));
  const int64_t capacity = model.context > 0 ? std::min(o.capacity, model.context) : o.capacity;
  RP_ASSIGN(const app::DecoderInterface io, app::decoder_interface(session->io()));
  RP_ASSIGN(auto out, app::DecoderSession::create(std::move(session), capacity, model.vocabulary,
                                                  io.has_texts()));
  if (out->samples()) RP_TRY(out->set_sampling(o.chat.sampling));
  return out;
}

Result<int> run(Options& o) {
  RP_TRY(app::check_sampling(o.chat.sampling));
  RP_TRY(app::from_utf8(o.chat.system).status().with_context("--system"));
  RP_ASSIGN(std::unique_ptr<app::ModelText> text,
            app::ModelText::open(app::text_path(o.model, o.tokenizer)));
  // A model without a chat template is refused before it is compiled.
  const app::ChatTurn hello[] = {{"user", "Hello"}};
  RP_TRY(text->chat_prompt(hello).status());
  RP_ASSIGN(const OpenedDevice device, open_device_for(o));
  RP_ASSIGN(const app::LanguageModel model, load_model(o, device));
  RP_ASSIGN(auto session, open_session(model, device, o));
  o.chat.end_tokens = model.end_tokens;
  o.chat.model = app::weights_digest(*model.package);
  Chat chat(std::move(session), std::move(text), o.chat);
  Console console;
  if (console.interactive()) app::note("/help lists the commands");
  return Commands(chat, console).run();
}

void declare(CLI::App& app, Options& o) {
  app::SamplingOptions& s = o.chat.sampling;
  app.add_option("MODEL", o.model,
                 "A .gguf, a folder of Hugging Face, an .onnx with caches, or a package of one")
      ->required();
  app.add_option("--device", o.device, "auto, host, vulkan[:N] or cuda[:N]")->capture_default_str();
  app.add_option("--tokenizer", o.tokenizer,
                 "A tokenizer.json, or a .gguf or folder with one; by default the model's");
  app.add_option("--system", o.chat.system, "Tells the model how to behave");
  app.add_option("--capacity", o.capacity, "The most tokens of a conversation")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 32))
      ->capture_default_str();
  app.add_option("--max-tokens", o.chat.max_tokens, "The most tokens of an answer; 0: no limit")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 32))
      ->capture_default_str();
  app.add_option("--temperature", s.temperature, "0: the most likely token")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--top-k", s.top_k, "Only so many most likely tokens; 0: all");
  app.add_option("--top-p", s.top_p, "Only the most likely tokens with this probability together");
  app.add_option("--seed", s.seed, "Of random choices");
  app.footer(
      "Reads messages and commands (/help) from standard input, a line each, and writes answers "
      "to\n"
      "standard output.\n"
      "Example: reprise-chat SmolLM2-135M-Instruct.Q4_1.gguf --temperature 0.7 --top-p 0.9");
}

int parse_and_run(int argc, char** argv) {
  std::vector<std::string> texts = platform::utf8_arguments(argc, argv);
  std::vector<char*> arguments;
  arguments.reserve(texts.size() + 1);
  for (std::string& text : texts) arguments.push_back(text.data());
  Options o;
  CLI::App app{"Conversations with a language model."};
  app.name("reprise-chat");
  declare(app, o);
  try {
    app.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? app::kDone : app::kUsage;
  }
  const Result<int> status = run(o);
  return status ? *status : app::report(status.status());
}

}  // namespace
}  // namespace reprise::chat

int main(int argc, char** argv) {
  return reprise::app::guarded_main(reprise::chat::parse_and_run, argc, argv);
}
