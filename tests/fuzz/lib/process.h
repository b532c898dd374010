// A child process that answers messages: a length of 8 bytes, then so many bytes. It reads them
// from its standard input and writes to its descriptor 3.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace reprise::fuzz {

bool write_message(int fd, const std::string& text);
/// Blocks until the message is there; nothing at the end of the pipe.
std::optional<std::string> read_message(int fd);

class Process {
 public:
  /// `command`: a program, found in PATH, and its arguments. `seconds`: for each answer.
  Process(std::vector<std::string> command, double seconds)
      : command_(std::move(command)), seconds_(seconds) {}
  ~Process() { stop(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& program() const { return command_[0]; }
  double seconds() const { return seconds_; }
  bool running() const { return child_ > 0; }
  bool start();
  void stop();
  bool send(const std::string& text) { return write_message(to_, text); }
  /// Nothing at the end of the process, or after the time limit (`hung`).
  std::optional<std::string> receive(bool& hung) const;
  /// How it ended, as waitpid says; then it can be started again.
  int wait();

 private:
  void close_pipes();

  std::vector<std::string> command_;
  double seconds_;
  pid_t child_ = -1;
  int to_ = -1, from_ = -1;
};

}  // namespace reprise::fuzz
