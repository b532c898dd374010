// The terminal, or the files in its place.
#pragma once

#include <atomic>
#include <optional>
#include <string>

namespace reprise::chat {

/// A line of the user, with a leading word if it is a command: "/switch 2" is {"/switch", "2"}.
struct Line {
  std::string command;  // empty: a message
  std::string text;
};
Line parse_line(const std::string& line);

/// Text without control characters but line ends and tabs, so that an answer cannot steer a
/// terminal. It must be UTF-8.
std::string without_controls(const std::string& text);

/// Reads lines from standard input, and writes answers to standard output.
class Console {
 public:
  Console();
  bool interactive() const { return interactive_; }
  /// The next line, without its end; nothing at the end of the input. A line that ends with a
  /// backslash goes on in the next one. `too_long`: the line had more than 1 MiB and was dropped.
  std::optional<std::string> read(bool& too_long);
  /// A piece of an answer.
  void show(const std::string& piece);
  /// Ends the line of an answer.
  void end_answer();

 private:
  bool read_part(std::string& line, bool& too_long);

  bool interactive_;  // a person types
  bool terminal_;     // a person reads
  bool line_open_ = false;
};

/// While it lives, Ctrl-C sets stopped() instead of ending the program. A third Ctrl-C ends it. At
/// most one may live.
class CatchInterrupt {
 public:
  CatchInterrupt();
  ~CatchInterrupt();
  CatchInterrupt(const CatchInterrupt&) = delete;
  CatchInterrupt& operator=(const CatchInterrupt&) = delete;
  /// Forgets earlier ones.
  static void clear();
  static const std::atomic<bool>& stopped();
};

}  // namespace reprise::chat
