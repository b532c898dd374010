#include "apps/chat/commands.h"

#include <charconv>
#include <cstdio>

#include "apps/common/files.h"
#include "apps/common/status.h"
#include "apps/common/utf8.h"
#include "apps/generate/text_file.h"
#include "apps/samples/terminal.h"

namespace reprise::chat {

namespace {

constexpr const char* kHelp =
    "/new          begin another conversation\n"
    "/list         show the conversations\n"
    "/switch N     go on with conversation N\n"
    "/fork         copy this conversation and go on with the copy\n"
    "/retry        replace the last answer (without --temperature it stays the same)\n"
    "/system TEXT  tell the model how to behave; without TEXT, nothing\n"
    "/save FILE    write this conversation to a file\n"
    "/load FILE    read a conversation from a file\n"
    "/help         show this text\n"
    "/exit         leave; so does Ctrl-D\n"
    "Ctrl-C stops an answer. A line that ends with \\ goes on in the next one.\n";

/// What the name of the file with the caches of a conversation has behind that of the conversation.
constexpr const char* kCachesFile = ".caches";

/// The beginning of a text, in one line.
std::string beginning(const std::string& text) {
  constexpr size_t kMost = 60;
  std::string out;
  for (const char c : samples::without_controls(text)) {
    const bool inside = (static_cast<unsigned char>(c) & 0xc0U) == 0x80;  // of a character
    if (out.size() >= kMost && !inside) return out + "...";
    out.push_back(c == '\n' || c == '\t' ? ' ' : c);
  }
  return out;
}

std::string count_of(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

void tell(const std::string& text) {
  std::fprintf(stderr, "[%s]\n", text.c_str());
}

void show_stats(const AnswerStats& s, int64_t capacity) {
  const double per_second =
      s.decode_ms > 0 ? 1000 * static_cast<double>(s.tokens - 1) / s.decode_ms : 0;
  std::fprintf(stderr, "[%s", count_of(static_cast<size_t>(s.tokens), "token").c_str());
  if (s.tokens > 1) std::fprintf(stderr, ", %.1f tokens/s", per_second);
  std::fprintf(stderr, "; the first after %.0f ms; %lld of %lld tokens of the prompt were new",
               s.first_ms, static_cast<long long>(s.new_tokens),
               static_cast<long long>(s.prompt_tokens));
  if (s.stopped) std::fputs("; stopped", stderr);
  if (s.full)
    std::fprintf(stderr, "; the conversation has no room for more than %lld tokens",
                 static_cast<long long>(capacity));
  std::fputs("]\n", stderr);
}

Status need(const Line& line, const char* what) {
  if (!line.text.empty()) return {};
  return {Code::Usage, line.command + " needs " + what + "; /help explains it"};
}

}  // namespace

Status Commands::answer(bool again, const std::string& message) {
  std::optional<CatchInterrupt> here;
  if (!console_.interactive()) here.emplace();  // else it is caught all the time
  CatchInterrupt::clear();
  const Chat::Show show = [&](const std::string& piece) { console_.show(piece); };
  const std::atomic<bool>& stop = CatchInterrupt::stopped();
  const Result<AnswerStats> stats =
      again ? chat_.retry(show, stop) : chat_.say(message, show, stop);
  console_.end_answer();
  if (stats) show_stats(*stats, chat_.capacity());
  return stats.status();
}

void Commands::list() const {
  const auto& all = chat_.conversations();
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string first = beginning(first_of(all[i], "user"));
    std::printf("%c %zu  %s  %s\n", i == chat_.selected() ? '*' : ' ', i + 1,
                count_of(all[i].turns.size(), "turn").c_str(),
                first.empty() ? "(empty)" : first.c_str());
  }
  std::fflush(stdout);
}

Status Commands::save(const std::string& path) {
  Result<std::optional<SavedCaches>> caches = chat_.save_caches(path + kCachesFile);
  if (!caches.ok()) app::note("the caches are not saved: " + caches.status().message());
  RP_TRY(app::write_file(path, to_json(chat_.conversations()[chat_.selected()],
                                       caches.ok() ? *std::move(caches) : std::nullopt)));
  tell("the conversation is in '" + path + "'");
  return {};
}

Status Commands::load(const std::string& path) {
  RP_ASSIGN(const std::string json, app::read_text_file(path));
  RP_ASSIGN(Saved read, from_json(json, path));
  chat_.add(std::move(read.conversation));
  const Status kept = read.caches ? chat_.load_caches(path + kCachesFile, *read.caches) : Status();
  if (!kept.ok()) app::note("the caches will be computed again: " + kept.message());
  list();
  return {};
}

Status Commands::select(const std::string& number) {
  size_t n = 0;
  const char* const end = number.data() + number.size();
  const auto [after, error] = std::from_chars(number.data(), end, n);
  if (error != std::errc() || after != end || n == 0)
    return {Code::Usage, "'" + number + "' is no number of a conversation; /list shows them"};
  RP_TRY(chat_.select(n - 1));
  list();
  return {};
}

Status Commands::set_system(const std::string& text) {
  chat_.set_system(text);
  tell(text.empty() ? "the conversation has no system text of its own now"
                    : "the system text is '" + beginning(text) + "'");
  return {};
}

Result<Commands::Then> Commands::obey(const Line& line) {
  const std::string& name = line.command;
  Status done;
  if (name.empty()) {
    if (line.text.find_first_not_of(" \t\n") != std::string::npos) done = answer(false, line.text);
  } else if (name == "/retry") {
    done = answer(true, "");
  } else if (name == "/new") {
    chat_.begin();
  } else if (name == "/list") {
    list();
  } else if (name == "/fork") {
    done = chat_.fork();
    if (done.ok()) list();
  } else if (name == "/system") {
    done = set_system(line.text);
  } else if (name == "/switch") {
    done = need(line, "the number of a conversation");
    if (done.ok()) done = select(line.text);
  } else if (name == "/save" || name == "/load") {
    done = need(line, "a file");
    if (done.ok()) done = name == "/save" ? save(line.text) : load(line.text);
  } else if (name == "/help") {
    std::fputs(kHelp, stdout);
    std::fflush(stdout);
  } else if (name == "/exit" || name == "/quit") {
    return Then::Leave;
  } else {
    done = {Code::Usage, "there is no command '" + beginning(name) + "'; /help lists them"};
  }
  if (!done.ok()) return done;
  return Then::GoOn;
}

int Commands::run() {
  std::optional<CatchInterrupt> always;
  if (console_.interactive()) always.emplace();
  int status = app::kDone;
  bool too_long = false;
  for (auto line = console_.read(too_long); line; line = console_.read(too_long)) {
    Result<Then> then = Status(Code::InvalidInput, "the line has more than 1 MiB");
    if (!too_long) {
      const auto characters = app::from_utf8(*line);
      then = characters ? obey(parse_line(*line)) : characters.status().with_context("the line");
    }
    if (then && *then == Then::Leave) break;
    if (then) continue;
    const int failed = app::report(then.status());
    if (status == app::kDone && !console_.interactive()) status = failed;
    if (then.status().code() == Code::DeviceLost) return failed;
  }
  return status;
}

}  // namespace reprise::chat
