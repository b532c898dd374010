#include "apps/chat/console.h"

#include <csignal>
#include <cstdio>

#include "runtime/platform/process.h"

namespace reprise::chat {

namespace {

constexpr size_t kLongestLine = size_t{1} << 20;

// What a signal handler may touch.
std::atomic<bool> interrupted{false};
std::atomic<int> interrupts{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void on_interrupt(int) {
  interrupted = true;
  // The system may have forgotten the handler. Whoever asks again and again wants the program to
  // end.
  std::signal(SIGINT, ++interrupts < 3 ? on_interrupt : SIG_DFL);
  if (interrupts >= 3) std::raise(SIGINT);
}

}  // namespace

Line parse_line(const std::string& line) {
  if (!line.starts_with('/')) return {"", line};
  const size_t end = line.find(' ');
  Line out{line.substr(0, end), ""};
  const size_t text = line.find_first_not_of(' ', end);
  if (end != std::string::npos && text != std::string::npos)
    out.text = line.substr(text, line.find_last_not_of(' ') + 1 - text);
  return out;
}

std::string without_controls(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (c == 0xc2 && next >= 0x80 && next < 0xa0) {
      ++i;  // U+0080 to U+009F, which some terminals obey
    } else if ((c >= 0x20 && c != 0x7f) || c == '\n' || c == '\t') {
      out.push_back(text[i]);
    }
  }
  return out;
}

Console::Console()
    : interactive_(platform::is_terminal(stdin)), terminal_(platform::is_terminal(stdout)) {}

bool Console::read_part(std::string& line, bool& too_long) {
  bool any = false;
  for (int c = std::getc(stdin); c != EOF; c = std::getc(stdin)) {
    any = true;
    if (c == '\n') break;
    if (line.size() == kLongestLine) too_long = true;
    if (!too_long) line.push_back(static_cast<char>(c));
  }
  if (line.ends_with('\r')) line.pop_back();
  return any;
}

std::optional<std::string> Console::read(bool& too_long) {
  too_long = false;
  std::string line;
  if (interactive_) {
    std::fputs("> ", stdout);
    std::fflush(stdout);
  }
  if (!read_part(line, too_long)) {
    if (interactive_) std::fputs("\n", stdout);
    return std::nullopt;
  }
  while (line.ends_with('\\')) {
    line.back() = '\n';
    if (interactive_) {
      std::fputs(". ", stdout);
      std::fflush(stdout);
    }
    if (!read_part(line, too_long)) break;
  }
  return line;
}

void Console::show(const std::string& piece) {
  const std::string shown = terminal_ ? without_controls(piece) : piece;
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  std::fflush(stdout);
  if (!shown.empty()) line_open_ = shown.back() != '\n';
}

void Console::end_answer() {
  if (line_open_) std::fputs("\n", stdout);
  line_open_ = false;
  std::fflush(stdout);
}

CatchInterrupt::CatchInterrupt() {
  clear();
  std::signal(SIGINT, on_interrupt);
}

CatchInterrupt::~CatchInterrupt() {
  std::signal(SIGINT, SIG_DFL);
}

void CatchInterrupt::clear() {
  interrupted = false;
  interrupts = 0;
}

const std::atomic<bool>& CatchInterrupt::stopped() {
  return interrupted;
}

}  // namespace reprise::chat
